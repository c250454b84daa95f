from __future__ import annotations

from tirlower.ir import Bind, Evaluate, Seq, Var, const
from tirlower.ir.splice import as_scope, jumps_out, returns
from tirlower.script import tir as T


def test_a_declaration_alone_gets_a_scope() -> None:
    bind, other = Bind(Var("x"), const(1, "int32")), Evaluate(const(0, "int32"))
    scope = as_scope(bind)
    assert isinstance(scope, Seq) and scope.stmts == (bind,)
    assert as_scope(other) is other and as_scope(scope) is scope
    # In another Seq it stays a scope.
    assert Seq((scope, other)).stmts == (scope, other)


def test_jumps_belong_to_the_innermost_loop() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")):
        for i in range(4):
            for j in range(4):
                if A[j] > 2:
                    with T.attr(0, "pragma_x", 1):
                        T.evaluate(T.continue_loop())
            A[i] = 1

    outer = func.body
    inner = outer.body.stmts[0]
    assert not jumps_out(outer.body) and jumps_out(inner.body) and not returns(outer)


def test_returns_are_found_at_any_depth() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")):
        while A[0] < 3:
            for i in range(4):
                if A[i] > 2:
                    T.evaluate(T.ret(A[i]))
            A[0] = A[0] + 1

    assert returns(func.body) and not jumps_out(func.body)
