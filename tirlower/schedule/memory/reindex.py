"""``reindex``: a block accesses a copy of a buffer that its own iterators index."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind
from tirlower.ir.expr import BufferLoad, Expr, Var, const
from tirlower.ir.functor import substitute
from tirlower.ir.index_map import IndexMap
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import Block, BlockIter, BufferStore, For, ForKind, Stmt
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import BufferAt, Kind, Slot, Takes
from tirlower.schedule.memory.caches import Row, place_new, scope_body
from tirlower.schedule.memory.staging import no_pointers, redirect
from tirlower.schedule.regions import with_regions
from tirlower.schedule.step import Step

__all__ = ["REINDEX", "reindexed"]


def reindexed(step: Step, buffer: Buffer, side: str, name: str, scope: str, layout: IndexMap | None) -> Made:
    """The draft of a copy that a block reads (before it) or writes (behind it), indexed by a map of its iterators; without
    one by those iterators that its access uses, in their order."""
    stage = step.stage("block")
    block, site = stage.block, stage.site
    if block is None:
        step.refuse("a block is meant, whose iterators index the copy", stage.stmt)
    func = step.func(site)
    no_pointers(step, func, buffer, site.steps)
    patterns: dict[str, tuple[Expr, ...]] = {}
    for stmt in step.facts.inside(block):
        for child in stmt[1].children():
            if isinstance(child, Expr):
                for load in each(BufferLoad, child):
                    if load.buffer is buffer:
                        patterns[", ".join(map(str, load.indices))] = load.indices
        if isinstance(stmt[1], BufferStore) and stmt[1].buffer is buffer:
            patterns[", ".join(map(str, stmt[1].indices))] = stmt[1].indices
    if len(patterns) != 1:
        step.refuse(f"{buffer.name} is accessed in {len(patterns)} ways there, and one is meant", block)
    indices = next(iter(patterns.values()))
    used = [it for it in block.iters if any(mentions(index, {it.var}) for index in indices)]
    outside = {var for index in indices for var in each(Var, index)} - {it.var for it in block.iters}
    if outside & _loops(step, block):
        step.refuse(f"{buffer.name} is indexed by loops inside of the block", block)
    given = [it.var for it in block.iters]

    def new_indices(values: Sequence[Expr]) -> list[Expr]:
        if layout is None:
            at = dict(zip(given, values, strict=True))
            return [build.sub(at[it.var], it.domain.min) for it in used]
        starts = [build.sub(value, it.domain.min) for value, it in zip(values, block.iters, strict=True)]
        return list(layout.map_indices(starts))

    if layout is None:
        shape = [it.domain.extent for it in used]
    else:
        if len(layout.initial_indices) != len(given):
            raise BadArgument(
                f"the map takes {len(layout.initial_indices)} indices, the block has {len(given)} iterators"
            )
        shape = layout.map_shape([it.domain.extent for it in block.iters])
    target = Buffer(name, tuple(shape), buffer.dtype, scope=scope)
    draft = Draft(step, site.func)
    redirect(draft, buffer, target, site.steps, lambda _: new_indices(given))
    axes = [Var(f"ax{n}", it.var.dtype) for n, it in enumerate(used)]
    iters = tuple(
        BlockIter(Var(f"v{n}", it.var.dtype), it.domain, IterKind.SPATIAL, build.add(it.domain.min, axis))
        for n, (it, axis) in enumerate(zip(used, axes, strict=True))
    )
    at: dict[Var, Expr] = {it.var: new.var for it, new in zip(used, iters, strict=True)}
    # An iterator that the access does not use stands for its first value: the map may not tell others apart.
    places = [at.get(it.var, it.domain.min) for it in block.iters]
    here = tuple(new_indices(places))
    there = tuple(substitute(index, at) for index in indices)
    if side == "read":
        store = BufferStore(target, BufferLoad(buffer, there), here)
    else:
        store = BufferStore(buffer, BufferLoad(target, here), there)
    draft.copy(store)
    made = with_regions(Block(name, iters, const(1, "bool"), (), (), None, (), {}, store))
    nest: Stmt = made
    for it, axis in zip(reversed(used), reversed(axes), strict=True):
        nest = For(axis, const(0, axis.dtype), it.domain.extent, ForKind.SERIAL, None, {}, nest)
    row = Row.at(func, scope_body(func, site.steps))
    home = row.place(row.of(site.steps))
    (draft.before if side == "read" else draft.after)(home, nest)
    place_new(draft, row, target)
    return Made(draft, (made,))


def _loops(step: Step, block: Block) -> set[Var]:
    return {stmt.loop_var for _, stmt in step.facts.inside(block) if isinstance(stmt, For)}


def _make(step: Step) -> Made:
    buffer, at = step.buffer("buffer"), step["buffer"]
    assert isinstance(at, BufferAt)
    return reindexed(step, buffer, at.side, f"{buffer.name}_reindex", buffer.scope, None)


_STEP = ValueStep(_make)
REINDEX = Kind(
    "ReIndex",
    "reindex",
    (Slot("block", Takes.BLOCK), Slot("buffer", Takes.BUFFER, attr=True)),
    _STEP.rewrite,
    """Let a block access a copy of a buffer, ``A_reindex``, that those of its iterators index which the access uses. Returns
    the block of the copy.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 4), "int32"), B: T.Buffer((4, 8), "int32")):
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vj, vi] * 2
    ... '''))
    >>> sch.reindex("B", ("read", 0))
    BlockRV('A_reindex')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8, 4), "int32"), B: T.Buffer((4, 8), "int32")):
        A_reindex = T.alloc_buffer((4, 8), "int32")
        for ax0, ax1 in T.grid(4, 8):
            with T.block("A_reindex"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(A[v1, v0])
                T.writes(A_reindex[v0, v1])
                A_reindex[v0, v1] = A[v1, v0]
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A_reindex[vi, vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A_reindex[vi, vj] * 2
    """,
    check=_STEP.check,
    returns="one",
)
