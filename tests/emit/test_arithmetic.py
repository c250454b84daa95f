"""Integer arithmetic of every width against Python's integers, float arithmetic against NumPy and ml_dtypes."""

from __future__ import annotations

import itertools
import math
import operator

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tests.llvm.codegen.conftest import build, elementwise, llvm_text
from tirlower.ir.dtype import DataType
from tirlower.script import parse

pytestmark = pytest.mark.by_day

WIDTHS = ["bool", "int2", "int5", "int7", "int8", "int13", "int16", "int24", "int32", "int33", "int48", "int63", "int64",
          "uint3", "uint8", "uint9", "uint16", "uint31", "uint32", "uint47", "uint64"]  # fmt: skip


def wrap(value: int, kind: DataType) -> int:
    value &= (1 << kind.bits) - 1
    return value - (1 << kind.bits) if kind.is_int and value >> (kind.bits - 1) else value


def interesting(kind: DataType, rng: np.random.Generator, n: int) -> np.ndarray:
    low, high = int(kind.min_value), int(kind.max_value)
    special = [low, low + 1, -1, 0, 1, 2, 3, high - 1, high, high // 2, low // 2]
    special = [v for v in special if low <= v <= high]
    values = [special[i] if i < len(special) else int(rng.integers(low, high, endpoint=True, dtype=np.int64
              if kind.is_int else np.uint64)) for i in range(n)]  # fmt: skip
    rng.shuffle(values)
    return np.array(values, dtype=kind.numpy)


def trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


INTEGER = {
    "a + b": operator.add,
    "a - b": operator.sub,
    "a * b": operator.mul,
    "T.min(a, b)": min,
    "T.max(a, b)": max,
    "a & b": operator.and_,
    "a | b": operator.or_,
    "a ^ b": operator.xor,
}
DIVISION = {
    "T.floordiv(a, b)": operator.floordiv,
    "T.floormod(a, b)": operator.mod,
    "T.truncdiv(a, b)": trunc_div,
    "T.truncmod(a, b)": lambda a, b: a - b * trunc_div(a, b),
}


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", [w for w in WIDTHS if w != "bool"])
def test_integers_wrap_as_python_integers_cut_to_their_width(name: str, lanes: int, rng: np.random.Generator) -> None:
    kind, n = DataType(name), 64
    body = "".join(f"        R{k}[S] = {text.replace('a', 'A[S]').replace('b', 'B[S]')}\n".replace("T.mA[S]x", "T.max")
                   for k, text in enumerate(INTEGER))  # fmt: skip
    body = body.replace("S", f"i * {lanes}:i * {lanes} + {lanes}" if lanes > 1 else "i")
    outs = ", ".join(f'R{k}: T.Buffer(({n},), "{name}")' for k in range(len(INTEGER)))
    f = build(
        f'@T.prim_func\ndef kernel(A: T.Buffer(({n},), "{name}"), B: T.Buffer(({n},), "{name}"), {outs}):\n'
        f"    for i in range({n // lanes}):\n{body}"
    )
    a, b = interesting(kind, rng, n), interesting(kind, rng, n)
    results = [np.zeros(n, kind.numpy) for _ in INTEGER]
    f(a, b, *results)
    for fn, got in zip(INTEGER.values(), results, strict=True):
        expected = [wrap(fn(int(x), int(y)), kind) for x, y in zip(a, b, strict=True)]
        assert got.tolist() == expected, fn


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", [w for w in WIDTHS if w != "bool"])
def test_division_of_every_width_and_sign(name: str, lanes: int, rng: np.random.Generator) -> None:
    kind, n = DataType(name), 128
    index = f"i * {lanes}:i * {lanes} + {lanes}" if lanes > 1 else "i"
    calls = ["floordiv", "floormod", "truncdiv", "truncmod"]
    body = "".join(f"        R{k}[{index}] = T.{c}(A[{index}], B[{index}])\n" for k, c in enumerate(calls))
    outs = ", ".join(f'R{k}: T.Buffer(({n},), "{name}")' for k in range(4))
    f = build(
        f'@T.prim_func\ndef kernel(A: T.Buffer(({n},), "{name}"), B: T.Buffer(({n},), "{name}"), {outs}):\n'
        f"    for i in range({n // lanes}):\n{body}"
    )
    a, b = interesting(kind, rng, n), interesting(kind, rng, n)
    b[b == 0] = 1
    if kind.is_int:
        a[:2], b[:2] = kind.min_value, -1  # wraps, and may not trap
    results = [np.zeros(n, kind.numpy) for _ in calls]
    f(a, b, *results)
    for fn, got in zip(DIVISION.values(), results, strict=True):
        assert got.tolist() == [wrap(fn(int(x), int(y)), kind) for x, y in zip(a, b, strict=True)], fn


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 8, 64, -1, -2, -3, -8])
@pytest.mark.parametrize("name", ["int8", "int32", "int64", "int17"])
def test_division_by_constants(name: str, divisor: int, rng: np.random.Generator) -> None:
    kind, n = DataType(name), 64
    a = interesting(kind, rng, n)
    for text, fn in DIVISION.items():
        literal = f"T.{name}({divisor})" if name != "int17" else f'T.Cast("int17", T.int32({divisor}))'
        f = build(elementwise(text.replace(", b", f", {literal}"), [("a", name)], name, n))
        out = np.zeros(n, kind.numpy)
        f(a, out)
        assert out.tolist() == [wrap(fn(int(x), divisor), kind) for x in a], text


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("text", list(DIVISION))
def test_division_by_zero_is_an_error_and_no_signal(text: str, lanes: int) -> None:
    f = build(elementwise(text, [("a", "int32"), ("b", "int32")], "int32", 8, lanes))
    a, b, out = np.arange(8, dtype="int32"), np.ones(8, "int32"), np.zeros(8, "int32")
    f(a, b, out)
    b[5] = 0
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        f(a, b, out)


