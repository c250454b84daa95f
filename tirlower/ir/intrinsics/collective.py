"""Operations that several threads make together: copies of a call in branches that part them are other calls."""

from __future__ import annotations

from tirlower.ir.intrinsics import asynchronous, matrix, threads
from tirlower.ir.op import Op

__all__ = ["COLLECTIVE"]

# Registered there.
_ = (asynchronous, matrix, threads)

_WARP = (
    "tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "tvm_warp_shuffle_xor", "tvm_warp_activemask",
    "ptx_syncwarp", "ptx_vote_ballot", "ptx_vote_any", "ptx_vote_all", "tvm_load_matrix_sync", "tvm_mma_sync",
    "tvm_bmma_sync", "tvm_fill_fragment", "tvm_store_matrix_sync", "ptx_mma", "ptx_mma_sp", "ptx_ldmatrix",
    "ptx_stmatrix",
)  # fmt: skip
_WARPGROUP = ("ptx_wgmma", "ptx_wgmma_fence", "ptx_wgmma_commit_group", "ptx_wgmma_wait_group")
_BLOCK = ("tvm_storage_sync", "tvm_global_barrier_kinit", "tvm_thread_allreduce")

COLLECTIVE = frozenset(Op.get(f"tir.{name}") for name in (*_WARP, *_WARPGROUP, *_BLOCK))
"""Calls of warps, warpgroups and blocks: all their threads make them, in one branch of the program."""
