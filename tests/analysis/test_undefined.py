"""undefined_vars against sets written by hand, one rule of scope each."""

from __future__ import annotations

from tirlower import ir
from tirlower.analysis import undefined_vars

ev = ir.Evaluate


def names(node: object, *defs: ir.Var) -> list[str]:
    return [v.name for v in undefined_vars(node, defs)]


def test_expressions():
    x, y, z = ir.Var("x"), ir.Var("y"), ir.Var("z")
    assert names(ir.Add(y, ir.Mul(x, y))) == ["y", "x"]
    assert names(ir.Add(y, x), y) == ["x"]
    assert names(ir.Let(x, y, ir.Add(x, z))) == ["y", "z"]
    assert names(ir.Let(x, x, x)) == ["x"]
    assert names(ir.Add(ir.Let(x, 1, x), x)) == ["x"]
    assert names(ir.IntImm("int32", 1)) == []


def test_a_buffer_uses_its_data_and_its_symbols():
    n, s, i = ir.Var("n"), ir.Var("s"), ir.Var("i")
    A = ir.Buffer("A", (n,), strides=(s,))
    assert names(ir.BufferLoad(A, (i,))) == ["A", "n", "s", "i"]
    assert names(A, n) == ["A", "s"]
    assert names(A.region()) == ["A", "n", "s"]
    assert names(ir.BufferStore(A, 1.0, (i,)), A.data, n, s) == ["i"]


def test_statements():
    i, n, x = ir.Var("i"), ir.Var("n"), ir.Var("x")
    B = ir.Buffer("B", (n,))
    assert names(ir.For(i, 0, n, "serial", None, {}, ev(ir.Add(i, x)))) == ["n", "x"]
    assert names(ir.Seq((ir.Bind(x, n), ev(x)))) == ["n"]
    assert names(ir.Seq((ir.Seq((ir.Bind(x, 1), ev(x))), ev(x)))) == ["x"]
    assert names(ir.Seq((ir.AllocBuffer(B), ir.BufferStore(B, 1.0, (0,))))) == ["n"]
    assert names(ir.AttrStmt(i, "k", 0, ir.For(i, 0, 4, "serial", None, {}, ev(i)))) == []
    assert names(ir.AttrStmt(i, "k", 0, ev(0))) == ["i"]


def test_a_block():
    i, vi, n = ir.Var("i"), ir.Var("vi"), ir.Var("n")
    A = ir.Buffer("A", (8,))
    it = ir.BlockIter(vi, ir.Range(0, n), "spatial", i)
    region = ir.BufferRegion(A, (ir.Range(vi, 1),))
    block = ir.Block("b", (it,), True, (), (region,), None, (), {}, ir.BufferStore(A, 1.0, (vi,)))
    assert names(block) == ["n", "i", "A"]


def test_a_function_has_none():
    n = ir.Var("n")
    a = ir.Var("a", "handle")
    A = ir.Buffer("A", (n,))
    assert names(ir.PrimFunc((a,), {a: A}, "void", {}, ir.BufferStore(A, 1.0, (ir.Sub(n, 1),)))) == []
