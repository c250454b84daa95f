"""Blocks beside each other, each in loops of its own, become one block: what ``blockize`` does with a list of blocks."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.analysis.access_region import get_block_read_write_region
from tirlower.ir.buffer import IterKind
from tirlower.ir.expr import Expr, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.stmt import Block, BlockIter, Seq, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.schedule.blocks.division import Nest, divided, inner_iter, outer_iter, value_of
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["Beside", "beside", "put_together"]


@dataclass(frozen=True)
class Beside:
    """Blocks that are to be put together: the sequence that they stand in, the number of the first, their nests in order."""

    site: Site
    first: int
    nests: tuple[Nest, ...]
    predicate: Expr


def beside(step: Step) -> Beside:
    """The blocks of a list, divided. Raises :class:`NotApplicable` where they do not stand beside each other."""
    sites = [step.site(one) for one in step.handles("target")]
    if len(sites) < 2 or len(set(sites)) < len(sites):
        step.refuse("two blocks or more are put together, each once", help="name the loop around a single block")
    depth = 0
    ways = [site.steps for site in sites]
    while len({way[depth] for way in ways if len(way) > depth}) == 1 and all(len(way) > depth + 1 for way in ways):
        depth += 1
    numbers = [way[depth] for way in ways]
    if len({site.func for site in sites}) > 1 or ways[0][depth - 1] != "stmts" or len(set(numbers)) < len(numbers):
        step.refuse("the blocks do not stand in one sequence of statements, each in loops of its own")
    order = sorted(number for number in numbers if isinstance(number, int))
    if order != list(range(order[0], order[0] + len(numbers))):
        step.refuse(
            "there are other statements between the blocks", help="name these too, or move them with reorder_stmts"
        )
    site = Site(sites[0].func, ways[0][: depth - 1])
    nests = tuple(divided(step, site / ("stmts", number)) for number in order)
    for nest in nests:
        for it, (out, _) in zip(nest.block.iters, nest.parts, strict=True):
            if it.kind is not IterKind.SPATIAL and not is_const_int(value_of(out), 0):
                step.refuse(
                    f"the iterator {it.var.name} would go on outside of the new block, and is {it.kind.value}",
                    nest.block,
                )
        if not structural_equal(nest.predicates[0], nests[0].predicates[0]):
            step.refuse("the blocks run under different conditions outside of their loops", nest.block)
    return Beside(site, order[0], nests, nests[0].predicates[0])


def put_together(step: Step) -> Change:
    """The change that puts a list of blocks into one."""
    found, forward = beside(step), Forward()
    seq = step.chain(found.site)[-1]
    assert isinstance(seq, Seq)
    outer: list[BlockIter] = []
    stmts = [_inside(nest, outer, forward) for nest in found.nests]
    name = f"outer_{'_'.join(nest.block.name for nest in found.nests)}_"
    whole = Block(name, tuple(outer), found.predicate, (), (), None, (), {}, Seq(tuple(stmts)))
    reads, writes = get_block_read_write_region(whole)
    whole = whole.with_(reads=tuple(reads), writes=tuple(writes))
    left = [*seq.stmts[: found.first], whole, *seq.stmts[found.first + len(stmts) :]]
    new = whole if len(left) == 1 else Seq(tuple(left))
    return Change(Edit(found.site, new), forward, (whole,), relabel={})


def _inside(nest: Nest, outer: list[BlockIter], forward: Forward) -> Stmt:
    """A nest as it is inside of the new block, whose iterators are found in ``outer``, or put there."""
    block = nest.block
    inner: list[BlockIter] = []
    values: dict[Var, Expr] = {}
    mine: list[BlockIter] = []
    for it, (out, inside) in zip(block.iters, nest.parts, strict=True):
        around: Expr = const(0, it.var.dtype)
        if it.kind is IterKind.SPATIAL:
            wanted = outer_iter(it, out)
            known = next((one for one in outer if one not in mine and _same(one, wanted)), None)
            if known is None:
                known = wanted
                outer.append(known)
            mine.append(known)
            around = known.var
        own, values[it.var] = inner_iter(it, out, inside, around)
        if own is not None:
            inner.append(own)
    reads, writes = (tuple(substitute(region, values) for region in side) for side in (block.reads, block.writes))
    body, init = substitute(block.body, values), None
    forward.like(block.body, body)
    if block.init is not None:
        init = substitute(block.init, values)
        forward.like(block.init, init)
    matches = tuple(substitute(match, values) for match in block.match_buffers)
    stmt: Stmt = with_regions(
        block.with_(
            iters=tuple(inner), body=body, init=init, predicate=nest.predicates[1], reads=reads, writes=writes,
            match_buffers=matches,
        )
    )  # fmt: skip
    forward.keep(block, stmt)
    for loop in nest.loops[::-1]:
        stmt = loop.with_(body=stmt)
        forward.keep(loop, stmt)
    return stmt


def _same(a: BlockIter, b: BlockIter) -> bool:
    """Whether two iterators are one: the same values of the same type."""
    return (
        a.var.dtype is b.var.dtype
        and a.value is not None
        and b.value is not None
        and structural_equal(a.value, b.value)
        and structural_equal(a.domain, b.domain)
    )
