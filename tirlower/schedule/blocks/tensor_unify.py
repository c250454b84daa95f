"""Does a nest mean what a description says although its loops are others: in another order, split, fused, reversed?

Both are taken as one store in loops. Where the description indexes by one of its loops, the nest's index says which value
that loop has in an iteration of the nest. What is found so is then proved: each of the nest's iterations is another one of
the description's, all of these occur, and all accesses are at one distance. Whether they may run in the description's order is
the question of :func:`tirlower.poly.order_kept`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.evaluator import Evaluator
from tirlower.ir.expr import BufferLoad, Expr, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.integers import kept
from tirlower.ir.query import mentions
from tirlower.ir.stmt import Block, BufferStore, For, ForKind, Seq, Stmt
from tirlower.schedule.blocks.tensor_match import Matcher, Mismatch, apart
from tirlower.schedule.digits import digits_of, number
from tirlower.schedule.pairing import ways

__all__ = ["Unified", "unified"]

MOST_POINTS = 1 << 18
"""Of how many iterations all are looked at."""


@dataclass(frozen=True)
class Unified:
    """A match: where the buffers are, the store, the loops around it, and the iteration of the description that each of
    theirs is.
    """

    matcher: Matcher
    store: BufferStore
    loops: tuple[For, ...]
    position: tuple[Expr, ...]


@dataclass(frozen=True)
class _Flat:
    """One store in loops: blocks are gone, their iterators are what they are bound to."""

    loops: tuple[For, ...]
    conditions: tuple[Expr, ...]
    stmt: BufferStore
    flat: BufferStore


def _flat(stmt: Stmt) -> _Flat | None:
    """A nest as one store; None for others."""
    loops: list[For] = []
    values: dict[Var, Expr] = {}
    conditions: list[Expr] = []
    while not isinstance(stmt, BufferStore):
        if isinstance(stmt, For) and stmt.kind in (ForKind.SERIAL, ForKind.UNROLLED):
            loops.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, Block) and not (stmt.init or stmt.match_buffers or stmt.alloc_buffers):
            for it in stmt.iters:
                if it.value is None:
                    return None
                values[it.var] = substitute(it.value, values)
            conditions.append(substitute(stmt.predicate, values))
            stmt = stmt.body
        elif isinstance(stmt, Seq) and len(stmt.stmts) == 1:
            stmt = stmt.stmts[0]
        else:
            return None
    if stmt.predicate is not None:
        return None
    flat = substitute(stmt, values)
    assert isinstance(flat, BufferStore)
    return _Flat(tuple(loops), tuple(conditions), stmt, flat)


def unified(analyzer: Analyzer, mine: Stmt, described: Stmt) -> Unified | Mismatch | None:
    """How a nest is a description; why it is not; None where the two are not compared this way."""
    own, theirs = _flat(mine), _flat(described)
    if own is None or theirs is None or not all(is_const_int(one, 1) for one in theirs.conditions):
        return None
    boxes = [_box(one.loops) for one in (own, theirs)]
    if boxes[0] is None or boxes[1] is None or math.prod(boxes[0]) > MOST_POINTS:
        return None
    for loop in own.loops:
        analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
    if not all(analyzer.can_prove(one) for one in own.conditions):
        return None
    points = _points(own.loops, boxes[0])
    failed: Mismatch | None = None
    for way in ways(own.flat.value, theirs.flat.value):
        values = _values(analyzer, own, theirs, way)
        if values is None or not _one_to_one(values, theirs.loops, boxes[1], points, math.prod(boxes[0])):
            continue
        matcher = Matcher(analyzer)
        matcher.values.update(values)
        matcher.inner.update(points)
        matcher.points, matcher.at = points, own.stmt
        try:
            matcher.statements(own.flat, theirs.flat)
        except Mismatch as error:
            error.at = own.stmt
            failed = failed or error
            continue
        return Unified(matcher, own.stmt, own.loops, tuple(values[loop.loop_var] for loop in theirs.loops))
    return failed


def _box(loops: Sequence[For]) -> list[int] | None:
    extents = [number(loop.extent) for loop in loops if number(loop.min) is not None]
    known = [extent for extent in extents if extent is not None and extent > 0]
    return known if len(known) == len(loops) else None


def _points(loops: Sequence[For], box: Sequence[int]) -> dict[Var, object]:
    """All iterations of a nest: the values of each loop, in the order in which they run."""
    grids = np.indices(box).reshape(len(box), -1)
    return {loop.loop_var: grid + (number(loop.min) or 0) for loop, grid in zip(loops, grids, strict=True)}


def _values(analyzer: Analyzer, own: _Flat, theirs: _Flat, way: Sequence[tuple[Expr, Expr]]) -> dict[Var, Expr] | None:
    """The value of each loop of the description in an iteration of the nest; None where it does not say."""
    loops = {loop.loop_var: loop for loop in theirs.loops}
    made: dict[Var, Expr] = {
        var: const(number(loop.min) or 0, var.dtype) for var, loop in loops.items() if is_const_int(loop.extent, 1)
    }
    accesses = [(own.flat.indices, theirs.flat.indices)]
    accesses += [
        (mine.indices, other.indices)
        for mine, other in way
        if isinstance(mine, BufferLoad) and isinstance(other, BufferLoad)
    ]
    variables = {loop.loop_var for loop in own.loops}
    for mine, other in accesses:
        if len(mine) < len(other):
            return None
        for index, place in zip(mine[len(mine) - len(other) :], other, strict=True):
            part, _ = apart(analyzer.simplify(index), variables)
            low = analyzer.const_int_bound(part).min_value
            for var, value in _digits(build.sub(part, const(low, part.dtype)), place, loops).items():
                made.setdefault(var, build.cast(var.dtype, analyzer.simplify(value)))
    return made if len(made) == len(loops) else None


def _digits(value: Expr, place: Expr, loops: Mapping[Var, For]) -> dict[Var, Expr]:
    """The values of the loops of which an index of the description is made, where it has this value."""
    ranges = {var: Range(loop.min, loop.extent) for var, loop in loops.items() if mentions(place, {var})}
    found = digits_of(place, ranges) or []
    made: dict[Var, Expr] = {}
    for split in found:
        var = split.source.var
        assert var is not None
        if not is_const_int(split.lower_factor, 1) or number(split.extent) != number(loops[var].extent):
            continue
        digit = build.floordiv(value, build.cast(value.dtype, split.scale))
        if split is not found[0]:
            digit = build.floormod(digit, build.cast(value.dtype, split.extent))
        made[var] = build.add(digit, build.cast(value.dtype, loops[var].min))
    return made


def _one_to_one(
    values: Mapping[Var, Expr],
    loops: Sequence[For],
    box: Sequence[int],
    points: Mapping[Var, object],
    count: int,
) -> bool:
    """Whether each iteration of the nest is another one of the description, and all of these occur."""
    if math.prod(box) != count:
        return False
    address = np.zeros(count, np.int64)
    for loop, extent in zip(loops, box, strict=True):
        try:
            found = np.asarray(Evaluator(values[loop.loop_var]).at(points, kept)) - (number(loop.min) or 0)
        except ArithmeticError:
            return False  # a loop outside has a part in it
        if found.min() < 0 or found.max() >= extent:
            return False
        address = address * extent + found
    return len(np.unique(address)) == count
