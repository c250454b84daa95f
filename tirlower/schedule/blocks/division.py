"""A nest around one block, whose iterators are divided: what they are outside of the nest, and what is left inside."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.arith import normalize_iter_map_to_expr, subspace_divide
from tirlower.arith.iter_map import IterMark, IterSum
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Call, Expr, Var, const, is_const_int
from tirlower.ir.query import has, mentions, nodes
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import Block, BlockIter, For
from tirlower.schedule.sites import Site
from tirlower.schedule.step import Step

__all__ = ["Nest", "divided", "inner_iter", "outer_iter", "value_of"]


@dataclass
class Nest:
    """The loops that go inside, outermost first, the block in them, and what its bindings are outside and inside."""

    site: Site
    loops: list[For]
    block: Block
    parts: list[tuple[IterMark, IterMark]]
    predicates: tuple[Expr, Expr]


def divided(step: Step, site: Site) -> Nest:
    """A nest of loops around one block that stands at a place, its bindings divided. Raises :class:`NotApplicable`."""
    loops: list[For] = []
    stmt = step.chain(site)[-1]
    while isinstance(stmt, For):
        if has((BufferLoad, Call), stmt.min, stmt.extent):
            step.refuse(f"the bounds of the loop `{stmt.loop_var.name}` read memory", stmt)
        loops.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, Block):
        step.refuse(
            "there is more than loops around one block in the loop", stmt, "blockize a loop around a single block"
        )
    if any(it.value is None for it in stmt.iters):
        step.refuse("the block's iterators are bound to nothing", stmt)
    ranges = {**step.ranges(site), **{loop.loop_var: Range(loop.min, loop.extent) for loop in loops}}
    inner = [loop.loop_var for loop in loops]
    values = [it.value for it in stmt.iters if it.value is not None]
    found = subspace_divide(
        values,
        ranges,
        inner,
        stmt.predicate,
        "surjective",
        step.analyzer(site),
        simplify_trivial_iterators=not step["preserve_unit_iters"],
    )
    if not found:
        found = _trivial(values, stmt, inner)
    if not found:
        step.refuse(
            "the block's bindings are not sums of a multiple outside of the loop and a remainder inside",
            stmt,
            "split by factors that divide, or blockize another loop",
        )
    *parts, (outer, inside) = found
    return Nest(site, loops, stmt, parts, (outer.extent, inside.extent))


def _trivial(values: list[Expr], block: Block, inner: list[Var]) -> list[tuple[IterMark, IterMark]]:
    """The division where each binding is outside or inside as a whole, whatever it is; nothing where there is none."""
    if not is_const_int(block.predicate, 1):
        return []
    one = const(1, "int32")
    made: list[tuple[IterMark, IterMark]] = []
    for value, it in zip(values, block.iters, strict=True):
        inside = mentions(value, inner)
        if inside and any(isinstance(op, Var) and op not in inner for op in _variables(value)):
            return []
        whole = IterMark(value, it.domain.extent)
        nothing = IterMark(const(0, value.dtype), one)
        made.append((nothing, whole) if inside else (whole, nothing))
    yes = IterMark(const(0, "int32"), const(1, "bool"))
    return [*made, (yes, yes)]


def _variables(value: Expr) -> list[Var]:

    return [op for op in nodes(value) if isinstance(op, Var)]


def value_of(mark: IterMark) -> Expr:
    """A part of a binding in terms of loops."""
    source = mark.source
    return source if isinstance(source, Expr) else normalize_iter_map_to_expr(source)


def _start(mark: IterMark, dtype: DataType) -> Expr:
    """What an iterator begins at: not at 0 where a predicate leaves out the first iterations."""
    source = mark.source
    return build.cast(dtype, source.base) if isinstance(source, IterSum) else const(0, dtype)


def outer_iter(it: BlockIter, out: IterMark) -> BlockIter:
    """The iterator of a new block around one that has an iterator whose part outside is given."""
    dtype = it.var.dtype
    domain = Range(_start(out, dtype), build.cast(dtype, out.extent))
    return BlockIter(copy_var(it.var, f"{it.var.name}_o"), domain, it.kind, build.cast(dtype, value_of(out)))


def inner_iter(it: BlockIter, out: IterMark, inside: IterMark, around: Expr) -> tuple[BlockIter | None, Expr]:
    """What is left of an iterator inside of a new block, where it is ``around`` there: an iterator, where there is more than
    one value, and what the old one was."""
    dtype = it.var.dtype
    size = build.cast(dtype, inside.extent)
    nothing = is_const_int(out.extent, 1) and is_const_int(_start(out, dtype), 0)
    base: Expr = const(0, dtype) if nothing else build.mul(around, size)
    value = build.cast(dtype, value_of(inside))
    if is_const_int(inside.extent, 1):
        return None, base if is_const_int(value, 0) else build.add(base, value)
    own = BlockIter(copy_var(it.var, f"{it.var.name}_i"), Range(_start(inside, dtype), size), it.kind, value)
    return own, build.add(base, own.var)
