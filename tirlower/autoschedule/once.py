"""What a loop does in its first or its last iteration alone: ``if k == 0: C[i, j] = 0`` beside ``C[i, j] += …``.

It comes to stand before the loop, or behind it, where that is the same, so that recipes know the loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tirlower.arith import Analyzer
from tirlower.autoschedule.verbs import Verbs
from tirlower.ir import build
from tirlower.ir.expr import EQ, Expr, IntImm, Var
from tirlower.ir.query import each
from tirlower.ir.stmt import For, IfThenElse, Seq
from tirlower.schedule.handles import LoopRV

__all__ = ["Once", "asked_once", "take_out"]


@dataclass(frozen=True, eq=False)
class Once:
    """A loop around a statement for its first (else its last) iteration, which is its first (or last) statement; ``whole`` says
    that it is its only one, of two cases."""

    loop: For
    first: bool
    whole: bool


def asked_once(root: For) -> Iterator[Once]:
    """What the loops of a nest do in one iteration alone.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i, k in T.grid(8, 4):
    ...         if k == 0:
    ...             B[i] = 0
    ...         B[i] = B[i] + A[i, k]
    ... ''')
    >>> [(one.loop.loop_var.name, one.first, one.whole) for one in asked_once(func.body)]
    [('k', True, False)]
    """
    for loop in each(For, root):
        if isinstance(loop.extent, IntImm) and loop.extent.value < 2:
            continue
        stmts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
        for first in (False, True):  # what stands behind its end goes first: the loop keeps its handle then
            stmt = stmts[0 if first else -1]
            if isinstance(stmt, IfThenElse) and _is_of_one(stmt, loop, first):
                if len(stmts) == 1 or stmt.else_case is None:
                    yield Once(loop, first, len(stmts) == 1)


def _is_of_one(stmt: IfThenElse, loop: For, first: bool) -> bool:
    """Whether a condition is that a loop is in its first (or last) iteration."""
    asked = stmt.condition
    if not isinstance(asked, EQ) or loop.loop_var not in (asked.a, asked.b):
        return False
    other: Expr = asked.b if asked.a is loop.loop_var else asked.a
    if any(var is loop.loop_var for var in each(Var, other)) or other.dtype != loop.loop_var.dtype:
        return False
    end = loop.min if first else build.sub(build.add(loop.min, loop.extent), 1)
    return Analyzer().can_prove_equal(other, end)


def take_out(verbs: Verbs, once: Once, loop: LoopRV, root: LoopRV) -> None:
    """Take it out of its loop.

    Raises :class:`~tirlower.diagnostics.ScheduleError` where that would be another order, or where a step before ended the loop.
    """
    if not isinstance(once.loop.extent, IntImm):  # where there is no iteration at all it does nothing
        verbs.specialize(root, f"{once.loop.extent} >= 1")
    part = loop
    if not once.whole:
        node: object = verbs.get(loop)
        assert isinstance(node, For) and isinstance(node.body, Seq)
        part = verbs.fission(loop, 1)[0] if once.first else verbs.fission(loop, len(node.body.stmts) - 1)[1]
    made = verbs.peel(part, front=1) if once.first else verbs.peel(part, back=1)
    for one in made:
        verbs.simplify(one)
