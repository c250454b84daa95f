"""``blockize``: a nest around a block becomes a block of its own."""

from __future__ import annotations

from tirlower.analysis.access_region import get_block_read_write_region
from tirlower.ir import build
from tirlower.ir.buffer import IterKind
from tirlower.ir.expr import Expr, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.query import mentions
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.stmt import Block, BlockIter, ForKind, Stmt
from tirlower.poly.order_kept import Coordinate
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.blocks.division import Nest, divided, inner_iter, outer_iter
from tirlower.schedule.blocks.together import beside, put_together
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.positions import order_verdict
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["BLOCKIZE"]


def _nest(step: Step) -> Nest:
    handle = step.handle("target")
    site = step.site(handle)
    step.loop(handle)
    return divided(step, site)


def _check(step: Step) -> Verdict:
    if isinstance(step["target"], (list, tuple)):
        beside(step)
        return PROVED
    nest = _nest(step)
    if nest.block.init is None:
        return PROVED
    if not is_const_int(nest.predicates[1], 1):
        step.refuse(
            f"the init would run where {nest.predicates[1]} does not hold too",
            nest.block,
            "decompose the reduction first, or split by factors that divide",
        )
    analyzer = step.analyzer(nest.site)
    for loop in nest.loops:
        if not analyzer.can_prove(build.gt(loop.extent, 0)):
            step.refuse(f"the loop `{loop.loop_var.name}` is not known to run at all, the init would", loop)
    # The init comes before all of the nest's updates then.
    positions: dict[Stmt, list[Coordinate]] = {nest.block.init: [0, *nest.loops], nest.block.body: [1, *nest.loops]}
    return order_verdict(step, nest.site, positions, nest.site)


def _rewrite(step: Step) -> Change:
    if isinstance(step["target"], (list, tuple)):
        return put_together(step)
    nest = _nest(step)
    block, forward = nest.block, Forward()
    outer: list[BlockIter] = []
    inner: list[BlockIter] = []
    values: dict[Var, Expr] = {}
    for it, (out, inside) in zip(block.iters, nest.parts, strict=True):
        around = outer_iter(it, out)
        outer.append(around)
        own, values[it.var] = inner_iter(it, out, inside, around.var)
        if own is not None:
            inner.append(own)
    body = substitute(block.body, values)
    forward.like(block.body, body)
    reads, writes = (tuple(substitute(region, values) for region in side) for side in (block.reads, block.writes))
    matches = tuple(substitute(match, values) for match in block.match_buffers)
    new = with_regions(
        block.with_(
            iters=tuple(inner), body=body, init=None, predicate=nest.predicates[1], reads=reads, writes=writes,
            match_buffers=matches,
        )
    )  # fmt: skip
    forward.keep(block, new)
    stmt: Stmt = new
    for loop in nest.loops[::-1]:
        made = loop.with_(body=stmt)
        forward.keep(loop, made)
        stmt = made
    init = None
    if block.init is not None:
        init = _init(nest, substitute(block.init, values), inner)
        forward.end(block.init, init)
    whole = Block(f"{block.name}_o", tuple(outer), nest.predicates[0], (), (), init, (), {}, stmt)
    found = get_block_read_write_region(whole)
    whole = whole.with_(reads=tuple(found[0]), writes=tuple(found[1]))
    # An init that moves out is another statement.
    return Change(Edit(nest.site, whole), forward, (whole,), relabel={} if init is None else None)


def _init(nest: Nest, init: Stmt, inner: list[BlockIter]) -> Stmt:
    """What the block sets at first, for all of the nest: in loops of its own over the iterators that it uses."""
    kept = [it for it in inner if it.kind is not IterKind.REDUCE and mentions(init, {it.var})]
    used = [
        loop for loop in nest.loops if any(it.value is not None and mentions(it.value, {loop.loop_var}) for it in kept)
    ]
    copies = {it.var: copy_var(it.var) for it in kept}
    counters = {loop.loop_var: copy_var(loop.loop_var) for loop in used}
    iters = [it.with_(var=copies[it.var], value=substitute(it.value, counters)) for it in kept if it.value is not None]
    body = refresh_binders(init, copies)
    made = Block(f"{nest.block.name}_init", tuple(iters), const(1, "bool"), (), (), None, (), {}, body)
    reads, writes = get_block_read_write_region(made)
    stmt: Stmt = made.with_(reads=tuple(reads), writes=tuple(writes))
    for loop in used[::-1]:
        stmt = loop.with_(
            loop_var=counters[loop.loop_var], kind=ForKind.SERIAL, annotations={}, thread_tag=None, body=stmt,
            min=substitute(loop.min, counters), extent=substitute(loop.extent, counters),
        )  # fmt: skip
    return stmt


BLOCKIZE = Kind(
    "Blockize",
    "blockize",
    (
        Slot("target", Takes.TARGET),
        Slot("preserve_unit_iters", Takes.FLAG, default=True, attr=True),
    ),
    _rewrite,
    """Make a block ``B_o`` of a loop and all inside, around the one block that stands there; what the nest does is the same.

    Its iterators are what the bindings are outside of the loop, those of the block what is left inside. A reduction's init
    comes to stand in the new block, as ``B_init``, where nothing reads an old value between. Returns the new block.

    Given a list of blocks that stand beside each other, each with the loops around it that the others are not in, one block
    ``outer_B_C_`` is made around all; what they reduce, they reduce inside.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32")):
    ...     for i_0, i_1 in T.grid(2, 4):
    ...         with T.block("A"):
    ...             vi = T.axis.spatial(8, i_0 * 4 + i_1)
    ...             A[vi] = vi
    ... '''))
    >>> sch.blockize(sch.loop("i_1"))
    BlockRV('A_o')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        for i_0 in range(2):
            with T.block("A_o"):
                vi_o = T.axis.spatial(2, i_0)
                T.reads()
                T.writes(A[vi_o * 4:vi_o * 4 + 4])
                for i_1 in range(4):
                    with T.block("A"):
                        vi_i = T.axis.spatial(4, i_1)
                        T.reads()
                        T.writes(A[vi_o * 4 + vi_i])
                        A[vi_o * 4 + vi_i] = vi_o * 4 + vi_i
    """,
    check=_check,
    returns="one",
)
