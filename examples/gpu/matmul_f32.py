"""Matrix multiplication in float32 without tensor cores: tiles in shared memory, and smaller ones in registers."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def matmul(M: int, N: int, K: int, *, BM: int = 128, BN: int = 128, BK: int = 16, TM: int = 8, TN: int = 8) -> PrimFunc:
    """``C = A @ B``: a block makes a BM x BN tile of C in steps of BK, each thread TM x TN elements of it.

    Why it is fast, from the memory inwards (the figures are those of the default sizes):

    - A block reads (128 + 128) x 16 floats for 128 x 128 x 16 multiplications: 64 for each float from memory.
    - The next tiles are under way, in registers, while this one is multiplied; two buffers in shared memory take turns,
      so that one barrier a step is enough.
    - All accesses of memory are of 16 bytes. A's tile is stored transposed, so that a thread finds its rows side by
      side; the rows of the transposed tile are 4 words further apart than they need be, and the scattered stores of a warp
      then meet in twos at a bank (without, in fours; less padding would break the 16 bytes of the loads).
    - In a step of k a thread loads 8 + 8 floats, as four 16-byte accesses, for 64 multiplications. The 32 threads
      of a warp form 4 rows of 8: together they need 4 x 16 bytes of A and 8 x 16 bytes of B at a time, each at most
      one pass over the 32 banks, the same word being broadcast. A thread's rows are two groups of four, 16 apart, and
      its columns two groups of four, 32 apart, so that neighbours read neighbouring 16 bytes.

    Raises ValueError for sizes that are no multiples of the tiles.
    """
    if M % BM or N % BN or K % BK:
        raise ValueError(f"{M} x {N} x {K} is not a multiple of the tiles {BM} x {BN} x {BK}")
    threads = (BM // TM) * (BN // TN)
    vectors = BM * BK % (4 * threads) == 0 and BK * BN % (4 * threads) == 0
    if not vectors or TM % 4 or TN % 4 or BK % 4 or BM % (4 * TM) or BN % (8 * TN):
        raise ValueError(f"threads of {TM} x {TN} elements do not divide tiles of {BM} x {BN} x {BK}")
    steps = K // BK
    a_loads, b_loads = BM * BK // (4 * threads), BK * BN // (4 * threads)
    warps_n = BN // (8 * TN)

    @T.macro
    def fetch(A, B, next_a, next_b, by, bx, tx, step):
        """The tiles of a step, from memory to registers: 16 bytes an access."""
        for l in T.unroll(a_loads):
            for v in T.vectorized(4):
                next_a[l, v] = A[
                    by * BM + (l * threads + tx) // (BK // 4), step * BK + (l * threads + tx) % (BK // 4) * 4 + v
                ]
        for l in T.unroll(b_loads):
            for v in T.vectorized(4):
                next_b[l, v] = B[
                    step * BK + (l * threads + tx) // (BN // 4), bx * BN + (l * threads + tx) % (BN // 4) * 4 + v
                ]

    @T.macro
    def put(tile_a, tile_b, next_a, next_b, tx, stage):
        """From registers to shared memory, A's tile transposed."""
        for l in T.unroll(a_loads):
            for v in T.unroll(4):
                tile_a[stage, (l * threads + tx) % (BK // 4) * 4 + v, (l * threads + tx) // (BK // 4)] = next_a[l, v]
        for l in T.unroll(b_loads):
            for v in T.vectorized(4):
                tile_b[stage, (l * threads + tx) // (BN // 4), (l * threads + tx) % (BN // 4) * 4 + v] = next_b[l, v]

    @T.prim_func
    def matmul(A: T.Buffer((M, K), "float32"), B: T.Buffer((K, N), "float32"), C: T.Buffer((M, N), "float32")):
        T.func_attr({"tir.noalias": True})
        for by in T.thread_binding(M // BM, thread="blockIdx.y"):
            for bx in T.thread_binding(N // BN, thread="blockIdx.x"):
                tile_a = T.alloc_buffer((2, BK, BM), "float32", strides=(BK * (BM + 4), BM + 4, 1), scope="shared")
                tile_b = T.alloc_buffer((2, BK, BN), "float32", scope="shared")
                for tx in T.thread_binding(threads, thread="threadIdx.x"):
                    sums = T.alloc_buffer((TM, TN), "float32", scope="local")
                    a = T.alloc_buffer((TM,), "float32", scope="local")
                    b = T.alloc_buffer((TN,), "float32", scope="local")
                    next_a = T.alloc_buffer((a_loads, 4), "float32", scope="local")
                    next_b = T.alloc_buffer((b_loads, 4), "float32", scope="local")
                    # The first row and column of this thread in the block's tile.
                    row: T.let[T.int32] = tx // 32 // warps_n * (4 * TM) + tx % 32 // 8 * 4
                    col: T.let[T.int32] = tx // 32 % warps_n * (8 * TN) + tx % 8 * 4
                    for i, j in T.grid(TM, TN):
                        sums[i, j] = T.float32(0)
                    fetch(A, B, next_a, next_b, by, bx, tx, 0)
                    put(tile_a, tile_b, next_a, next_b, tx, 0)
                    T.tvm_storage_sync("shared")
                    for step in range(steps):
                        if step + 1 < steps:
                            fetch(A, B, next_a, next_b, by, bx, tx, step + 1)
                        for k in T.unroll(BK):
                            for i in T.unroll(TM // 4):
                                for v in T.vectorized(4):
                                    a[i * 4 + v] = tile_a[step % 2, k, row + i * 16 + v]
                            for j in T.unroll(TN // 4):
                                for v in T.vectorized(4):
                                    b[j * 4 + v] = tile_b[step % 2, k, col + j * 32 + v]
                            for i in T.unroll(TM):
                                for j in T.unroll(TN):
                                    sums[i, j] = sums[i, j] + a[i] * b[j]
                        if step + 1 < steps:
                            # The other buffer: its last readers have passed the barrier of the step before.
                            put(tile_a, tile_b, next_a, next_b, tx, (step + 1) % 2)
                        T.tvm_storage_sync("shared")
                    for i in T.unroll(TM):
                        for j in T.unroll(TN // 4):
                            for v in T.vectorized(4):
                                C[by * BM + row + i // 4 * 16 + i % 4, bx * BN + col + j * 32 + v] = sums[i, j * 4 + v]

    return matmul


def main() -> None:
    rng = np.random.default_rng(0)
    M, N, K = 64, 64, 32
    a, b = rng.standard_normal((M, K), dtype=np.float32), rng.standard_normal((K, N), dtype=np.float32)
    c = np.zeros((M, N), np.float32)
    # Smaller tiles than a GPU wants, for a matrix that the simulator can take.
    where = launch(matmul(M, N, K, BM=32, BN=32, BK=8, TM=4, TN=4), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)
    print(f"matmul {where} agrees with NumPy")


if __name__ == "__main__":
    main()
