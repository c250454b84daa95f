"""Matrix multiplication on tensor cores: bfloat16 in, float32 sums, ``mma.sync`` with ``ldmatrix`` and ``cp.async``.

For devices from ``sm_80`` on. A block of threads computes one tile of C. Tiles of A and B come from global memory by
asynchronous 16-byte copies into a ring of ``stages`` buffers in shared memory, so that copies of later steps run while
the tensor cores work on the present one. This is the structure of CUTLASS's multistage kernels (NVIDIA, 2020).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from examples.gpu._running import launch
from examples.gpu._tiles import CHUNK, swizzled
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def tensor_core_matmul(
    M: int,
    N: int,
    K: int,
    *,
    BM: int = 128,
    BN: int = 128,
    BK: int = 32,
    warps: tuple[int, int] = (2, 2),
    stages: int = 4,
    out: str = "float32",
    group: int = 8,
) -> PrimFunc:
    """``C = A @ B`` for A ``(M, K)`` and B ``(K, N)`` in bfloat16, row-major; C ``(M, N)`` has the dtype ``out``.

    A block has ``warps[0] x warps[1]`` warps and computes a tile of ``BM x BN``, in steps of BK along K; ``stages``
    tiles are in flight. ``group`` rows of tiles are walked column by column: blocks that run at the same time
    then share panels of A and B in the second-level cache. M may be any size, N and K any multiple of 8 (copies move 16
    bytes); a tile that does not fit is guarded. Raises
    ValueError for tiles that the warps cannot share evenly.
    """
    threads = 32 * warps[0] * warps[1]
    warp_m, warp_n = BM // warps[0], BN // warps[1]
    if BM % (16 * warps[0]) or BN % (16 * warps[1]) or BK % 16 or BN % 64 or (BK not in (16, 32) and BK % 64):
        raise ValueError(f"a tile of {BM} x {BN} x {BK} does not divide into 16 x 16 x 16 pieces for {warps} warps")
    # Chunks of a row of each tile, and the rows that the threads copy at a time.
    a_chunks, b_chunks = BK // CHUNK, BN // CHUNK
    a_rows, b_rows = threads // a_chunks, threads // b_chunks
    if threads % a_chunks or threads % b_chunks or not a_rows or not b_rows or BM % a_rows or BK % b_rows:
        raise ValueError(f"{threads} threads do not copy whole rows of tiles of {BM} x {BK} and {BK} x {BN}")
    if N % CHUNK or K % CHUNK:
        raise ValueError(f"rows of {K} and {N} elements do not start at 16 bytes; pad them to multiples of {CHUNK}")
    if stages < 2:
        raise ValueError(f"a ring of {stages} stage cannot overlap copies with work; take 2 or more")

    MT, NT = warp_m // 16, warp_n // 8  # 16 x 8 pieces of C of one warp
    grid_m, grid_n, steps = -(-M // BM), -(-N // BN), -(-K // BK)
    a_size, b_size = BM * BK, BK * BN
    b_base = stages * a_size  # the ring of B follows the ring of A
    edge_m, edge_n, edge_k = M % BM != 0, N % BN != 0, K % BK != 0

    def inside(m: Any = 0, n: Any = 0, k: Any = 0) -> Any:
        """Whether a place is in the matrices; constant true along the dimensions that the tiles divide."""
        guards = [(edge_m, m, M), (edge_n, n, N), (edge_k, k, K)]
        found: Any = True
        for needed, at, size in guards:
            if needed:
                found = at < size if found is True else T.And(found, at < size)
        return found

    @T.macro
    def copy_step(A, B, tiles, tx, m0, n0, step, stage):
        # Neighbouring threads take neighbouring chunks of a row, so that a warp reads whole sectors of global memory.
        a_row, a_chunk = tx // a_chunks, tx % a_chunks
        for i in T.unroll(BM // a_rows):
            m = m0 + i * a_rows + a_row
            k = step * BK + a_chunk * CHUNK
            T.ptx_cp_async(
                "bfloat16", tiles.data, stage * a_size + swizzled(i * a_rows + a_row, a_chunk, BK),
                A.data, m * K + k, 16, inside(m=m, k=k),
            )  # fmt: skip
        b_row, b_chunk = tx // b_chunks, tx % b_chunks
        for i in T.unroll(BK // b_rows):
            k = step * BK + i * b_rows + b_row
            n = n0 + b_chunk * CHUNK
            T.ptx_cp_async(
                "bfloat16", tiles.data, b_base + stage * b_size + swizzled(i * b_rows + b_row, b_chunk, BN),
                B.data, k * N + n, 16, inside(k=k, n=n),
            )  # fmt: skip

    @T.prim_func
    def matmul_bf16(A: T.Buffer((M, K), "bfloat16"), B: T.Buffer((K, N), "bfloat16"), C: T.Buffer((M, N), out)):
        T.func_attr({"tir.noalias": True})
        for bx in T.thread_binding(grid_m * grid_n, thread="blockIdx.x"):
            for tx in T.thread_binding(threads, thread="threadIdx.x"):
                tiles = T.alloc_buffer((stages * (a_size + b_size),), "bfloat16", scope="shared.dyn")
                acc = T.alloc_buffer((MT * NT * 4,), "float32", scope="local")
                a_frag = T.alloc_buffer((MT * 8,), "bfloat16", scope="local")
                b_frag = T.alloc_buffer((NT * 4,), "bfloat16", scope="local")

                # Tiles in groups of `group` rows; the last group may have fewer.
                first = bx // (group * grid_n) * group
                rows = group if grid_m % group == 0 else T.min(grid_m - first, group)
                m0 = (first + bx % (group * grid_n) % rows) * BM
                n0 = bx % (group * grid_n) // rows * BN

                lane = tx % 32
                wm = tx // 32 // warps[1] * warp_m
                wn = tx // 32 % warps[1] * warp_n

                for i in T.unroll(MT * NT * 4):
                    acc[i] = T.float32(0)
                for s in T.unroll(stages - 1):
                    if s < steps:
                        copy_step(A, B, tiles, tx, m0, n0, s, s)
                    T.ptx_commit_group()

                for step in range(steps):
                    # One group is committed a step, empty or not, so all but the newest stages - 2 being done means
                    # that this step's tiles are here: for this thread's copies by the wait, for all by the barrier.
                    T.ptx_wait_group(stages - 2)
                    T.tvm_storage_sync("shared")
                    # The buffer to fill is the one that step - 1 read; the same barrier says that all are done with it.
                    if step + stages - 1 < steps:
                        copy_step(A, B, tiles, tx, m0, n0, step + stages - 1, (step + stages - 1) % stages)
                    T.ptx_commit_group()

                    for kk in T.unroll(BK // 16):
                        # Four 8 x 8 matrices a call. Lanes 0-15 give the rows of the left two, lanes 16-31 of the
                        # right two: just the order of a thread's elements in an A fragment ...
                        for i in T.unroll(MT):
                            T.ptx_ldmatrix(
                                "bfloat16", False, 4, ".b16", a_frag.data, i * 8, tiles.data,
                                step % stages * a_size
                                + swizzled(wm + i * 16 + lane % 16, kk * 2 + lane // 16, BK),
                            )  # fmt: skip
                        # ... and, transposed on the way since B lies along n but its fragment runs along k, of the two
                        # B fragments of 16 columns.
                        for j in T.unroll(NT // 2):
                            T.ptx_ldmatrix(
                                "bfloat16", True, 4, ".b16", b_frag.data, j * 8, tiles.data,
                                b_base + step % stages * b_size
                                + swizzled(kk * 16 + lane % 16, wn // CHUNK + j * 2 + lane // 16, BN),
                            )  # fmt: skip
                        for i in T.unroll(MT):
                            for j in T.unroll(NT):
                                T.ptx_mma(
                                    "float32", "m16n8k16", "row", "col", "bf16", "bf16", "fp32",
                                    a_frag.data, i * 8, b_frag.data, j * 4, acc.data, (i * NT + j) * 4, False,
                                )  # fmt: skip

                # A thread holds two neighbouring elements of row lane // 4 and two of the row eight below.
                for i in T.unroll(MT):
                    for j in T.unroll(NT):
                        for half in T.unroll(2):
                            m = m0 + wm + i * 16 + half * 8 + lane // 4
                            n = n0 + wn + j * 8 + lane % 4 * 2
                            if inside(m=m, n=n):
                                for v in T.vectorized(2):
                                    C[m, n + v] = T.cast(acc[(i * NT + j) * 4 + half * 2 + v], out)

    return matmul_bf16


def main() -> None:
    rng = np.random.default_rng(0)
    M, N, K = 72, 40, 104  # no multiple of the tile in any dimension; four steps through a ring of three
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((M, K), (K, N)))
    c = np.empty((M, N), np.float32)
    func = tensor_core_matmul(M, N, K, BM=64, BN=64)
    where = launch(func, a, b, c)
    # Products of bfloat16 are exact in float32; sums of K terms err by at most K roundings of the terms' magnitude.
    left, right = a.astype(np.float64), b.astype(np.float64)
    bound = K * np.finfo(np.float32).eps * (abs(left) @ abs(right))
    np.testing.assert_array_less(abs(c - left @ right), bound)
    print(f"{func.name} {where} agrees with NumPy")


if __name__ == "__main__":
    main()
