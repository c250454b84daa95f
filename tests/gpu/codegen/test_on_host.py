"""Kernels executed without a GPU: their LLVM IR is retargeted to this machine, and every thread runs in order.

That checks all of code generation but the special instructions, and LLVM's NVPTX back end. Results are compared with
NumPy, or with the interpreter, bit for bit where the operation is exact or correctly rounded.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.codegen.building import OnHost, array, empty, kernel
from tirlower.interp import interpret
from tirlower.ir.dtype import DataType
from tirlower.script import parse

N = 64
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
SMALL = [
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3",
    "float8_e3m4",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float6_e3m2fn",
    "float4_e2m1fn",
]


def values(dtype: str, seed: int = 0) -> np.ndarray:
    """Random values of a type with its extremes among them."""
    rng, kind = np.random.default_rng(seed), DataType(dtype).numpy
    if dtype == "bool":
        return array(rng.integers(0, 2, N).astype(bool))
    if dtype in INTEGERS:
        info = np.iinfo(kind)
        made = rng.integers(info.min, info.max, N, kind, endpoint=True)
        made[:6] = [info.min, info.max, 0, 1, info.max - 1, info.min + 1]
        return array(made)
    made = (rng.standard_normal(N) * 2.0 ** rng.integers(-4, 5, N)).astype(kind)
    made[:3] = [0.0, 1.0, -2.0]
    return array(made)


def same(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal in every bit, NaNs alike."""
    nan = np.isnan(expected.astype(np.float64)) if expected.dtype.kind not in "biu" else np.zeros(expected.shape, bool)
    assert (got.view(np.uint8).reshape(N, -1)[~nan] == expected.view(np.uint8).reshape(N, -1)[~nan]).all()
    if nan.any():
        assert np.isnan(got.astype(np.float64)[nan]).all()


def against_interpreter(func, *arrays: np.ndarray, grid: int = 2, block: int = 32) -> list[np.ndarray]:
    """Run both on copies; all arrays must come out the same."""
    mine, theirs = [array(a) for a in arrays], [array(a) for a in arrays]
    with np.errstate(all="ignore"):
        interpret(func, *theirs)
    buffers = [func.buffer_map[param].data.name for param in func.params]
    OnHost(func)(grid, block, **dict(zip(buffers, mine, strict=True)))
    for got, expected in zip(mine, theirs, strict=True):
        same(got, expected)
    return mine


def binary(dtype: str, expression: str, out: str = ""):
    return kernel(
        f'A: T.Buffer(({N},), "{dtype}"), B: T.Buffer(({N},), "{dtype}"), C: T.Buffer(({N},), "{out or dtype}")',
        f"i = bx * 32 + tx\nC[i] = {expression}",
        blocks=2,
    )


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic_wraps(dtype):
    a, b = values(dtype), values(dtype, 1)
    (_, _, c) = against_interpreter(
        binary(dtype, "(A[i] + B[i]) * A[i] - T.max(A[i], B[i]) + T.min(A[i], B[i])"), a, b, empty(N, a.dtype)
    )
    with np.errstate(over="ignore"):
        same(c, (a + b) * a - np.maximum(a, b) + np.minimum(a, b))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sign", ["+", "-", "*", "/"])
