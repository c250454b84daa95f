"""``expand``: what each iteration of a loop allocates becomes a slice of one buffer with a dimension for the iterations."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, Max, Var, const
from tirlower.ir.query import mentions
from tirlower.ir.stmt import AllocBuffer, For
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.staging import buffer_named, no_pointers, redirect
from tirlower.schedule.places import allocation_of
from tirlower.schedule.step import Step

__all__ = ["EXPAND"]


def _make(step: Step) -> Made:
    handle = step.handle("loop")
    site, loop = step.site(handle), step.loop(handle)
    func = step.func(site)
    # other memory may have the name too, as what was expanded before
    own = [one.buffer for _, one in step.facts.inside(loop) if isinstance(one, AllocBuffer)]
    named = next((buffer for buffer in own if buffer.name == step["buffer"]), step["buffer"])
    buffer = buffer_named(step, func, named, (*site.steps, "body"))
    found = allocation_of(step.facts, func, buffer)
    if found is None or found[0][: len(site.steps)] != site.steps:
        step.refuse(f"{buffer.name} is not allocated in the loop `{loop.loop_var.name}`", loop)
    path, alloc = found
    if buffer.strides:
        step.refuse(f"{buffer.name} has strides of its own", alloc)
    no_pointers(step, func, buffer, path)
    inside: set[Var] = {stmt.loop_var for _, stmt in step.facts.inside(loop) if isinstance(stmt, For)}
    if any(mentions(extent, inside) for extent in buffer.shape):
        step.refuse(f"the shape of {buffer.name} depends on the loop", alloc, "give it the greatest shape first")
    draft = Draft(step, site.func)
    known = step.analyzer(site)
    extent, nothing = loop.extent, const(0, loop.extent.dtype)
    if not known.can_prove(extent >= nothing):  # a loop may run no times, memory is of no negative size
        extent = Max(extent, nothing)
    target = Buffer(buffer.name, (extent, *buffer.shape), buffer.dtype, scope=buffer.scope, align=buffer.align)
    at = known.simplify(build.sub(loop.loop_var, loop.min))

    def indices(given: Sequence[Expr]) -> list[Expr]:
        return [at, *given]

    redirect(draft, buffer, target, (*site.steps, "body"), indices)
    draft.replace(path)
    draft.before(site.steps, AllocBuffer(target))
    return Made(draft)


_STEP = ValueStep(_make)
EXPAND = Kind(
    "Expand",
    "expand",
    (Slot("buffer", Takes.MEMORY, attr=True), Slot("loop", Takes.LOOP)),
    _STEP.rewrite,
    """Allocate what each iteration of a loop allocates once in front of it, with a dimension for the iterations in front of
    the others. The statements of the loop may part from each other then.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         B = T.alloc_buffer((1,), "int32")
    ...         B[0] = A[i]
    ...         C[i] = B[0] + 1
    ... '''))
    >>> sch.expand("B", "i")
    >>> _ = sch.fission("i")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8, 1), "int32")
        for i in range(8):
            B[i, 0] = A[i]
        for i in range(8):
            C[i] = B[i, 0] + 1
    """,
    check=_STEP.check,
    tvm=False,
)
