"""``lift_alloc`` and ``privatize``: memory of a loop's iterations as one outside of it, and one outside as one of each."""

from __future__ import annotations

from tirlower.ir.expr import Var
from tirlower.ir.query import mentions
from tirlower.ir.stmt import AllocBuffer, For
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.staging import buffer_named
from tirlower.schedule.places import allocation_of, reading, writing
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["LIFT_ALLOC", "PRIVATIZE"]


def _allocation(step: Step) -> tuple[Draft, Steps, AllocBuffer, Steps, For]:
    """The edits, the allocation of the buffer with its place, the loop with its own."""
    handle = step.handle("loop")
    site, loop = step.site(handle), step.loop(handle)
    func = step.func(site)
    buffer = buffer_named(step, func, step["buffer"])
    found = allocation_of(step.facts, func, buffer)
    if found is None:
        step.refuse(f"{buffer.name} is a parameter, which the caller allocates")
    return Draft(step, site.func), found[0], found[1], site.steps, loop


def _lift(step: Step) -> Made:
    draft, path, alloc, place, loop = _allocation(step)
    if path[: len(place)] != place:
        step.refuse(f"{alloc.buffer.name} is not allocated in the loop `{loop.loop_var.name}`", loop)
    inside = {stmt.loop_var for _, stmt in step.facts.inside(loop) if isinstance(stmt, For)}
    if any(mentions(part, inside) for part in (*alloc.buffer.shape, *alloc.buffer.strides)):
        step.refuse(f"the shape of {alloc.buffer.name} depends on the loop", alloc, "give it the greatest shape first")
    draft.replace(path)
    draft.before(place, alloc)
    draft.also.add(alloc.buffer.data)
    return Made(draft)


def _privatize(step: Step) -> Made:
    draft, path, alloc, place, loop = _allocation(step)
    buffer = alloc.buffer
    if path[: len(place)] == place:
        step.refuse(f"{buffer.name} is allocated in the loop `{loop.loop_var.name}` already", loop)
    uses = [way for way, _ in (*reading(step.facts, draft.old, buffer), *writing(step.facts, draft.old, buffer))]
    if any(way[: len(place)] != place for way in uses):
        step.refuse(f"{buffer.name} is used outside of the loop `{loop.loop_var.name}`", loop)
    names: set[Var] = {buffer.data}
    if any(pointer in names for pointer in step.facts.uses(draft.old.body).pointers):
        step.refuse(f"the address of {buffer.name} is taken")
    draft.replace(path)
    draft.before((*place, "body"), alloc)
    draft.also.add(buffer.data)
    return Made(draft)


_LIFT, _PRIVATIZE = ValueStep(_lift), ValueStep(_privatize)
LIFT_ALLOC = Kind(
    "LiftAlloc",
    "lift_alloc",
    (Slot("buffer", Takes.MEMORY, attr=True), Slot("loop", Takes.LOOP)),
    _LIFT.rewrite,
    """Allocate a buffer once in front of a loop, not in each of its iterations. Not where these run at once.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         B = T.alloc_buffer((1,), "int32")
    ...         B[0] = A[i]
    ...         C[i] = B[0] + 1
    ... '''))
    >>> sch.lift_alloc("B", "i")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((1,), "int32")
        for i in range(8):
            B[0] = A[i]
            C[i] = B[0] + 1
    """,
    check=_LIFT.check,
    tvm=False,
)
PRIVATIZE = Kind(
    "Privatize",
    "privatize",
    (Slot("buffer", Takes.MEMORY, attr=True), Slot("loop", Takes.LOOP)),
    _PRIVATIZE.rewrite,
    """Give each iteration of a loop a buffer of its own, which may run at once then. Legal where no iteration reads what
    another one wrote.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    ...     B = T.alloc_buffer((1,), "int32")
    ...     for i in range(8):
    ...         B[0] = A[i]
    ...         C[i] = B[0] + 1
    ... '''))
    >>> sch.can("parallel", "i").proved
    False
    >>> sch.privatize("B", "i")
    >>> sch.can("parallel", "i").proved
    True
    """,
    check=_PRIVATIZE.check,
    tvm=False,
)
