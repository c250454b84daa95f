"""Copies that go on while threads compute, and the groups and barriers by which threads wait for them.

A pointer operand is a data variable and an offset in its elements. Barriers have numbers within one kernel.
"""

from __future__ import annotations

from tirlower.ir.intrinsics.rules import fixed
from tirlower.ir.op import Op, Purity

# (shared memory, offset, global memory, offset, bytes[, whether to copy: else zeros are written])
Op.register("tir.ptx_cp_async", (5, 6), Purity.OPAQUE, dtype_first=True)
Op.register("tir.ptx_commit_group", 0, Purity.OPAQUE, fixed("void"), dtype_first=True)
# (the number of the newest groups that may be left)
Op.register("tir.ptx_wait_group", 1, Purity.OPAQUE, fixed("void"), dtype_first=True)

# (how many)
Op.register("tir.create_barriers", 1, Purity.OPAQUE, fixed("void"), dtype_first=True)
# (barrier, arrivals that complete a phase)
Op.register("tir.ptx_init_barrier_thread_count", 2, Purity.OPAQUE, fixed("void"), dtype_first=True)
Op.register("tir.ptx_arrive_barrier", 1, Purity.OPAQUE, fixed("void"), dtype_first=True)
# (barrier, bytes that are to come before the phase completes)
Op.register("tir.ptx_arrive_barrier_expect_tx", 2, Purity.OPAQUE, fixed("void"), dtype_first=True)
# (barrier[, parity of the phase whose completion is waited for: 0 by default])
Op.register("tir.ptx_wait_barrier", (1, 2), Purity.OPAQUE, fixed("void"), dtype_first=True)
# (barrier): arrives there when this thread's copies so far are done
Op.register("tir.ptx_cp_async_barrier", 1, Purity.OPAQUE, fixed("void"), dtype_first=True)
# Makes initialised barriers visible to the copy engine.
Op.register("tir.ptx_fence_barrier_init", 0, Purity.OPAQUE, fixed("void"))
# Makes a thread's writes of shared memory visible to the copy engine and to wgmma.
Op.register("tir.ptx_fence_proxy_async", 0, Purity.OPAQUE, fixed("void"))

# (shared memory, offset, global memory, offset, bytes, barrier)
Op.register("tir.ptx_cp_async_bulk", 6, Purity.OPAQUE, dtype_first=True)
# (shared memory, offset, global memory, bytes of the swizzle, barrier, rank, coordinates …, box …, extents …,
#  strides of all dimensions but the last …), outermost dimension first
Op.register("tir.ptx_cp_async_bulk_tensor", (9, None), Purity.OPAQUE, dtype_first=True)
# (global memory, shared memory, offset, bytes of the swizzle, rank, coordinates …, box …, extents …, strides …)
Op.register("tir.ptx_cp_async_bulk_tensor_store", (8, None), Purity.OPAQUE, dtype_first=True)
Op.register("tir.ptx_bulk_commit_group", 0, Purity.OPAQUE, fixed("void"))
Op.register("tir.ptx_bulk_wait_group", 1, Purity.OPAQUE, fixed("void"))
