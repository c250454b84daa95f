"""Tensor cores and asynchronous copies."""

from __future__ import annotations

from tirlower.ir.intrinsics.rules import fixed
from tirlower.ir.op import Op, Purity

for _name, _arity in (
    ("tvm_load_matrix_sync", 8),
    ("tvm_mma_sync", 8),
    ("tvm_bmma_sync", 8),
    ("tvm_fill_fragment", 6),
    ("tvm_store_matrix_sync", 8),
):
    Op.register(f"tir.{_name}", _arity, Purity.OPAQUE, fixed("handle"), dtype_first=False)
for _name in ("ptx_mma", "ptx_mma_sp", "ptx_ldmatrix", "ptx_stmatrix", "ptx_cp_async", "ptx_cp_async_bulk"):
    Op.register(f"tir.{_name}", (1, None), Purity.OPAQUE, dtype_first=True)
for _name in ("mma_store", "mma_fill"):
    Op.register(f"tir.{_name}", (1, None), Purity.OPAQUE, dtype_first=True)
Op.register("tir.ptx_ldg32", 4, Purity.OPAQUE, dtype_first=True)
Op.register("tir.ptx_commit_group", 0, Purity.OPAQUE, fixed("void"), dtype_first=True)
Op.register("tir.ptx_wait_group", 1, Purity.OPAQUE, fixed("void"), dtype_first=True)
Op.register("tir.ptx_cp_async_barrier", 1, Purity.OPAQUE, fixed("void"), dtype_first=True)
Op.register("tir.ptx_init_barrier_thread_count", 2, Purity.OPAQUE, fixed("void"), dtype_first=True)
Op.register("tir.ptx_arrive_barrier", 1, Purity.OPAQUE, fixed("void"), dtype_first=True)
Op.register("tir.ptx_arrive_barrier_expect_tx", 2, Purity.OPAQUE, fixed("void"), dtype_first=True)
Op.register("tir.ptx_wait_barrier", 1, Purity.OPAQUE, fixed("void"), dtype_first=True)
Op.register("tir.create_barriers", 1, Purity.OPAQUE, fixed("void"), dtype_first=True)
