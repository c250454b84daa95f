"""Matrix multiplication for Hopper (``sm_90a``): tiles come by TMA, ``wgmma`` multiplies them out of shared memory.

One warp only orders copies; the others, two warpgroups of four warps, only multiply. They meet at barriers in shared
memory: a stage of the ring is *full* when the bytes of both its tiles have arrived, and *empty* when every consuming
warp is done with it. So no thread of the block ever waits for a barrier of all threads within the main loop, and
copies run ahead by as many steps as the ring has stages. The division of labour is that of CUTLASS 3 (NVIDIA, 2022).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from examples.gpu._running import launch
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

SWIZZLE = 128
"""Bytes of a row of a tile in shared memory, and the span within which TMA permutes its 16-byte chunks."""


def hopper_matmul(
    M: int,
    N: int,
    K: int,
    *,
    BM: int = 128,
    BN: int = 256,
    stages: int = 4,
    out: str = "float32",
    group: int = 8,
) -> PrimFunc:
    """``C = A @ B.T`` for A ``(M, K)`` and B ``(N, K)`` in bfloat16, row-major; C ``(M, N)`` has the dtype ``out``.

    Both operands run along K, as ``wgmma`` takes them without a transposition. A block computes a tile of ``BM x BN``,
    64 rows for each of its ``BM / 64`` consuming warpgroups, in steps of 64 along K, which is what a swizzled row of 128
    bytes holds. The larger the tile, the fewer bytes are read for each product: 128 x 256 with 4 stages takes 192
    KiB of shared memory and 128 registers of a thread for sums. ``group`` rows of tiles are walked column by column,
    so that blocks that run at the same time share panels in the second-level cache. bfloat16 results whose rows are
    multiples of 16 bytes are gathered in shared memory and stored as tiles. K must be a multiple of 8 and N
    even; TMA fills what lies outside of the matrices with zeros. Raises ValueError for other sizes or tiles.
    """
    BK = SWIZZLE // 2
    if BM % 64 or BN % 8 or not 8 <= BN <= 256 or BM > 256:
        raise ValueError(f"a tile of {BM} x {BN} is not made of wgmma's 64 x n, n a multiple of 8 up to 256")
    if K % 8 or N % 2:
        raise ValueError(f"K = {K} is not a multiple of 8 (TMA's strides are multiples of 16 bytes), or N = {N} is odd")
    if BN * BK * 2 % 1024:
        raise ValueError(f"tiles of {BN} rows would not start at multiples of 1024 bytes, as the swizzle needs")

    warpgroups = BM // 64
    consumers = 4 * warpgroups  # warps; the producer is the one after them, since warpgroups start at multiples of four
    grid_m, grid_n, steps = -(-M // BM), -(-N // BN), -(-K // BK)
    a_size, b_size = BM * BK, BN * BK
    b_base = stages * a_size
    step_bytes = 2 * (a_size + b_size)
    sums = BN // 2  # of a thread: 64 x BN elements over 128 threads
    shape = f"m64n{BN}k16"
    edge_m, edge_n = M % BM != 0, N % BN != 0
    # A result of 16 bits goes out as tiles: a thread's own stores would be of 4 bytes, and half a sector for a row.
    boxes = BN // BK if out == "bfloat16" and N % 8 == 0 and BN % BK == 0 else 0

    @T.macro
    def store_tile(tiles, C, acc, tx, m0, n0):
        """The tile of C through shared memory, where the ring was: swizzled, so that no two rows meet at a bank."""
        # All products have read their tiles.
        T.tvm_storage_sync("shared")
        if tx // 32 < consumers:
            for j in T.unroll(BN // 8):
                for half in T.unroll(2):
                    row = tx // 32 * 16 + half * 8 + tx % 32 // 4
                    for v in T.vectorized(2):
                        tiles[j // 8 * (BM * BK) + row * BK + (j % 8 ^ (row % 8)) * 8 + tx % 4 * 2 + v] = T.cast(
                            acc[j * 4 + half * 2 + v], out
                        )
            T.ptx_fence_proxy_async()
        T.tvm_storage_sync("shared")
        if tx == 0:
            for box in T.unroll(boxes):
                T.ptx_cp_async_bulk_tensor_store(
                    out, C.data, tiles.data, box * (BM * BK), SWIZZLE,
                    2, m0, n0 + box * BK, BM, BK, M, N, N,
                )  # fmt: skip
            T.ptx_bulk_commit_group()
            T.ptx_bulk_wait_group(0)

    @T.prim_func
    def matmul_hopper(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((N, K), "bfloat16"), C: T.Buffer((M, N), out)):
        T.func_attr({"tir.noalias": True})
        for bx in T.thread_binding(grid_m * grid_n, thread="blockIdx.x"):
            for tx in T.thread_binding(32 * (consumers + 1), thread="threadIdx.x"):
                # One allocation, so that each tile lies at a multiple of 1024 bytes: the swizzle is of addresses.
                tiles = T.alloc_buffer((stages * (a_size + b_size),), "bfloat16", scope="shared.dyn")
                acc = T.alloc_buffer((sums,), "float32", scope="local")

                # Tiles in groups of `group` rows; the last group may have fewer.
                first = bx // (group * grid_n) * group
                rows = group if grid_m % group == 0 else T.min(grid_m - first, group)
                m0 = (first + bx % (group * grid_n) % rows) * BM
                n0 = bx % (group * grid_n) // rows * BN

                # Barrier s: stage s is full. Barrier stages + s: it is empty.
                T.create_barriers(2 * stages)
                if tx == 0:
                    for s in T.unroll(stages):
                        T.ptx_init_barrier_thread_count(s, 1)
                        T.ptx_init_barrier_thread_count(stages + s, consumers)
                    # The unit that copies must see the barriers, too, not only the threads.
                    T.ptx_fence_barrier_init()
                T.tvm_storage_sync("shared")

                if tx // 32 == consumers:
                    if tx % 32 == 0:
                        for step in range(steps):
                            stage = step % stages
                            # In the first round nobody has to empty the ring: of a fresh barrier the phase of parity
                            # 1 counts as complete. From then on it is the consumers' previous round that is awaited.
                            T.ptx_wait_barrier(stages + stage, (step // stages + 1) % 2)
                            T.ptx_arrive_barrier_expect_tx(stage, step_bytes)
                            T.ptx_cp_async_bulk_tensor(
                                "bfloat16", tiles.data, stage * a_size, A.data, SWIZZLE, stage,
                                2, m0, step * BK, BM, BK, M, K, K,
                            )  # fmt: skip
                            T.ptx_cp_async_bulk_tensor(
                                "bfloat16", tiles.data, b_base + stage * b_size, B.data, SWIZZLE, stage,
                                2, n0, step * BK, BN, BK, N, K, K,
                            )  # fmt: skip
                else:
                    for i in T.unroll(sums):
                        acc[i] = T.float32(0)
                    for step in range(steps):
                        stage = step % stages
                        T.ptx_wait_barrier(stage, step // stages % 2)
                        T.ptx_wgmma_fence()
                        # 16 elements of K a time: 32 bytes further within the swizzled rows.
                        for kk in T.unroll(BK // 16):
                            T.ptx_wgmma(
                                "float32", shape, "bf16", "bf16", acc.data, 0,
                                tiles.data, stage * a_size + tx // 128 * (64 * BK) + kk * 16,
                                tiles.data, b_base + stage * b_size + kk * 16,
                                SWIZZLE, True, False, False,
                            )  # fmt: skip
                        T.ptx_wgmma_commit_group()
                        # This step's products go on; those of the step before are done, so its stage can be refilled.
                        T.ptx_wgmma_wait_group(1)
                        if step > 0:
                            if tx % 32 == 0:
                                T.ptx_arrive_barrier(stages + (step - 1) % stages)
                    T.ptx_wgmma_wait_group(0)

                    if not boxes:
                        # A warp has 16 rows; a thread two neighbouring elements of every eight, in rows r and r + 8.
                        for j in T.unroll(BN // 8):
                            for half in T.unroll(2):
                                m = m0 + tx // 32 * 16 + half * 8 + tx % 32 // 4
                                n = n0 + j * 8 + tx % 4 * 2
                                if (not edge_m or m < M) and (not edge_n or n < N):
                                    for v in T.vectorized(2):
                                        C[m, n + v] = T.cast(acc[j * 4 + half * 2 + v], out)
                if boxes:
                    store_tile(tiles, C, acc, tx, m0, n0)

    return matmul_hopper


def main() -> None:
    rng = np.random.default_rng(0)
    M, N, K = 100, 72, 328  # no multiple of the tile in any dimension; six steps through a ring of four
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((M, K), (N, K)))
    c = np.empty((M, N), np.float32)
    func = hopper_matmul(M, N, K, BM=128, BN=128)
    where = launch(func, a, b, c)
    # Products of bfloat16 are exact in float32; sums of K terms err by at most K roundings of the terms' magnitude.
    left, right = a.astype(np.float64), b.astype(np.float64).T
    bound = K * np.finfo(np.float32).eps * (abs(left) @ abs(right))
    np.testing.assert_array_less(abs(c - left @ right), bound)
    print(f"{func.name} {where} agrees with NumPy")


if __name__ == "__main__":
    main()
