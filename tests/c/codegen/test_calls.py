"""The text of calls."""

from __future__ import annotations

import pytest

from tests.c.batch import lines_of, text_of
from tirlower.diagnostics import LoweringError
from tirlower.script import parse


def stored(params: str, value: str, dtype: str) -> list[str]:
    return lines_of(f'@T.prim_func\ndef f({params}, O: T.Buffer((1,), "{dtype}")):\n    O[0] = {value}\n')


def test_bit_patterns():
    assert (
        stored("x: T.float32", "T.reinterpret('int32', x)", "int32")[0] == "O[0] = (int32_t)(uint64_t)tir_bits_f32(x);"
    )
    assert stored("x: T.uint64", "T.reinterpret('float64', x)", "float64")[0] == "O[0] = tir_of_bits_f64(x);"


def test_functions_of_c_and_of_others():
    source = (
        '@T.prim_func\ndef f(x: T.float64, A: T.Buffer((3,), "float64")):\n'
        '    A[0] = T.call_extern("float64", "cbrt", x)\n'
        '    A[1] = T.call_pure_extern("float64", "my_own", x)\n'
    )
    lines = lines_of(source)
    assert lines[0] == "const double result = ((double (*)(double))cbrt)(x);"  # declared by the head, maybe otherwise
    assert "const double result_1 = my_own(x);" in lines
    assert "extern double my_own(double);" in text_of(parse(source)).body


def test_what_is_computed_before_an_effect_stays_before_it():
    lines = lines_of(
        '@T.prim_func\ndef f(A: T.Buffer((3,), "int32")):\n'
        '    A[0] = A[1] * 3 + T.call_extern("int32", "change", A.data)\n'
    )
    (call,) = (place for place, line in enumerate(lines) if "change(A)" in line)
    assert "tir_get_int32(A, 1)" in lines[call - 1] and "tir_get_int32(A, 1)" not in "".join(lines[call:])


def test_a_failure_of_a_callee_is_passed_on():
    source = """
@I.ir_module
class M:
    @T.prim_func(private=True)
    def half(x: T.int32) -> T.int32:
        return x // 2

    @T.prim_func
    def run(A: T.Buffer((4,), "int32")):
        A[0] = M.half(A[1])
"""
    lines = lines_of(source, "run")
    at = next(place for place, line in enumerate(lines) if line.startswith("if (half_kernel("))
    assert lines[at] == "if (half_kernel(A[1], err, &slot) != 0) {" and lines[at + 1] == "return 1;"
    assert "slot" in lines[at + 3]


def test_atomic_operations_are_those_of_one_thread():
    lines = lines_of(
        '@T.prim_func\ndef f(A: T.Buffer((4,), "int32")):\n    T.evaluate(T.atomic_add(T.address_of(A[2]), 5))\n'
    )
    assert lines[1:3] == [
        "const int32_t old = tir_get_int32(t, 0);",
        "tir_put_int32(t, 0, (int32_t)((uint32_t)old + 5u));",
    ]


def test_what_c_does_not_have_is_refused():
    for value, said in (
        ('T.call_llvm_pure_intrin("float64", "llvm.sqrt", x)', "call_llvm_pure_intrin has no form"),
        ('T.call_extern("float64", "two words", x)', "has no name that C could call"),
    ):
        with pytest.raises(LoweringError, match=said):
            stored("x: T.float64", value, "float64")
