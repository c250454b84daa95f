from __future__ import annotations

import math
import re

import numpy as np
import pytest

from tests.gpu.codegen.building import OnHost, array, build, check, empty, has, kernel
from tests.sampling import in_pairs
from tirlower.diagnostics import CodegenError
from tirlower.emit import vmath
from tirlower.ir.dtype import DataType
from tirlower.ir.intrinsics.arithmetic import BINARY_MATH, UNARY_MATH


def function(call: str, dtype: str = "float32", options: str = "", arch: str = "sm_80"):
    return build(
        kernel(f'A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "{dtype}")', f"B[tx] = {call}"), arch, options
    )


def test_exp2_is_the_hardwares():
    module = function("T.exp2(A[tx])")
    assert has(module, "ex2.approx.ftz.f32")
    check(module)
    # Where the result is subnormal: of the argument plus 24, times 2^-24. Fast functions leave that out.
    lowered = ["0fC2FC0000", "0f41C00000", "0f33800000"]
    assert has(module, *lowered)
    fast = function("T.exp2(A[tx])", options="-fast-vector-math=1")
    assert has(fast, "ex2.approx.ftz.f32") and not any(has(fast, number) for number in lowered)


@pytest.mark.parametrize(
    ("name", "instructions"),
    [
        ("exp", ["ex2.approx.ftz.f32"]), ("exp10", ["ex2.approx.ftz.f32"]), ("log2", ["lg2.approx.f32"]), ("log", ["lg2.approx.f32"]),
        ("log10", ["lg2.approx.f32"]), ("rsqrt", ["rsqrt.approx.f32"]), ("tanh", ["tanh.approx.f32"]),
        ("sin", ["sin.approx.f32"]), ("cos", ["cos.approx.f32"]), ("sigmoid", ["ex2.approx.ftz.f32", "rcp.approx.f32"]),
    ],
)  # fmt: skip
def test_approximations_are_asked_for(name, instructions):
    call = f"T.{name}(A[tx])"
    fast = function(call, options="-fast-vector-math=1", arch="sm_75")
    assert has(fast, *instructions)
    check(fast)
    exact = function(call, arch="sm_75")
    assert ".approx" not in exact.ptx.replace("rcp.approx.ftz.f64", "")
    check(exact)


def test_the_factor_of_a_base():
    """exp(x) is exp2(x log2 e): 1.442695 in float32 is 0x3FB8AA3B."""
    text = function("T.exp(A[tx])", options="-fast-vector-math=1").ptx
    assert "0f3FB8AA3B" in text
    assert "0f40549A78" in function("T.exp10(A[tx])", options="-fast-vector-math=1").ptx  # log2 10
    assert "0f3F317218" in function("T.log(A[tx])", options="-fast-vector-math=1").ptx  # log 2


def test_vectors_are_taken_apart():
    body = "for v in T.vectorized(4):\n    B[tx * 4 + v] = T.exp2(A[tx * 4 + v])"
    module = build(kernel('A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")', body))
    assert module.ptx.count("ex2.approx.ftz.f32") == 4
    assert has(module, "ld.global.nc.v4", "st.global.v4")
    check(module)


@pytest.mark.parametrize(
    ("call", "instruction"),
    [
        ("T.sqrt(A[tx])", "sqrt.rn.f32"), ("A[tx] / A[tx + 1]", "div.rn.f32"), ("T.fma(A[tx], A[tx], A[tx])", "fma.rn.f32"),
        ("T.floor(A[tx])", "cvt.rmi.f32.f32"), ("T.ceil(A[tx])", "cvt.rpi.f32.f32"), ("T.trunc(A[tx])", "cvt.rzi.f32.f32"),
        ("T.nearbyint(A[tx])", "cvt.rni.f32.f32"), ("T.abs(A[tx])", "abs.f32"),
    ],
)  # fmt: skip
def test_correctly_rounded_instructions(call, instruction):
    module = function(call)
    assert has(module, instruction)
    check(module)


FLOATS = ["float16", "bfloat16", "float32", "float64"]
CALLS = {name: f"T.{name}(A[{{i}}])" for name in UNARY_MATH} | {
    name: f"T.{name}(A[{{i}}], B[{{i}}])" for name in BINARY_MATH
}
CALLS |= {
    "fma": "T.fma(A[{i}], B[{i}], A[{i}])",
    "ldexp": "T.ldexp(A[{i}], tx - 16)",
    "truncmod": "T.truncmod(A[{i}], B[{i}])",
}


