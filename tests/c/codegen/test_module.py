"""The text of a whole file, and what is told of it."""

from __future__ import annotations

import pytest

from tests.c.batch import text_of
from tirlower.c.codegen.module import generate, whole_text
from tirlower.c.codegen.runtime import HEAD
from tirlower.diagnostics import LoweringError
from tirlower.ir import IRModule
from tirlower.script import parse

COPY = '@T.prim_func\ndef f(A: T.Buffer((8,), "float16"), n: T.int8, B: T.Buffer((8,), "float32"), h: T.float16):\n    B[n % 8] = T.Cast("float32", A[0] + h)\n'


def test_the_slots_of_a_call_become_its_arguments():
    module = text_of(parse(COPY))
    assert (
        "return f_kernel((void *)(uintptr_t)slots[0], (int8_t)slots[1], (void *)(uintptr_t)slots[2], "
        "tir_float16_of((uint16_t)slots[3]), err);"
    ) in module.body
    assert module.kernels["f"].symbol == "f_packed"
    assert [p.name for p in module.kernels["f"].signature.params] == ["A", "n", "B", "h"]


def test_a_file_has_its_head_once_and_only_what_it_uses():
    one, other = (text_of(parse(COPY), prefix) for prefix in ("a_", "b_"))
    text = whole_text([one, other])
    assert text.startswith(HEAD) and text.count("#include <math.h>") == 1
    assert text.count("static uint32_t tir_encode(") == 1 and "tir_popcount" not in text
    assert "a_f_packed" in text and "b_f_packed" in text
    assert one.text == whole_text([one])


def test_two_functions_of_one_symbol_are_refused():
    func = parse(COPY)
    with pytest.raises(LoweringError, match="two functions of the module have the global symbol 'f'"):
        generate(IRModule({"a": func, "b": func}))


def test_names_of_c_are_no_names_of_functions_or_variables():
    func = parse(
        '@T.prim_func\ndef double(int: T.int32, exp: T.Buffer((1,), "float32")):\n    exp[0] = T.exp(exp[0])\n'
    )
    body = text_of(func).body
    assert "double_kernel(int32_t int_, float *exp_, tir_error *err)" in body and "exp_[0] = expf(exp_[0]);" in body
