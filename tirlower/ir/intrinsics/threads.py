"""GPU threads: barriers, shuffles, votes, reductions and atomics."""

from __future__ import annotations

from tirlower.ir.intrinsics.rules import fixed, like
from tirlower.ir.op import Op, Purity

# A barrier for a storage scope: "shared", "shared.dyn", "warp", "global".
Op.register("tir.tvm_storage_sync", (1, None), Purity.OPAQUE, fixed("int32"))
# (mask, value, lane or offset, width, warp size)
for _name in ("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down"):
    Op.register(f"tir.{_name}", 5, Purity.OPAQUE, like(1))
Op.register("tir.tvm_warp_activemask", 0, Purity.OPAQUE, fixed("uint32"))
Op.register("tir.tvm_global_barrier_kinit", 0, Purity.OPAQUE, fixed("int32"))
# (number of values, values …, condition, result addresses …, thread variables …)
Op.register("tir.tvm_thread_allreduce", (4, None), Purity.OPAQUE, fixed("handle"), dtype_first=False)
# (address of an element, value)
Op.register("tir.atomic_add", 2, Purity.OPAQUE, like(1))
Op.register("tir.atomic_max", 2, Purity.OPAQUE, like(1))
Op.register("tir.atomic_min", 2, Purity.OPAQUE, like(1))
