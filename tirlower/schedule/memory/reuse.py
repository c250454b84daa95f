"""``reuse``: two buffers in the memory of one."""

from __future__ import annotations

from tirlower.arith import Analyzer
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of
from tirlower.schedule.memory.staging import buffer_named, no_pointers, redirect
from tirlower.schedule.places import allocation_of, parent, reading, writing
from tirlower.schedule.step import Step

__all__ = ["REUSE"]


def _make(step: Step) -> Made:
    name = function_of(step.state)
    func = step.state.mod[name]
    kept, gone = (buffer_named(step, func, step[word]) for word in ("buffer", "other"))
    if kept is gone:
        step.refuse("one buffer is its own memory already")
    homes = [allocation_of(step.facts, func, one) for one in (kept, gone)]
    for home, one in zip(homes, (kept, gone), strict=True):
        if home is None or one.strides:
            step.refuse(f"{one.name} is a parameter, or has strides of its own: its memory is another one's")
        no_pointers(step, func, one, ("body",))
    assert homes[0] is not None
    assert homes[1] is not None
    alike = kept.dtype is gone.dtype and kept.scope == gone.scope and len(kept.shape) == len(gone.shape)
    if not alike:
        step.refuse(f"{kept.name} and {gone.name} differ in data type, scope or dimensions", homes[1][1])
    known = Analyzer()
    for dim, (room, extent) in enumerate(zip(kept.shape, gone.shape, strict=True)):
        if not known.can_prove(extent <= room):
            step.refuse(f"the dimension {dim} of {gone.name} may be longer than that of {kept.name}", homes[1][1])
    around = parent(homes[0][0])
    uses = [way for way, _ in (*reading(step.facts, func, gone), *writing(step.facts, func, gone))]
    if any(way[: len(around)] != around or way < homes[0][0] for way in uses):
        step.refuse(
            f"{kept.name} is not allocated where {gone.name} is used", homes[0][1], "lift_alloc brings it further out"
        )
    draft = Draft(step, name)
    redirect(draft, gone, kept, ("body",), list)
    draft.replace(homes[1][0])
    draft.also.add(kept.data)
    return Made(draft)


_STEP = ValueStep(_make)
REUSE = Kind(
    "Reuse",
    "reuse",
    (Slot("buffer", Takes.MEMORY, attr=True), Slot("other", Takes.MEMORY, attr=True)),
    _STEP.rewrite,
    """Keep another buffer in the memory of a buffer, whose name then stands for both.

    Legal where no element of one is written while the other's element in its place is still to be read. Both have one data type and scope, and
    the other one is no larger in any dimension.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):
    ...     B = T.alloc_buffer((8,), "int32")
    ...     C = T.alloc_buffer((8,), "int32")
    ...     for i in range(8):
    ...         B[i] = A[i] * 2
    ...     for i in range(8):
    ...         C[i] = B[i] + 1
    ...     for i in range(8):
    ...         X[i] = C[7 - i]
    ... '''))
    >>> sch.reuse("B", "C")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i] * 2
        for i in range(8):
            B[i] = B[i] + 1
        for i in range(8):
            X[i] = B[7 - i]
    """,
    check=_STEP.check,
    tvm=False,
)
