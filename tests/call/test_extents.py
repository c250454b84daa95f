from __future__ import annotations

import itertools

import pytest

from tests.call.compounds import compound_of
from tirlower.call.extents import Sym, extent_of, extent_text, names_in
from tirlower.diagnostics import LoweringError
from tirlower.interp.interpreter import interpret
from tirlower.ir import build
from tirlower.ir.dtype import INT32, DataType
from tirlower.ir.expr import EQ, Call, FloatImm, Var
from tirlower.ir.op import Op
from tirlower.script import parse


def test_numbers_symbols_and_compounds() -> None:
    n = Var("n", INT32)
    assert extent_of(build.const(4, INT32), {}, "x") == 4
    assert extent_of(n, {n: "n_1"}, "x") == Sym("n_1", "int32")
    made = compound_of(lambda n, m: n * 2 + m + n, n="int32", m="int32")
    assert (made.text, made.names, made.evaluate({"n": 3, "m": 1})) == ("n * 2 + m + n", ("n", "m"), 10)
    assert [extent_text(e) for e in (4, Sym("n"), made)] == ["4", "n", made.text]
    assert [names_in(e) for e in (4, Sym("n"), made)] == [(), ("n",), ("n", "m")]
    with pytest.raises(LoweringError, match="the shape depends on `n`, which is no parameter"):
        extent_of(n + 1, {}, "the shape")


FORMS = [
    "n // m", "n % m", "T.truncdiv(n, m)", "T.truncmod(n, m)", "T.min(n, m)", "T.max(n, m)", "n << 2", "n >> 1", "n & m",
    "n | m", "n ^ m", "T.Select(n > m, n, m)", "T.if_then_else(n <= m and n != 3, 1, n - m)", "T.Cast('int32', not n == m)",
    "T.Cast('int32', T.Cast('uint8', n))", "T.likely(n + m)",
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_of_the_interpreter(form: str) -> None:
    func = parse(f"@T.prim_func\ndef f(n: T.int32, m: T.int32) -> T.int32:\n    return {form}")
    n, m = func.params
    value = func.body.value.args[0]  # type: ignore[attr-defined, union-attr]
    extent = extent_of(value, {n: "n", m: "m"}, "x")
    assert not isinstance(extent, int)
    for a, b in itertools.product((-7, -1, 0, 1, 3, 300), (-3, -1, 2, 5)):
        assert extent.evaluate({"n": a, "m": b}) == interpret(func, a, b), (a, b)


def test_what_has_no_value_counts_where_it_is_chosen() -> None:
    guarded = compound_of(
        lambda n, m: build.if_then_else(EQ(n, build.const(0, INT32)), 1, m // n), n="int32", m="int32"
    )
    assert guarded.evaluate({"n": 0, "m": 5}) == 1 and guarded.evaluate({"n": 2, "m": 5}) == 2
    with pytest.raises(ZeroDivisionError):
        compound_of(lambda n: (1 // n) * 2, n="int32").evaluate({"n": 0})
    with pytest.raises(OverflowError, match=r"n \* n = 4294967296 does not fit int32"):
        compound_of(lambda n: n * n - n, n="int32").evaluate({"n": 2**16})


def test_more_than_integer_arithmetic_is_left_to_the_interpreter() -> None:
    n = Var("n", INT32)
    half = build.cast(DataType("float32"), n) * FloatImm(DataType("float32"), 0.5)
    rounded = build.cast(INT32, Call(Op.get("tir.ceil"), (half,), DataType("float32")))
    with pytest.raises(LoweringError, match=r"the shape is `.*`, which has more in it than integer arithmetic"):
        extent_of(rounded, {n: "n"}, "the shape")
    extent = extent_of(rounded, {n: "n"}, "the shape", integral=False)
    assert not isinstance(extent, int) and [extent.evaluate({"n": k}) for k in (0, 3, 4)] == [0, 2, 2]
