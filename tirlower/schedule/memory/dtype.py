"""``unsafe_set_dtype``: a buffer is kept in another data type, with what that does to its values."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.other_buffer import instead
from tirlower.schedule.places import allocation_of
from tirlower.schedule.sites import Change
from tirlower.schedule.step import Step

__all__ = ["UNSAFE_SET_DTYPE"]


def _check(step: Step) -> Verdict:
    buffer, func = step.buffer("buffer"), step.func(step.stage("block").site)
    if allocation_of(step.facts, func, buffer) is None:
        step.refuse(
            f"{buffer.name} is not allocated by the function", None, "cache it: a parameter's type is the caller's"
        )
    if any(pointer is buffer.data for pointer in step.facts.uses(func.body).pointers):
        step.refuse(f"the address of {buffer.name} is taken: a callee would not know its type")
    return PROVED


def _rewrite(step: Step) -> Change:
    buffer, dtype = step.buffer("buffer"), str(step["dtype"])
    if str(buffer.dtype) == dtype:
        return Change()
    new = Buffer(
        buffer.name, buffer.shape, DataType(dtype), strides=buffer.strides, scope=buffer.scope, axis_separators=buffer.axis_separators
    )  # fmt: skip
    return instead(
        step,
        step.stage("block").site,
        buffer,
        new,
        lambda value: build.cast(buffer.dtype.with_lanes(value.dtype.lanes), value),
        lambda value: build.cast(new.dtype.with_lanes(value.dtype.lanes), value),
        f"precision({buffer.name}, {dtype})",
    )


UNSAFE_SET_DTYPE = Kind(
    "UnsafeSetDType",
    "unsafe_set_dtype",
    (
        Slot("block", Takes.STAGE),
        Slot("buffer", Takes.BUFFER, attr=True, keyword="buffer_index", side="write"),
        Slot("dtype", Takes.DTYPE, attr=True),
    ),
    _rewrite,
    """Keep an allocated buffer that a block writes in another data type: what is stored is converted, and converted back where
    it is loaded. That may change values, which the step's exactness says.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ...     B = T.alloc_buffer((8,), "float32")
    ...     for i in range(8):
    ...         B[i] = A[i]
    ...     for i in range(8):
    ...         C[i] = B[i]
    ... '''))
    >>> sch.unsafe_set_dtype("B", 0, "float16")
    >>> sch.steps[-1].exactness
    'precision(B, float16)'
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float16")
        for i in range(8):
            B[i] = T.Cast("float16", A[i])
        for i in range(8):
            C[i] = T.Cast("float32", B[i])
    """,
    check=_check,
)
