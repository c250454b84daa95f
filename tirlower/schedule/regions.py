"""The declared regions of blocks, kept what the blocks do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tirlower.analysis.access_region import get_block_read_write_region
from tirlower.ir.annotations import EXPLICIT_READ, EXPLICIT_WRITE, entries_of
from tirlower.ir.buffer import Buffer, BufferRegion
from tirlower.ir.expr import Call, GlobalVar, Var
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, Evaluate, Stmt

__all__ = ["has_opaque_call", "is_opaque_call", "with_regions"]

_CALLS = frozenset((Op.get("tir.call_extern"), Op.get("tir.tvm_call_packed"), Op.get("tir.tvm_call_cpacked")))


def is_opaque_call(stmt: Evaluate) -> bool:
    """Whether a statement is a call of which is not known what it does, and which comes back."""
    return isinstance(stmt.value, Call) and (isinstance(stmt.value.op, GlobalVar) or stmt.value.op in _CALLS)


def has_opaque_call(root: Stmt) -> bool:
    """Whether such a call stands in a statement."""
    return any(is_opaque_call(op) for op in each(Evaluate, root))


def with_regions(
    block: Block, buffers: Mapping[Var, Buffer] | None = None, renamed: Mapping[Buffer, Buffer] | None = None
) -> Block:
    """A block whose declared reads and writes are those of its body, but for those marked explicit, and those of unknown calls.

    ``buffers`` are the buffers outside by their data variables. A region of a buffer that was declared before keeps its
    place among the others, so that places in traces still mean it, and so does one that is accessed instead (``renamed``); a block that declares none and has no iterators (a root) stays as it is.

    >>> from tirlower.ir import BufferLoad, BufferStore, Buffer
    >>> A, B = Buffer("A", (8,)), Buffer("B", (8,))
    >>> body = BufferStore(B, BufferLoad(A, (0,)), (0,))
    >>> made = with_regions(Block("copy", (), True, [A.region()], [], None, (), {}, body))
    >>> [str(region) for region in (*made.reads, *made.writes)]
    ['A[0]', 'B[0]']
    """
    if not (block.iters or block.reads or block.writes):
        return block
    if has_opaque_call(block.body):
        # What the calls touch is said by what is declared, and by nothing else.
        keep = {EXPLICIT_READ: range(len(block.reads)), EXPLICIT_WRITE: range(len(block.writes))}
    else:
        keep = {}
    reads, writes = get_block_read_write_region(block, buffers)
    return block.with_(
        reads=_kept(block, block.reads, reads, EXPLICIT_READ, renamed or {}, keep.get(EXPLICIT_READ, ())),
        writes=_kept(block, block.writes, writes, EXPLICIT_WRITE, renamed or {}, keep.get(EXPLICIT_WRITE, ())),
    )


def _kept(
    block: Block,
    old: tuple[BufferRegion, ...],
    new: list[BufferRegion],
    key: str,
    renamed: Mapping[Buffer, Buffer],
    keep: Iterable[int],
) -> tuple[BufferRegion, ...]:
    fixed = {*keep, *(at for at in entries_of(block.annotations, key) if isinstance(at, int))}
    by_buffer = {region.buffer: region for region in new}
    made: list[BufferRegion] = []
    for at, region in enumerate(old):
        found = by_buffer.pop(region.buffer, None)
        if found is None and region.buffer in renamed:
            found = by_buffer.pop(renamed[region.buffer], None)
        if at in fixed:
            made.append(region)
        elif found is not None:
            made.append(found)
    return (*made, *(region for region in new if region.buffer in by_buffer))
