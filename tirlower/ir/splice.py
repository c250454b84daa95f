"""What may be spliced where: scopes of declarations, and jumps that leave a loop."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.ir import build
from tirlower.ir.expr import Call
from tirlower.ir.op import Op
from tirlower.ir.refresh import refresh_binders
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
    seq,
)

__all__ = [
    "DECLARATIONS",
    "as_scope",
    "jumps_out",
    "loop_inside",
    "returns",
    "split_head",
    "still_about",
    "without_continues",
]

DECLARATIONS = (Bind, AllocBuffer, AllocConst, DeclBuffer)
"""The statements whose scope is the rest of the Seq they stand in."""

_CONTINUE = Op.get("tir.continue_loop")
_JUMPS = frozenset((Op.get("tir.break_loop"), Op.get("tir.continue_loop")))
_RETURNS = frozenset((Op.get("tir.ret"), Op.get("tir.thread_return")))


def as_scope(stmt: Stmt) -> Stmt:
    """A statement that can stand in any Seq without its declarations reaching the statements after it.

    Only a declaration that stands alone, without a Seq of its own, needs one: it would extend into the Seq around.
    """
    return Seq((stmt,)) if isinstance(stmt, DECLARATIONS) else stmt


def loop_inside(stmt: Stmt) -> For | None:
    """The loop that attributes stand around, nothing between."""
    while isinstance(stmt, AttrStmt):
        stmt = stmt.body
    return stmt if isinstance(stmt, For) else None


def still_about(op: AttrStmt, body: Stmt) -> Stmt:
    """An attribute around what became of its body: the body alone where the loop that it was about is no more."""
    before, after = loop_inside(op), loop_inside(body)
    if before is not None and op.node is before.loop_var and (after is None or after.loop_var is not op.node):
        return body
    return op.with_(body=body)


def split_head(body: Stmt) -> tuple[list[Stmt], list[Stmt]]:
    """The allocations that head a block's body, and the rest."""
    stmts = list(body.stmts) if isinstance(body, Seq) else [body]
    count = 0
    while count < len(stmts) and isinstance(stmts[count], AllocBuffer):
        count += 1
    return stmts[:count], stmts[count:]


def _calls(stmt: Stmt, ops: frozenset[Op], through_loops: bool) -> bool:
    stack: list[Stmt] = [stmt]
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


MAX_COPIES = 16
"""How often what stands behind a ``continue`` is copied."""


def without_continues(body: Stmt) -> Stmt | None:
    """A loop's body in which what a ``continue`` of that loop would skip stands under the opposite condition instead.

    Where only part of a branch ends in a jump, what follows is copied into the other parts. None where there is another
    jump, or one in a scope that cannot be cut (an attribute, a block), or where that takes too many copies.

    >>> from tirlower.ir import Evaluate, Var, IfThenElse, build
    >>> jump, work = Evaluate(build.call("tir.continue_loop")), Evaluate(build.call("tir.call_extern", "work", dtype="int32"))
    >>> print(without_continues(seq(IfThenElse(build.gt(Var("i"), 3), jump, None), work)))
    if i > 3:
        T.evaluate(0)
    else:
        T.evaluate(0)
        T.call_extern("int32", "work")
    """
    try:
        return _Continues().follow(body.stmts if isinstance(body, Seq) else (body,)) if jumps_out(body) else body
    except _CannotCut:
        return None


class _CannotCut(Exception):
    pass


class _Continues:
    def __init__(self) -> None:
        self.copies = 0

    def follow(self, stmts: Sequence[Stmt]) -> Stmt:
        """Statements one after another, those behind a jump only where it is not taken."""
        for at, stmt in enumerate(stmts):
            if jumps_out(stmt):
                rest = self.follow(stmts[at + 1 :])
                return seq(*stmts[:at], self.before(stmt, rest))
        return Seq(tuple(stmts))

    def before(self, stmt: Stmt, rest: Stmt) -> Stmt:
        """A statement, and the rest behind it where no jump skips it."""
        if not jumps_out(stmt):
            if isinstance(rest, Seq) and not rest.stmts:
                return stmt
            self.copies += 1
            if self.copies > MAX_COPIES:
                raise _CannotCut
            return Seq((stmt, rest if self.copies == 1 else refresh_binders(rest)))
        if isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op is _CONTINUE:
            return seq()
        if isinstance(stmt, Seq):
            return self.follow((*stmt.stmts, rest))
        if not isinstance(stmt, IfThenElse):
            raise _CannotCut
        then_case = self.before(stmt.then_case, rest)
        else_case = self.before(seq() if stmt.else_case is None else stmt.else_case, rest)
        if isinstance(then_case, Seq) and not then_case.stmts:
            return IfThenElse(build.logical_not(stmt.condition), else_case, None, span=stmt.span)
        return stmt.with_(then_case=then_case, else_case=else_case)
