"""``blockize``: a nest around a block becomes a block of its own."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.analysis.access_region import get_block_read_write_region
from tirlower.arith import normalize_iter_map_to_expr, subspace_divide
from tirlower.arith.iter_map import IterMark, IterSum
from tirlower.ir import build
from tirlower.ir.buffer import IterKind, Range
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Call, Expr, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.query import has, mentions, nodes
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.stmt import Block, BlockIter, For, ForKind, Stmt
from tirlower.poly.order_kept import Coordinate
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.positions import order_verdict
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["BLOCKIZE"]


@dataclass
class _Nest:
    """The loops that go inside, outermost first, the block in them, and what its bindings are outside and inside."""

    site: Site
    loops: list[For]
    block: Block
    parts: list[tuple[IterMark, IterMark]]
    predicates: tuple[Expr, Expr]


def _nest(step: Step) -> _Nest:
    target = step["target"]
    if isinstance(target, (list, tuple)):
        step.refuse("blocks beside each other are not put into one yet", help="name the loop around them")
    handle = step.handle("target")
    site = step.site(handle)
    loops: list[For] = []
    stmt: Stmt = step.loop(handle)
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
    return _Nest(site, loops, stmt, parts, (outer.extent, inside.extent))


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


def _value(mark: IterMark) -> Expr:
    source = mark.source
    return source if isinstance(source, Expr) else normalize_iter_map_to_expr(source)


def _start(mark: IterMark, dtype: DataType) -> Expr:
    """What an iterator begins at: not at 0 where a predicate leaves out the first iterations."""
    source = mark.source
    return build.cast(dtype, source.base) if isinstance(source, IterSum) else const(0, dtype)


def _check(step: Step) -> Verdict:
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
    nest = _nest(step)
    block, forward = nest.block, Forward()
    outer: list[BlockIter] = []
    inner: list[BlockIter] = []
    values: dict[Var, Expr] = {}
    for it, (out, inside) in zip(block.iters, nest.parts, strict=True):
        dtype = it.var.dtype
        zero = const(0, dtype)
        size = build.cast(dtype, inside.extent)
        around = BlockIter(
            copy_var(it.var, f"{it.var.name}_o"),
            Range(_start(out, dtype), build.cast(dtype, out.extent)),
            it.kind,
            build.cast(dtype, _value(out)),
        )
        outer.append(around)
        base: Expr = zero if is_const_int(out.extent, 1) else build.mul(around.var, size)
        if is_const_int(inside.extent, 1):
            values[it.var] = (
                base if is_const_int(_value(inside), 0) else build.add(base, build.cast(dtype, _value(inside)))
            )
            continue
        own = BlockIter(
            copy_var(it.var, f"{it.var.name}_i"),
            Range(_start(inside, dtype), size),
            it.kind,
            build.cast(dtype, _value(inside)),
        )
        inner.append(own)
        values[it.var] = build.add(base, own.var)
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
    return Change(Edit(nest.site, whole), forward, (whole,))


def _init(nest: _Nest, init: Stmt, inner: list[BlockIter]) -> Stmt:
    """What the block sets at first, for all of the nest: in loops of its own over the iterators that it uses."""
    kept = [it for it in inner if it.kind is not IterKind.REDUCE and mentions(init, {it.var})]
    used = [
        loop for loop in nest.loops if any(it.value is not None and mentions(it.value, {loop.loop_var}) for it in kept)
    ]
    copies = {it.var: copy_var(it.var) for it in kept}
    counters = {loop.loop_var: copy_var(loop.loop_var) for loop in used}
    iters = [it.with_(var=copies[it.var], value=substitute(it.value, counters)) for it in kept if it.value is not None]
    body = refresh_binders(substitute(init, copies))
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
