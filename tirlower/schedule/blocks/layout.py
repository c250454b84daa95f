"""``transform_block_layout``: the iterators of a block by a bijection, and loops of its own for the new ones."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument, TirError
from tirlower.ir.buffer import IterKind, Range
from tirlower.ir.expr import Expr, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.index_map import IndexMap
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, BlockIter, For, ForKind, Stmt
from tirlower.poly.order_kept import Coordinate
from tirlower.poly.verdict import Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.positions import order_verdict
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["TRANSFORM_BLOCK_LAYOUT"]


@dataclass
class _Nest:
    """The loops around a block, outermost first, which it binds its iterators to one by one."""

    site: Site
    loops: list[For]
    block: Block


def _nest(step: Step) -> _Nest:
    handle = step.handle("block")
    block, site = step.stmt(handle), step.site(handle)
    if isinstance(block, PrimFunc):
        step.refuse("a function without blocks has no root block that has iterators")
    assert isinstance(block, Block)
    loops: list[For] = []
    places: list[Site] = []
    inner: Stmt = block
    for place, stmt in [*step.way(site)][::-1]:
        if not isinstance(stmt, For) or stmt.body is not inner:
            break
        loops.insert(0, stmt)
        places.insert(0, place)
        inner = stmt
    bound = [it.value for it in block.iters]
    needed = {value for value in bound if isinstance(value, Var)}
    while loops and loops[0].loop_var not in needed:
        del loops[0], places[0]
    if len(needed) < len(bound) or {loop.loop_var for loop in loops} != needed or not loops:
        step.refuse("the block does not bind its iterators to the loops around it, one by one", block)
    for loop, it in ((loop, it) for loop in loops for it in block.iters if it.value is loop.loop_var):
        if not is_const_int(loop.min, 0) or loop.kind is not ForKind.SERIAL or loop.annotations:
            step.refuse(f"the loop `{loop.loop_var.name}` does not start at 0, or is of a kind or annotated", loop)
        if not step.analyzer(site).can_prove_equal(loop.extent, it.domain.extent):
            step.refuse(f"the loop `{loop.loop_var.name}` does not go over all of {it.var.name}", loop)
    return _Nest(places[0], loops, block)


def _map(step: Step, nest: _Nest) -> tuple[IndexMap, IndexMap, list[Expr]]:
    """The map, its inverse, and the extents of the new iterators."""
    found = step["index_map"]
    assert isinstance(found, IndexMap)
    if len(found.initial_indices) != len(nest.block.iters):
        raise BadArgument(
            f"the block has {len(nest.block.iters)} iterators, the map takes {len(found.initial_indices)} indices"
        )
    shape = [it.domain.extent for it in nest.block.iters]
    try:
        inverse = found.inverse(shape)
    except TirError as error:
        step.refuse(f"the map {found} is no bijection of the iterators: {error.message}", nest.block)
    return found, inverse, found.map_shape(shape)


def _made(step: Step) -> tuple[_Nest, For, list[For], Forward]:
    nest = _nest(step)
    index_map, inverse, extents = _map(step, nest)
    block = nest.block
    dtype = block.iters[0].var.dtype
    kinds = _kinds(step, block, index_map)
    variables = [Var(f"v{at}", dtype) for at in range(len(extents))]
    counters = [Var(f"ax{at}", dtype) for at in range(len(extents))]
    analyzer = Analyzer()
    for var, extent in zip(variables, extents, strict=True):
        analyzer.bind(var, Range(const(0, dtype), extent))
    olds = [analyzer.simplify(value) for value in inverse.map_indices(variables)]
    values = {it.var: value for it, value in zip(block.iters, olds, strict=True)}
    iters = [
        BlockIter(var, Range(const(0, dtype), extent), kind, counter)
        for var, extent, kind, counter in zip(variables, extents, kinds, counters, strict=True)
    ]
    inside = substitute(block.with_(iters=(), predicate=const(True)), values)
    assert isinstance(inside, Block)
    by_loop = {it.value: it.var for it in block.iters}
    predicate = substitute(
        substitute(block.predicate, {loop.loop_var: by_loop[loop.loop_var] for loop in nest.loops}), values
    )
    predicate = substitute(predicate, dict(zip(variables, counters, strict=True)))
    new = with_regions(inside.with_(iters=tuple(iters), predicate=predicate))
    forward = Forward()
    forward.like(block.body, inside.body)
    if block.init is not None and inside.init is not None:
        forward.like(block.init, inside.init)
    forward.keep(block, new)
    stmt: Stmt = new
    made: list[For] = []
    for counter, extent in zip(counters[::-1], extents[::-1], strict=True):
        stmt = For(counter, const(0, dtype), extent, ForKind.SERIAL, None, {}, stmt)
        made.insert(0, stmt)
    for loop in nest.loops:
        forward.end(loop, *made)
    return nest, made[0], made, forward


def _kinds(step: Step, block: Block, index_map: IndexMap) -> list[IterKind]:
    """The kinds of the new iterators: each that of those of the block that it is made of."""
    found: list[IterKind] = []
    kind_of = {old: it.kind for old, it in zip(index_map.initial_indices, block.iters, strict=True)}
    for expr in index_map.final_indices:
        kinds = list(dict.fromkeys(kind_of[var] for var in each(Var, expr) if var in kind_of))
        if len(kinds) > 1 and block.init is not None:
            step.refuse(
                f"{expr} mixes iterators of several kinds, and the init of the block runs where those of its sum begin",
                block,
                help="part the init from the sum: decompose_reduction",
            )
        found.append(IterKind.REDUCE if IterKind.REDUCE in kinds else (kinds or [IterKind.SPATIAL])[0])
    return found


def _check(step: Step) -> Verdict:
    nest, made, _, _ = _made(step)
    index_map, _, _ = _map(step, nest)
    by_iter = [next(loop for loop in nest.loops if loop.loop_var is it.value) for it in nest.block.iters]
    positions: list[Coordinate] = [*index_map.map_indices([loop.loop_var for loop in by_iter])]
    return order_verdict(step, nest.site, {nest.block: positions}, nest.site, made)


def _rewrite(step: Step) -> Change:
    nest, made, _, forward = _made(step)
    return Change(Edit(nest.site, made), forward)


TRANSFORM_BLOCK_LAYOUT = Kind(
    "TransformBlockLayout",
    "transform_block_layout",
    (Slot("block", Takes.BLOCK), Slot("index_map", Takes.INDEX_MAP)),
    _rewrite,
    """Let a block run over other iterators: those that a bijection gives for its own, in loops ``ax0``, ``ax1`` … of their own.
    Legal where no dependence is turned round.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 8), "int32")):
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("A"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             A[vi, vj] = vi
    ... '''))
    >>> sch.transform_block_layout("A", lambda i, j: [i * 8 + j])
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32")):
        for ax0 in range(32):
            with T.block("A"):
                v0 = T.axis.spatial(32, ax0)
                T.reads()
                T.writes(A[v0 // 8, v0 % 8])
                A[v0 // 8, v0 % 8] = v0 // 8
    """,
    check=_check,
)
