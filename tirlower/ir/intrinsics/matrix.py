"""Tensor cores: products of fragments that a warp or a warpgroup holds, and moves of fragments.

A pointer operand is a data variable and an offset in its elements. Type names inside calls are PTX's short ones
(``"fp16"``, ``"bf16"``, ``"tf32"``, ``"int8"`` …) or data types.
"""

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

# (shape, A layout, B layout, A type, B type, C type, A, offset, B, offset, C, offset, saturate[, bit operation])
Op.register("tir.ptx_mma", (13, 14), Purity.OPAQUE, dtype_first=True)
# … with (metadata, offset, sparse selector) before saturate
Op.register("tir.ptx_mma_sp", (16, None), Purity.OPAQUE, dtype_first=True)
# (transposed, number of matrices, ".b16", registers, offset, shared memory, offset of this thread's row)
Op.register("tir.ptx_ldmatrix", 7, Purity.OPAQUE, dtype_first=True)
# (transposed, number of matrices, ".b16", shared memory, offset of this thread's row, registers, offset)
Op.register("tir.ptx_stmatrix", 7, Purity.OPAQUE, dtype_first=True)
# (elements a thread, registers, offset)
Op.register("tir.mma_fill", 3, Purity.OPAQUE, dtype_first=True)
# (rows, columns, pointer to the first element, registers, offset, stride of a row)
Op.register("tir.mma_store", 6, Purity.OPAQUE, dtype_first=True)

# (shape, A type, B type, accumulators, offset, A in shared memory, offset, B in shared memory, offset,
#  bytes of the swizzle, whether D is added, A transposed, B transposed)
Op.register("tir.ptx_wgmma", 13, Purity.OPAQUE, dtype_first=True)
Op.register("tir.ptx_wgmma_fence", 0, Purity.OPAQUE, fixed("void"))
Op.register("tir.ptx_wgmma_commit_group", 0, Purity.OPAQUE, fixed("void"))
# (the number of the newest groups that may be left)
Op.register("tir.ptx_wgmma_wait_group", 1, Purity.OPAQUE, fixed("void"))

# Fragments of a simdgroup (Metal): (fragment, index, value, columns, rows), (fragment, index, pointer, stride, columns,
# rows, transposed), (fragment and index of the result, of both factors and of what is added).
Op.register("tir.make_filled_simdgroup_matrix", (3, 5), Purity.OPAQUE, fixed("handle"), dtype_first=False)
Op.register("tir.simdgroup_load", (4, 7), Purity.OPAQUE, fixed("handle"), dtype_first=False)
Op.register("tir.simdgroup_store", (4, 7), Purity.OPAQUE, fixed("handle"), dtype_first=False)
Op.register("tir.simdgroup_multiply_accumulate", 8, Purity.OPAQUE, fixed("handle"), dtype_first=False)
