"""``compute_at``: a producer is computed in an iteration of a loop, for what its consumers read there."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import Var
from tirlower.ir.stmt import BufferStore
from tirlower.poly.scop import Access
from tirlower.schedule.compute.inline import COMPUTE_INLINE
from tirlower.schedule.compute.location import Located
from tirlower.schedule.compute.moved import Part, Source, lone, part_of, place_in, source_of, stays_in_scope
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import Row
from tirlower.schedule.memory.staging import box_of, touched_under
from tirlower.schedule.places import loops_at, reading, writing
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["COMPUTE_AT", "keep_stage"]


def _make(step: Step) -> Made:
    stage, handle = step.stage("block"), step.handle("loop")
    site, place = stage.site, step.site(handle)
    loop = step.loop(handle)
    func = step.func(site)
    if place.func != site.func or site.steps[: len(place.steps)] == place.steps:
        step.refuse(f"the loop `{loop.loop_var.name}` is around what is to be moved into it", loop)
    if place.steps[: len(site.steps)] == site.steps:
        step.refuse(f"the loop `{loop.loop_var.name}` is inside of what is to be moved", loop)
    stores = [store for _, store in stage.stores()]
    buffers = list(dict.fromkeys(store.buffer for store in stores))
    body = (*place.steps, "body")
    around = {x.loop_var for _, x in loops_at(func, (*body,))}
    mine = {x.loop_var for _, x in loops_at(func, site.steps)}
    source = source_of(step, site, sorted(mine & around, key=lambda var: var.name))
    stays_in_scope(step, source, func, site.steps, body)
    row = Row.at(func, body)
    readers = [way for buffer in buffers for way, _ in reading(step.facts, func, buffer) if way[: len(body)] == body]
    if not readers:
        step.refuse(f"nothing in the loop `{loop.loop_var.name}` reads what `{source.name}` computes", loop)
    inputs = [
        row.of(way)
        for buffer in stage.reads
        for way, _ in writing(step.facts, func, buffer)
        if way[: len(body)] == body
    ]
    last = min(row.of(way) for way in readers)
    at = place_in(step, row, min(max(inputs, default=-1) + 1, last), last)
    draft = Draft(step, site.func)
    needed = _needed(step, source, buffers, stores, body)
    known = step.analyzer(place)
    known.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
    part = part_of(step, draft, source, needed, known, bool(step["preserve_unit_loops"]))
    draft.replace(site.steps)
    draft.before(row.place(at), part.nest)
    keep_stage(draft, source, part)
    return Made(draft)


def keep_stage(draft: Draft, source: Source, part: Part) -> None:
    """A block goes on in its new loops; the old ones that stood around it alone are no more."""
    if source.block is not None:
        draft.forward.keep(source.inner, part.inner)
    trails = draft.trails
    there = {id(stmt) for _, part in trails.made() for _, stmt in draft.step.facts.inside(part)}
    there.update(id(stmt) for _, stmt in trails.kept())
    for loop in source.loops:
        if id(draft.forward.after(loop)) not in there:
            draft.forward.end(loop, *part.loops)


def _needed(
    step: Step, source: Source, buffers: Sequence[Buffer], stores: Sequence[BufferStore], body: Steps
) -> dict[Var, Range]:
    """The iterations that compute what is read in one iteration of the loop: the box of each iterator."""
    func = step.func(step.site(step.handle("block")))
    found: dict[Var, Range] = {}
    inside = {id(stmt) for _, stmt in step.facts.inside(source.inner)}
    for buffer in buffers:
        accesses: list[Access] = [
            one
            for one in touched_under(step, func, buffer, body)
            if not one.is_write and id(one.statement.node) not in inside
        ]
        if not accesses:
            continue
        box = box_of(step, func, buffer, body, accesses)
        for store in stores:
            if store.buffer is not buffer:
                continue
            for dim, index in enumerate(store.indices):
                var = lone(index)
                if var is None or var[0] not in source.domains:
                    continue
                low = build.sub(build.cast(var[0].dtype, box.mins[dim]), build.cast(var[0].dtype, var[1]))
                part = Range(low, build.cast(var[0].dtype, box.room(dim)))
                old = found.get(var[0])
                if old is None:
                    found[var[0]] = part
                elif str(old) != str(part):
                    end = build.max_(build.add(old.min, old.extent), build.add(part.min, part.extent))
                    least = build.min_(old.min, part.min)
                    found[var[0]] = Range(least, build.sub(end, least))
    return found


_STEP = Located(ValueStep(_make), COMPUTE_INLINE)
COMPUTE_AT = Kind(
    "ComputeAt",
    "compute_at",
    (
        Slot("block", Takes.STAGE),
        Slot("loop", Takes.LOOP),
        Slot("preserve_unit_loops", Takes.FLAG, default=False, attr=True),
        Slot("index", Takes.INTEGER, default=-1, attr=True),
    ),
    _STEP.rewrite,
    """Compute a block in each iteration of a loop, for what is read of it there; it may be computed several times then.

    ``index``: where in the body, -1 the last possible place, -2 the first, or a number. Loops are ``ax0`` …, those of one
    iteration are left out but with ``preserve_unit_loops=True``. Legal where every read sees the value that it saw before,
    and what goes into the value is there what it was at the old place.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    ...     B = T.alloc_buffer((4, 8), "int32")
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj] * 2
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("C"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             C[vi, vj] = B[vi, vj] + 1
    ... '''))
    >>> sch.compute_at("B", sch.get_loops("C")[0])
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
        B = T.alloc_buffer((4, 8), "int32")
        for i in range(4):
            for ax0 in range(8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, ax0])
                    T.reads(A[vi, vj])
                    T.writes(B[vi, vj])
                    B[vi, vj] = A[vi, vj] * 2
            for j in range(8):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(B[vi, vj])
                    T.writes(C[vi, vj])
                    C[vi, vj] = B[vi, vj] + 1
    """,
    check=_STEP.check,
)
