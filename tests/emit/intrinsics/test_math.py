"""Intrinsics on every type that they take, against NumPy, Python and exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.llvm.codegen.conftest import build, elementwise, llvm_text, with_operation
from tests.sampling import in_pairs
from tirlower.diagnostics import CodegenError, RuntimeAssertError
from tirlower.ir.dtype import DataType

pytestmark = pytest.mark.by_day

UNARY = {
    "exp": (np.exp, -4, 4), "exp2": (np.exp2, -4, 4), "exp10": (lambda x: 10.0**x, -2, 2), "expm1": (np.expm1, -2, 2),
    "log": (np.log, 0.1, 9), "log2": (np.log2, 0.1, 9), "log10": (np.log10, 0.1, 9), "log1p": (np.log1p, -0.5, 9),
    "sqrt": (np.sqrt, 0, 9), "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 9), "sin": (np.sin, -4, 4),
    "cos": (np.cos, -4, 4), "tan": (np.tan, -1, 1), "asin": (np.arcsin, -1, 1), "acos": (np.arccos, -1, 1),
    "atan": (np.arctan, -4, 4), "sinh": (np.sinh, -3, 3), "cosh": (np.cosh, -3, 3), "tanh": (np.tanh, -3, 3),
    "asinh": (np.arcsinh, -4, 4), "acosh": (np.arccosh, 1.1, 9), "atanh": (np.arctanh, -0.9, 0.9),
    "erf": (np.vectorize(math.erf), -2, 2), "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -6, 6), "fabs": (np.abs, -4, 4),
    "floor": (np.floor, -4, 4), "ceil": (np.ceil, -4, 4), "trunc": (np.trunc, -4, 4), "nearbyint": (np.rint, -4, 4),
    "round": (lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), -4, 4),
}  # fmt: skip
ULP = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.mark.parametrize(("name", "dtype"), in_pairs(UNARY, ULP))
def test_functions_of_one_argument(name: str, dtype: str, rng: np.random.Generator) -> None:
    exact, low, high = UNARY[name]
    kind = DataType(dtype).numpy
    x = rng.uniform(low, high, 48).astype(kind)
    if name in ("floor", "ceil", "trunc", "nearbyint", "round"):
        x[:8] = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.0, -0.0]).astype(kind)
    want = exact(x.astype("float64"))
    for lanes in (1, 3, 16):
        out = np.zeros(48, kind)
        build(elementwise(f"T.{name}(a)", [("a", dtype)], dtype, 48, lanes))(x, out)
        error = np.abs(out.astype("float64") - want)
        assert (error <= 3 * ULP[dtype] * np.maximum(np.abs(want), 2.0**-14 if dtype == "float16" else 1e-30)).all(), (
            lanes
        )


BINARY = {"pow": lambda a, b: np.abs(a) ** b, "atan2": np.arctan2, "fmod": np.fmod, "copysign": np.copysign,
          "hypot": np.hypot}  # fmt: skip


@pytest.mark.parametrize("dtype", list(ULP))
@pytest.mark.parametrize("name", list(BINARY))
def test_functions_of_two_arguments(name: str, dtype: str, rng: np.random.Generator) -> None:
    kind = DataType(dtype).numpy
    a, b = (rng.uniform(-3, 3, 48).astype(kind) for _ in range(2))
    if name == "pow":
        a = np.abs(a)
    want = BINARY[name](a.astype("float64"), b.astype("float64"))
    for lanes in (1, 8):
        out = np.zeros(48, kind)
        build(elementwise(f"T.{name}(a, b)", [("a", dtype), ("b", dtype)], dtype, 48, lanes))(a, b, out)
        error = np.abs(out.astype("float64") - want)
        assert (error <= 3 * ULP[dtype] * np.maximum(np.abs(want), 2.0**-14 if dtype == "float16" else 1e-30)).all(), (
            lanes
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nextafter_in_the_types_own_format(dtype: str) -> None:
    kind = DataType(dtype).numpy
    values = np.array([0.0, -0.0, 1.0, -1.0, 1.5, np.inf, -np.inf, np.nan]).astype(kind)
    a, b = (v.ravel().copy() for v in np.meshgrid(values, values))
    out = np.zeros(64, kind)
    build(elementwise("T.nextafter(a, b)", [("a", dtype), ("b", dtype)], dtype, 64, 8))(a, b, out)
    want = np.nextafter(a, b)
    same = a == b  # C gives the second, which differs for zeros of two signs
    want[same] = b[same]
    assert ((out == want) & (np.signbit(out) == np.signbit(want)) | np.isnan(out) & np.isnan(want)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_narrow_fma_is_rounded_once(dtype: str, rng: np.random.Generator) -> None:
    kind = DataType(dtype).numpy
    bits = 8 * kind.itemsize
    n = 4096
    a, b, c = (rng.integers(0, 2**bits, n).astype(f"uint{bits}").view(kind) for _ in range(3))
    # Sums that decide ties by something tiny.
    one = np.ones(1, kind)[0]
    ulp = np.nextafter(np.float32(1), np.float32(2))
    assert ulp > 1
    a[:64], b[:64] = one, one
    c[:64] = (rng.choice([-1, 1], 64) * 2.0 ** -rng.integers(1, 9, 64)).astype(kind)
    out = np.zeros(n, kind)
    names = [(x, dtype) for x in "abc"]
    build(elementwise("T.fma(a, b, c)", names, dtype, n, 8))(a, b, c, out)
    finite = [np.isfinite(v.astype("float32")) for v in (a, b, c)]
    checked = 0
    for x, y, z, got in zip(
        a[np.all(finite, 0)], b[np.all(finite, 0)], c[np.all(finite, 0)], out[np.all(finite, 0)], strict=True
    ):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        near = float(got)
        if near != near or math.isinf(near) or abs(exact) > Fraction(float(DataType(dtype).max_value)):
            continue
        code = int(np.array([got]).view(f"uint{bits}")[0])
        for other in (code - 1, code + 1):
            v = float(np.array([other & (2**bits - 1)], f"uint{bits}").view(kind)[0])
            if v == v and not math.isinf(v):
                assert abs(exact - Fraction(near)) <= abs(exact - Fraction(v)), (x, y, z, got)
        checked += 1
    assert checked > n // 4


def test_fma_of_float32_and_of_integers() -> None:
    a = np.full(8, 1 + 2**-12, "float32")
    c = -(a * a)
    out = np.zeros(8, "float32")
    build(elementwise("T.fma(a, b, c)", [("a", "float32"), ("b", "float32"), ("c", "float32")], "float32", 8),
          "llvm -fast-math-contract=0")(a, a, c, out)  # fmt: skip
    assert (out == np.float32(np.float64(a) ** 2 + c)).all() and out[0] != 0
    x = np.arange(8, dtype="int8")
    y = np.zeros(8, "int8")
    text = elementwise(
        'T.call_pure_extern("int8", "it", a, b, c)', [("a", "int8"), ("b", "int8"), ("c", "int8")], "int8", 8
    )
    build(with_operation(text, "tir.fma"))(x, x, x, y)
    assert (y == x * x + x).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_ldexp(dtype: str) -> None:
    kind = DataType(dtype).numpy
    x = np.array([1.0, -1.5, 0.75, 3.0, np.inf, np.nan, 0.0, 1.0]).astype(kind)
    p = np.array([3, -4, 0, -20, 5, 5, 100, 100000], "int32")
    out = np.zeros(8, kind)
    build(elementwise("T.ldexp(a, b)", [("a", dtype), ("b", "int32")], dtype, 8))(x, p, out)
    with np.errstate(all="ignore"):
        want = np.ldexp(x.astype("float64"), p).astype(kind)
    np.testing.assert_array_equal(out.astype("float64"), want.astype("float64"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e5m2"])
def test_classification(dtype: str) -> None:
    kind = DataType(dtype).numpy
    x = np.array([0, 1, -1, np.inf, -np.inf, np.nan, 1e-6, 400]).astype("float32").astype(kind)
    wide = x.astype("float64")
    for name, fn in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
        for target in ("llvm", "llvm -fast-math=1"):
            out = np.zeros(8, bool)
            build(elementwise(f"T.{name}(a)", [("a", dtype)], "bool", 8, 8), target)(x, out)
            assert (out == fn(wide)).all(), (name, target)


INTS = ["int5", "int8", "uint8", "int32", "uint32", "int64", "uint64", "int33"]


@pytest.mark.parametrize("name", INTS)
def test_bits(name: str, rng: np.random.Generator) -> None:
    kind = DataType(name)
    low, high = int(kind.min_value), int(kind.max_value)
    values = [
        low,
        high,
        0,
        1,
        *[int(v) for v in rng.integers(low, high, 28, dtype="uint64" if kind.is_uint else "int64")],
    ]
    x = np.array(values, kind.numpy)
    mask = (1 << kind.bits) - 1

    def wrap(v: int) -> int:
        v &= mask
        return v - (1 << kind.bits) if kind.is_int and v >> (kind.bits - 1) else v

    for lanes in (1, 8):
        for text, fn, out_type in (
            ("T.popcount(a)", lambda v: wrap((v & mask).bit_count()), name),
            ("T.clz(a)", lambda v: kind.bits - (v & mask).bit_length(), "int32"),
            ("~a", lambda v: wrap(~v), name),
        ):
            out = np.zeros(32, DataType(out_type).numpy)
            build(elementwise(text, [("a", name)], out_type, 32, lanes))(x, out)
            assert out.tolist() == [fn(v) for v in values], (text, lanes)
        amounts = np.array([k % kind.bits for k in range(32)], kind.numpy)
        for text, fn in (("a << b", lambda v, s: wrap(v << s)), ("a >> b", lambda v, s: v >> s)):
            out = np.zeros(32, kind.numpy)
            build(elementwise(text, [("a", name), ("b", name)], name, 32, lanes))(x, amounts, out)
            assert out.tolist() == [fn(v, int(s)) for v, s in zip(values, amounts.tolist(), strict=True)]


def test_shifts_by_too_much_have_a_value() -> None:
    x = np.array([-5, 5, -1, 1], "int32")
    s = np.array([32, 100, -1, 33], "int32")
    out = np.zeros(4, "int32")
    build(elementwise("a << b", [("a", "int32"), ("b", "int32")], "int32", 4))(x, s, out)
    assert out.tolist() == [0, 0, 0, 0]
    build(elementwise("a >> b", [("a", "int32"), ("b", "int32")], "int32", 4))(x, s, out)
    assert out.tolist() == [-1, 0, -1, 0]


def rounded_shift(product: int, right: int) -> int:
    return (product + (1 << (right - 1)) >> right) if right else product


@pytest.mark.parametrize("lanes", [1, 8])
def test_fixed_point_products(lanes: int, rng: np.random.Generator) -> None:
    n = 64
    x, y = (rng.integers(-(2**31), 2**31, n).astype("int32") for _ in range(2))
    shifts = rng.integers(-3, 9, n).astype("int32")
    f = build(elementwise(f"T.q_multiply_shift(a, b, {'T.Broadcast(31, 8)' if lanes > 1 else 31}, c)",
                          [("a", "int32"), ("b", "int32"), ("c", "int32")], "int32", n, lanes))  # fmt: skip
    out = np.zeros(n, "int32")
    f(x, y, shifts, out)
    want = []
    for a, b, s in zip(x.tolist(), y.tolist(), shifts.tolist(), strict=True):
        v = rounded_shift((a << max(-s, 0)) * b, 31 + max(s, 0)) & 0xFFFFFFFF
        want.append(v - 2**32 if v >> 31 else v)
    assert out.tolist() == want
    g = build(elementwise("T.q_multiply_shift_per_axis(a, b, c, c, 31, T.bool(False), T.bool(True))",
                          [("a", "int32"), ("b", "int32"), ("c", "int32")], "int32", n))  # fmt: skip
    g(x, y, np.abs(shifts), out)
    for a, b, s, got in zip(x.tolist(), y.tolist(), np.abs(shifts).tolist(), out.tolist(), strict=True):
        v = rounded_shift(a * b, 31 + s) & 0xFFFFFFFF
        assert got == (v - 2**32 if v >> 31 else v)


def test_dp4a(rng: np.random.Generator) -> None:
    for kind in ("int8", "uint8"):
        f = build(f"""
            @T.prim_func
            def kernel(A: T.Buffer((32,), "{kind}"), B: T.Buffer((32,), "{kind}"), C: T.Buffer((8,), "int32")):
                for i in range(8):
                    C[i] = T.dp4a(A[i * 4:i * 4 + 4], B[i * 4:i * 4 + 4], C[i])
        """)
        a, b = (rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, 32).astype(kind) for _ in range(2))
        c = np.arange(8, dtype="int32")
        f(a, b, c)
        assert (c == (a.astype(int) * b).reshape(8, 4).sum(1) + np.arange(8)).all()


def test_choice_evaluates_only_the_arm_taken(rng: np.random.Generator) -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
            for i in range(16):
                B[i] = T.if_then_else(D[i] == 0, -1, A[i] // D[i])
                B[i] = T.if_then_else(i < 15, T.if_then_else(D[i] > 1, B[i], A[i + 1]), 0)
    """)
    a, d = rng.integers(-50, 50, 16).astype("int32"), rng.integers(0, 4, 16).astype("int32")
    b = np.zeros(16, "int32")
    f(a, b, d)
    for i in range(16):
        want = -1 if d[i] == 0 else int(a[i]) // int(d[i])
        assert b[i] == ((want if d[i] > 1 else a[i + 1]) if i < 15 else 0)


