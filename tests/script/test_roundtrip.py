"""What is printed parses back to a structurally equal program: the corpus, random IR, and large programs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ir.structures import kitchen_sink
from tests.script.forms import FORMS
from tests.script.generated import Generator
from tirlower import ir
from tirlower.diagnostics import ScriptError
from tirlower.ir.structural import assert_structural_equal, structural_hash
from tirlower.script import parse


def roundtrip(func: Any) -> str:
    """Print, parse, compare; and print again, which must give the same text."""
    text = func.script()
    back = parse(text, check_well_formed=False)
    assert_structural_equal(back, func)
    assert structural_hash(back) == structural_hash(func)
    return text


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str):
    func = FORMS[name].func
    text = roundtrip(func)
    assert parse(text).script() == text
    # With the header it is a text of its own.
    assert_structural_equal(parse(func.script(header=True)), func)


def test_every_node():
    roundtrip(kitchen_sink())


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**9))
def test_random_functions(seed: int):
    roundtrip(Generator(random.Random(seed)).function())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**9))
def test_random_modules(seed: int):
    rng = random.Random(seed)
    module = ir.IRModule({name: Generator(rng).function(3) for name in ("main", "callee", "g")}, {"k": [1, "x"]})
    roundtrip(module)


def in_function(*stmts: ir.Stmt, params: tuple[ir.Var, ...] = ()) -> ir.PrimFunc:
    body = stmts[0] if len(stmts) == 1 else ir.Seq(stmts)
    return ir.PrimFunc(params, {}, "void", {"global_symbol": "main"}, body)


def test_thousands_of_statements():
    buffer = ir.Buffer("A", (16,), "int32")
    param = ir.Var("a", "handle")
    x = [ir.Var("x") for _ in range(3000)]
    stmts: list[ir.Stmt] = []
    for i, var in enumerate(x):
        stmts.append(ir.Bind(var, ir.Add(x[i - 1], ir.IntImm("int32", i)) if i else ir.IntImm("int32", 0)))
        stmts += [ir.BufferStore(buffer, ir.Add(var, ir.BufferLoad(buffer, (k,))), (i % 16,)) for k in range(4)]
    func = ir.PrimFunc((param,), {param: buffer}, "void", {"global_symbol": "main"}, ir.Seq(tuple(stmts)))
    text = roundtrip(func)
    assert "x_2999: T.int32 = x_2998 + 2999" in text


@pytest.mark.parametrize("right", [False, True])
def test_chains_of_thousands_of_terms(right: bool):
    x = ir.Var("x")
    chain: ir.Expr = x
    for k in range(5000):
        term = ir.IntImm("int32", k % 5)
        chain = ir.Add(term, chain) if right else ir.Add(chain, term)
    text = roundtrip(in_function(ir.Evaluate(chain), params=(x,)))
    assert "T.meta_var(" in text


def test_nested_calls_and_comparisons_are_broken_too():
    x = ir.Var("x", "float32")
    deep: ir.Expr = x
    for _ in range(700):
        deep = ir.Call(ir.Op.get("tir.exp"), (deep,), "float32")
    flag: ir.Expr = ir.LT(deep, x)
    for _ in range(350):
        flag = ir.Not(ir.And(flag, ir.LT(x, deep)))
    empty = ir.Evaluate(0)
    branch = ir.IfThenElse(ir.LT(x, 1.0), empty, ir.IfThenElse(flag, empty, ir.While(flag, empty)))
    text = roundtrip(in_function(branch, params=(x,)))
    assert "elif" not in text  # the condition needs lines before it


def test_shared_subexpressions_do_not_explode():
    x = ir.Var("x")
    shared: ir.Expr = x
    for _ in range(60):
        shared = ir.Mul(ir.Add(shared, shared), shared)
    func = in_function(ir.Evaluate(shared), params=(x,))
    text = roundtrip(func)
    assert len(text) < 20_000
    assert len(str(shared)) < 20_000


def test_deep_nesting_prints():
    stmt: ir.Stmt = ir.Evaluate(0)
    variables = [ir.Var("i") for _ in range(1000)]
    for var in variables:
        stmt = ir.For(var, 0, 2, "parallel", None, {}, stmt)
    text = in_function(stmt).script(indent=1)
    assert "for i_999 in T.parallel(2):" in text
    # Python itself parses no more than a hundred levels of indentation.
    stmt = ir.Evaluate(0)
    for var in variables[:80]:
        stmt = ir.For(var, 0, 2, "parallel", None, {}, stmt)
    roundtrip(in_function(stmt))


def test_an_annotation_of_the_name_of_its_loop() -> None:
    """The loop's variable is read in front of the loop then, as it looks: the names may be variables."""
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32")):
    for e in T.serial(8, annotations={"e": 3}):
        with T.block("b"):
            v, w = T.axis.remap("SS", [e, e])
            for q in range(w):
                A[q, v] = T.float32(1)
""")
    assert "for q in range(w):" in roundtrip(func)
    with pytest.raises(ScriptError, match="'u' is not defined"):
        parse(func.script().replace("range(w)", "range(u)"))


def test_a_random_function_whose_loop_has_an_annotation_of_its_name() -> None:
    roundtrip(Generator(random.Random(957)).function())