def test_no_guard_where_the_divisor_cannot_be_zero() -> None:
    text = llvm_text("""
        @T.prim_func
        def kernel(A: T.Buffer((64,), "int32"), n: T.int32):
            for i in range(64):
                A[i] = (A[i] // T.max(n, 1)) % (i + 1)
    """)
    assert "ZeroDivision" not in text and "fail" not in text


@pytest.mark.parametrize("name", ["int8", "int32", "uint32", "int64", "uint5", "float32", "float64", "float16"])
def test_comparisons(name: str, rng: np.random.Generator) -> None:
    kind, n = DataType(name), 64
    if kind.is_float:
        a, b = (rng.integers(-3, 3, n).astype(kind.numpy) for _ in range(2))
        a[:4], b[2:6] = np.nan, np.nan
    else:
        a, b = interesting(kind, rng, n), interesting(kind, rng, n)
        a[:16] = b[:16]
    for word, fn in (("==", np.equal), ("!=", np.not_equal), ("<", np.less), ("<=", np.less_equal),
                     (">", np.greater), (">=", np.greater_equal)):  # fmt: skip
        for lanes in (1, 16):
            f = build(elementwise(f"a {word} b", [("a", name), ("b", name)], "bool", n, lanes))
            out = np.zeros(n, bool)
            f(a, b, out)
            assert (out == fn(a, b)).all(), (word, lanes)


FLOATS = ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", FLOATS)
def test_float_arithmetic_rounds_once_to_the_type(name: str, lanes: int, rng: np.random.Generator) -> None:
    kind, n = DataType(name), 256
    a, b = (rng.normal(size=n).astype(kind.numpy) for _ in range(2))
    b[b == 0] = 1
    x, y = a.astype("float64"), b.astype("float64")
    for text, exact in (("a + b", x + y), ("a - b", x - y), ("a * b", x * y), ("a / b", x / y)):
        f = build(elementwise(text, [("a", name), ("b", name)], name, n, lanes))
        out = np.zeros(n, kind.numpy)
        f(a, b, out)
        expected = exact.astype("float32").astype(kind.numpy) if kind.bits <= 16 else exact.astype(kind.numpy)
        if name == "float16":
            expected = exact.astype("float16")
        assert (out == expected).all() | (np.isnan(out.astype("float32")) == np.isnan(expected.astype("float32"))).all()
        same = (out == expected) | (np.isnan(out.astype("float64")) & np.isnan(expected.astype("float64")))
        assert same.all(), (text, a[~same], b[~same], out[~same], expected[~same])


_SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    -0.1,
    0.3,
    3.0,
    5.0,
    -5.0,
    1e10,
    -1e10,
    1e300,
    1e-300,
    math.inf,
    -math.inf,
    math.nan,
]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_divisors_between_a_power_of_two_and_another_number(dtype: str, rng: np.random.Generator) -> None:
    """A shift stands for a divisor that is known, not for a range that begins with a power of two."""
    a = rng.integers(-1000, 1000, 64).astype(dtype)
    b = rng.integers(0, 100, 64).astype(dtype)
    divisor = 2 + (b & 3)
    for text, want in (("a // (2 + (b & 3))", a // divisor), ("a % (2 + (b & 3))", a % divisor)):
        out = np.zeros(64, dtype)
        build(elementwise(text, [("a", dtype), ("b", dtype)], dtype))(a, b, out)
        assert out.tolist() == want.tolist()


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16"])
def test_float_floor_division_and_remainders(name: str, lanes: int, rng: np.random.Generator) -> None:
    """As NumPy's, which are Python's; types narrower than float32 are computed in it."""
    kind = DataType(name)
    with np.errstate(over="ignore"):
        pairs = [(x, y) for x in _SPECIAL for y in _SPECIAL]
        pairs += [(k * 0.1, 0.1) for k in range(1, 100)] + [(-k * 0.1, 0.1) for k in range(1, 100)]
        pairs += [(10.0 ** rng.uniform(-9, 15) * rng.choice([-1, 1]), rng.normal(scale=4)) for _ in range(1000)]
        pairs = pairs[: len(pairs) // 8 * 8]
        a, b = (np.array(side).astype(kind.numpy) for side in zip(*pairs, strict=True))
    x, y = (v.astype("float64" if name == "float64" else "float32") for v in (a, b))
    with np.errstate(all="ignore"):
        expected = {
            "a // b": np.floor_divide(x, y).astype(kind.numpy),
            "a % b": np.remainder(x, y).astype(kind.numpy),
            "T.truncmod(a, b)": np.fmod(x, y).astype(kind.numpy),
        }
    for text, want in expected.items():
        f = build(elementwise(text, [("a", name), ("b", name)], name, len(a), lanes))
        out = np.zeros(len(a), kind.numpy)
        f(a, b, out)
        out, want = out.astype("float64"), want.astype("float64")
        same = (out == want) & (np.signbit(out) == np.signbit(want)) | (np.isnan(out) & np.isnan(want))
        assert same.all(), (text, a[~same], b[~same], out[~same], want[~same])


def test_float_remainders_are_pythons() -> None:
    for text, function in (("a // b", operator.floordiv), ("a % b", operator.mod)):
        f = build(elementwise(text, [("a", "float64"), ("b", "float64")], "float64", 1))
        for a, b in itertools.product(_SPECIAL, _SPECIAL):
            if b == 0:
                continue  # Python raises
            out, want = np.zeros(1), function(a, b)
            f(np.array([a]), np.array([b]), out)
            same = (out[0] == want and math.copysign(1, out[0]) == math.copysign(1, want)) or (
                math.isnan(want) and math.isnan(out[0])
            )
            assert same, (text, a, b, out[0], want)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_extrema_prefer_numbers_to_nan(name: str, lanes: int) -> None:
    kind = DataType(name)
    nan, inf = math.nan, math.inf
    a = np.array([1, nan, 2, nan, -inf, inf, 3, -1], "float32").astype(kind.numpy)
    b = np.array([nan, 1, -2, nan, 5, -5, 3, 7], "float32").astype(kind.numpy)
    least = np.array([1, 1, -2, nan, -inf, -5, 3, -1])
    most = np.array([1, 1, 2, nan, 5, inf, 3, 7])
    for text, want in (("T.min(a, b)", least), ("T.max(a, b)", most)):
        f = build(elementwise(text, [("a", name), ("b", name)], name, 8, lanes))
        out = np.zeros(8, kind.numpy)
        f(a, b, out)
        np.testing.assert_array_equal(out.astype("float64"), want)


def test_code_generation_fuses_nothing_by_itself() -> None:
    inputs = [("a", "float32"), ("b", "float32"), ("c", "float32")]
    a = np.full(64, 1 + 2**-12, "float32")
    c = -(a * a)
    exact = np.float64(a[0]) * np.float64(a[0]) + np.float64(c[0])
    out = np.zeros(64, "float32")
    build(elementwise("T.fma(a, b, c)", inputs, "float32"))(a, a, c, out)
    assert (out == np.float32(exact)).all() and exact != 0
    for target in ("llvm", "llvm -fast-math-contract=0"):
        build(elementwise("a * b + c", inputs, "float32"), target)(a, a, c, out)
        assert (out == 0).all()


def test_fast_math_reassociates() -> None:
    text = llvm_text(elementwise("a + b", [("a", "float32"), ("b", "float32")], "float32"), "llvm -fast-math=1")
    assert "fadd fast" in text


def test_logic_on_vectors_and_scalars() -> None:
    for lanes in (1, 8):
        a = np.array([0, 0, 1, 1] * 2, bool)
        b = np.array([0, 1] * 4, bool)
        for text, want in (("T.And(a, b)", a & b), ("T.Or(a, b)", a | b), ("T.Not(T.Or(a, b))", ~(a | b)),
                           ("T.Select(a, b, T.Not(b))", np.where(a, b, ~b))):  # fmt: skip
            f = build(elementwise(text, [("a", "bool"), ("b", "bool")], "bool", 8, lanes))
            out = np.zeros(8, bool)
            f(a, b, out)
            assert (out == want).all(), (text, lanes)


def test_the_right_side_of_and_is_not_evaluated_where_the_left_is_false() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "bool")):
            for i in range(8):
                C[i] = T.And(B[i] != 0, A[i] // B[i] > 1)
    """)
    a, b, out = np.arange(8, dtype="int32"), np.array([0, 1, 2, 0, 1, 2, 0, 3], "int32"), np.zeros(8, bool)
    f(a, b, out)
    assert out.tolist() == [bool(y) and int(x) // int(y) > 1 for x, y in zip(a, b, strict=True)]
    g = build("""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "bool")):
            for i in range(8):
                C[i] = T.Or(B[i] == 0, A[i] // B[i] > 1)
    """)
    g(a, b, out)
    assert out.tolist() == [not y or int(x) // int(y) > 1 for x, y in zip(a, b, strict=True)]


def test_wrap_around_of_data_is_kept_beside_index_arithmetic() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
            for i in range(64):
                B[i] = A[i] * 1103515245 + 12345
                A[(B[i] // 65536) % 64] = B[i] - 2147483647
    """)
    a = np.arange(64, dtype="int32")
    b = np.zeros(64, "int32")
    want_a, want_b = a.tolist(), [0] * 64
    for i in range(64):
        want_b[i] = wrap(want_a[i] * 1103515245 + 12345, DataType("int32"))
        want_a[(want_b[i] // 65536) % 64] = wrap(want_b[i] - 2147483647, DataType("int32"))
    f(a, b)
    assert b.tolist() == want_b and a.tolist() == want_a


def test_a_chain_of_ten_thousand_terms_and_a_shared_one_of_forty_doublings() -> None:
    from tirlower.ir import Add, BufferLoad, BufferStore, For, ForKind, IntImm, PrimFunc, Var, decl_buffer

    buffer = decl_buffer((4,), "int32", "A")
    i = Var("i", "int32")
    chain = BufferLoad(buffer, (i,))
    for k in range(10_000):
        chain = Add(chain, IntImm("int32", k))
    shared = chain
    for _ in range(40):
        shared = Add(shared, shared)
    handle = Var("a", buffer.data.type)
    loop = For(i, 0, 4, ForKind.SERIAL, None, {}, BufferStore(buffer, shared, (i,)))
    f = build(PrimFunc((handle,), {handle: buffer}, None, {"global_symbol": "chain"}, loop))
    a = np.arange(4, dtype="int32")
    f(a)
    assert a.tolist() == [wrap((x + 9999 * 5000) << 40, DataType("int32")) for x in range(4)]


def test_narrow_constants_reach_every_type() -> None:
    for name in ["int5", "uint3", *FLOATS, "bool", "uint64"]:
        kind = DataType(name)
        value = "True" if kind.is_bool else "3"
        f = build(f'@T.prim_func\ndef kernel(A: T.Buffer((1,), "{name}")):\n    A[0] = T.Cast("{name}", {value})\n')
        out = np.zeros(1, kind.numpy)
        f(out)
        assert out[0] == (True if kind.is_bool else 3)
    assert ml_dtypes.bfloat16(3) == 3


@pytest.mark.parametrize(("op", "divisions"), [("%", 1), ("//", 3)])
def test_divisions_rounding_down_by_a_divisor_of_unknown_sign(op, divisions):
    func = parse(f"@T.prim_func\ndef f(a: T.int64, b: T.int64) -> T.int64:\n    return a {op} b\n")
    kernel = tl.build(func, schedule="none")
    text = kernel.source("llvm")
    assert text.count(" = srem ") + text.count(" = sdiv ") <= divisions
    numbers = [-(2**63), -(2**63) + 1, -7, -6, -1, 0, 1, 2, 6, 7, 2**63 - 1]
    for a, b in itertools.product(numbers, numbers):
        if b == 0:
            with pytest.raises(ZeroDivisionError):
                kernel(a, b)
        elif (a, b) != (-(2**63), -1):
            assert kernel(a, b) == (a % b if op == "%" else a // b), (a, b)
