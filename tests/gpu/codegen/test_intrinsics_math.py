from __future__ import annotations

import re

import pytest

from tests.gpu.codegen.building import build, check, has, kernel
from tirlower.diagnostics import CodegenError, TirError
from tirlower.ir.intrinsics.arithmetic import BINARY_MATH, UNARY_MATH


def function(call: str, dtype: str = "float32", options: str = "", arch: str = "sm_80"):
    return build(
        kernel(f'A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "{dtype}")', f"B[tx] = {call}"), arch, options
    )


def test_exp2_is_the_hardwares():
    module = function("T.exp2(A[tx])")
    assert has(module, "ex2.approx.f32")
    check(module)


@pytest.mark.parametrize(
    ("name", "instructions"),
    [
        ("exp", ["ex2.approx.f32"]), ("exp10", ["ex2.approx.f32"]), ("log2", ["lg2.approx.f32"]), ("log", ["lg2.approx.f32"]),
        ("log10", ["lg2.approx.f32"]), ("rsqrt", ["rsqrt.approx.f32"]), ("tanh", ["tanh.approx.f32"]),
        ("sin", ["sin.approx.f32"]), ("cos", ["cos.approx.f32"]), ("sigmoid", ["ex2.approx.f32", "rcp.approx.f32"]),
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
    assert module.ptx.count("ex2.approx.f32") == 4
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


FLOAT32_ONLY = ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "pow")
NOWHERE = ("asinh", "acosh", "atanh")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_every_function_has_code_or_an_error(dtype):
    """All functions of the language: LLVM ends the process where it selects no instruction, so none may come to it."""
    calls = {name: f"T.{name}(A[tx])" for name in UNARY_MATH} | {
        name: f"T.{name}(A[tx], A[tx + 1])" for name in BINARY_MATH
    }
    refused = set()
    for name, call in calls.items():
        try:
            module = function(call, dtype)
        except CodegenError as error:
            assert re.search("has no code on a GPU", str(error))
            refused.add(name)
        else:
            assert ".extern .func" not in module.ptx
    expected = set(NOWHERE) | (set(FLOAT32_ONLY) if dtype == "float64" else set())
    assert refused == expected & set(calls)


@pytest.mark.parametrize("name", FLOAT32_ONLY)
def test_what_the_host_takes_from_its_library(name):
    call = f"T.{name}(A[tx], A[tx + 1])" if name in BINARY_MATH else f"T.{name}(A[tx])"
    with pytest.raises(TirError, match=rf"'{name}' on float64 has no code on a GPU"):
        function(call, "float64")
    check(function(call))


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
