"""GPU threads: barriers, shuffles, votes, reductions and atomics."""

from __future__ import annotations

from tirlower.ir.intrinsics.rules import fixed, like
from tirlower.ir.op import Op, Purity

# A barrier for a storage scope: "shared", "shared.dyn", "warp", "global".
Op.register("tir.tvm_storage_sync", (1, None), Purity.OPAQUE, fixed("int32"))
# (mask): a barrier of the lanes in the mask
Op.register("tir.ptx_syncwarp", 1, Purity.OPAQUE, fixed("void"))
# (mask, value, lane or offset or mask of the lane, width, warp size)
for _name in ("tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "tvm_warp_shuffle_xor"):
    Op.register(f"tir.{_name}", 5, Purity.OPAQUE, like(1))
Op.register("tir.tvm_warp_activemask", 0, Purity.OPAQUE, fixed("uint32"))
# (mask, condition)
Op.register("tir.ptx_vote_ballot", 2, Purity.OPAQUE, fixed("uint32"))
Op.register("tir.ptx_vote_any", 2, Purity.OPAQUE, fixed("bool"))
Op.register("tir.ptx_vote_all", 2, Purity.OPAQUE, fixed("bool"))
Op.register("tir.tvm_global_barrier_kinit", 0, Purity.OPAQUE, fixed("int32"))
# (number of values, values …, condition, result addresses …, thread variables …)
Op.register("tir.tvm_thread_allreduce", (4, None), Purity.OPAQUE, fixed("handle"), dtype_first=False)
# (address of an element, value[, order[, scope]]): the old value
for _name in ("add", "max", "min", "and", "or", "xor", "exchange"):
    Op.register(f"tir.atomic_{_name}", (2, 4), Purity.OPAQUE, like(1))
# (address of an element, expected, value[, order[, scope]]): the old value; stores where it is the expected one
Op.register("tir.atomic_cas", (3, 5), Purity.OPAQUE, like(2))

# (register, guard, element, index): a guarded 32-bit load
Op.register("tir.ptx_ldg32", 4, Purity.OPAQUE, dtype_first=True)
