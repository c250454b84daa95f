"""What a kernel does, by its prim func: operations, bytes that it reads and writes, scratch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tirlower.analysis.flops import estimate_flops
from tirlower.graph.ops.evaluate import extent_value
from tirlower.graph.run.sites import written_by
from tirlower.ir import Buffer, BufferLoad, PrimFunc
from tirlower.ir.query import each

__all__ = ["Cost", "cost_of"]


@dataclass(frozen=True)
class Cost:
    """The arithmetic operations of a call, the bytes of the arrays that it reads and writes, those that it has for itself."""

    flops: float
    read: int
    written: int
    scratch: int


def cost_of(func: PrimFunc, dims: Mapping[str, int]) -> Cost:
    """What a call of a kernel costs where its dims, by name, have these values."""
    sizes = {p: dims[p.name] for p in func.params if p not in func.buffer_map}
    known = func.specialize(sizes) if sizes else func
    written = written_by(known)
    given = set(known.buffer_map.values())
    loaded = {load.buffer for load in each(BufferLoad, known.body)} & given
    used = {load.buffer for load in each(BufferLoad, known.body)} - given
    return Cost(
        estimate_flops(known),
        sum(_bytes(buffer) for buffer in known.buffer_map.values() if buffer in loaded and buffer not in written),
        sum(map(_bytes, written)),
        sum(map(_bytes, used)),
    )


def _bytes(buffer: Buffer) -> int:
    total = (buffer.dtype.bits + 7) // 8
    for extent in buffer.shape:
        total *= extent_value(extent, {})
    return total
