"""A computation in loops of its own for a part of what it did: what ``compute_at`` and ``reverse_compute_at`` have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument, NotApplicable, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import Add, Expr, IntImm, Sub, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.index_map import IndexMap
from tirlower.ir.path import Path
from tirlower.ir.query import mentions
from tirlower.ir.stmt import Block, BufferStore, For, ForKind, IfThenElse, Stmt
from tirlower.schedule.draft import Draft
from tirlower.schedule.memory.caches import Row
from tirlower.schedule.places import loops_at, lost_at
from tirlower.schedule.sites import Site, Steps
from tirlower.schedule.step import Step

__all__ = ["Part", "Source", "lone", "part_of", "place_in", "source_of", "sees_all", "stays_in_scope"]


@dataclass(frozen=True)
class Source:
    """What is moved: a block or what stands in a nest of plain loops, and what it runs over: its iterators, or the loops."""

    path: Steps
    """The place of what goes: the block, or the nest."""
    inner: Stmt
    """The block, or what stands in the loops."""
    loops: tuple[For, ...]
    """The loops that end with it."""
    domains: dict[Var, Range]
    """Iterators (or loops) with their domains."""
    bindings: dict[Var, Expr]

    @property
    def kept(self) -> dict[Var, Range]:
        """Iterators whose values are those of loops around both places: one, where nothing else is asked of them."""
        own = {loop.loop_var for loop in self.loops}
        return {v: Range(e, const(1, e.dtype)) for v, e in self.bindings.items() if not mentions(e, own)}

    @property
    def block(self) -> Block | None:
        """The block, if it is one."""
        return self.inner if isinstance(self.inner, Block) else None

    @property
    def name(self) -> str:
        """What it is called."""
        if isinstance(self.inner, Block):
            return self.inner.name
        return self.inner.buffer.name if isinstance(self.inner, BufferStore) else "it"

    def iterations(self, iters: Mapping[Var, Expr]) -> dict[Var, Expr]:
        """The values of the old loops in which iterators have values."""
        if self.block is None:
            return dict(iters)
        found: dict[Var, Expr] = {}
        for var, value in self.bindings.items():
            if isinstance(value, Var):
                found.setdefault(value, iters[var])
        names = [loop.loop_var for loop in self.loops]
        for loop in self.loops:
            if loop.loop_var not in found and is_const_int(loop.extent, 1):
                found[loop.loop_var] = loop.min
        if all(name in found for name in names):
            return found
        starts = {loop.loop_var: build.add(loop.min, loop.loop_var) for loop in self.loops}
        own = [var for var, value in self.bindings.items() if mentions(value, set(names))]
        forms = [substitute(self.bindings[var], starts) for var in own]
        try:
            inverse, _ = IndexMap(tuple(names), tuple(forms)).non_surjective_inverse([x.extent for x in self.loops])
        except TirError as error:
            raise NotApplicable(
                f"the loops of `{self.name}` cannot be told from its iterators: {error.message}"
            ) from error
        back = inverse.map_indices([iters[var] for var in own])
        return {
            loop.loop_var: found.get(loop.loop_var, build.add(loop.min, value))
            for loop, value in zip(self.loops, back, strict=True)
        }


def source_of(step: Step, site: Site, common: Sequence[Var]) -> Source:
    """What a stage is, whose loops but the common ones end with it. Raises :class:`NotApplicable`."""
    func, path = step.func(site), site.steps
    stmt = Path(path).chain(func)[-1]
    assert isinstance(stmt, Stmt)
    inner = stmt
    while isinstance(inner, For):
        inner = inner.body
    if isinstance(inner, Block):
        path, stmt = (*path, *("body" for _ in range(_depth(stmt, inner)))), inner
        around = [loop for _, loop in loops_at(func, path) if loop.loop_var not in common]
        bindings = {it.var: it.value for it in stmt.iters if it.value is not None}
        domains = {it.var: it.domain for it in stmt.iters}
        if len(bindings) < len(stmt.iters):
            step.refuse(f"the block `{stmt.name}` has iterators without values", stmt)
        return Source(path, stmt, tuple(around), domains, bindings)
    loops: list[For] = []
    inner = stmt
    while isinstance(inner, For):
        loops.append(inner)
        inner = inner.body
    outer = [(way, loop) for way, loop in loops_at(func, path) if loop.loop_var not in common]
    if outer:
        step.refuse(
            "the statement stands in loops with others", stmt, "name the whole nest, or distribute the loop first"
        )
    domains = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
    for loop in loops:
        if mentions(loop.min, set(domains)) or mentions(loop.extent, set(domains)):
            step.refuse(f"the bounds of `{loop.loop_var.name}` depend on another loop of the nest", loop)
    return Source(path, inner, tuple(loops), domains, {loop.loop_var: loop.loop_var for loop in loops})


def stays_in_scope(step: Step, source: Source, func: PrimFunc, path: Steps, body: Steps) -> None:
    """Raise :class:`NotApplicable` where what a stage at a place uses is not declared where the body of a loop can see it."""
    sees_all(
        step, func, path, body, source.inner, f"what `{source.name}` uses is declared where the loop does not see it"
    )


def sees_all(step: Step, func: PrimFunc, path: Steps, other: Steps, stmt: Stmt, why: str) -> None:
    """Raise :class:`NotApplicable` where something that a statement at a place uses is not declared at another place."""
    lost = lost_at(step.facts, func, path, other, stmt)
    if lost is not None:
        step.refuse(why, lost, "lift_alloc, or inline_bind, first")


def _depth(stmt: Stmt, inner: Stmt) -> int:
    """How many loops stand around a statement inside another one."""
    count = 0
    while stmt is not inner:
        assert isinstance(stmt, For)
        stmt, count = stmt.body, count + 1
    return count


@dataclass(frozen=True)
class Part:
    """The new nest: all of it, what stands in its loops (the block, or a statement), and its loops."""

    nest: Stmt
    inner: Stmt
    loops: tuple[For, ...]


def part_of(
    step: Step,
    draft: Draft,
    source: Source,
    needed: Mapping[Var, Range],
    known: Analyzer,
    preserve_unit_loops: bool,
    only: Sequence[Expr] = (),
) -> Part:
    """The computation for the iterations that are needed: a loop ``ax<n>`` for each iterator, of which those of one
    iteration go; what lies outside the old domain is left out by a condition. ``only``: further conditions, on loops around."""
    iters: dict[Var, Expr] = {}
    axes: list[tuple[Var, Expr]] = []
    conditions: list[Expr] = [*only]
    kept = source.kept
    for var, domain in source.domains.items():
        part = needed.get(var) or kept.get(var, domain)
        low, extent = known.simplify(part.min), known.simplify(part.extent)
        value: Expr = build.cast(var.dtype, low)
        if not is_const_int(extent, 1) or preserve_unit_loops:
            axis = Var(f"ax{len(axes)}", var.dtype)
            axes.append((axis, build.cast(var.dtype, extent)))
            value = build.add(value, axis) if not is_const_int(value, 0) else axis
            known.bind(axis, Range(const(0, var.dtype), axes[-1][1]))
        iters[var] = value
        if var in needed:
            end = build.add(domain.min, domain.extent)
            for condition in (build.ge(value, domain.min), build.lt(value, end)):
                if not known.can_prove(condition):
                    conditions.append(known.simplify(condition))
    predicate = reduce(build.logical_and, conditions) if conditions else None
    back = {var: known.simplify(value) for var, value in source.iterations(iters).items()}
    inner = source.inner
    made: Stmt
    if isinstance(inner, Block):
        old = substitute(inner.predicate, back) if not is_const_int(inner.predicate, 1) else None
        both = [one for one in (old, predicate) if one is not None]
        where = known.simplify(reduce(build.logical_and, both)) if both else const(1, "bool")
        made = inner.with_(
            iters=tuple(it.with_(value=iters[it.var]) for it in inner.iters),
            predicate=where,
        )
        draft.same(made, inner, back)
    else:
        made = substitute(inner, back)
        draft.same(made, inner, back)
        if made is inner:
            made = inner.with_(span=inner.span)
            draft.same(made, inner, back)
        if predicate is not None:
            made = IfThenElse(predicate, made)
    nest = made
    loops: list[For] = []
    for axis, extent in reversed(axes):
        nest = For(axis, const(0, axis.dtype), extent, ForKind.SERIAL, None, {}, nest)
        loops.insert(0, nest)
    return Part(nest, made, tuple(loops))


def place_in(step: Step, row: Row, first: int, last: int) -> int:
    """The number in front of which something comes to stand: ``index`` is -1 for the last possible one, -2 for the first."""
    index = step.values.get("index", -1)
    assert isinstance(index, int)
    if index == -1:
        return last
    if index == -2:
        return first
    if not first <= index <= last:
        raise BadArgument(f"Valid index is in the interval [{first}, {last}], but index = {index} is given")
    return index


def lone(index: Expr) -> tuple[Var, Expr] | None:
    """A variable with what is added to it."""
    if isinstance(index, Var):
        return index, const(0, index.dtype)
    if isinstance(index, (Add, Sub)) and isinstance(index.a, Var) and isinstance(index.b, IntImm):
        return index.a, index.b if isinstance(index, Add) else build.sub(const(0, index.b.dtype), index.b)
    return None
