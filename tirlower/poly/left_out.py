"""What the jumps of a loop leave out: nothing, where it would do nothing in the iterations that they end. And what a failing
assertion keeps from running: what has a meaning there too, or not.

A loop is cut between a jump and statements that it skips, which then run in those iterations too. To know what they
would do, they are put in the place of the jump (for a break, in a loop over the iterations that never come), and the
program so made is extracted: what holds on the way to the jump holds there, and what the statements between state does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tirlower.ir import (
    AllocBuffer,
    Assert,
    Bind,
    BufferStore,
    Call,
    DeclBuffer,
    Evaluate,
    Expr,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Op,
    Purity,
    Seq,
    Stmt,
    StmtMutator,
    Var,
    build,
    pre_order_visit,
    seq,
    substitute,
)
from tirlower.ir.node import Node
from tirlower.ir.query import may_divide_by_zero
from tirlower.poly.conditions import negate
from tirlower.poly.points import may_happen
from tirlower.poly.scop import Loop, Scop

__all__ = ["does_nothing", "is_quiet", "leaves_out_nothing", "may_run_first"]

MAX_ACCESSES = 100
"""A larger program is not extracted again for each jump."""

_BREAK, _CONTINUE = Op.get("tir.break_loop"), Op.get("tir.continue_loop")
_SHIFTS = Op.get("tir.shift_left"), Op.get("tir.shift_right")
_QUIET = (Seq, For, IfThenElse, Bind, BufferStore)


def leaves_out_nothing(
    scop: Scop, loop: Loop, jump: Stmt, side: Sequence[Stmt], other: Sequence[Stmt], behind: bool
) -> bool:
    """Whether statements of a loop's body would do nothing in the iterations that a jump of the loop keeps from them.

    ``side`` are the statements on the jump's side of a cut, ``other`` those on the other side, which use no names of
    theirs; ``behind`` says that these come after the cut.
    """
    node = loop.node
    op = jump.value.op if isinstance(jump, Evaluate) and isinstance(jump.value, Call) else None
    if op is _CONTINUE and not behind:
        return True
    if not isinstance(node, For) or op not in (_BREAK, _CONTINUE) or len(scop.accesses) > MAX_ACCESSES:
        return False
    if not all(map(is_quiet, other)):
        return False
    left = seq(other) if op is _CONTINUE else _later(node, other, behind)
    made = node.with_(body=_Instead({id(jump): left}).visit(seq(side)))
    again = scop.again(scop.func.with_body(_Instead({id(node): made}).visit(scop.func.body)))
    inside = _ids(left)
    touching = [access for access in again.accesses if id(access.statement.node) in inside]
    if any(may_happen(again, access.loops, access.conditions) for access in touching):
        return False
    if any(each.overflows for each in again.loops if id(each.node) in inside):
        return False  # which is an error of its own
    return not any(id(leave) in inside for leave in again.loop(made).leaves)


def does_nothing(scop: Scop, loop: Loop) -> bool:
    """Whether a loop touches no memory, states nothing and cannot fail, wherever it is left: numbers alone tell."""

    def is_empty(each: Loop) -> bool:
        return isinstance(each.node, For) and isinstance(each.node.extent, IntImm) and each.node.extent.value <= 0

    if not is_quiet(loop.node) or any(each.overflows for each in scop.loops if loop in each.nest):
        return False
    return all(any(map(is_empty, access.loops)) for access in scop.inside(loop))


def may_run_first(scop: Scop, asserting: Sequence[Stmt], others: Sequence[Stmt]) -> bool:
    """Whether statements mean something where an assertion of other statements would have ended the function before them.

    They may fail with another error then, by an assertion of theirs too; but no assumption is broken, and nothing is read
    that was not written.
    """
    inside = {each for stmt in asserting for each in _ids(stmt)}
    places = {order for order, _, node in scop.fixtures if isinstance(node, Assert) and id(node) in inside}
    if not any(
        order in places and may_happen(scop, loops, (negate(stated),)) for order, loops, stated in scop.asserted
    ):
        return True
    moved = {each for stmt in others for each in _ids(stmt)}
    fresh = (a for a in scop.accesses if a.data in scop.homes and not a.is_write and id(a.statement.node) in moved)
    return all(is_quiet(stmt, Assert, DeclBuffer) for stmt in others) and not any(fresh)


def _later(node: For, stmts: Sequence[Stmt], behind: bool) -> For:
    """A loop over what is left of another one, from the iteration at hand (``behind``) or after it."""
    own = Var(node.loop_var.name, node.loop_var.dtype)
    start: Expr = node.loop_var if behind else build.add(node.loop_var, 1)
    left = build.sub(build.add(node.min, node.extent), start)
    return For(own, start, left, ForKind.SERIAL, None, {}, substitute(seq(stmts), {node.loop_var: own}))


def is_quiet(stmt: Stmt, *more: type[Stmt]) -> bool:
    """Whether a statement does nothing but access memory: it states nothing, computes nothing that may fail, and calls
    nothing with effects. ``more`` are further statements that it may have."""
    quiet = True

    def look(op: Node) -> bool:
        nonlocal quiet
        quiet = _is_quiet_itself(op, more) if isinstance(op, Stmt) else _is_quiet_expr(op)
        return quiet and not isinstance(op, Evaluate)

    # A node for which `look` is False is not entered, others are still looked at.
    pre_order_visit(stmt, lambda op: quiet and look(op))
    return quiet


def _is_quiet_itself(op: Stmt, more: tuple[type[Stmt], ...]) -> bool:
    if isinstance(op, AllocBuffer):
        return all(isinstance(extent, IntImm) for extent in op.buffer.shape)
    if isinstance(op, Evaluate):
        return isinstance(op.value, IntImm) or (isinstance(op.value, Call) and op.value.op in (_BREAK, _CONTINUE))
    return isinstance(op, (*_QUIET, *more))


def _is_quiet_expr(op: Node) -> bool:
    if isinstance(op, Call):
        pure = isinstance(op.op, Op) and op.op.purity <= Purity.READS
        return pure and (op.op not in _SHIFTS or isinstance(op.args[1], IntImm))
    return not may_divide_by_zero(op)


def _ids(root: Stmt) -> set[int]:
    found: set[int] = set()
    pre_order_visit(root, lambda op: found.add(id(op)) if isinstance(op, Stmt) else False)
    return found


class _Instead(StmtMutator):
    """Puts statements in the place of others, by identity."""

    def __init__(self, changes: Mapping[int, Stmt]) -> None:
        self.changes = changes

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return self.changes.get(id(op), op)

    def visit_For(self, op: For) -> Stmt:
        found = self.changes.get(id(op))
        return self.generic(op) if found is None else found
