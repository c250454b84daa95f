"""Questions to what is known of functions, remembered by the identity of nodes: a node does not change.

The questions of legality stand here behind one method each, so that how they are answered can change in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from tirlower.diagnostics import deep_recursion
from tirlower.ir.buffer import IterKind
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.query import each, statements
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    Seq,
    Stmt,
    While,
)
from tirlower.poly import (
    Access,
    Reduction,
    Scop,
    can_bind,
    can_distribute,
    can_reorder,
    carried_reductions,
    extract,
    is_parallel,
    is_vectorizable,
    order_kept,
)
from tirlower.poly.order_kept import Coordinate
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.parts import Part, part_of
from tirlower.schedule.sites import Steps
from tirlower.schedule.uses import UsesOf

__all__ = ["Facts"]

MOST_NODES = 200_000
"""Of how many statements something is remembered before all is forgotten."""

MOST_SCOPS = 64
"""Of how many functions and nests the accesses are remembered."""

MOST_ANSWERS = 4096
_DECLARING = (AllocBuffer, AllocConst, DeclBuffer)
WIDE = 32
"""A sequence of more statements is asked one statement after the other for a name."""


class Facts:
    """What schedules that share a past know together."""

    def __init__(self) -> None:
        self._inside: dict[Stmt, tuple[tuple[Steps, Stmt], ...]] = {}
        self._scops: dict[object, Scop] = {}
        self._parts: dict[tuple[PrimFunc, Steps], Part | None] = {}
        self._answers: dict[object, object] = {}
        self._ends: dict[object, bool] = {}
        self._stating: dict[Seq, tuple[int, ...]] = {}
        self._names: dict[Stmt, frozenset[str]] = {}
        self._declaring: dict[Stmt, tuple[Stmt, ...]] = {}
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

    def declaring(self, root: Stmt) -> tuple[Stmt, ...]:
        """The statements under (and including) one that bring buffers: allocations, constants, views, blocks that match some."""
        found = self._declaring.get(root)
        if found is None:
            if len(self._declaring) > MOST_NODES:
                self._declaring.clear()
            brings = isinstance(root, _DECLARING) or (isinstance(root, Block) and bool(root.match_buffers))
            made: list[Stmt] = [root] if brings else []
            for child in root.children():
                if isinstance(child, Stmt):
                    made += self.declaring(child)
            self._declaring[root] = found = tuple(made)
        return found

    def axis(self, root: Stmt, tag: str, dtype: DataType) -> Var | None:
        """The variable of the first loop under a statement that is bound to a thread axis and counts in a type."""
        for _, loop in self._found(root, tag, lambda stmt: isinstance(stmt, For) and stmt.thread_tag == tag):
            if isinstance(loop, For) and loop.loop_var.dtype is dtype:
                return loop.loop_var
        return None

    def scop(self, func: PrimFunc) -> Scop:
        """The loops, statements and accesses of a function."""
        return self._scop_of(func, func)

    def _scop_of(self, key: object, func: PrimFunc) -> Scop:
        found = self._scops.get(key)
        if found is None:
            while len(self._scops) >= MOST_SCOPS:
                del self._scops[next(iter(self._scops))]
            self._scops[key] = found = extract(func)
        return found

    def part(self, func: PrimFunc, steps: Steps) -> Scop:
        """The loops, statements and accesses of a nest given by its place, in what stands around it.

        What is beside the nest is not among them, so that only what happens inside the nest may be asked of it.
        """
        found = self._part(func, steps)
        return self.scop(func) if found is None else found[0]

    def _part(self, func: PrimFunc, steps: Steps) -> tuple[Scop, tuple[object, ...]] | None:
        place = func, steps
        if place not in self._parts:  # a step asks several times, of what it is about to change
            if len(self._parts) >= MOST_SCOPS:
                self._parts.clear()
            self._parts[place] = None if self._returns(func) else part_of(func, steps, self.uses)
        part = self._parts[place]
        if part is None:
            return None
        scop = self._scop_of(part.key, part.func)
        scop.planned -= part.elsewhere
        return scop, part.key

    def _returns(self, func: PrimFunc) -> bool:
        """Whether a function may end early. Steps make no returns, so that it is asked once of all versions of a function."""
        origin = (func.params, func.attrs.get("global_symbol"))
        found = self._ends.get(origin)
        if found is None:
            self._ends[origin] = found = self.uses(func.body).returns
        return found

    def _asked(
        self, func: PrimFunc, steps: Steps, question: tuple[object, ...], ask: Callable[[Scop], Answer]
    ) -> Answer:
        """The answer to a question to a nest, from a memo where it was asked before of the same nodes."""
        found = self._part(func, steps)
        if found is None:
            return ask(self.scop(func))
        scop, key = found
        known = self._answers.get((key, question))
        if known is None:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            self._answers[key, question] = known = ask(scop)
        return known  # type: ignore[return-value]

    def forget_answers(self) -> None:
        """Forget answers and extractions, so that what is asked next is decided anew."""
        self._answers.clear()
        self._scops.clear()
        self._parts.clear()

    def stale(self, func: PrimFunc) -> str:
        """What is remembered of a function and is not what is found when it is asked anew; nothing where all is."""
        fresh, root = Facts(), func.body
        mine, anew = self.inside(root), fresh.inside(root)
        if len(mine) != len(anew) or any(a != b or x is not y for (a, x), (b, y) in zip(mine, anew, strict=True)):
            return "where its statements stand"
        for _, stmt in anew:
            if self.uses(stmt) != fresh.uses(stmt):
                return f"what {type(stmt).__name__} {_name(stmt)!r} reads and writes".replace(" ''", "")
            known = self._names.get(stmt)
            if known is not None and known != fresh._names_of(stmt):
                return f"the names in {type(stmt).__name__} {_name(stmt)!r}"
        if func in self._scops and _accesses(self._scops[func]) != _accesses(fresh.scop(func)):
            return "its accesses"
        return ""

    def order_kept(
        self, func: PrimFunc, steps: Steps, order: Sequence[For], reassociate: str | bool
    ) -> tuple[Verdict, str]:
        """Whether loops may be put in an order, outermost first, and what the results are then up to. ``steps`` is the place of
        the outermost one as it is now.
        """
        return self._asked(
            func, steps, ("order", *order, reassociate), lambda scop: self._order_kept(scop, order, reassociate)
        )

    def _order_kept(self, scop: Scop, order: Sequence[For], reassociate: str | bool) -> tuple[Verdict, str]:
        outermost = min(order, key=lambda loop: len(scop.loop(loop).outer))

        def ask(freely: bool) -> Verdict:
            return can_reorder(scop, order, reassociate=freely)

        return self._licensed(ask, scop.inside(scop.loop(outermost)), outermost, reassociate)

    def positions_kept(
        self,
        func: PrimFunc,
        steps: Steps,
        positions: Mapping[Stmt, Sequence[Coordinate]],
        part: For | While | None,
        reassociate: str | bool,
    ) -> tuple[Verdict, str]:
        """Whether statements of a loop given with its place (of the function, without it) may run at new positions
        (:func:`tirlower.poly.order_kept`), and what the results are then up to."""
        scop = self.scop(func) if part is None else self.part(func, steps)
        loop = None if part is None else scop.loop(part)
        inside = scop.accesses if loop is None else scop.inside(loop)

        def ask(freely: bool) -> Verdict:
            return order_kept(scop, positions, loop, reassociate=freely)

        return self._licensed(ask, inside, func.body if part is None else part, reassociate)

    def distributed(
        self, func: PrimFunc, steps: Steps, loop: For, at: int | None, reassociate: str | bool
    ) -> tuple[Verdict, str]:
        """Whether a loop given with its place may become several (:func:`tirlower.poly.can_distribute`), and what the results
        are then up to."""
        scop = self.part(func, steps)

        def ask(freely: bool) -> Verdict:
            return can_distribute(scop, loop, at, reassociate=freely)

        return self._licensed(ask, scop.inside(scop.loop(loop)), loop, reassociate)

    def _licensed(
        self, ask: Callable[[bool], Verdict], inside: Sequence[Access], root: Stmt, reassociate: str | bool
    ) -> tuple[Verdict, str]:
        """A verdict, where it helps with the updates of reductions in another order, as far as they may be."""
        found = ask(False)
        if found.proved or reassociate is False:
            return found, "bitwise"
        sums = {
            a.update.buffer.name: a.statement.node for a in inside if a.update is not None and not a.update.reorders
        }
        if not sums or (reassociate == "declared" and not self._declared(root, list(sums.values()))):
            return found, "bitwise"
        return ask(True), f"reassociated({', '.join(sums)})"

    @staticmethod
    def _declared(root: Stmt, updates: Sequence[Stmt]) -> bool:
        """Whether each of some updates stands in a block whose iterators say that it is a reduction."""
        licensed: set[object] = set()
        for block in each(Block, root):
            if any(it.kind is IterKind.REDUCE for it in block.iters):
                licensed.update(statements(block.body))
        return all(update in licensed for update in updates)

    def concurrent(
        self, func: PrimFunc, steps: Steps, loop: For, kind: ForKind, tag: str = "", reductions: bool = False
    ) -> Verdict:
        """Whether the iterations of a loop, given with its place, may run as a kind of loop says."""

        def ask(scop: Scop) -> Verdict:
            if kind is ForKind.PARALLEL:
                return is_parallel(scop, loop, reductions=reductions)
            if kind is ForKind.VECTORIZED:
                return is_vectorizable(scop, loop, reductions=reductions)
            if kind is ForKind.THREAD_BINDING:
                return can_bind(scop, loop, tag)
            return PROVED

        return self._asked(func, steps, ("kind", loop, kind, tag, reductions), ask)

    def carried(self, func: PrimFunc, steps: Steps, loop: For) -> tuple[Reduction, ...]:
        """The reductions that the iterations of a loop have in common."""

        def ask(scop: Scop) -> tuple[Reduction, ...]:
            return tuple(carried_reductions(scop, loop))

        return self._asked(func, steps, ("carried", loop), ask)

    def reorders(self, func: PrimFunc, steps: Steps, loop: For) -> bool:
        """Whether all reductions that the iterations of a loop have in common are the same in any order, to the bit."""

        def ask(scop: Scop) -> bool:
            return all(a.update is None or a.update.reorders for a in scop.inside(scop.loop(loop)))

        return self._asked(func, steps, ("reorders", loop), ask)

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

    def stating(self, seq: Seq) -> tuple[int, ...]:
        """The numbers of the statements of a sequence that state or name something for those behind them."""
        found = self._stating.get(seq)
        if found is None:
            if len(self._stating) > MOST_SCOPS:
                self._stating.clear()
            kinds = (Evaluate, Assert, Bind)
            found = tuple([at for at, stmt in enumerate(seq.stmts) if stmt.__class__ in kinds])
            self._stating[seq] = found
        return found

    # Names

    def named(self, root: Stmt, name: str) -> Iterator[tuple[Steps, Stmt]]:
        """The loops, blocks, stores and allocations of a name under a statement, each with the way to it, in the text's order."""
        return self._found(root, name, lambda stmt: _name(stmt) == name)

    def _found(self, root: Stmt, name: str, wanted: Callable[[Stmt], bool]) -> Iterator[tuple[Steps, Stmt]]:
        """The statements that are wanted, in those that have a name or an axis in them."""
        stack: list[tuple[Steps, Stmt]] = [((), root)]
        while stack:
            way, stmt = stack.pop()
            known = self._names_of(stmt)
            if known is not None and name not in known:
                continue
            if wanted(stmt):
                yield way, stmt
            inside: list[tuple[Steps, Stmt]] = []
            for field in stmt.child_names:
                value = getattr(stmt, field)
                if value.__class__ is tuple:
                    known_of = self._names.get
                    inside += [
                        ((*way, field, at), one)
                        for at, one in enumerate(value)
                        if ((names := known_of(one)) is None or name in names) and isinstance(one, Stmt)
                    ]
                elif isinstance(value, Stmt):
                    inside.append(((*way, field), value))
            stack += inside[::-1]

    def _names_of(self, stmt: Stmt) -> frozenset[str] | None:
        """The names and thread axes under a statement; None for one with very many statements in it, which are then asked one by one."""
        found = self._names.get(stmt)
        if found is not None:
            return found
        if isinstance(stmt, Seq) and len(stmt.stmts) > WIDE:
            return None  # would be made anew by each step
        if len(self._names) > MOST_NODES:
            self._names.clear()
        names = {_name(stmt)}
        if isinstance(stmt, For) and stmt.thread_tag is not None:
            names.add(stmt.thread_tag)
        for child in stmt.children():
            if isinstance(child, Stmt):
                inner = self._names_of(child)
                if inner is None:
                    return None
                names |= inner
        self._names[stmt] = found = frozenset(names)
        return found


def _accesses(scop: Scop) -> list[tuple[object, ...]]:
    """The accesses of a function with their loops and conditions, to be compared with those of another extraction."""
    return [
        (
            access.node,
            access.is_write,
            tuple(loop.node for loop in access.statement.loops),
            tuple(map(str, access.indices or ())),
            tuple(map(str, access.conditions)),
        )
        for access in scop.accesses
    ]


def _name(stmt: Stmt) -> str:
    """The name by which a statement is looked up: of a loop's variable, a block, the buffer that is written or allocated."""
    if isinstance(stmt, For):
        return stmt.loop_var.name
    if isinstance(stmt, Block):
        return stmt.name
    return stmt.buffer.name if isinstance(stmt, (BufferStore, AllocBuffer, AllocConst)) else ""


Answer = TypeVar("Answer")
_BREAK = Op.get("tir.break_loop")
