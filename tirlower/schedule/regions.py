"""The declared regions of blocks, kept what the blocks do."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.analysis.access_region import get_block_read_write_region
from tirlower.ir.annotations import EXPLICIT_READ, EXPLICIT_WRITE, entries_of
from tirlower.ir.buffer import Buffer, BufferRegion
from tirlower.ir.expr import Var
from tirlower.ir.stmt import Block

__all__ = ["with_regions"]


def with_regions(
    block: Block, buffers: Mapping[Var, Buffer] | None = None, renamed: Mapping[Buffer, Buffer] | None = None
) -> Block:
    """A block whose declared reads and writes are those of its body, but for those marked explicit.

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
    reads, writes = get_block_read_write_region(block, buffers)
    return block.with_(
        reads=_kept(block, block.reads, reads, EXPLICIT_READ, renamed or {}),
        writes=_kept(block, block.writes, writes, EXPLICIT_WRITE, renamed or {}),
    )


def _kept(
    block: Block, old: tuple[BufferRegion, ...], new: list[BufferRegion], key: str, renamed: Mapping[Buffer, Buffer]
) -> tuple[BufferRegion, ...]:
    fixed = {at for at in entries_of(block.annotations, key) if isinstance(at, int)}
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
