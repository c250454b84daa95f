"""verify_ssa: every variable has one definition."""

from __future__ import annotations

from tirlower import ir
from tirlower.analysis import verify_ssa

ev = ir.Evaluate


def ssa(*stmts: ir.Stmt, params: tuple[ir.Var, ...] = ()) -> bool:
    return verify_ssa(ir.PrimFunc(params, {}, "void", {}, ir.Seq(stmts)))


def loop(var: ir.Var, body: ir.Stmt, tag: str | None = None) -> ir.For:
    return ir.For(var, 0, 4, "thread_binding" if tag else "serial", tag, {}, body)


def test_one_definition():
    i, j = ir.Var("i"), ir.Var("j")
    assert ssa(loop(i, ev(i)), loop(j, ev(j)))
    assert not ssa(loop(i, ev(i)), loop(i, ev(i)))
    assert not ssa(loop(i, loop(i, ev(i))))
    assert not ssa(loop(i, ev(i)), params=(i,))
    assert not ssa(ir.Seq((ir.Bind(i, 1), ev(i))), ir.Seq((ir.Bind(i, 1), ev(i))))
    B = ir.Buffer("B", (4,))
    assert not ssa(ir.Seq((ir.AllocBuffer(B), ev(0))), ir.Seq((ir.AllocBuffer(B), ev(0))))


def test_lets_of_one_value():
    x = ir.Var("x")
    assert ssa(ev(ir.Let(x, 1, x)), ev(ir.Let(x, 1, ir.Add(x, 1))))
    assert not ssa(ev(ir.Let(x, 1, x)), ev(ir.Let(x, 2, x)))
    assert not ssa(ev(ir.Let(x, 1, x)), ir.Bind(x, 1))


def test_thread_axes():
    t = ir.Var("t")
    assert ssa(loop(t, ev(t), "threadIdx.x"), loop(t, ev(t), "threadIdx.x"))
    assert not ssa(loop(t, ev(t), "threadIdx.x"), loop(t, ev(t), "threadIdx.y"))
