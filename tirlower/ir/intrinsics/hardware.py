"""Direct memory access engines and other devices' operations."""

from __future__ import annotations

from tirlower.ir.intrinsics.rules import fixed
from tirlower.ir.op import Op, Purity

# (queue, destination, source, bytes, bypass cache)
Op.register("tir.dma_copy", 5, Purity.OPAQUE, fixed("int32"))
Op.register("tir.dma_wait", 2, Purity.OPAQUE, fixed("int32"))
Op.register("tir.dma_start_group", 1, Purity.OPAQUE, fixed("int32"))
Op.register("tir.dma_end_group", 1, Purity.OPAQUE, fixed("int32"))
