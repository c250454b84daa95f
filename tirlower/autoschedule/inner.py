"""The nests inside of a loop that no recipe takes: in one iteration of it they are a program of their own.

What carries values from one iteration to the next keeps its loop, whatever is made of an iteration: the sweeps of a time step, a row
of a factorization, the rows of a triangle. The loop's variable is a number that the iteration is told, as a parameter is.
"""

from __future__ import annotations

from typing import Final

from tirlower.ir import build
from tirlower.ir.expr import Call, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.query import statements
from tirlower.ir.stmt import (
    DECLARATIONS,
    Assert,
    AttrStmt,
    Block,
    Evaluate,
    For,
    IfThenElse,
    Seq,
    Stmt,
    While,
    seq,
)

__all__ = ["one_iteration"]

_ASSUME: Final = Op.get("tir.assume")


def one_iteration(func: PrimFunc, root: For) -> PrimFunc:
    """One iteration of a loop of a function, and of those around it, as a function of their variables; the nests beside it are
    left out. Its statements are the function's own, by identity.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((8, 9), "int32")):
    ...     for t in range(8):
    ...         for i in range(9):
    ...             A[t, i] = A[t, i] + t
    ...     for i in range(8):
    ...         A[i, i] = 0
    ... ''')
    >>> print(one_iteration(func, func.body.stmts[0]))
    @T.prim_func
    def f(A: T.Buffer((8, 9), "int32"), t: T.int32):
        T.assume(t >= 0)
        T.assume(t < 8)
        for i in range(9):
            A[t, i] = A[t, i] + t
    """
    told: list[Var] = []
    body = _opened(func.body, root, told)
    return func.with_(params=(*func.params, *told), body=body)


def _opened(stmt: Stmt, root: For, told: list[Var]) -> Stmt:
    """A statement around a loop with the body of the loop, and of those between, in place of them; of what stands before it, what
    declares and what states."""
    if isinstance(stmt, Seq):
        at = next(at for at, one in enumerate(stmt.stmts) if _holds(one, root))
        before = [one for one in stmt.stmts[:at] if isinstance(one, (*DECLARATIONS, Assert)) or _states(one)]
        return seq(before, _opened(stmt.stmts[at], root, told))
    if isinstance(stmt, For):
        told.append(stmt.loop_var)
        facts = build.ge(stmt.loop_var, stmt.min), build.lt(stmt.loop_var, build.add(stmt.min, stmt.extent))
        body = stmt.body if stmt is root else _opened(stmt.body, root, told)
        return seq([Evaluate(build.call("tir.assume", fact)) for fact in facts], body)
    if isinstance(stmt, IfThenElse):
        if _holds(stmt.then_case, root):
            return stmt.with_(then_case=_opened(stmt.then_case, root, told), else_case=None)
        assert stmt.else_case is not None
        return stmt.with_(then_case=seq(), else_case=_opened(stmt.else_case, root, told))
    assert isinstance(stmt, (AttrStmt, Block, While))
    body = _opened(stmt.body, root, told)
    return body if isinstance(stmt, While) else stmt.with_(body=body)


def _holds(stmt: Stmt, root: For) -> bool:
    return any(inner is root for inner in statements(stmt))


def _states(stmt: Stmt) -> bool:
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op is _ASSUME
