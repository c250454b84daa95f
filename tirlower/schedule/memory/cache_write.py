"""``cache_write``: a block writes a buffer in another scope, and a copy brings its result out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import const
from tirlower.ir.stmt import Stmt
from tirlower.schedule.draft import Draft, Made
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import (
    Row,
    cache_name,
    cached_copy,
    has_blocks,
    new_buffer,
    place_new,
    scope_body,
)
from tirlower.schedule.memory.staging import Candidates, no_pointers, redirect
from tirlower.schedule.places import reading
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["CACHE_WRITE", "cache_of_writes"]


def cache_of_writes(
    step: Step,
    name: str,
    path: Steps,
    buffer: Buffer,
    scope: str,
    consumers: Sequence[Steps],
    *,
    copy_in: bool = False,
    copy_name: str | None = None,
) -> Callable[[], Made]:
    """The draft of a cache of what a stage writes; ``consumers`` read the cache too, ``copy_in`` fills it first."""
    func = step.state.mod[name]
    no_pointers(step, func, buffer, ("body",))
    scope_at = scope_body(func, path)
    row = Row.at(func, scope_at)

    def make() -> Made:
        draft = Draft(step, name)
        target = new_buffer(buffer, scope)
        redirect(draft, buffer, target, path, list)
        here = row.place(row.of(path))
        places = {
            place: stmt
            for place, stmt in reading(step.facts, func, buffer)
            if any(place[: len(at)] == at for at in consumers)
        }
        wanted = set(places.values())
        for number in sorted({row.of(place) for place in places} - {row.of(path), -1}):
            redirect(draft, buffer, target, row.place(number), list, stores=False, only=lambda stmt: stmt in wanted)
        mins = [const(0, extent.dtype) for extent in buffer.shape]
        blocks = has_blocks(func)
        outputs: list[Stmt] = []
        if copy_in:
            nest, stage = cached_copy(
                draft, target, buffer, mins, buffer.shape, f"{cache_name(buffer, scope)}_in", blocks
            )
            draft.before(here, nest)
            outputs.append(stage)
        nest, stage = cached_copy(
            draft, buffer, target, mins, buffer.shape, copy_name or cache_name(buffer, scope), blocks
        )
        draft.after(here, nest)
        place_new(draft, row, target)
        return Made(draft, (*outputs, stage))

    return make


def _make(step: Step) -> list[Callable[[], Made]]:
    stage = step.stage("block")
    consumers = [step.site(one).steps for one in step.handles("consumer_blocks")] if step["consumer_blocks"] else []
    buffer, scope = step.buffer("buffer"), str(step["storage_scope"])
    site = stage.site
    make = cache_of_writes(step, site.func, site.steps, buffer, scope, consumers, copy_in=bool(step["copy_in"]))

    def last() -> Made:
        made = make()
        return Made(made.draft, made.outputs[-1:], made.exactness)

    return [last]


_STEP = Candidates(_make)
CACHE_WRITE = Kind(
    "CacheWrite",
    "cache_write",
    (
        Slot("block", Takes.STAGE),
        Slot("buffer", Takes.BUFFER, attr=True, keyword="write_buffer_index", side="write"),
        Slot("storage_scope", Takes.SCOPE, attr=True),
        Slot("consumer_blocks", Takes.BLOCKS, default=None, quiet=True),
        Slot("copy_in", Takes.FLAG, default=False, attr=True, extra=True),
    ),
    _STEP.rewrite,
    """Let a block write a buffer in another scope, from which a copy brings the result to where it was written. Returns the
    copy's block.

    Legal where all other readers see what they saw before; ``consumer_blocks`` read the cache itself. What the block does not
    write must not be copied out over what was there: with ``copy_in=True`` it is copied in first. Buffer and block are named ``B_local``.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[v] + 1
    ... '''))
    >>> sch.cache_write("B", 0, "local")
    BlockRV('B_local')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        B_local = T.alloc_buffer((8,), "int32", scope="local")
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.reads(A[v])
                T.writes(B_local[v])
                B_local[v] = A[v] + 1
        for ax0 in range(8):
            with T.block("B_local"):
                v0 = T.axis.spatial(8, ax0)
                T.reads(B_local[v0])
                T.writes(B[v0])
                B[v0] = B_local[v0]
    """,
    check=_STEP.check,
    returns="one",
)
