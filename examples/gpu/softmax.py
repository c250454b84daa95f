"""Softmax of each row: a block of threads for a row, which stays in registers; and the same as blocks."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from examples.gpu._warps import WARP, block_fold
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def softmax(rows: int, cols: int, threads: int = 256) -> PrimFunc:
    """``Y[i, :] = exp(X[i, :] - max(X[i, :])) / sum(…)``; cols is a multiple of 4 x threads.

    Bound by the memory, so each element is read once and written once, 16 bytes an access: a thread keeps its part
    of the row in registers between the two reductions. These take five shuffles, one barrier and a broadcast each. All
    loads of a thread are issued before the first is used, and several blocks share a multiprocessor, so that one
    loads while another one reduces.
    """
    if cols % (4 * threads) or threads % WARP:
        raise ValueError(f"{cols} columns are not a multiple of 4 x {threads} threads, or these not of {WARP}")
    parts = cols // (4 * threads)

    @T.prim_func
    def softmax(X: T.Buffer((rows, cols), "float32"), Y: T.Buffer((rows, cols), "float32")):
        T.func_attr({"tir.noalias": True})
        for row in T.thread_binding(rows, thread="blockIdx.x"):
            # One array for each reduction: a warp may begin the second while another one still reads the first.
            tops = T.alloc_buffer((threads // WARP,), "float32", scope="shared")
            totals = T.alloc_buffer((threads // WARP,), "float32", scope="shared")
            for tx in T.thread_binding(threads, thread="threadIdx.x"):
                held = T.alloc_buffer((parts, 4), "float32", scope="local")
                top = T.alloc_buffer((1,), "float32", scope="local")
                total = T.alloc_buffer((1,), "float32", scope="local")
                for p in T.unroll(parts):
                    for v in T.vectorized(4):
                        held[p, v] = X[row, (p * threads + tx) * 4 + v]
                top[0] = T.min_value("float32")
                for p in T.unroll(parts):
                    for v in T.unroll(4):
                        top[0] = T.max(top[0], held[p, v])
                block_fold(top, tops, T.max, tx, threads)
                total[0] = T.float32(0)
                for p in T.unroll(parts):
                    for v in T.unroll(4):
                        held[p, v] = T.exp(held[p, v] - top[0])
                        total[0] = total[0] + held[p, v]
                block_fold(total, totals, lambda x, y: x + y, tx, threads)
                # One division for each thread, then multiplications.
                total[0] = T.float32(1) / total[0]
                for p in T.unroll(parts):
                    for v in T.vectorized(4):
                        Y[row, (p * threads + tx) * 4 + v] = held[p, v] * total[0]

    return softmax


def softmax_blocks(rows: int, cols: int, threads: int = 128) -> PrimFunc:
    """The same as three blocks under bound loops: two reductions and the division.

    Reductions over ``threadIdx.x`` become a loop in each thread and an allreduce (LowerCrossThreadReduction), that
    becomes shuffles (LowerThreadAllreduce); barriers are put where the blocks hand on their results (ThreadSync).
    X is read three times, the second and third time from the cache.
    """
    if cols % threads:
        raise ValueError(f"{cols} columns are not a multiple of {threads} threads")

    @T.prim_func
    def softmax_blocks(X: T.Buffer((rows, cols), "float32"), Y: T.Buffer((rows, cols), "float32")):
        T.func_attr({"tir.noalias": True})
        top = T.alloc_buffer((rows,), "float32", scope="shared")
        total = T.alloc_buffer((rows,), "float32", scope="shared")
        for i in T.thread_binding(rows, thread="blockIdx.x"):
            for ko in range(cols // threads):
                for ki in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("top"):
                        vi = T.axis.spatial(rows, i)
                        vk = T.axis.reduce(cols, ko * threads + ki)
                        with T.init():
                            top[vi] = T.min_value("float32")
                        top[vi] = T.max(top[vi], X[vi, vk])
            for ko in range(cols // threads):
                for ki in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("total"):
                        vi = T.axis.spatial(rows, i)
                        vk = T.axis.reduce(cols, ko * threads + ki)
                        with T.init():
                            total[vi] = T.float32(0)
                        total[vi] = total[vi] + T.exp(X[vi, vk] - top[vi])
            for ko in range(cols // threads):
                for ki in T.thread_binding(threads, thread="threadIdx.x"):
                    with T.block("Y"):
                        vi = T.axis.spatial(rows, i)
                        vj = T.axis.spatial(cols, ko * threads + ki)
                        Y[vi, vj] = T.exp(X[vi, vj] - top[vi]) / total[vi]

    return softmax_blocks


def reference(x: np.ndarray) -> np.ndarray:
    """The softmax of each row, in float64."""
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def main() -> None:
    x = np.random.default_rng(0).standard_normal((3, 512), dtype=np.float32)
    for func in (softmax(3, 512, threads=64), softmax_blocks(3, 512)):
        y = np.zeros_like(x)
        where = launch(func, x, y)
        np.testing.assert_allclose(y, reference(x), rtol=2e-6)
        print(f"{func.name} {where} agrees with NumPy")


if __name__ == "__main__":
    main()
