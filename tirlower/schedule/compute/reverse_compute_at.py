"""``reverse_compute_at``: a consumer runs in an iteration of a loop, on what its producers write there."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import Expr, Var
from tirlower.ir.stmt import For, Stmt
from tirlower.schedule.compute.compute_at import keep_stage
from tirlower.schedule.compute.location import Located
from tirlower.schedule.compute.moved import lone, part_of, place_in, source_of, stays_in_scope
from tirlower.schedule.compute.reverse_inline import REVERSE_COMPUTE_INLINE
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import Row
from tirlower.schedule.memory.staging import box_of, touched_under
from tirlower.schedule.places import loads_in, loops_at, reading, writing
from tirlower.schedule.sites import Site, at_site
from tirlower.schedule.stages import Stage
from tirlower.schedule.step import Step

__all__ = ["REVERSE_COMPUTE_AT", "behind"]


def behind(step: Step, stage: Stage, place: Site, only: Sequence[Expr] = (), preserve_unit_loops: bool = False) -> Made:
    """The draft of a stage behind what it reads in an iteration of a loop. ``only``: in which iterations of the loops around."""
    site, func = stage.site, step.func(stage.site)
    loop = at_site(step.state.mod, place)
    assert isinstance(loop, For)
    if place.func != site.func or site.steps[: len(place.steps)] == place.steps:
        step.refuse(f"the loop `{loop.loop_var.name}` is around what is to be moved into it", loop)
    if place.steps[: len(site.steps)] == site.steps:
        step.refuse(f"the loop `{loop.loop_var.name}` is inside of what is to be moved", loop)
    body = (*place.steps, "body")
    mine = {x.loop_var for _, x in loops_at(func, site.steps)}
    around = {x.loop_var for _, x in loops_at(func, body)}
    source = source_of(step, site, sorted(mine & around, key=lambda var: var.name))
    stays_in_scope(step, source, func, site.steps, body)
    row = Row.at(func, body)
    written = [
        (buffer, way)
        for buffer in stage.reads
        for way, _ in writing(step.facts, func, buffer)
        if way[: len(body)] == body
    ]
    if not written:
        step.refuse(f"nothing in the loop `{loop.loop_var.name}` writes what `{source.name}` reads", loop)
    later = [
        row.of(way)
        for store in {one.buffer for _, one in stage.stores()}
        for way, _ in reading(step.facts, func, store)
        if way[: len(body)] == body
    ]
    first = max(row.of(way) for _, way in written) + 1
    last = max(min(later, default=len(row.stmts)), first)
    at = place_in(step, row, first, last)
    draft = Draft(step, site.func)
    needed: dict[Var, Range] = {}
    for buffer in dict.fromkeys(buffer for buffer, _ in written):
        accesses = [access for access in touched_under(step, func, buffer, body) if access.is_write]
        box = box_of(step, func, buffer, body, accesses)
        for _, stmt in step.facts.inside(source.inner):
            for load in loads_in(stmt, buffer):
                for dim, index in enumerate(load.indices):
                    var = lone(index)
                    if var is None or var[0] not in source.domains or var[0] in needed:
                        continue
                    low = build.sub(build.cast(var[0].dtype, box.mins[dim]), build.cast(var[0].dtype, var[1]))
                    extent = build.cast(var[0].dtype, box.room(dim))
                    needed[var[0]] = Range(low, extent)
    known = step.analyzer(place)
    known.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
    part = part_of(step, draft, source, needed, known, preserve_unit_loops, only)
    draft.replace(site.steps)
    _put(draft, row, at, part.nest)
    keep_stage(draft, source, part)
    return Made(draft)


def _put(draft: Draft, row: Row, at: int, nest: Stmt) -> None:
    """Put a nest in front of a child, or behind all."""
    if at < len(row.stmts):
        draft.before(row.place(at), nest)
    else:
        draft.after(row.place(len(row.stmts) - 1), nest)


def _make(step: Step) -> Made:
    return behind(
        step,
        step.stage("block"),
        step.site(step.handle("loop")),
        preserve_unit_loops=bool(step["preserve_unit_loops"]),
    )


_STEP = Located(ValueStep(_make), REVERSE_COMPUTE_INLINE)
REVERSE_COMPUTE_AT = Kind(
    "ReverseComputeAt",
    "reverse_compute_at",
    (
        Slot("block", Takes.STAGE),
        Slot("loop", Takes.LOOP),
        Slot("preserve_unit_loops", Takes.FLAG, default=False, attr=True),
        Slot("index", Takes.INTEGER, default=-1, attr=True),
    ),
    _STEP.rewrite,
    """Run a block in each iteration of a loop, on what is written there of what it reads.

    ``index`` and ``preserve_unit_loops`` as in :meth:`compute_at`. Legal where all that the block did is still done, and
    each of its reads sees the value that it saw before.

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
    >>> sch.reverse_compute_at("C", sch.get_loops("B")[1])
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
        B = T.alloc_buffer((4, 8), "int32")
        for i, j in T.grid(4, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A[vi, vj] * 2
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(B[vi, vj])
                T.writes(C[vi, vj])
                C[vi, vj] = B[vi, vj] + 1
    """,
    check=_STEP.check,
)