def test_float_arithmetic_is_correctly_rounded(dtype, sign):
    a, b = values(dtype), values(dtype, 1)
    b[b == 0] = 1
    (_, _, c) = against_interpreter(binary(dtype, f"A[i] {sign} B[i]"), a, b, empty(N, a.dtype))
    # 16-bit floats: one operation in float32, rounded once more, is correctly rounded (24 >= 2 * 11 + 2).
    wide = (lambda x: x.astype(np.float32)) if a.dtype.itemsize == 2 else (lambda x: x)
    same(c, {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[sign](wide(a), wide(b)).astype(a.dtype))


EXPRESSIONS = [
    "A[i] + B[i]",
    "A[i] - B[i]",
    "A[i] * B[i]",
    "T.max(A[i], B[i])",
    "T.min(A[i], B[i])",
    "T.fma(A[i], B[i], A[i])",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_bfloat16_is_computed_in_itself(expression):
    """Every pair of what is hard: zeros of both signs, subnormals, the extremes, infinities, NaN, ties."""
    bits = [
        0x0000,
        0x0001,
        0x0003,
        0x007F,
        0x0080,
        0x0081,
        0x3F80,
        0x3F81,
        0x4000,
        0x4049,
        0x7F00,
        0x7F7F,
        0x7F80,
        0x7FC0,
        0x0040,
        0x4300,
    ]
    hard = np.array([*bits, *(one | 0x8000 for one in bits)], np.uint16).view(DataType("bfloat16").numpy)
    func = binary("bfloat16", expression)
    run = OnHost(func)
    for shift in range(0, len(hard), 2):
        a, b = array(np.tile(hard, 2)), array(np.concatenate([np.roll(hard, shift), np.roll(hard, shift + 1)]))
        mine, theirs = empty(N, a.dtype), empty(N, a.dtype)
        run(2, 32, A=a, B=b, C=mine)
        with np.errstate(all="ignore"):
            interpret(func, a, b, theirs)
        if expression.startswith(("T.max", "T.min")):  # of two zeros either is the greater one
            mine[(mine == 0) & (theirs == 0)] = theirs[(mine == 0) & (theirs == 0)]
        same(mine, theirs)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint32"])
def test_division_floors_or_truncates(dtype):
    a, b = values(dtype), values(dtype, 1)
    b[b == 0] = 3
    a[7], b[7] = np.iinfo(a.dtype).min, a.dtype.type(-1 if dtype != "uint32" else 1)  # wraps
    for expression in ("A[i] // B[i]", "A[i] % B[i]", "T.truncdiv(A[i], B[i])", "T.truncmod(A[i], B[i])"):
        (_, _, c) = against_interpreter(binary(dtype, expression), a, b, empty(N, a.dtype))
        if "//" in expression:
            keep = np.arange(N) != 7
            assert (c[keep] == (a[keep] // b[keep])).all()


@pytest.mark.parametrize("divisor", [1, 2, 7, 8, 127, 4096, -1, -3, -8])
def test_division_by_constants(divisor):
    a = values("int32")
    (_, c) = against_interpreter(
        kernel(
            f'A: T.Buffer(({N},), "int32"), C: T.Buffer(({N},), "int32")',
            f"i = bx * 32 + tx\nC[i] = A[i] // {divisor} * 31 + A[i] % {divisor}",
            blocks=2,
        ),
        a,
        empty(N, np.int32),
    )
    with np.errstate(over="ignore"):
        q = a.astype(np.int64) // divisor
        same(c, (q * 31 + (a.astype(np.int64) - q * divisor)).astype(np.int32))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("sign", ["<", "<=", "==", "!="])
def test_comparisons_store_bools_as_bytes(dtype, sign):
    a, b = values(dtype), values(dtype, 1)
    b[:10] = a[:10]
    (_, _, c) = against_interpreter(binary(dtype, f"A[i] {sign} B[i]", "bool"), a, b, empty(N, bool))
    assert set(c.view(np.uint8).tolist()) <= {0, 1}


def test_bools_and_selects():
    func = kernel(
        f'A: T.Buffer(({N},), "bool"), B: T.Buffer(({N},), "bool"), C: T.Buffer(({N},), "int32")',
        "i = bx * 32 + tx\nC[i] = T.Select(A[i] and not B[i], i, T.Select(A[i] or B[i], -i, 1000))",
        blocks=2,
    )
    a, b = values("bool"), values("bool", 1)
    (_, _, c) = against_interpreter(func, a, b, empty(N, np.int32))
    i = np.arange(N)
    same(c, np.where(a & ~b, i, np.where(a | b, -i, 1000)).astype(np.int32))


@pytest.mark.parametrize("narrow", ["float16", "bfloat16", *SMALL])
@pytest.mark.parametrize("wide", ["float32", "float64"])
def test_narrow_floats_are_rounded_to_nearest_even(narrow, wide):
    func = kernel(
        f'A: T.Buffer(({N},), "{wide}"), B: T.Buffer(({N},), "{narrow}"), C: T.Buffer(({N},), "{wide}")',
        f'i = bx * 32 + tx\nB[i] = T.cast(A[i], "{narrow}")\nC[i] = T.cast(B[i], "{wide}")',
        blocks=2,
    )
    a = values(wide)
    # Ties, subnormals and what overflows.
    a[3:10] = [1 + 2.0**-4, 1 + 3 * 2.0**-9, 2.0**-17, 1e-7, -1e30, 448.0, 17.5]
    kind = DataType(narrow).numpy
    (_, b, c) = against_interpreter(func, a, empty(N, kind), empty(N, wide))
    if narrow in ("float16", "bfloat16") and wide == "float32":
        with np.errstate(over="ignore"):
            same(b, a.astype(kind))
    same(c, b.astype(wide))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_every_pattern_of_a_narrow_float_widens_exactly(dtype):
    kind = DataType(dtype).numpy
    bits = 8 * np.dtype(kind).itemsize
    patterns = np.arange(1 << bits, dtype=f"uint{bits}")[:: max(1, (1 << bits) // 1024)]
    count = len(patterns)
    func = kernel(
        f'A: T.Buffer(({count},), "{dtype}"), C: T.Buffer(({count},), "float32")',
        'C[bx * 128 + tx] = T.cast(A[bx * 128 + tx], "float32")',
        threads=128,
        blocks=count // 128,
    )
    a, c = array(patterns.view(kind)), empty(count, np.float32)
    OnHost(func)(count // 128, 128, A=a, C=c)
    expected = a.astype(np.float32)
    np.testing.assert_array_equal(c, expected)
    assert (np.signbit(c) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int64"])
def test_vectors(lanes, dtype):
    func = kernel(
        f'A: T.Buffer(({N},), "{dtype}"), B: T.Buffer(({N},), "{dtype}"), C: T.Buffer(({N},), "{dtype}")',
        f"for v in T.vectorized({lanes}):\n"
        f"    C[tx * {lanes} + v] = A[tx * {lanes} + v] + B[{N - 1} - (tx * {lanes} + v)]",
        threads=N // lanes,
    )
    a, b = values(dtype), values(dtype, 1)
    (_, _, c) = against_interpreter(func, a, b, empty(N, a.dtype), grid=1, block=N // lanes)
    with np.errstate(over="ignore"):
        same(c, (a + b[::-1]).astype(a.dtype))


def test_gathers_and_scatters():
    func = kernel(
        f'A: T.Buffer(({N},), "float32"), P: T.Buffer(({N},), "int32"), C: T.Buffer(({N},), "float32")',
        "for v in T.vectorized(4):\n    C[P[tx * 4 + v]] = A[P[tx * 4 + v]] * T.float32(2)",
        threads=16,
    )
    p = array(np.random.default_rng(0).permutation(N).astype(np.int32))
    a = values("float32")
    (_, _, c) = against_interpreter(func, a, p, empty(N, np.float32), grid=1, block=16)
    same(c, a * 2)


def test_vectors_under_a_predicate_leave_the_rest_alone():
    func = kernel(
        f'A: T.Buffer(({N},), "float32"), C: T.Buffer(({N},), "float32")',
        "for v in T.vectorized(4):\n    if tx * 4 + v < 50:\n        C[tx * 4 + v] = A[tx * 4 + v]",
        threads=16,
    )
    a, c = values("float32"), empty(N, np.float32)
    c[:] = -7
    (_, c) = against_interpreter(func, a, c, grid=1, block=16)
    same(c, np.where(np.arange(N) < 50, a, np.float32(-7)))


# Functions that the host computes by the same polynomials: to an ulp or two of float64's.
@pytest.mark.parametrize(
    ("name", "low", "high", "ulps"),
    [
        ("exp", -80, 80, 2), ("log", 1e-30, 1e30, 2), ("log2", 1e-3, 1e3, 2), ("tanh", -9, 9, 3), ("sin", -30, 30, 2),
        ("cos", -30, 30, 2), ("erf", -4, 4, 3), ("sqrt", 0, 100, 0.5), ("rsqrt", 1e-3, 1e3, 2), ("sigmoid", -20, 20, 4),
        ("atan", -50, 50, 3), ("exp10", -20, 20, 3), ("floor", -9, 9, 0), ("ceil", -9, 9, 0), ("fabs", -9, 9, 0),
        ("trunc", -9, 9, 0), ("nearbyint", -9, 9, 0),
    ],
)  # fmt: skip
def test_mathematical_functions(name, low, high, ulps):
    spelled = {"fabs": "abs"}.get(name, name)
    func = kernel(
        f'A: T.Buffer(({N},), "float32"), C: T.Buffer(({N},), "float32")',
        f"i = bx * 32 + tx\nC[i] = T.{spelled}(A[i])",
        blocks=2,
    )
    a = array(np.linspace(low, high, N).astype(np.float32))
    c = empty(N, np.float32)
    OnHost(func)(2, 32, A=a, C=c)
    mpmath = pytest.importorskip("mpmath")
    more = {
        "rsqrt": lambda x: 1 / mpmath.sqrt(x),
        "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
        "log2": lambda x: mpmath.log(x, 2),
        "exp10": lambda x: mpmath.power(10, x),
        "trunc": lambda x: int(x),
        "nearbyint": lambda x: round(float(x)),
    }
    exact = np.array([float(more.get(name, getattr(mpmath, name, None))(mpmath.mpf(float(x)))) for x in a])
    assert (abs(c - exact) <= ulps * np.spacing(abs(exact).astype(np.float32)) + 1e-37).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "tanh", "sqrt", "log"])
def test_functions_of_16_bit_floats(dtype, name):
    func = kernel(
        f'A: T.Buffer(({N},), "{dtype}"), C: T.Buffer(({N},), "{dtype}")',
        f"i = bx * 32 + tx\nC[i] = T.{name}(A[i])",
        blocks=2,
    )
    kind = DataType(dtype).numpy
    a = array(np.linspace(0.1, 8, N).astype(kind))
    c = empty(N, kind)
    OnHost(func)(2, 32, A=a, C=c)
    exact = getattr(np, name)(a.astype(np.float64))
    unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    assert (abs(c.astype(np.float64) - exact) <= 1.01 * unit * abs(exact)).all()


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["add", "max", "min"])
def test_atomics_give_the_old_value(name, dtype):
    func = kernel(
        f'A: T.Buffer(({N},), "{dtype}"), S: T.Buffer((1,), "{dtype}"), C: T.Buffer(({N},), "{dtype}")',
        f"i = bx * 32 + tx\nC[i] = T.atomic_{name}(T.address_of(S[0]), A[i])",
        blocks=2,
    )
    a = values(dtype) if dtype in INTEGERS else array((np.arange(N) * 7 % 23 - 11).astype(dtype))
    s, c = array([a[5]]), empty(N, a.dtype)
    OnHost(func)(2, 32, A=a, S=s, C=c)
    combine = {"add": np.add, "max": np.maximum, "min": np.minimum}[name]
    with np.errstate(over="ignore"):
        running = combine.accumulate(np.concatenate([a[5:6], a])).astype(a.dtype)
    assert (c == running[:-1]).all()
    assert s[0] == running[-1]


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int64", "bool"])
@pytest.mark.parametrize("name", ["and", "or", "xor", "exchange"])
def test_bitwise_atomics(name, dtype):
    func = kernel(
        f'A: T.Buffer(({N},), "{dtype}"), S: T.Buffer((1,), "{dtype}"), C: T.Buffer(({N},), "{dtype}")',
        f"i = bx * 32 + tx\nC[i] = T.atomic_{name}(T.address_of(S[0]), A[i])",
        blocks=2,
    )
    a = values(dtype)
    s, c = array([a[5]]), empty(N, a.dtype)
    OnHost(func)(2, 32, A=a, S=s, C=c)
    combine = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "exchange": None}[name]
    start = np.concatenate([a[5:6], a])
    running = start if combine is None else combine.accumulate(start)
    assert (c == running[:-1]).all()
    assert s[0] == running[-1]


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32", "int16", "bfloat16"])
def test_compare_and_swap(dtype):
    kind = DataType(dtype).numpy
    func = kernel(
        f'S: T.Buffer((1,), "{dtype}"), C: T.Buffer(({N},), "{dtype}")',
        f'i = bx * 32 + tx\nC[i] = T.atomic_cas(T.address_of(S[0]), T.cast(i // 2, "{dtype}"), T.cast(i // 2 + 1, "{dtype}"))',
        blocks=2,
    )
    s, c = array(np.zeros(1, kind)), empty(N, kind)
    OnHost(func)(2, 32, S=s, C=c)
    # Each even thread raises it by one; the odd one behind it expects what was there before, and finds the new value.
    i = np.arange(N)
    assert (c.astype(np.int64) == i // 2 + i % 2).all()
    assert int(s[0]) == N // 2


def test_local_arrays_loops_and_while():
    func = kernel(
        f'A: T.Buffer(({N}, 5), "int32"), C: T.Buffer(({N},), "int32")',
        """
        i = bx * 32 + tx
        r = T.alloc_buffer((5,), "int32", scope="local")
        n = T.alloc_buffer((1,), "int32", scope="local")
        for j in range(5):
            r[4 - j] = A[i, j] * (j + 1)
        n[0] = 0
        while n[0] < i % 5:
            n[0] = n[0] + 1
        C[i] = r[n[0]] + r[0]
        """,
        blocks=2,
    )
    a = array(np.random.default_rng(0).integers(-9, 9, (N, 5)).astype(np.int32))
    c = empty(N, np.int32)
    OnHost(func)(2, 32, A=a, C=c)
    r = (a * np.arange(1, 6))[:, ::-1]
    assert (c == r[np.arange(N), np.arange(N) % 5] + r[:, 0]).all()


def test_thread_axes_with_minimums_in_three_dimensions():
    func = parse("""
@T.prim_func
def k(C: T.Buffer((3, 4, 5, 2), "int32")):
    for by in T.thread_binding(2, thread="blockIdx.y"):
        for tz in T.thread_binding(3, thread="threadIdx.z"):
            for ty in T.thread_binding(1, 5, thread="threadIdx.y"):
                for tx in T.thread_binding(5, thread="threadIdx.x"):
                    C[tz, ty - 1, tx, by] = tz * 1000 + ty * 100 + tx * 10 + by
""")
    c = empty((3, 4, 5, 2), np.int32)
    OnHost(func)((1, 2), (5, 4, 3), C=c)
    z, y, x, b = np.ogrid[:3, 1:5, :5, :2]
    assert (c == z * 1000 + y * 100 + x * 10 + b).all()


def test_scalar_parameters_of_all_widths():
    func = kernel(
        'C: T.Buffer((32,), "float64"), a: T.int8, b: T.int64, c: T.float32, d: T.bool',
        'C[tx] = T.cast(a, "float64") + T.cast(b, "float64") * T.cast(c, "float64") + T.if_then_else(d, 1.0, 0.0)',
    )
    out = empty(32, np.float64)
    OnHost(func)(1, 32, C=out, a=-3, b=1 << 40, c=0.5, d=True)
    assert (out == -3 + 2.0**39 + 1).all()


@pytest.mark.parametrize("size", [1, 40, 63, 64])
def test_symbolic_extents_and_their_guard(size):
    func = parse("""
@T.prim_func
def k(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    C = T.match_buffer(c, (n,), "int32")
    for bx in T.thread_binding((n + 31) // 32, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            if bx * 32 + tx < n:
                C[bx * 32 + tx] = A[bx * 32 + tx] * 3
""")
    a, c = array(np.arange(N, dtype=np.int32)), array(np.full(N, -1, np.int32))
    host = OnHost(func)
    names = {param.name: {"A": a, "C": c}.get(param.name, size) for param in host.image.params}
    host(-(-size // 32), 32, **names)
    assert (c == np.where(np.arange(N) < size, 3 * np.arange(N), -1)).all()


def test_a_failed_assertion_is_reported_once_with_its_place():
    func = kernel(
        f'A: T.Buffer(({N},), "int32"), C: T.Buffer(({N},), "int32")',
        'i = bx * 32 + tx\nassert A[i] < 60, "too much"\nC[i] = A[i]',
        blocks=2,
    )
    host = OnHost(func)
    a, c = array(np.arange(N, dtype=np.int32)), array(np.full(N, -1, np.int32))
    host(2, 32, A=a, C=c)
    assert host.report[:7].tolist() == [1, 1, 0, 0, 28, 0, 0]  # the first thread that failed: 60 = 32 + 28
    assert (c == np.where(np.arange(N) < 60, np.arange(N), -1)).all()
    assert [site.kind for site in host.image.sites] == ["assert"]
    assert host.image.sites[0].text.startswith("too much")
    assert "{" not in host.image.sites[0].text.split("\n")[0]


def test_a_division_by_zero_is_reported():
    func = binary("int32", "A[i] // B[i]")
    host = OnHost(func)
    a, b, c = values("int32"), array(np.arange(-5, N - 5, dtype=np.int32)), empty(N, np.int32)
    host(2, 32, A=a, B=b, C=c)
    assert host.image.sites[host.report[0] - 1].kind == "division"
    assert host.report[1:7].tolist() == [0, 0, 0, 5, 0, 0]
    keep = b != 0
    with np.errstate(over="ignore"):
        assert (c[keep] == a[keep] // b[keep]).all()


def test_a_kernel_that_cannot_fail_has_no_report():
    host = OnHost(binary("int32", "A[i] // (T.abs(B[i]) % 7 + 1)"))
    plain = OnHost(binary("int32", "A[i] + B[i]"))
    assert not plain.image.reports
    assert plain.image.sites == ()
    assert "%report" not in plain.text
    a, b, c = values("int32"), array(np.arange(N, dtype=np.int32)), empty(N, np.int32)
    host(2, 32, A=a, B=b, C=c)
    assert (c == a // (b % 7 + 1)).all()


def test_constants_and_lookup_tables():
    func = parse("""
@T.prim_func
def k(C: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        table = T.allocate_const([3, 1, 4, 1, 5, 9, 2, 6], "int32", [8])
        t = T.decl_buffer((8,), "int32", data=table)
        C[tx] = t[tx % 8]
""")
    c = empty(32, np.int32)
    OnHost(func)(1, 32, C=c)
    assert (c == np.tile([3, 1, 4, 1, 5, 9, 2, 6], 4)).all()


def test_an_alias_of_a_parameter_that_is_written_is_not_taken_for_constant():
    func = parse("""
@T.prim_func
def k(A: T.Buffer((32,), "int32")):
    T.func_attr({"tir.noalias": True})
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        p: T.handle("int32") = A.data
        B = T.decl_buffer((32,), "int32", data=p)
        B[tx] = A[tx] + 1
        A2 = T.decl_buffer((32,), "int32", data=A.data)
        B[tx] = A2[tx] * 2
""")
    a = array(np.arange(32, dtype=np.int32))
    host = OnHost(func)
    host(1, 32, **{host.image.params[0].name: a})
    assert (a == (np.arange(32) + 1) * 2).all()


@pytest.mark.parametrize(("dtype", "low", "high"), [("int4", -8, 7), ("uint4", 0, 15)])
def test_integers_of_four_bits_have_a_byte_each(dtype, low, high):
    kind = DataType(dtype).numpy
    rng = np.random.default_rng(0)
    a, b = (array(rng.integers(low, high, N, endpoint=True).astype(kind)) for _ in range(2))
    (_, _, c) = against_interpreter(binary(dtype, "A[i] * B[i] - A[i]"), a, b, empty(N, kind))
    exact = a.astype(int) * b.astype(int) - a.astype(int)
    assert (c.astype(int) == (exact - low) % 16 + low).all()


def test_axes_of_64_bits():
    func = parse("""
@T.prim_func
def k(A: T.Buffer((T.int64(64),), "int64"), C: T.Buffer((T.int64(64),), "int64")):
    for bx in T.thread_binding(T.int64(2), thread="blockIdx.x"):
        for tx in T.thread_binding(T.int64(32), thread="threadIdx.x"):
            C[T.int64(63) - (bx * T.int64(32) + tx)] = A[bx * T.int64(32) + tx] * bx - tx
""")
    a = values("int64")
    (_, c) = against_interpreter(func, a, empty(N, np.int64))
    i = np.arange(N)
    with np.errstate(over="ignore"):
        assert (c[::-1] == a * (i // 32) - i % 32).all()
