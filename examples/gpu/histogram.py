"""A histogram of bytes: counted with atomics in shared memory, then added up with atomics in memory."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from examples.gpu._warps import WARP
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

BINS = 256


def histogram(n: int, blocks: int = 1056, threads: int = 256) -> PrimFunc:
    """``counts[b]``: how many of n bytes are b; n is a multiple of 16.

    A thread loads 16 bytes at a time. Each warp counts into a histogram of its own (8 KB for 8 warps), so that only the
    threads of one warp can meet in a counter, even where all bytes are equal. Memory sees 256 additions from each
    block, and there are only as many blocks as run at a time.
    """
    if n % 16 or threads % WARP:
        raise ValueError(f"n is a multiple of 16 and threads of {WARP}, got {n} and {threads}")
    steps = -(-n // (16 * threads * blocks))
    warps = threads // WARP

    @T.prim_func
    def histogram(data: T.Buffer((n,), "uint8"), counts: T.Buffer((BINS,), "int32")):
        T.func_attr({"tir.noalias": True})
        for _bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(BINS, thread="threadIdx.x"):
                counts[tx] = 0
        for bx in T.thread_binding(blocks, thread="blockIdx.x"):
            bins = T.alloc_buffer((warps, BINS), "int32", scope="shared")
            for tx in T.thread_binding(threads, thread="threadIdx.x"):
                held = T.alloc_buffer((16,), "uint8", scope="local")
                total = T.alloc_buffer((1,), "int32", scope="local")
                for p in T.unroll(BINS // WARP):
                    bins[tx // WARP, p * WARP + tx % WARP] = 0
                T.tvm_storage_sync("shared")
                for s in range(steps):
                    if ((s * blocks + bx) * threads + tx) * 16 < n:
                        for v in T.vectorized(16):
                            held[v] = data[((s * blocks + bx) * threads + tx) * 16 + v]
                        for v in T.unroll(16):
                            T.evaluate(T.atomic_add(T.address_of(bins[tx // WARP, T.Cast("int32", held[v])]), 1))
                T.tvm_storage_sync("shared")
                for p in range((BINS + threads - 1) // threads):
                    if p * threads + tx < BINS:
                        total[0] = 0
                        for w in T.unroll(warps):
                            total[0] = total[0] + bins[w, p * threads + tx]
                        T.evaluate(T.atomic_add(T.address_of(counts[p * threads + tx]), total[0]))

    return histogram


def main() -> None:
    data = np.random.default_rng(0).integers(0, 256, 4800).astype(np.uint8)
    counts = np.zeros(BINS, np.int32)
    where = launch(histogram(4800, blocks=3, threads=64), data, counts)
    np.testing.assert_array_equal(counts, np.bincount(data, minlength=BINS))
    print(f"histogram {where} agrees with NumPy")


if __name__ == "__main__":
    main()
