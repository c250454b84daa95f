"""Calls by other names."""

from __future__ import annotations

from tirlower.ir import Buffer, BufferStore, Call, Evaluate, GlobalVar, Op, Seq, Var
from tirlower.ir.callees import rename_callees


def test_calls_are_renamed_wherever_they_stand():
    x, A = Var("x"), Buffer("A", (4,), "int32")
    inner = Call(GlobalVar("f"), (x,), "int32")
    other = Evaluate(Call(GlobalVar("h"), (), "int32"))
    extern = Evaluate(Call(Op.get("tir.call_extern"), ("f",), "int32"))
    body = Seq((BufferStore(A, Call(GlobalVar("g"), (inner + 1,), "int32"), (0,)), other, extern))
    renamed = rename_callees(body, {"f": "g", "g": "f"})
    call = renamed.stmts[0].value
    assert (call.op, call.args[0].a.op, call.args[0].a.args) == (GlobalVar("f"), GlobalVar("g"), (x,))
    assert renamed.stmts[1] is other and renamed.stmts[2] is extern
    assert rename_callees(body, {"i": "j"}) is body
