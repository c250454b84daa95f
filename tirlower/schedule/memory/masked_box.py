"""The box of a tile that is touched under a mask: a split whose last part has fewer iterations leaves a condition on its inner loop.

All accesses begin at the same element, go as far, and run under the same conditions, said in terms of where they are in the tile: then
the copies of the tile are under these conditions too, word for word, and what is proved of them needs no flow of values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Select, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.path import Path
from tirlower.ir.query import each, has, mentions
from tirlower.ir.stmt import Bind, Block, BufferStore, For, IfThenElse, Seq, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.schedule.memory.staging import Box
from tirlower.schedule.places import headers, loads_in, loops_at, using
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["masked_box"]


@dataclass(frozen=True)
class _Touched:
    """What an access touches: where it starts and how far it goes in each dimension, and under which conditions on the axes."""

    mins: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    masks: tuple[Expr, ...]

    def is_like(self, other: _Touched) -> bool:
        """Whether another access touches the same."""
        mine, theirs = ((*one.mins, *one.extents, *one.masks) for one in (self, other))
        return len(mine) == len(theirs) and all(map(structural_equal, mine, theirs))


def masked_box(step: Step, func: PrimFunc, buffer: Buffer, path: Steps) -> Box | None:
    """The box around what is touched of a buffer under a place, where all of it is under the same mask; else None."""
    root = Path(path).chain(func)[-1]
    assert isinstance(root, Stmt)
    known = Analyzer()
    for _, loop in loops_at(func, path):
        known.bind(loop.loop_var, Range(loop.min, loop.extent))
    axes = tuple(Var(f"ax{n}", extent.dtype) for n, extent in enumerate(buffer.shape))
    found: _Touched | None = None
    for way, stmt in using(step.facts, root, buffer):
        places: list[BufferLoad | BufferStore] = [*loads_in(stmt, buffer)]
        if isinstance(stmt, BufferStore) and stmt.buffer is buffer:
            places.append(stmt)
        for node in places:
            chain = [one for one in Path(way).chain(root) if isinstance(one, Stmt)]
            one = None if node.predicate is not None else _touched(chain, node.indices, axes, known)
            if one is None or not (found is None or found.is_like(one)):
                return None
            found = one
    inside = {op.var for op in each(Bind, root)}
    if found is None or not found.masks or any(mentions(one, inside) for one in (*found.mins, *found.masks)):
        return None
    none = (None,) * len(axes)
    return Box(found.mins, found.extents, none, none, found.masks, axes)


def _touched(chain: list[Stmt], indices: tuple[Expr, ...], axes: tuple[Var, ...], known: Analyzer) -> _Touched | None:
    """What an access touches that the last of some statements makes, each directly in the one before; None where that is no tile."""
    own: dict[Var, Expr] = {}
    values: dict[Var, Expr] = {}
    held: list[Expr] = []
    for stmt, inner in zip(chain, [*chain[1:], None], strict=True):
        if isinstance(stmt, For):
            if not (is_const_int(stmt.min, 0) and isinstance(stmt.extent, Expr)):
                return None
            own[stmt.loop_var] = stmt.extent
        elif isinstance(stmt, Block):
            if stmt.init is not None or any(it.value is None for it in stmt.iters):
                return None
            held.append(substitute(stmt.predicate, values))
            values |= {it.var: substitute(it.value, values) for it in stmt.iters if it.value is not None}
        elif isinstance(stmt, IfThenElse):
            if inner is not stmt.then_case:
                return None
            held.append(substitute(stmt.condition, values))
        elif not isinstance(stmt, (Seq, BufferStore)):
            return None
        if any(has((Call, Select), one) for one in headers(stmt)):
            return None
    mins: list[Expr] = []
    extents: list[Expr] = []
    where: dict[Var, Expr] = {}
    for index, axis in zip(indices, axes, strict=True):
        placed = _placed(substitute(index, values), own, known)
        if placed is None or placed[1] in where:
            return None
        low, var = placed
        mins.append(low)
        extents.append(own[var])
        where[var] = build.cast(var.dtype, axis)
    masks = _masks(held, own, where)
    return None if masks is None else _Touched(tuple(mins), tuple(extents), masks)


def _placed(index: Expr, own: Mapping[Var, Expr], known: Analyzer) -> tuple[Expr, Var] | None:
    """Where a subscript starts, and the loop of the tile that it goes along one by one; None where it is another one."""
    inside = [var for var in own if mentions(index, {var})]
    if len(inside) != 1 or not isinstance(own[inside[0]], IntImm):
        return None
    [var] = inside
    low = known.simplify(substitute(index, {var: build.cast(var.dtype, 0)}))
    if has(BufferLoad, low) or not known.can_prove(build.eq(index, build.add(low, var))):
        return None
    return low, var


def _masks(held: list[Expr], own: Mapping[Var, Expr], where: Mapping[Var, Expr]) -> tuple[Expr, ...] | None:
    """Conditions in terms of the axes of the tile; None where one is about something else."""
    masks: list[Expr] = []
    for condition in held:
        if is_const_int(condition, 1):
            continue
        inside = {var for var in own if mentions(condition, {var})}
        if not inside <= where.keys() or has(BufferLoad, condition):
            return None
        masks.append(substitute(condition, where))
    return tuple(masks)