def test_choice_by_lanes_loads_and_divides_only_there() -> None:
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(base + page), ctypes.c_size_t(page), 0) == 0
    try:
        a = np.ctypeslib.as_array((ctypes.c_int32 * 5).from_address(base + page - 20))
        a[:] = [8, 6, 4, 2, 9]
        f = build(with_operation("""
            @T.prim_func
            def kernel(A: T.Buffer((5,), "int32"), B: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
                B[0:8] = T.call_pure_extern("int32x8", "it", T.Ramp(0, 1, 8) < T.Broadcast(5, 8),
                                        T.floordiv(A[T.Ramp(0, 1, 8)], D[T.Ramp(0, 1, 8)]), T.Broadcast(-1, 8))
        """, "tir.if_then_else"))  # fmt: skip
        b, d = np.zeros(8, "int32"), np.array([1, 2, 3, 1, 2, 0, 0, 0], "int32")
        f(a, b, d)
        assert b.tolist() == [8, 3, 1, 2, 4, -1, -1, -1]
        d[2] = 0
        with pytest.raises(ZeroDivisionError):
            f(a, b, d)
    finally:
        libc.mprotect(ctypes.c_void_p(base + page), ctypes.c_size_t(page), 3)


def test_lets_in_expressions_share_their_value() -> None:
    from tirlower.ir import BufferLoad, BufferStore, For, ForKind, Let, PrimFunc, Var, decl_buffer

    buffer = decl_buffer((8,), "int32", "A")
    i, x, y = Var("i", "int32"), Var("x", "int32"), Var("y", "int32")
    load = BufferLoad(buffer, (i,))
    body = Let(x, load * 3, Let(y, x + i, y * x + y))
    handle = Var("a", buffer.data.type)
    loop = For(i, 0, 8, ForKind.SERIAL, None, {}, BufferStore(buffer, body, (i,)))
    a = np.arange(8, dtype="int32") + 5
    want = [(v * 3 + k) * (v * 3) + v * 3 + k for k, v in enumerate(a.tolist())]
    build(PrimFunc((handle,), {handle: buffer}, None, {"global_symbol": "lets"}, loop))(a)
    assert a.tolist() == want


