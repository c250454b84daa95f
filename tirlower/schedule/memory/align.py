"""``storage_align``: the stride of a dimension of a buffer is so many elements more than a multiple."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir.annotations import BUFFER_DIM_ALIGN
from tirlower.ir.buffer import Buffer
from tirlower.ir.stmt import Block
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.places import allocation_of
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["STORAGE_ALIGN"]


def _entry(step: Step) -> tuple[Block, Buffer, tuple[int, int, int, int]]:
    stage = step.stage("block")
    block = stage.block
    if block is None:
        step.refuse("the annotation stands on a block", stage.stmt, "make a block of the statement first")
    index, axis, factor, offset = (step[name] for name in ("buffer_index", "axis", "factor", "offset"))
    assert isinstance(index, int)
    assert isinstance(axis, int)
    assert isinstance(factor, int)
    assert isinstance(offset, int)
    if not 0 <= index < len(stage.writes):
        raise BadArgument(f"buffer_index={index} is out of range: {len(stage.writes)} buffers are written there")
    buffer = stage.writes[index]
    dims = len(buffer.shape)
    if not -dims <= axis < dims:
        raise BadArgument(f"axis={axis} is out of range: {buffer.name} has {dims} dimensions")
    if factor <= 0:
        raise BadArgument(f"factor={factor} is not positive")
    return block, buffer, (index, axis % dims, factor, offset)


def _check(step: Step) -> Verdict:
    _, buffer, _ = _entry(step)
    func = step.func(step.stage("block").site)
    if allocation_of(step.facts, func, buffer) is None:
        step.refuse(f"{buffer.name} is a parameter: its strides are the caller's", None, "cache it first")
    if any(pointer is buffer.data for pointer in step.facts.uses(func.body).pointers):
        step.refuse(f"the address of {buffer.name} is taken: a callee would not know its strides")
    return PROVED


def _rewrite(step: Step) -> Change:
    block, _, entry = _entry(step)
    known = block.annotations.get(BUFFER_DIM_ALIGN, ())
    assert isinstance(known, tuple)
    kept = tuple(one for one in known if tuple(one)[:2] != entry[:2])
    new = block.with_(annotations={**block.annotations, BUFFER_DIM_ALIGN: (*kept, entry)})
    forward = Forward()
    forward.keep(block, new)
    return Change(Edit(step.stage("block").site, new), forward)


STORAGE_ALIGN = Kind(
    "StorageAlign",
    "storage_align",
    (
        Slot("block", Takes.BLOCK),
        Slot("buffer_index", Takes.INTEGER, attr=True),
        Slot("axis", Takes.INTEGER, attr=True),
        Slot("factor", Takes.INTEGER, attr=True),
        Slot("offset", Takes.INTEGER, attr=True),
    ),
    _rewrite,
    """Let the stride of a dimension of an allocated buffer that a block writes be ``offset`` more than a multiple of
    ``factor``, so that rows do not meet in one bank of memory. An entry of the same dimension is replaced.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    ...     B = T.alloc_buffer((8, 8), "int32")
    ...     for i, j in T.grid(8, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj]
    ...     for i, j in T.grid(8, 8):
    ...         C[i, j] = B[j, i]
    ... '''))
    >>> sch.storage_align("B", 0, -2, 8, 1)
    >>> sch.get(sch.get_block("B")).annotations
    {'buffer_dim_align': ((0, 0, 8, 1),)}
    """,
    check=_check,
)
