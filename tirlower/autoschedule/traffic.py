"""How much memory a nest moves, and which of its outputs are better written past the caches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tirlower.autoschedule.classify import Nest
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import IntImm
from tirlower.machine.processor import Processor

__all__ = ["bytes_of", "inputs", "outputs", "streamed"]

PARTS: Final = 2
"""An output is written past the caches where it is more than this part of the last one: by then what is read has left it."""


def bytes_of(buffer: Buffer) -> int | None:
    """The bytes of a buffer, where that is a number."""
    total = -(-buffer.dtype.bits * buffer.dtype.lanes // 8)
    for extent in buffer.shape:
        if not isinstance(extent, IntImm):
            return None
        total *= extent.value
    return total


def outputs(nests: Iterable[Nest]) -> list[Buffer]:
    """The buffers of the caller that nests write."""
    return _buffers(nests, True)


def inputs(nests: Iterable[Nest]) -> list[Buffer]:
    """The buffers that nests read."""
    return _buffers(nests, False)


def _buffers(nests: Iterable[Nest], written: bool) -> list[Buffer]:
    found: dict[Buffer, None] = {}
    for nest in nests:
        parameters = set(nest.func.buffers)
        for access in nest.accesses():
            if access.buffer is not None and access.is_write is written:
                if not written or access.buffer in parameters:
                    found[access.buffer] = None
    return list(found)


def streamed(nests: Sequence[Nest], processor: Processor) -> int:
    """The bytes that nests write of arrays of the caller which nothing of the function reads; 0 where they fit into half of
    the last cache, from which the caller has them sooner."""
    scop = nests[0].scop
    read = {access.data for access in scop.accesses if not access.is_write}
    total = 0
    for buffer in outputs(nests):
        size = bytes_of(buffer)
        if size is not None and buffer.data not in read:
            total += size
    return total if total > processor.l3 // PARTS else 0
