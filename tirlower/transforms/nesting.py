"""What may be spliced where: scopes of declarations, and jumps that leave a loop."""

from __future__ import annotations

from typing import Any

from tirlower.ir.expr import Call
from tirlower.ir.op import Op
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Bind,
    Block,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Seq,
    Stmt,
    While,
)

__all__ = ["DECLARATIONS", "as_scope", "jumps_out", "returns"]

DECLARATIONS = (Bind, AllocBuffer, AllocConst, DeclBuffer)
"""The statements whose scope is the rest of the Seq they stand in."""

_JUMPS = frozenset((Op.get("tir.break_loop"), Op.get("tir.continue_loop")))
_RETURNS = frozenset((Op.get("tir.ret"), Op.get("tir.thread_return")))


def as_scope(stmt: Stmt) -> Stmt:
    """A statement that can stand in any Seq without its declarations reaching the statements after it.

    Only a declaration that stands alone, without a Seq of its own, needs one: it would extend into the Seq around.
    """
    return Seq((stmt,)) if isinstance(stmt, DECLARATIONS) else stmt


def _calls(stmt: Stmt, ops: frozenset[Op], through_loops: bool) -> bool:
    stack: list[Any] = [stmt]
    while stack:
        op = stack.pop()
        if isinstance(op, Evaluate):
            if isinstance(op.value, Call) and op.value.op in ops:
                return True
        elif isinstance(op, Seq):
            stack += op.stmts
        elif isinstance(op, IfThenElse):
            stack.append(op.then_case)
            if op.else_case is not None:
                stack.append(op.else_case)
        elif isinstance(op, (AttrStmt, Block)) or (through_loops and isinstance(op, (For, While))):
            stack.append(op.body)
    return False


def jumps_out(body: Stmt) -> bool:
    """Whether a loop's body breaks or continues this loop (and not one inside it)."""
    return _calls(body, _JUMPS, through_loops=False)


def returns(stmt: Stmt) -> bool:
    """Whether a statement may return from the function."""
    return _calls(stmt, _RETURNS, through_loops=True)
