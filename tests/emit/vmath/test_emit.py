"""The interface: names, lanes, element types, what the code looks like."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from tests.emit.vmath.measure import AVX512
from tests.sampling import in_pairs
from tirlower.diagnostics import CodegenError
from tirlower.emit import vmath
from tirlower.emit.compile import CompileOptions, emit_assembly
from tirlower.emit.llvm_text import DOUBLE, FLOAT, Builder, Module, vector
from tirlower.machine.cpu import host_cpu

pytestmark = pytest.mark.by_day

LANES = [1, 2, 3, 5, 7, 8, 12, 16, 20, 32, 64]
NAMES = sorted(vmath.SUPPORTED)
# the float64 functions that call ``fma`` where the target has none
WITH_EXACT_PRODUCTS = {"cosh", "expm1", "fmod", "log2", "log10", "sigmoid", "sinh", "tanh", "sin", "cos", "tan"}


def arguments(name, dtype, size):
    rng = np.random.default_rng(size)
    x = np.abs(rng.normal(size=size)).astype(dtype)
    if name in ("asin", "acos"):
        x = np.minimum(x, dtype(1))
    # a negative and a large argument in the middle of ordinary ones
    if name in ("sin", "cos", "tan", "exp", "tanh"):
        x[size // 2], x[size // 3] = -2.5, 4e5
    return [x, rng.normal(size=size).astype(dtype)][: vmath.ARITY[name]]


@pytest.mark.parametrize(
    ("target", "name", "lanes"),
    in_pairs(["host", "avx512", "avx2", "sse2"], ["exp", "log", "tanh", "sin", "pow", "atan2", "erf"], LANES, each=3),
)
def test_any_number_of_lanes(loop, exact, ulps, name, lanes, target):
    args = arguments(name, np.float32, 960)
    got = loop(name, "f32", lanes, target)(*args)
    assert ulps(got, exact(name, *[a.astype(np.float64) for a in args])).max() <= vmath.ERRORS[name]


@pytest.mark.parametrize(
    ("target", "name", "lanes"),
    in_pairs(["host", "avx2"], ["exp", "log", "tanh", "cos", "pow", "atan2"], [1, 2, 3, 4, 5, 8, 16, 24]),
)
def test_any_number_of_lanes_of_float64(loop, exact, name, lanes, target):
    args = arguments(name, np.float64, 960)
    got = loop(name, "f64", lanes, target)(*args)
    np.testing.assert_allclose(got, exact(name, *args), rtol=1e-15, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_scalars_and_odd_vectors_of_every_function(loop, exact, ulps, name):
    args = arguments(name, np.float32, 420)
    want = exact(name, *[a.astype(np.float64) for a in args])
    for lanes in (1, 7):
        assert ulps(loop(name, "f32", lanes)(*args), want).max() <= vmath.ERRORS[name]


@pytest.mark.parametrize(
    ("name", "elem", "lanes"),
    in_pairs(
        ["exp", "log", "tanh", "sin", "rsqrt", "expm1", "tan", "asin", "asinh", "acosh", "atanh"],
        ["f16", "bf16"],
        [1, 3, 16],
    ),
)
def test_every_number_of_16_bits(loop, exact, ulps, name, elem, lanes):
    dtype = np.dtype(np.float16 if elem == "f16" else ml_dtypes.bfloat16)
    x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(dtype)
    with np.errstate(all="ignore"):
        errors = ulps(loop(name, elem, lanes)(x), exact(name, x.astype(np.float64)))
    assert errors.max() <= 0.51, x[int(np.argmax(errors))]


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_fast_is_the_same_within_its_range(loop, name):
    x = np.random.default_rng(0).uniform(-1e5, 1e5, 4096).astype(np.float32)
    np.testing.assert_array_equal(loop(name, fast=True)(x), loop(name)(x))


def loop_body(assembly):
    """The assembly of the array loop, without the cold functions."""
    return assembly[re.search(r"^loop:$", assembly, re.MULTILINE).start() :]


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"sin", "cos", "tan", "pow"}))
@pytest.mark.parametrize("target", ["avx512", "avx2"])
def test_vectors_stay_vectors(loop, name, target):
    for elem in ("f32", "f64"):
        body = loop_body(loop(name, elem, 8, target).assembly)
        assert "call" not in body
        assert ("zmm" if (elem, target) == ("f64", "avx512") else "ymm") in body


@pytest.mark.parametrize("name", ["tanh", "sinh", "sigmoid", "tan"])
def test_reciprocals_are_the_same_in_vectors_and_in_what_is_left_over(name):
    """AVX-512 has rough ones for whole registers only, which LLVM makes of no scalar code."""
    for lanes in (16, 5, 1):
        module = Module(name)
        vmath.emit(module, name, "f32", lanes, features=AVX512)
        text = module.text()
        assert "rcp14" not in text and " fdiv " not in text


@pytest.mark.parametrize("name", NAMES)
def test_float64_takes_little_from_the_library(loop, name):
    """Nothing where there is FMA; without, exact products, and ``pow``."""

    def library(lanes, target):
        assembly = loop(name, "f64", lanes, target).assembly
        called = set(re.findall(r"\b(?:callq?|jmp)\s+([\w.@]+)", assembly))
        return {symbol.removesuffix("@PLT") for symbol in called if not symbol.startswith(("tirlower.", ".L"))}

    assert not library(4, "avx2")
    without = {"pow": {"pow"}}.get(name, {"fma"} if name in WITH_EXACT_PRODUCTS else set())
    assert library(2, "sse2") <= without


@pytest.mark.parametrize(("name", "elem"), [(n, e) for n in ("sin", "cos", "tan", "pow") for e in ("f32", "f64")])
def test_rare_lanes_are_one_call_away(loop, name, elem):
    lanes = 16 if elem == "f32" else 8
    (called,) = re.findall(r"\bcallq?\s+([\w.@]+)", loop_body(loop(name, elem, lanes, "avx512").assembly))
    assert called.startswith("tirlower.")
    if name != "pow":
        assert "call" not in loop_body(loop(name, elem, lanes, "avx512", True).assembly)


@pytest.mark.parametrize("name", NAMES)
def test_float32_needs_no_library_on_a_target_without_fma(loop, name):
    assembly = loop(name, "f32", 4, "sse2").assembly
    called = set(re.findall(r"callq?\s+([\w.]+)", assembly))
    assert all(symbol.startswith("tirlower.") for symbol in called), called
    assert not re.search(r"\b[yz]mm|vfmadd", assembly)


@pytest.mark.parametrize("machine", ["aarch64-linux-gnu cortex-a76 neon", "riscv64-linux-gnu sifive-x280 v"])
@pytest.mark.parametrize("name", NAMES)
def test_other_processors_need_no_library_for_float32(machine, name):
    cpu_triple, cpu, feature = machine.split()
    module = Module(name)
    callee = vmath.emit(module, name, "f32", 4, features=frozenset({feature}))
    f = module.function("f", callee.ret, [(t, "x") for t in callee.params])
    b = Builder(f, f.block("entry"))
    b.ret(b.call(callee, f.args))
    assembly = emit_assembly(module.text(), CompileOptions(cpu=cpu, triple=cpu_triple))
    called = set(re.findall(r"\b(?:bl|call|tail)\s+([\w.]+)", assembly))
    assert all(symbol.startswith("tirlower.") for symbol in called), called
    assert re.search("fml[as]|fmadd", assembly) or re.search(r"vfn?m(add|acc|sub|sac)|sqrt", assembly)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid"])
def test_llvm_vectorizes_loops_of_scalars(loop, name):
    if not host_cpu().has("avx2"):
        pytest.skip("the wide registers are those of x86")
    assert re.search(r"\b[yz]mm", loop_body(loop(name, "f32", 1).assembly))


def test_a_function_is_defined_once():
    module = Module("m")
    first = vmath.emit(module, "exp", "f32", 4)
    assert vmath.emit(module, "exp", "f32", 4) is first
    assert (first.ret, first.params) == (vector(FLOAT, 4), (vector(FLOAT, 4),))
    others = [
        vmath.emit(module, "exp", "f32", 4, features=frozenset({"fma"})),
        vmath.emit(module, "exp", "f32", 4, features=frozenset({"avx512f"})),
        vmath.emit(module, "exp", "f32", 4, fast=True),
        vmath.emit(module, "exp", "f32", 1),
        vmath.emit(module, "exp", "f64", 4),
    ]
    assert len({f.text for f in [first, *others]}) == 6
    assert others[-2].ret == FLOAT and others[-1].ret == vector(DOUBLE, 4)


def test_attributes_reach_every_function():
    module = Module("m")
    vmath.emit(module, "sin", "f32", 8, features=frozenset({"fma"}), attrs=[("target-cpu", "haswell")])
    defined = [line for line in module.text().splitlines() if line.startswith("define")]
    groups = dict(re.findall(r"^attributes (#\d+) = \{ (.*) \}$", module.text(), re.MULTILINE))
    assert len(defined) == 3
    assert all('"target-cpu"="haswell"' in groups[re.search(r"#\d+", line)[0]] for line in defined)


@pytest.mark.parametrize(
    ("name", "elem", "lanes", "message"),
    [
        ("expp", "f32", 4, "no vector function 'expp'"),
        ("exp", "i32", 4, "take no 'i32'"),
        ("exp", "f32", 0, "0 lanes"),
    ],
)
def test_mistakes(name, elem, lanes, message):
    with pytest.raises(CodegenError, match=message):
        vmath.emit(Module("m"), name, elem, lanes)
