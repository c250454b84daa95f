"""Questions to what is known of functions, remembered by the identity of nodes: a node does not change.

The questions of legality stand here behind one method each, so that how they are answered can change in one place.
"""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.diagnostics import deep_recursion
from tirlower.ir.buffer import IterKind
from tirlower.ir.expr import Call
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.query import each, statements
from tirlower.ir.stmt import Block, Evaluate, For, ForKind, Seq, Stmt, While
from tirlower.poly import Scop, can_bind, can_reorder, carried_reductions, extract, is_parallel, is_vectorizable
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.sites import Steps
from tirlower.schedule.uses import UsesOf

__all__ = ["Facts"]

MOST_NODES = 200_000
"""Of how many statements something is remembered before all is forgotten."""

MOST_FUNCTIONS = 16


class Facts:
    """What schedules that share a past know together."""

    def __init__(self) -> None:
        self._inside: dict[Stmt, tuple[tuple[Steps, Stmt], ...]] = {}
        self._scops: dict[PrimFunc, Scop] = {}
        self.uses = UsesOf()

    def inside(self, root: Stmt) -> tuple[tuple[Steps, Stmt], ...]:
        """The statements under (and including) one that are no sequences, with the way to each, in the text's order."""
        known = self._inside.get(root)
        if known is not None:
            return known
        if len(self._inside) > MOST_NODES:
            self._inside.clear()
        with deep_recursion():
            return self._collect(root)

    def _collect(self, root: Stmt) -> tuple[tuple[Steps, Stmt], ...]:
        known = self._inside.get(root)
        if known is None:
            made: list[tuple[Steps, Stmt]] = [] if isinstance(root, Seq) else [((), root)]
            for name in root.child_names:
                value = getattr(root, name)
                if isinstance(value, Stmt):
                    made += [((name, *way), stmt) for way, stmt in self._collect(value)]
                elif isinstance(value, tuple):
                    for at, one in enumerate(value):
                        if isinstance(one, Stmt):
                            made += [((name, at, *way), stmt) for way, stmt in self._collect(one)]
            self._inside[root] = known = tuple(made)
        return known

    def scop(self, func: PrimFunc) -> Scop:
        """The loops, statements and accesses of a function."""
        found = self._scops.get(func)
        if found is None:
            while len(self._scops) >= MOST_FUNCTIONS:
                del self._scops[next(iter(self._scops))]
            self._scops[func] = found = extract(func)
        return found

    def order_kept(self, func: PrimFunc, order: Sequence[For], reassociate: str | bool) -> tuple[Verdict, str]:
        """Whether loops may be put in an order, outermost first, and what the results are then up to."""
        scop = self.scop(func)
        found = can_reorder(scop, order)
        if found.proved or reassociate is False:
            return found, "bitwise"
        outermost = min(order, key=lambda loop: len(scop.loop(loop).outer))
        sums = {
            a.update.buffer.name: a.statement.node
            for a in scop.inside(scop.loop(outermost))
            if a.update is not None and not a.update.reorders
        }
        if not sums or (reassociate == "declared" and not self._declared(outermost, list(sums.values()))):
            return found, "bitwise"
        return can_reorder(scop, order, reassociate=True), f"reassociated({', '.join(sums)})"

    @staticmethod
    def _declared(root: Stmt, updates: Sequence[Stmt]) -> bool:
        """Whether each of some updates stands in a block whose iterators say that it is a reduction."""
        licensed: set[object] = set()
        for block in each(Block, root):
            if any(it.kind is IterKind.REDUCE for it in block.iters):
                licensed.update(statements(block.body))
        return all(update in licensed for update in updates)

    def concurrent(self, func: PrimFunc, loop: For, kind: ForKind, tag: str = "", reductions: bool = False) -> Verdict:
        """Whether the iterations of a loop may run as a kind of loop says."""
        scop = self.scop(func)
        if kind is ForKind.PARALLEL:
            return is_parallel(scop, loop, reductions=reductions)
        if kind is ForKind.VECTORIZED:
            return is_vectorizable(scop, loop, reductions=reductions)
        if kind is ForKind.THREAD_BINDING:
            return can_bind(scop, loop, tag)
        return PROVED

    def carried(self, func: PrimFunc, loop: For) -> tuple[str, ...]:
        """The buffers whose reductions the iterations of a loop have in common."""
        return tuple(found.buffer.name for found in carried_reductions(self.scop(func), loop))

    @staticmethod
    def leaves(loop: For) -> bool:
        """Whether a statement of a loop's body leaves it early."""
        stack: list[Stmt] = [loop.body]
        while stack:
            stmt = stack.pop()
            if isinstance(stmt, Evaluate):
                if isinstance(stmt.value, Call) and stmt.value.op is _BREAK:
                    return True
            elif not isinstance(stmt, (For, While)):
                stack += [one for one in stmt.children() if isinstance(one, Stmt)]
        return False


_BREAK = Op.get("tir.break_loop")