def test_a_deep_chain_of_choices_and_conditions() -> None:
    from tirlower.ir import EQ, And, BufferLoad, BufferStore, IntImm, PrimFunc, Select, Var, decl_buffer
    from tirlower.ir import build as make

    buffer = decl_buffer((4,), "int32", "A")
    zero = IntImm("int32", 0)
    value = make.cast("int32", zero)
    cond = EQ(BufferLoad(buffer, (zero,)), zero)
    chain = zero
    for k in range(1500):
        chain = make.if_then_else(
            EQ(BufferLoad(buffer, (zero,)), IntImm("int32", k)), BufferLoad(buffer, (IntImm("int32", k % 4),)), chain
        )
    for _ in range(1500):
        cond = And(cond, EQ(BufferLoad(buffer, (zero,)), zero))
    right = EQ(BufferLoad(buffer, (zero,)), zero)
    for _ in range(1500):
        right = And(EQ(BufferLoad(buffer, (zero,)), zero), right)
    handle = Var("a", buffer.data.type)
    total = chain + Select(And(cond, right), IntImm("int32", 10), IntImm("int32", 20)) + value
    store = BufferStore(buffer, total, (IntImm("int32", 3),))
    f = build(PrimFunc((handle,), {handle: buffer}, None, {"global_symbol": "deep"}, store), opt_level=0)
    a = np.array([0, 1, 2, 3], "int32")
    f(a)
    assert a.tolist() == [0, 1, 2, 10]
    a = np.array([2, 1, 7, 3], "int32")
    f(a)
    assert a.tolist() == [2, 1, 7, 27]


