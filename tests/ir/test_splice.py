from __future__ import annotations

from tirlower.ir import AttrStmt, Bind, Evaluate, For, Seq, Var, const
from tirlower.ir.splice import as_scope, jumps_out, loop_inside, returns, still_about
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


def test_an_attribute_goes_with_the_loop_that_it_is_about() -> None:
    i, j = Var("i"), Var("j")
    loop = For(i, 0, 4, "serial", None, {}, Evaluate(i))
    inner = AttrStmt(0, "pragma_note", const(1), loop)
    outer = AttrStmt(i, "pragma_unroll", const(1), inner)
    assert loop_inside(outer) is loop and loop_inside(loop) is loop and loop_inside(Evaluate(i)) is None
    assert still_about(outer, inner) is outer
    longer = inner.with_(body=loop.with_(extent=const(5)))
    assert still_about(outer, longer).body is longer
    other = For(j, 0, 4, "serial", None, {}, Evaluate(j))
    assert still_about(outer, other) is other and still_about(outer, Evaluate(const(0))).value.value == 0
    assert still_about(inner, other).key == "pragma_note"