def all_functions(dtype: str, lanes: int = 1, leave_out: tuple[str, ...] = ()):
    """A kernel of 32 threads that computes every function of ``A`` and ``B``, a row of ``C`` for each."""
    names = [name for name in CALLS if name not in leave_out]
    width = 32 * lanes
    at = f"tx * {lanes} + v" if lanes > 1 else "tx"
    rows = [f"C[{row}, {at}] = {CALLS[name].format(i=at)}" for row, name in enumerate(names)]
    if lanes > 1:
        rows = [f"for v in T.vectorized({lanes}):\n    {row}" for row in rows]
    arrays = f'A: T.Buffer(({width},), "{dtype}"), B: T.Buffer(({width},), "{dtype}")'
    return names, kernel(f'{arrays}, C: T.Buffer(({len(names)}, {width}), "{dtype}")', "\n".join(rows))


@pytest.mark.parametrize(("dtype", "arch"), in_pairs(FLOATS, ["sm_75", "sm_80", "sm_90a", "sm_100"]))
def test_every_function_has_code(dtype, arch):
    """LLVM ends the process where it selects no instruction, and leaves what it takes for a library's function open."""
    module = build(all_functions(dtype)[1], arch)
    assert ".extern .func" not in module.ptx
    # A sum or product without .rn may be contracted by the assembler: only those of the program say that they may.
    assert not re.search(r"\b(add|sub|mul)\.f(32|64)\b", module.ptx)
    for found in check(module).values():
        assert found.spill_stores == 0


@pytest.mark.parametrize(("dtype", "options"), in_pairs(FLOATS, ["", "-fast-vector-math=1", "-fast-math=1"]))
def test_every_function_of_vectors(dtype, options):
    module = build(all_functions(dtype, 4)[1], "sm_80", options)
    assert ".extern .func" not in module.ptx
    check(module)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_every_function_of_eight_bits(dtype):
    module = build(all_functions(dtype)[1])
    assert ".extern .func" not in module.ptx
    check(module)


def test_float32_stays_float32():
    """No detour through float64, which is slow on most GPUs; hypot and the reduction of huge angles take it."""
    _, func = all_functions("float32", leave_out=("hypot", "sin", "cos", "tan"))
    assert ".f64" not in build(func).ptx
    sine = build(kernel('A: T.Buffer((32,), "float32")', "A[tx] = T.sin(A[tx])"), options="-fast-math-contract=0").ptx
    common, _, rare = sine.partition("call.uni")
    assert ".f64" not in common and "fma.rn.f32" in common and ".f64" in rare


def reference(name: str, x: float, y: float, i: int):
    """The exact result, by mpmath."""
    mp = pytest.importorskip("mpmath")
    whole = {
        "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "nearbyint": round,
        "round": lambda v: math.trunc(v + math.copysign(0.5, v)),
    }  # fmt: skip
    if name in whole:
        return mp.mpf(whole[name](x))
    a, b = mp.mpf(x), mp.mpf(y)
    special = {
        "exp2": lambda: mp.power(2, a), "exp10": lambda: mp.power(10, a), "log2": lambda: mp.log(a, 2),
        "rsqrt": lambda: 1 / mp.sqrt(a), "sigmoid": lambda: 1 / (1 + mp.exp(-a)), "fabs": lambda: abs(a),
        "pow": lambda: mp.power(a, b), "copysign": lambda: abs(a) * (1 if y > 0 else -1), "fma": lambda: a * b + a,
        "ldexp": lambda: mp.ldexp(a, i - 16), "fmod": lambda: mp.mpf(math.fmod(x, y)), "truncmod": lambda: mp.mpf(math.fmod(x, y)),
    }  # fmt: skip
    if name in special:
        return special[name]()
    return getattr(mp, name)(*([a, b] if name in BINARY_MATH else [a]))