def test_lane_operations() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((32,), "int32"), m: T.Buffer((8,), "bool"), n: T.int32):
            C[0:4] = T.vectorlow("int32x4", A[0:8])
            C[4:8] = T.vectorhigh("int32x4", A[0:8])
            C[8:16] = T.vectorcombine("int32x8", B[0:4], A[0:4])
            C[16:20] = T.Shuffle([A[0:8], B[0:8]], [0, 9, 2, 15])
            C[20] = T.Shuffle([A[0:4], B[0:2], A[6]], [5])
            C[21:25] = T.Shuffle([A[0], B[1], A[2], B[3]], [3, 2, 1, 0])
            C[25:32] = T.Shuffle([A[0:4], B[0:2], A[6]], [0, 1, 2, 3, 4, 5, 6])
            m[0:8] = T.get_active_lane_mask("boolx8", n, 10)
    """)
    a, b, c, m = np.arange(8, dtype="int32"), np.arange(8, dtype="int32") * 10, np.zeros(32, "int32"), np.zeros(8, bool)
    f(a, b, c, m, 6)
    want = [*a, *b[:4], *a[:4], 0, 10, 2, 70, 10, 30, 2, 10, 0, 0, 1, 2, 3, 0, 10, 6]
    assert c.tolist() == want and m.tolist() == [True] * 4 + [False] * 4


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 15, 16, 32, 64, 127, 128, 200])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_active_lanes_are_those_below_the_limit(lanes: int, dtype: str) -> None:
    f = build(f"""
        @T.prim_func
        def kernel(m: T.Buffer(({lanes},), "bool"), base: T.{dtype}, limit: T.{dtype}):
            m[0:{lanes}] = T.get_active_lane_mask("bool{f"x{lanes}" if lanes > 1 else ""}", base, limit)
    """)
    m = np.zeros(lanes, bool)
    most = np.iinfo(dtype).max
    for base in (-3, 0, 5, most - lanes, most):
        for left in (-300, -129, -128, -1, 0, 1, 2, lanes - 1, lanes, lanes + 1, 127, 128, 255, 256, 1 << 16, 1 << 30):
            if base + left <= most:
                f(m, base, base + left)
                assert m.tolist() == [k < left for k in range(lanes)], (base, left)


@pytest.mark.parametrize("lanes", [2, 3, 8, 16, 200])
def test_active_lanes_of_indices_are_compared_as_int32(lanes: int) -> None:
    f = f"""
        @T.prim_func
        def kernel(m: T.Buffer(({5 * lanes},), "bool"), A: T.Buffer(("n",), "int8")):
            for i in range(5):
                m[i * {lanes}:i * {lanes} + {lanes}] = T.get_active_lane_mask("boolx{lanes}", i * {lanes}, n)
    """
    assert f"icmp slt <{lanes} x i32>" in llvm_text(f)
    call, m = build(f), np.zeros(5 * lanes, bool)
    for n in (0, 1, lanes - 1, lanes, lanes + 1, 3 * lanes - 1, 5 * lanes, 1 << 20):
        call(m, np.zeros(n, "int8"))
        assert m.tolist() == [k < n for k in range(5 * lanes)], n


def test_ramps_and_broadcasts_as_values() -> None:
    f = build("""
        @T.prim_func
        def kernel(C: T.Buffer((24,), "int16"), x: T.int16, s: T.int16):
            C[0:8] = T.Ramp(x, s, 8)
            C[8:16] = T.Ramp(T.int16(3), T.int16(-2), 8)
            C[16:24] = T.Broadcast(T.Ramp(x, T.int16(1), 4), 2)
    """)
    c = np.zeros(24, "int16")
    f(c, 32765, 2)
    wrapped = np.array([32765 + 2 * k for k in range(8)]).astype("int16")
    assert c[:8].tolist() == wrapped.tolist() and c[8:16].tolist() == list(range(3, -13, -2))
    assert c[16:].tolist() == np.array([32765, 32766, 32767, -32768] * 2, "int16").tolist()


def test_hints_do_not_change_results() -> None:
    f = build(
        """
        @T.prim_func
        def kernel(A: T.Buffer((16,), "int32"), n: T.int32):
            T.evaluate(T.assume(n > 0))
            for i in range(16):
                T.evaluate(T.prefetch(T.address_of(A[i]), 0, 3, 1))
                if T.likely(A[i] > n):
                    A[i] = T.large_uint_imm("uint64", 5, 1).astype("int32") if False else n
    """.replace(
            'T.large_uint_imm("uint64", 5, 1).astype("int32") if False else n',
            'T.Cast("int32", T.large_uint_imm("uint64", 5, 1)) + n',
        )
    )
    a = np.arange(16, dtype="int32")
    f(a, 7)
    assert a.tolist() == [i if i <= 7 else 12 for i in range(16)]


def test_assumptions_can_be_checked() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((4,), "int32"), n: T.int32):
            T.evaluate(T.assume(n > 0))
            A[0] = n
    """, check_assumptions=True)  # fmt: skip
    a = np.zeros(4, "int32")
    f(a, 1)
    with pytest.raises(RuntimeAssertError, match="assumption"):
        f(a, -1)


