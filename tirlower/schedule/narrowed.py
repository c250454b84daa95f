"""Two programs cut down to where they differ, so that a question costs what a step changes, not what the function weighs.

There are two cuts. *Near*: one run of the innermost statement around all that changed, with every buffer as it may be then,
and as it is left behind. Where both programs do the same to memory there, they do so in every run, and the function computes the same; where they do not,
it may all the same, and nothing is said. *Apart*: the whole function without what has no part in it, being neither changed nor
about memory that anything changed accesses; its answer is that of the whole function.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tirlower.arith.bounds import is_index_type
from tirlower.arith.conditions import conjuncts, negated
from tirlower.ir.expr import EQ, GE, GT, LE, LT, NE, And, BufferLoad, Expr, Not, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import each, has, mentions
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
from tirlower.poly import extract
from tirlower.poly.scop import Scop
from tirlower.rewrite.fact_mutator import without_likely
from tirlower.schedule.trail import Trail
from tirlower.schedule.uses import UsesOf

__all__ = ["Narrowed", "Narrowing"]


@dataclass(frozen=True)
class Narrowed:
    """The function ``before`` and ``after``, cut down.

    ``around`` are the loops of one iteration of which is asked. ``given`` is memory that was allocated before, and is looked at
    behind. ``written`` is memory that is written by what was cut off. ``was`` says of a statement that was copied, in either of
    the two, which statement it is.
    """

    before: PrimFunc
    after: PrimFunc
    around: tuple[For, ...] = ()
    given: frozenset[Var] = frozenset()
    written: frozenset[Var] = frozenset()
    was: Mapping[Stmt, Stmt] = field(default_factory=dict)

    def scops(self) -> tuple[Scop, Scop]:
        """Both programs extracted."""
        found = [extract(func, around=self.around, written=self.written) for func in (self.before, self.after)]
        for scop in found:
            for data in self.given:
                scop.homes.pop(data, None)
                scop.planned.discard(data)
        return found[0], found[1]


@dataclass(frozen=True)
class _Level:
    """A statement around what changed, as it was and as it is, and the field in which that is; of a sequence, the numbers from
    ``low`` to ``high``."""

    old: Stmt
    new: Stmt
    name: str = ""
    low: int = 0
    high: int = 0


class Narrowing:
    """The innermost place of all that changed between two functions, from the trails of the one to the other: its statements
    before and after, and what stands around. ``also`` is memory that counts as changed."""

    def __init__(self, func: PrimFunc, new: PrimFunc, root: Trail, uses: UsesOf, also: Collection[Var] = ()) -> None:
        self.func = func
        self.new = new
        self.uses = uses
        self.levels: list[_Level] = []
        self.memory = _changed(root, uses) | frozenset(also)
        self.left_out: list[Stmt] = []
        trail = root
        while _passes(trail):
            [(step, trail_)] = trail.children.items()
            self._enter(trail, step)
            trail = trail_
        self.before: list[Stmt] = [trail.old]
        self.after: list[Stmt] = list(trail.parts)
        if isinstance(trail.old, Seq) and trail.children and not (trail.gone or trail.changed):
            self._cut(trail)

    def _enter(self, trail: Trail, step: object) -> None:
        if isinstance(step, int):
            self.levels.append(_Level(trail.old, trail.old, "", step, step))
        else:
            self.levels.append(_Level(trail.old, trail.parts[0], str(step)))

    def _cut(self, trail: Trail) -> None:
        """Of a sequence in which several statements change, those and what has a part in it."""
        assert isinstance(trail.old, Seq)
        stmts, behind = trail.old.stmts, trail.parts[trail.first + trail.own :]
        if not trail.flat and (trail.first or behind):
            return
        numbers = [step for step in trail.children if isinstance(step, int)]
        low, high = (0 if trail.first else min(numbers)), (len(stmts) - 1 if behind else max(numbers))
        before: list[Stmt] = []
        after: list[Stmt] = list(trail.parts[: trail.first])
        for number in range(low, high + 1):
            stmt, child = stmts[number], trail.children.get(number)
            same = child is None or child.same
            if same and self.is_apart(stmt):
                self.left_out.append(stmt)
                after += [] if child is None else child.extra
                continue
            before.append(stmt)
            after += [stmt] if child is None else child.parts
        self.before, self.after = before, [*after, *behind]
        self.levels.append(_Level(trail.old, trail.old, "", low, high))

    def is_apart(self, stmt: Stmt) -> bool:
        """Whether a statement has no part in what changed."""
        if isinstance(stmt, (AllocBuffer, AllocConst)):
            return stmt.buffer.data not in self.memory
        if isinstance(stmt, (Bind, DeclBuffer, Evaluate)):
            return False
        found = self.uses(stmt)
        return not (found.effects or found.pointers) and found.memory.isdisjoint(self.memory)

    def _beside(self) -> Iterator[Stmt]:
        """The statements beside the place of what changed, inside of any statement around."""
        for level in self.levels:
            old = level.old
            if isinstance(old, Seq):
                yield from old.stmts[: level.low]
                yield from old.stmts[level.high + 1 :]
            elif isinstance(old, IfThenElse):
                other = old.else_case if level.name == "then_case" else old.then_case
                if other is not None:
                    yield other
            elif isinstance(old, Block) and level.name == "body" and old.init is not None:
                yield old.init
        yield from self.left_out

    # Near

    def near(self, values: Iterable[Mapping[Var, Expr]], copied: Collection[Var] = ()) -> Narrowed | None:
        """One run of the innermost place, from any memory; None where that alone cannot be asked, or is everything.

        ``values`` are those that statements after have of the loops of before. ``copied`` is memory that new statements copy:
        whether something has been written there is told by what comes before.
        """
        mine = [*self.before, *self.after]
        used = [self.uses(stmt) for stmt in mine]
        if any(one.effects or one.pointers for one in used):
            return None
        here = _Around(frozenset().union(*(one.memory for one in used)))
        if not all(here.enter(level) for level in self.levels):
            return None
        around, given, allocated = here.loops, here.given, here.allocated
        allocated.update(one.buffer.data for one in self.before if isinstance(one, (AllocBuffer, AllocConst)))
        fixed = {loop.loop_var for loop in around}
        if any(loop.loop_var in fixed for stmt in mine for loop in each(For, stmt)):
            return None  # the loops of a thread axis share their variable
        if any(var in fixed and value is not var for one in values for var, value in one.items()):
            return None  # of another iteration
        for stmt in self._beside():
            found = self.uses(stmt)
            if found.effects or found.pointers:
                return None
            if not allocated.isdisjoint(found.memory):
                given |= allocated & found.memory
        if not (around or given) or not given.isdisjoint(copied):
            return None
        left = set().union(*(one.memory for one in used[len(self.before) :]))
        written = {buffer.data for one in used[: len(self.before)] for buffer in one.writes}
        if not given.isdisjoint(written - left):
            return None  # what was there is not written any more: what comes behind says whether it matters
        before, after = (self._alone(here.kept, side) for side in (self.before, self.after))
        return Narrowed(before, after, tuple(around), frozenset(given))

    def _alone(self, kept: Sequence[Sequence[Stmt]], stmts: Sequence[Stmt]) -> PrimFunc:
        made = _joined(stmts)
        for level, stating in zip(reversed(self.levels), reversed(kept), strict=True):
            old = level.old
            if isinstance(old, Seq):
                made = _joined([*stating, made])
            elif isinstance(old, Block):
                predicate = const(1, "bool") if _loads(old.predicate) else old.predicate
                made = old.with_(init=None, body=made, predicate=predicate)
            elif isinstance(old, AttrStmt):
                made = old.with_(body=made)
            elif isinstance(old, IfThenElse):
                known = _known(old.condition, level.name == "then_case")
                if known is not None:
                    made = old.with_(condition=known, then_case=made, else_case=None)
        return self.func.with_(body=made)

    # Apart

    def apart(self) -> Narrowed | None:
        """Both functions without what has no part in what changed; None where that is nothing."""
        was: dict[Stmt, Stmt] = {}
        sides = [_joined(self.before), _joined(self.after)]
        for level in reversed(self.levels):
            old = level.old
            if isinstance(old, Seq):
                parts = [self._with_part(old.stmts[: level.low]), self._with_part(old.stmts[level.high + 1 :])]
                sides = [_joined([*parts[0], side, *parts[1]]) for side in sides]
                continue
            sides = [stmt.with_(**{level.name: side}) for stmt, side in zip((old, level.new), sides, strict=True)]
            was[sides[0]], was[sides[1]] = old, level.new
        if not self.left_out:
            return None
        funcs = [func.with_(body=side) for func, side in zip((self.func, self.new), sides, strict=True)]
        written = {buffer.data for stmt in self.left_out for buffer in self.uses(stmt).writes}
        return Narrowed(funcs[0], funcs[1], written=frozenset(written), was=was)

    def _with_part(self, stmts: Sequence[Stmt]) -> list[Stmt]:
        kept: list[Stmt] = []
        for stmt in stmts:
            (self.left_out if self.is_apart(stmt) else kept).append(stmt)
        return kept


class _Around:
    """What stands around one run of a place, as far as it says something of that: loops, names, facts, and the memory allocated
    (``given``: before the innermost loop)."""

    def __init__(self, memory: frozenset[Var]) -> None:
        self.memory = memory
        self.loops: list[For] = []
        self.bound: set[Var] = set()
        self.allocated: set[Var] = set()
        self.given: set[Var] = set()
        self.kept: list[list[Stmt]] = []

    def enter(self, level: _Level) -> bool:
        """Go into a statement; False where what it says cannot be said of one run."""
        self.kept.append([])
        old = level.old
        if isinstance(old, Block):
            self.bound.update(it.var for it in old.iters)
            return level.name == "body" and not old.match_buffers and not _loads(*(it.value for it in old.iters))
        if isinstance(old, (For, While)):
            self.given |= self.allocated
            self.allocated.clear()
            return isinstance(old, While) or self._loop(old)
        if isinstance(old, Seq):
            return all(self._states(stmt) for stmt in old.stmts[: level.low])
        return isinstance(old, IfThenElse) or (isinstance(old, AttrStmt) and not _loads(old.value))

    def _loop(self, loop: For) -> bool:
        self.loops.append(loop)
        return not any(_loads(bound) or mentions(bound, self.bound) for bound in (loop.min, loop.extent))

    def _states(self, stmt: Stmt) -> bool:
        """Keep a statement in front that says something; False for one that names memory."""
        if isinstance(stmt, (AllocBuffer, AllocConst)):
            if stmt.buffer.data in self.memory:
                self.allocated.add(stmt.buffer.data)
                self.kept[-1].append(stmt)
            return True
        if isinstance(stmt, DeclBuffer):  # of memory that is told by itself
            self.kept[-1].append(stmt)
            return not _loads(*stmt.buffer.shape, *stmt.buffer.strides, stmt.buffer.elem_offset)
        if isinstance(stmt, (Bind, Evaluate)) and not _loads(stmt.value):
            self.kept[-1].append(stmt)
        if isinstance(stmt, Bind):
            self.bound.add(stmt.var)
            return not stmt.value.dtype.is_handle
        return True


def _passes(trail: Trail) -> bool:
    """Whether all that changed of a statement is inside of one of those in it."""
    if trail.gone or trail.changed or trail.first or len(trail.children) != 1:
        return False
    if not trail.flat:
        return len(trail.parts) == trail.own
    [(step, inner)] = trail.children.items()
    assert isinstance(trail.old, Seq) and isinstance(step, int)
    return len(trail.parts) == len(trail.old.stmts) - 1 + len(inner.parts)


def _changed(root: Trail, uses: UsesOf) -> frozenset[Var]:
    """The memory of all that was changed, put in, or taken out."""
    found: set[Var] = set()
    stack = [root]
    while stack:
        trail = stack.pop()
        parts = trail.parts
        if trail.gone or trail.changed:
            found |= uses(trail.old).memory
        else:
            stack += trail.children.values()
            parts = trail.extra
        for part in parts:
            found |= uses(part).memory
            if isinstance(part, (AllocBuffer, AllocConst)):
                found.add(part.buffer.data)
    return frozenset(found)


def _known(condition: Expr, holds: bool) -> Expr | None:
    """What a condition around one run says of it, where it holds or where it does not: comparisons of indices that all hold. A
    run of which more is left open does what all do; one of several that may hold would be asked about case by case."""
    parts = conjuncts(condition if holds else negated(without_likely(condition)))
    parts = [negated(part.a) if isinstance(part, Not) else part for part in parts]
    kept: list[Expr] = [
        part for part in parts if isinstance(part, _COMPARISONS) and is_index_type(part.a.dtype) and not _loads(part)
    ]
    return functools.reduce(And, kept) if kept else None


def _loads(*values: Expr | None) -> bool:
    return any(has(BufferLoad, value) for value in values if value is not None)


def _joined(stmts: Sequence[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts)) if stmts else _NOTHING


_COMPARISONS: Final = (EQ, NE, LT, LE, GT, GE)
_NOTHING: Final = Evaluate(const(0, "int32"))
