"""The styles of a text: what it leaves out, and which short forms it takes; each that says enough parses back."""

from __future__ import annotations

import random

import pytest

from tests.ir.structures import kitchen_sink
from tests.script.forms import FORMS
from tests.script.generated import Generator
from tirlower.diagnostics import TirError
from tirlower.ir import Buffer, BufferStore, FloatImm, IntImm, IRModule, Let, Mul, PrimFunc, Var
from tirlower.ir.dtype import DataTypeError
from tirlower.ir.structural import assert_structural_equal
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.script.printer.style import USUAL, Style

# What states more than the parser takes for granted, or leaves out what it finds out itself.
ENOUGH = [
    {"syntax_sugar": False},
    {"int_dtype": "void"},
    {"buffer_dtype": "void"},
    {"float_dtype": "float32"},
    {"float_dtype": "float16"},
    {"syntax_sugar": False, "int_dtype": "void", "buffer_dtype": "void", "float_dtype": "float32"},
]


def roundtrip(func: PrimFunc | IRModule, **style: object) -> None:
    text = func.script(**style)
    try:
        back = parse(text, check_well_formed=False)
        assert_structural_equal(back, func)
    except TirError as error:
        raise AssertionError(f"{error}\n{text}") from None


@pytest.mark.parametrize("style", ENOUGH, ids=str)
def test_forms_parse_back(style: dict[str, object]):
    for form in FORMS.values():
        roundtrip(form.func, **style)
    roundtrip(kitchen_sink(), **style)


@pytest.mark.parametrize("style", ENOUGH, ids=str)
def test_random_functions_parse_back(style: dict[str, object]):
    for seed in range(60):
        roundtrip(Generator(random.Random(seed)).function(), **style)


def module() -> IRModule:
    found = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def g(x: T.int32) -> T.int32:
        return x + 1

    @T.prim_func
    def f(A: T.Buffer((4, 4), "float32"), n: T.int64):
        C = T.alloc_buffer((4,))
        D = T.alloc_buffer((4,), "float16")
        for i, j in T.grid(4, 4):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(Module.g(3)) + T.float32(0.5)
        for i in range(4):
            C[i] = A[i, 0] - T.float32(2)
            D[i] = T.float16(0.5)
        T.evaluate(n + T.int64(7))
""")
    assert isinstance(found, IRModule)
    return found


def test_types_are_left_out():
    text = module().script()
    assert "T.alloc_buffer((4,))\n" in text and 'T.alloc_buffer((4,), "float16")' in text and "range(4)" in text
    assert "T.float32(0.5)" in text and "T.float16(0.5)" in text and "n + T.int64(7)" in text
    halves = module().script(buffer_dtype="float16", float_dtype="float16")
    assert 'T.alloc_buffer((4,), "float32")' in halves and "D = T.alloc_buffer((4,))\n" in halves
    assert "D[i] = 0.5" in halves and "T.float32(0.5)" in halves
    assert 'A: T.Buffer((4, 4), "float32")' in module().script(buffer_dtype="void")
    longs = module().script(int_dtype="int64")
    assert "n + 7" in longs and "range(T.int32(4))" in longs and "x + T.int32(1)" in longs
    floats = module().script(float_dtype="float32")
    assert "+ 0.5\n" in floats and "- 2.0\n" in floats and "T.float16(0.5)" in floats


def test_floats_are_bare_where_something_says_their_type():
    x, A = Var("x", "float32"), Buffer("A", (4,), "float32")

    def text(value):
        return value.script(float_dtype="float32")

    assert text(x * -2.5) == "x * -2.5" and text(0.1 / x) == "0.1 / x" and text(x < 1e30) == "x < 1e+30"
    assert text(FloatImm("float32", 0.1)) == "T.float32(0.1)" and text(T.exp(T.float32(2))) == "T.exp(T.float32(2))"
    assert text(x + T.float32("inf")) == 'x + T.float32("inf")' and text(x * float("nan")) == 'x * T.float32("nan")'
    assert text(BufferStore(A, FloatImm("float32", 3.0), (0,))) == "A[0] = 3.0"
    assert text(Mul(FloatImm("float32", 2.0), FloatImm("float32", 3.0))) == "T.Mul(T.float32(2), T.float32(3))"
    assert (Var("h", "float16") + 0.5).script(float_dtype="float16") == "h + 0.5"
    assert IntImm("bool", 1).script(int_dtype="bool") == "T.bool(True)"


def test_without_short_forms():
    text = module().script(syntax_sugar=False)
    assert "T.grid" not in text and "remap" not in text and "range(" not in text and "T.Buffer(" not in text
    assert 'with T.block("root"):' in text and "vi = T.axis.spatial(4, i)" in text and "for i in T.serial(4):" in text
    assert "A = T.match_buffer(A_handle, (4, 4))" in text


def test_the_module_has_another_name_where_it_is_called():
    text = module().script(module_alias="cls")
    assert "        cls = Module\n" in text and "cls.g(3)" in text and text.count("cls = Module") == 1
    roundtrip(module(), module_alias="cls")
    roundtrip(module(), module_alias="A", name="Other")  # the parameter has another name then
    assert "cls" not in IRModule({"g": module()["g"]}).script(module_alias="cls")


def test_an_expression_declares_what_it_needs_where_asked():
    x, n, A = Var("x"), Var("n", "int64", nonneg=True), Buffer("A", (8,), "float16")
    expr = T.Cast("int64", A[x]) + n
    assert expr.script(verbose_expr=True) == "\n".join(
        ["x = T.int32()", "n = T.int64(is_size_var=True)", 'A = T.Buffer((8,), "float16")', 'T.Cast("int64", A[x]) + n']
    )
    assert expr.script() == 'T.Cast("int64", A[x]) + n'
    store = BufferStore(A, A[x], (x + 1,))
    assert store.script(verbose_expr=True) == 'x = T.int32()\nA = T.Buffer((8,), "float16")\nA[x + 1] = A[x]'
    # What the expression defines itself is declared as ever.
    y = Var("y")
    assert Let(y, x, y + x).script(verbose_expr=True).split("\n")[0] == "x = T.int32()"


def test_a_style_names_types():
    assert USUAL == Style() and Style(buffer_dtype="void").implied == "void"
    with pytest.raises(DataTypeError, match="no data type 'flot32'"):
        module().script(float_dtype="flot32")
