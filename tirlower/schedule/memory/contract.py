"""``contract``: a buffer with a dimension less, where elements that differ in it alone may share their place."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.diagnostics import BadArgument
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, const
from tirlower.ir.stmt import AllocBuffer
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of
from tirlower.schedule.memory.staging import buffer_named, no_pointers, redirect
from tirlower.schedule.places import allocation_of
from tirlower.schedule.step import Step

__all__ = ["CONTRACT"]


def _make(step: Step) -> Made:
    name = function_of(step.state)
    func = step.state.mod[name]
    buffer, dim = buffer_named(step, func, step["buffer"]), step["dim"]
    assert isinstance(dim, int)
    dims = len(buffer.shape)
    if not -dims <= dim < dims:
        raise BadArgument(f"dim={dim} is out of range: {buffer.name} has {dims} dimensions")
    dim %= dims
    home = allocation_of(step.facts, func, buffer)
    if home is None:
        step.refuse(f"{buffer.name} is a parameter, which the caller allocates")
    if buffer.strides:
        step.refuse(f"{buffer.name} has strides of its own", home[1])
    no_pointers(step, func, buffer, ("body",))
    shape = [extent for at, extent in enumerate(buffer.shape) if at != dim] or [const(1, buffer.shape[0].dtype)]
    target = Buffer(buffer.name, tuple(shape), buffer.dtype, scope=buffer.scope)

    def fewer(at: Sequence[Expr]) -> list[Expr]:
        return [index for n, index in enumerate(at) if n != dim] or [const(0, at[0].dtype)]

    draft = Draft(step, name)
    redirect(draft, buffer, target, ("body",), fewer)
    draft.replace(home[0], AllocBuffer(target))
    return Made(draft, buffers={buffer: target})


_STEP = ValueStep(_make)
CONTRACT = Kind(
    "Contract",
    "contract",
    (Slot("buffer", Takes.MEMORY, attr=True), Slot("dim", Takes.INTEGER, attr=True)),
    _STEP.rewrite,
    """Take a dimension from a buffer: elements that differ in it alone share their place. ``dim`` may be negative, from the end.

    Legal where each element is read for the last time before another one of its place is written.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    ...     B = T.alloc_buffer((8,), "int32")
    ...     for i in range(8):
    ...         B[i] = A[i] * 2
    ...         C[i] = B[i] + 1
    ... '''))
    >>> sch.contract("B", 0)
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((1,), "int32")
        for i in range(8):
            B[0] = A[i] * 2
            C[i] = B[0] + 1
    """,
    check=_STEP.check,
    tvm=False,
)
