"""``cache_read``: readers read a copy of a buffer in another scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import Block, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.schedule.draft import Draft, Made, stores_of
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import (
    Row,
    cache_name,
    cached_copy,
    has_blocks,
    new_buffer,
    place_new,
    row_of,
    scope_body,
)
from tirlower.schedule.memory.staging import Candidates, box_of, no_pointers, redirect, touched_under
from tirlower.schedule.places import loads_in, reading, statements_at, writing
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["CACHE_READ", "cache_of_reads"]


def cache_of_reads(
    step: Step, name: str, path: Steps, buffer: Buffer, scope: str, others: Sequence[Steps] | None
) -> list[Callable[[], Made]]:
    """The drafts of a cache of what a stage reads: for all readers, then for those alone in which nothing else can be meant.

    ``others`` are the further consumers that read it; None for all.
    """
    func = step.state.mod[name]
    no_pointers(step, func, buffer, ("body",))
    scope_at = scope_body(func, path)
    readers = [
        place
        for place, _ in reading(step.facts, func, buffer)
        if place[: len(scope_at)] == scope_at and (place[: len(path)] == path or not _goes_on(func, place, buffer))
    ]
    mine = [place for place in readers if place[: len(path)] == path]
    if not mine:
        step.refuse(f"nothing there reads {buffer.name}")
    writers = [place for place, _ in writing(step.facts, func, buffer)]
    if others is not None:
        chosen = [p for p in readers if any(p[: len(at)] == at for at in (path, *others))]
        return [lambda: _cached(step, name, func, buffer, scope, scope_at, chosen, writers)]
    row = row_of(func, scope_at, mine, [w for w in writers if w[: len(scope_at)] == scope_at])
    later = [p for p in readers if row.of(p) >= row.of(mine[0])]
    within = [p for p in readers if row.of(p) in {row.of(one) for one in mine}]
    ways = [readers, later, within, mine]
    unique = [way for at, way in enumerate(ways) if way not in ways[:at]]
    return [lambda way=way: _cached(step, name, func, buffer, scope, scope_at, way, writers) for way in unique]  # type: ignore[misc]


def _goes_on(func: PrimFunc, place: Steps, buffer: Buffer) -> bool:
    """Whether what is read at a place was begun by the init of the same block: nothing from before that can be meant."""
    around = statements_at(func, place)
    blocks = [stmt for _, stmt in around[:-1] if isinstance(stmt, Block)]
    if not blocks or blocks[-1].init is None:
        return False
    begun = [store.indices for store in stores_of(blocks[-1].init) if store.buffer is buffer]
    return all(
        any(all(map(structural_equal, load.indices, indices)) for indices in begun)
        for load in loads_in(around[-1][1], buffer)
    )


def _cached(
    step: Step,
    name: str,
    func: PrimFunc,
    buffer: Buffer,
    scope: str,
    scope_at: Steps,
    chosen: Sequence[Steps],
    writers: Sequence[Steps],
) -> Made:
    inside = [place for place in writers if place[: len(scope_at)] == scope_at]
    row = row_of(func, scope_at, chosen, inside)
    first = min(row.of(place) for place in chosen)
    behind = [row.of(place) for place in inside if 0 <= row.of(place) < first]
    draft = Draft(step, name)
    target = new_buffer(buffer, scope)
    wanted: set[Stmt] = set()
    for place in chosen:
        wanted |= {draft.stmt(place)}
    redirect(draft, buffer, target, row.body, list, stores=False, only=lambda stmt: stmt in wanted)
    mins, extents = _part(step, func, row, scope_at, buffer)
    nest, stage = cached_copy(draft, target, buffer, mins, extents, cache_name(buffer, scope), has_blocks(func))
    if behind:
        draft.after(row.place(max(behind)), nest)
    else:
        place = row.place(next(at for at, stmt in enumerate(row.stmts) if not _is_allocation(stmt)))
        draft.first(place, nest)
    place_new(draft, row, target)
    return Made(draft, (stage,))


def _is_allocation(stmt: Stmt) -> bool:
    return type(stmt).__name__ in ("AllocBuffer", "AllocConst", "DeclBuffer")


def _part(
    step: Step, func: PrimFunc, row: Row, scope_at: Steps, buffer: Buffer
) -> tuple[Sequence[Expr], Sequence[Expr]]:
    """What is copied: all of a buffer at the root, else the box of what is touched."""
    if row.body == scope_at and len(scope_at) <= 2:
        return [const(0, extent.dtype) for extent in buffer.shape], buffer.shape
    accesses = [access for access in touched_under(step, func, buffer, row.body) if not access.is_write]
    box = box_of(step, func, buffer, row.body, accesses)
    return box.mins, [size if width is None else width for size, width in zip(box.shape, box.widths, strict=True)]


def _make(step: Step) -> list[Callable[[], Made]]:
    stage = step.stage("block")
    consumers = step.handles("consumer_blocks") if step["consumer_blocks"] else []
    others = [step.site(one).steps for one in consumers]
    buffer = step.buffer("buffer")
    return cache_of_reads(step, stage.site.func, stage.site.steps, buffer, str(step["storage_scope"]), others or None)


_STEP = Candidates(_make)
CACHE_READ = Kind(
    "CacheRead",
    "cache_read",
    (
        Slot("block", Takes.STAGE),
        Slot("buffer", Takes.BUFFER, attr=True, keyword="read_buffer_index", side="read"),
        Slot("storage_scope", Takes.SCOPE, attr=True),
        Slot("consumer_blocks", Takes.BLOCKS, default=None, quiet=True),
    ),
    _STEP.rewrite,
    """Copy what a block reads of a buffer to a buffer in another scope, which its readers then read. Returns the copy's block.

    The copy stands behind the last write before the readers. ``consumer_blocks``: those that read the copy, besides the
    block; without it all that can. Legal where each reader sees through the copy what it saw before. Buffer and block are
    named ``A_shared``, its loops ``ax0`` …, its iterators ``v0`` ….

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[v] + 1
    ... '''))
    >>> sch.cache_read("B", 0, "shared")
    BlockRV('A_shared')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        A_shared = T.alloc_buffer((8,), "int32", scope="shared")
        for ax0 in range(8):
            with T.block("A_shared"):
                v0 = T.axis.spatial(8, ax0)
                T.reads(A[v0])
                T.writes(A_shared[v0])
                A_shared[v0] = A[v0]
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.reads(A_shared[v])
                T.writes(B[v])
                B[v] = A_shared[v] + 1
    """,
    check=_STEP.check,
    returns="one",
)
