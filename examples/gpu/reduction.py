"""The sum of an array, in two kernels: a part for each block, then the sum of the parts."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from examples.gpu._warps import WARP, block_fold
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def reduction(n: int, blocks: int = 1056, threads: int = 256) -> PrimFunc:
    """``B[0] = sum(A)`` for n float32; n is a multiple of 4.

    As many blocks as run at a time (8 on each of an H200's 132 multiprocessors), so that there are few parts; each
    thread walks the array in steps of the whole grid. Neighbouring threads read neighbouring 16 bytes in every step, and
    keep four sums each: their additions don't wait for each other, and the rounding errors of n / (4 x threads x
    blocks) terms add up, not of n. Two kernels and no atomics: the order of the additions, and so the result, is the
    same in every run.
    """
    if n % 4 or threads % WARP:
        raise ValueError(f"n is a multiple of 4 and threads of {WARP}, got {n} and {threads}")
    steps = -(-n // (4 * threads * blocks))

    @T.prim_func
    def reduction(A: T.Buffer((n,), "float32"), B: T.Buffer((1,), "float32")):
        T.func_attr({"tir.noalias": True})
        partial = T.alloc_buffer((blocks,), "float32")
        for bx in T.thread_binding(blocks, thread="blockIdx.x"):
            parts = T.alloc_buffer((threads // WARP,), "float32", scope="shared")
            for tx in T.thread_binding(threads, thread="threadIdx.x"):
                lanes = T.alloc_buffer((4,), "float32", scope="local")
                total = T.alloc_buffer((1,), "float32", scope="local")
                for v in T.vectorized(4):
                    lanes[v] = T.float32(0)
                for s in range(steps):
                    if ((s * blocks + bx) * threads + tx) * 4 < n:
                        for v in T.vectorized(4):
                            lanes[v] = lanes[v] + A[((s * blocks + bx) * threads + tx) * 4 + v]
                total[0] = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
                block_fold(total, parts, lambda x, y: x + y, tx, threads)
                if tx == 0:
                    partial[bx] = total[0]
        for _bx in T.thread_binding(1, thread="blockIdx.x"):
            parts = T.alloc_buffer((threads // WARP,), "float32", scope="shared")
            for tx in T.thread_binding(threads, thread="threadIdx.x"):
                total = T.alloc_buffer((1,), "float32", scope="local")
                total[0] = T.float32(0)
                for s in range((blocks + threads - 1) // threads):
                    if s * threads + tx < blocks:
                        total[0] = total[0] + partial[s * threads + tx]
                block_fold(total, parts, lambda x, y: x + y, tx, threads)
                if tx == 0:
                    B[0] = total[0]

    return reduction


def main() -> None:
    a = np.random.default_rng(0).standard_normal(5000, dtype=np.float32)
    b = np.zeros(1, np.float32)
    where = launch(reduction(5000, blocks=4, threads=64), a, b)
    np.testing.assert_allclose(b[0], a.astype(np.float64).sum(), rtol=1e-5, atol=1e-4)
    print(f"reduction {where} agrees with NumPy")


if __name__ == "__main__":
    main()