@pytest.mark.parametrize("dtype", FLOATS)
def test_kernels_run_on_this_machine_give_what_mpmath_does(dtype):
    """All but the hardware's exp2. Types of 16 bits are rounded once from float32: half a unit, and a little."""
    mp = pytest.importorskip("mpmath")
    out = ("nextafter",) if dtype == "float64" else ("nextafter", "exp2")
    names, func = all_functions(dtype, leave_out=out)
    kind = DataType(dtype).numpy
    rng = np.random.default_rng(0)
    a, b = (
        array(rng.uniform(0.3, 0.95, 32).astype(kind)),
        array((rng.uniform(0.1, 3, 32) * rng.choice([-1, 1], 32)).astype(kind)),
    )
    a[::5] = kind.type(1) / a[::5].astype(np.float64)  # some beyond 1
    c = empty((len(names), 32), kind)
    OnHost(func)(1, 32, A=a, B=b, C=c)
    bits, least = {"float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149), "float64": (53, -1074)}[dtype]
    errors = {"float64": vmath.ERRORS_F64, "float32": vmath.ERRORS}.get(dtype, {})
    for row, name in enumerate(names):
        bound = errors.get(name, 0.5) + (0 if bits > 11 else 0.01)
        for i in range(32):
            x, y, got = float(a[i]), float(b[i]), float(c[row, i])
            if (name in ("asin", "acos", "atanh") and x > 1) or (name == "acosh" and x < 1):
                assert math.isnan(got), (name, x)
                continue
            with mp.workprec(200):
                want = reference(name, x, y, i)
                unit = mp.ldexp(1, max(mp.frexp(want)[1] - bits, least)) if want else mp.mpf(1)
                assert abs(mp.mpf(got) - want) <= bound * unit, (name, x, y, got)


@pytest.mark.parametrize("dtype", FLOATS)
def test_remainders_of_large_quotients_are_exact(dtype):
    """Where LLVM's own code takes one rounded quotient."""
    func = kernel(
        f'A: T.Buffer((32,), "{dtype}"), B: T.Buffer((32,), "{dtype}"), C: T.Buffer((2, 32), "{dtype}")',
        "C[0, tx] = T.fmod(A[tx], B[tx])\nC[1, tx] = T.truncmod(A[tx], B[tx])",
    )
    kind = DataType(dtype).numpy
    rng = np.random.default_rng(1)
    spread = 4 if dtype == "float16" else 30 if dtype != "float64" else 300
    a = array((10.0 ** rng.uniform(0, spread, 32) * rng.choice([-1, 1], 32)).astype(kind))
    b, c = array((10.0 ** rng.uniform(-spread, 0, 32)).astype(kind)), empty((2, 32), kind)
    a[:3] = [np.inf, -0.0, 6]
    b[:3] = [1, 1, -np.inf]
    OnHost(func)(1, 32, A=a, B=b, C=c)
    with np.errstate(invalid="ignore"):
        want = np.fmod(a.astype(np.float64), b.astype(np.float64))
    for row in c.astype(np.float64):
        np.testing.assert_array_equal(row, want)
        assert (np.signbit(row) == np.signbit(want))[1:].all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_approximations_of_narrow_types(dtype):
    call = "B[tx] = T.tanh(A[tx]) + T.exp2(A[tx])"
    arrays = f'A: T.Buffer((32,), "{dtype}"), B: T.Buffer((32,), "{dtype}")'
    fast = build(kernel(arrays, call), options="-fast-vector-math=1")
    assert has(fast, "tanh.approx.f32", "ex2.approx.ftz.f32")
    check(fast)
    exact = build(kernel(arrays, call))
    assert has(exact, "ex2.approx.ftz.f32") and not has(exact, "tanh.approx.f32")


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_bits(dtype):
    call = f'T.popcount(A[tx]) + T.cast(T.clz(A[tx]), "{dtype}") + (A[tx] << T.cast(3, "{dtype}")) + (A[tx] >> T.cast(1, "{dtype}"))'
    module = function(call, dtype)
    assert has(module, "popc", "clz")
    check(module)


def test_half_floats_are_computed_with_natively():
    module = function("A[tx] * A[tx] + B[tx]", "float16")
    assert has(module, "fma.rn.f16")
    check(module)
    both = "for v in T.vectorized(2):\n    B[tx * 2 + v] = A[tx * 2 + v] + A[tx * 2 + v]"
    assert has(build(kernel('A: T.Buffer((64,), "float16"), B: T.Buffer((64,), "float16")', both)), "add.f16x2")


PAIRS = {
    "A[i] + B[i]": ("fma.rn.bf16x2", "add.rn.bf16x2"), "A[i] - B[i]": ("fma.rn.bf16x2", "sub.rn.bf16x2"),
    "A[i] * B[i]": ("fma.rn.bf16x2", "mul.rn.bf16x2"), "T.max(A[i], B[i])": ("max.bf16x2", "max.bf16x2"),
    "T.min(A[i], B[i])": ("min.bf16x2", "min.bf16x2"), "T.fma(A[i], B[i], A[i])": ("fma.rn.bf16x2", "fma.rn.bf16x2"),
}  # fmt: skip


@pytest.mark.parametrize("expression", PAIRS)
@pytest.mark.parametrize(("arch", "place"), [("sm_80", 0), ("sm_89", 0), ("sm_90", 1), ("sm_120", 1)])
def test_pairs_of_bfloat16(expression, arch, place):
    """Four instructions for eight elements, and nothing that converts; sm_80 has the fused one alone."""
    arrays = ", ".join(f'{name}: T.Buffer((256,), "bfloat16")' for name in "ABC")
    body = f"for v in T.vectorized(8):\n    i = tx * 8 + v\n    C[i] = {expression}"
    module = build(kernel(arrays, body), arch, "-fast-math-contract=0")
    assert module.ptx.count(PAIRS[expression][place]) == 4 and "cvt." not in module.ptx
    check(module)


def test_bfloat16_without_instructions_goes_through_float32():
    arrays = ", ".join(f'{name}: T.Buffer((256,), "bfloat16")' for name in "ABC")
    module = build(kernel(arrays, "C[tx] = A[tx] * B[tx] + A[tx]"), "sm_75")
    assert has(module, "mul.rn.f32", "add.rn.f32") or has(module, "mul.f32", "add.f32")
    assert "bf16" not in module.ptx
    check(module)


def test_products_of_bfloat16_are_fused_where_they_may_be():
    arrays = ", ".join(f'{name}: T.Buffer((256,), "bfloat16")' for name in "ABC")
    body = "for v in T.vectorized(8):\n    C[tx * 8 + v] = A[tx * 8 + v] * B[tx * 8 + v] + A[tx * 8 + v]"
    for arch in ("sm_80", "sm_90"):
        fused, apart = (build(kernel(arrays, body), arch, option) for option in ("", "-fast-math-contract=0"))
        assert fused.ptx.count("fma.rn.bf16x2") == 4 and "mul.rn.bf16x2" not in fused.ptx
        assert apart.ptx.count("fma.rn.bf16x2") == (8 if arch == "sm_80" else 0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_llvms_functions_are_our_own(dtype):
    """LLVM ends the process where it would call a library for them."""
    calls = {
        name: f'T.call_llvm_pure_intrin("{dtype}", "llvm.{name}", A[tx])'
        for name in ("exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
    }  # fmt: skip
    calls |= {name: f'T.call_llvm_pure_intrin("{dtype}", "llvm.{name}", A[tx], A[tx])' for name in ("pow", "atan2")}
    integers = {
        name: f'T.cast(T.call_llvm_pure_intrin("int64", "llvm.{name}", A[tx] * T.cast(3, "{dtype}")), "{dtype}")'
        for name in ("lrint", "llround")
    }
    rows = [f"C[{row}, tx] = {call}" for row, call in enumerate([*calls.values(), *integers.values()])]
    func = kernel(f'A: T.Buffer((32,), "{dtype}"), C: T.Buffer(({len(rows)}, 32), "{dtype}")', "\n".join(rows))
    check(build(func))
    kind = DataType(dtype).numpy
    a, c = array(np.linspace(0.1, 0.9, 32).astype(kind)), empty((len(rows), 32), kind)
    a[0], a[1] = 0.5, 5 / 6  # times 3: halves
    OnHost(func)(1, 32, A=a, C=c)
    renamed = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}
    x = a.astype(np.float64)
    for row, name in enumerate(calls):
        args = [x, x] if name in ("pow", "atan2") else [x]
        want = np.power(10, x) if name == "exp10" else getattr(np, renamed.get(name, name))(*args)
        np.testing.assert_allclose(c[row].astype(np.float64), want, rtol=3 * np.finfo(kind).eps, atol=0)
    tripled = (a * kind.type(3)).astype(np.float64)
    np.testing.assert_array_equal(c[-2], np.rint(tripled))
    np.testing.assert_array_equal(c[-1], np.floor(tripled + 0.5))


def test_an_llvm_function_without_code_is_refused():
    with pytest.raises(CodegenError, match=r"'llvm\.powi' has no code on this target"):
        build(
            kernel(
                'A: T.Buffer((32,), "float32")', 'A[tx] = T.call_llvm_pure_intrin("float32", "llvm.powi", A[tx], tx)'
            )
        )
