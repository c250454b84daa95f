"""Prefix sums in three kernels: the sums of tiles, the sums before each tile, the sums within."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from examples.gpu._warps import WARP, block_fold, block_scan
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def prefix_sum(n: int, threads: int = 256, items: int = 16) -> PrimFunc:
    """``B[i] = A[0] + … + A[i]`` for n int32; n is a multiple of the tile, items x threads, and items of 4.

    12 bytes move for each element: A is read twice and B written. (Storing sums within tiles first, and adding the
    carry later, would move 16.) A thread has ``items`` neighbours, so that the exchange between threads is a small part
    of the additions; it loads them 16 bytes at a time, and the cache lines of a warp's loads are used up by its next
    ones. The sums of the tiles are few (1/4096 of the elements); one block scans them.
    """
    tile = threads * items
    if n % tile or items % 4 or threads % WARP:
        raise ValueError(f"{n} is not a multiple of {items} x {threads}, or these not of 4 and {WARP}")
    tiles = n // tile

    @T.prim_func
    def prefix_sum(A: T.Buffer((n,), "int32"), B: T.Buffer((n,), "int32")):
        T.func_attr({"tir.noalias": True})
        carry = T.alloc_buffer((tiles,), "int32")
        # The sum of each tile. The order is free here, so neighbouring threads take neighbouring elements.
        for bx in T.thread_binding(tiles, thread="blockIdx.x"):
            parts = T.alloc_buffer((threads // WARP,), "int32", scope="shared")
            for tx in T.thread_binding(threads, thread="threadIdx.x"):
                lanes = T.alloc_buffer((4,), "int32", scope="local")
                total = T.alloc_buffer((1,), "int32", scope="local")
                for v in T.vectorized(4):
                    lanes[v] = 0
                for p in T.unroll(items // 4):
                    for v in T.vectorized(4):
                        lanes[v] = lanes[v] + A[bx * tile + (p * threads + tx) * 4 + v]
                total[0] = lanes[0] + lanes[1] + lanes[2] + lanes[3]
                block_fold(total, parts, lambda x, y: x + y, tx, threads)
                if tx == 0:
                    carry[bx] = total[0]
        # What comes before each tile: one block, a tile's sum for each thread, and a running total of what is done.
        for _bx in T.thread_binding(1, thread="blockIdx.x"):
            parts = T.alloc_buffer((threads // WARP,), "int32", scope="shared")
            for tx in T.thread_binding(threads, thread="threadIdx.x"):
                own = T.alloc_buffer((1,), "int32", scope="local")
                value = T.alloc_buffer((1,), "int32", scope="local")
                total = T.alloc_buffer((1,), "int32", scope="local")
                done = T.alloc_buffer((1,), "int32", scope="local")
                done[0] = 0
                for s in range((tiles + threads - 1) // threads):
                    own[0] = 0
                    if s * threads + tx < tiles:
                        own[0] = carry[s * threads + tx]
                    value[0] = own[0]
                    # All have read the parts of the step before when the first writes those of this one.
                    T.tvm_storage_sync("shared")
                    block_scan(value, total, parts, tx, threads)
                    if s * threads + tx < tiles:
                        carry[s * threads + tx] = done[0] + value[0] - own[0]
                    done[0] = done[0] + total[0]
        # The sums within each tile: in a thread, between threads, and added up.
        for bx in T.thread_binding(tiles, thread="blockIdx.x"):
            parts = T.alloc_buffer((threads // WARP,), "int32", scope="shared")
            for tx in T.thread_binding(threads, thread="threadIdx.x"):
                held = T.alloc_buffer((items,), "int32", scope="local")
                value = T.alloc_buffer((1,), "int32", scope="local")
                total = T.alloc_buffer((1,), "int32", scope="local")
                before = T.alloc_buffer((1,), "int32", scope="local")
                for p in T.unroll(items // 4):
                    for v in T.vectorized(4):
                        held[p * 4 + v] = A[bx * tile + tx * items + p * 4 + v]
                for i in T.unroll(1, items):
                    held[i] = held[i] + held[i - 1]
                value[0] = held[items - 1]
                block_scan(value, total, parts, tx, threads)
                before[0] = carry[bx] + value[0] - held[items - 1]
                for p in T.unroll(items // 4):
                    for v in T.vectorized(4):
                        B[bx * tile + tx * items + p * 4 + v] = held[p * 4 + v] + before[0]

    return prefix_sum


def main() -> None:
    n = 10 * 64 * 4
    a = np.random.default_rng(0).integers(-1000, 1000, n).astype(np.int32)
    b = np.zeros_like(a)
    where = launch(prefix_sum(n, threads=64, items=4), a, b)
    np.testing.assert_array_equal(b, np.cumsum(a))
    print(f"prefix_sum {where} agrees with NumPy")


if __name__ == "__main__":
    main()
