"""What is known of which way a branch goes: LLVM is told, and chooses between a jump and a conditional move by it.

- A *record*: ``if x[i] > best: best = x[i]; where = i``. In whatever order elements come, few of them (or nearly all) are
  the greatest so far, so that a processor foresees the branch, and the loop need not wait for a conditional move in each
  iteration. (One that keeps the greatest value alone is a maximum, which LLVM has instructions for.)
- A branch that *steers*: ``while lo < hi: if table[mid] < key: lo = mid + 1 else: hi = mid``. What it finds in memory is
  what the search is about: were it foreseen, there would be no need to search. Each wrong guess costs more than the two
  conditional moves, and searches of several keys overlap without it.
- A *guard*: ``if i < n and A[i] > x``. The left side is there for the right one's sake, which is mostly evaluated. Told
  nothing, LLVM may put it behind a jump: a merge of sorted arrays took a tenth longer. (Not in conditions of ``while``
  loops, whose numbers of iterations LLVM would guess by it.)
"""

from __future__ import annotations

from collections.abc import Callable

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import GE, GT, LE, LT, And, BufferLoad, Expr, Or, is_const_int
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.stmt import Bind, BufferStore, IfThenElse, Seq, Stmt
from tirlower.ir.structural import structural_equal

__all__ = ["guards", "keeps_a_record", "steers", "variables_in"]


def is_variable(buffer: Buffer) -> bool:
    """Whether a buffer is a variable: one element that a register holds."""
    return buffer.scope == "local" and len(buffer.shape) == 1 and is_const_int(buffer.shape[0], 1)


def variables_in(expr: Expr) -> set[Buffer]:
    """The variables that an expression reads."""
    found: set[Buffer] = set()

    def look(node: Expr) -> None:
        if node.__class__ is BufferLoad and is_variable(node.buffer):
            found.add(node.buffer)

    pre_order_visit(expr, look)
    return found


def keeps_a_record(op: IfThenElse) -> bool:
    """Whether a statement keeps the greatest or least of what it meets, and something beside it."""
    cond = op.condition
    if op.else_case is not None or not isinstance(cond, (LT, LE, GT, GE)):
        return False
    stores = _assignments(op.then_case)
    if stores is None or len(stores) < 2:
        return False
    for kept, met in ((cond.a, cond.b), (cond.b, cond.a)):
        if isinstance(kept, BufferLoad) and is_variable(kept.buffer):
            if any(s.buffer is kept.buffer and structural_equal(s.value, met) for s in stores):
                return True
    return False


def steers(op: IfThenElse, decide: set[Buffer]) -> bool:
    """Whether what memory holds decides which of the integers changes by which a ``while`` loop goes on (``decide``)."""
    if op.else_case is None or not decide or not _reads_memory(op.condition):
        return False
    arms = _assignments(op.then_case), _assignments(op.else_case)
    return all(
        arm and all(s.buffer in decide and s.buffer.dtype.is_integral and not _reads_memory(s.value) for s in arm)
        for arm in arms
    )


def guards(op: And | Or) -> bool:
    """Whether the left side, on where something stands, keeps the right one from reading memory elsewhere."""
    position = op.a
    return (
        isinstance(position, (LT, LE, GT, GE))
        and position.a.dtype.is_integral
        and not _reads(position, lambda buffer: buffer.scope != "local")
        and _reads(op.b, lambda buffer: buffer.scope != "local")
    )


def _assignments(body: Stmt) -> list[BufferStore] | None:
    """The assignments to variables that an arm consists of; None where there is more in it."""
    found: list[BufferStore] = []
    for stmt in body.stmts if isinstance(body, Seq) else (body,):
        if isinstance(stmt, BufferStore) and is_variable(stmt.buffer):
            found.append(stmt)
        elif not isinstance(stmt, Bind):
            return None
    return found


def _reads_memory(expr: Expr) -> bool:
    return _reads(expr, lambda buffer: not is_variable(buffer))


def _reads(expr: Expr, counts: Callable[[Buffer], bool]) -> bool:
    """Whether an expression reads a buffer that counts."""
    found = False

    def look(node: Expr) -> None:
        nonlocal found
        found = found or (node.__class__ is BufferLoad and counts(node.buffer))

    pre_order_visit(expr, look)
    return found