def test_integer_functions() -> None:
    a = np.array([-7, 7, -128, 3], "int8")
    b = np.array([2, 3, 1, 5], "int8")
    out = np.zeros(4, "int8")
    for name, args, want in (("fabs", "a", [7, 7, -128, 3]), ("pow", "a, b", [49, 87, -128, -13]),
                             ("floor", "a", a.tolist()), ("fmod", "a, b", [-1, 1, 0, 3])):  # fmt: skip
        for lanes in (1, 4):
            kind = "int8" if lanes == 1 else "int8x4"
            text = elementwise(
                f'T.call_pure_extern("{kind}", "it", {args})', [("a", "int8"), ("b", "int8")], "int8", 4, lanes
            )
            build(with_operation(text, f"tir.{name}"))(a, b, out)
            assert out.tolist() == want, (name, lanes)


def test_null_pointers_and_addresses() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((16,), "int32"), R: T.Buffer((2,), "bool"), p: T.handle):
            R[0] = T.isnullptr(p)
            R[1] = T.isnullptr(T.address_of(A[3]))
            T.evaluate(T.call_extern("handle", "memset", T.address_of(A[4]), 255, T.uint64(8)))
            T.evaluate(T.call_extern("handle", "memcpy", T.tvm_access_ptr(T.type_annotation("int32"), A.data, 8, 4, 2), A.data, T.uint64(16)))
    """)
    a, r = np.arange(16, dtype="int32"), np.zeros(2, bool)
    f(a, r, 0)
    assert r.tolist() == [True, False]
    assert a.tolist() == [0, 1, 2, 3, -1, -1, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15]


def test_functions_without_meaning_on_a_type_are_refused() -> None:
    with pytest.raises(CodegenError, match="no meaning"):
        llvm_text(
            with_operation(elementwise('T.call_pure_extern("int32", "it", a)', [("a", "int32")], "int32"), "tir.sqrt")
        )
    with pytest.raises(CodegenError, match="bits"):
        llvm_text(
            with_operation(
                elementwise('T.call_pure_extern("int16", "it", a)', [("a", "int32")], "int16"), "tir.reinterpret"
            )
        )
