"""Vector addition: the first kernel, written thread by thread, and as a block with bound loops."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

THREADS = 256


def vector_add(n: int) -> PrimFunc:
    """``C = A + B`` for n float32; n is a multiple of 4.

    Each thread adds four neighbours: one 16-byte load from A, one from B, one 16-byte store. 16 bytes is the widest
    access there is, and a warp's accesses then are 512 bytes in a row (four whole cache lines). With some 2048 threads
    on a multiprocessor 64 KB are under way at a time, more than what covers the latency of the memory (an H200 needs
    about 30 KB for each of its 132 multiprocessors), so nothing more has to be unrolled.
    """
    if n % 4:
        raise ValueError(f"n is a multiple of 4, got {n}")
    blocks = -(-n // (4 * THREADS))

    @T.prim_func
    def vector_add(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32"), C: T.Buffer((n,), "float32")):
        T.func_attr({"tir.noalias": True})
        for bx in T.thread_binding(blocks, thread="blockIdx.x"):
            for tx in T.thread_binding(THREADS, thread="threadIdx.x"):
                # The last block may have too many threads; as n is a multiple of 4, one test guards all four elements.
                if (bx * THREADS + tx) * 4 < n:
                    for v in T.vectorized(4):
                        i = (bx * THREADS + tx) * 4 + v
                        C[i] = A[i] + B[i]

    return vector_add


def vector_add_blocks(n: int) -> PrimFunc:
    """The same as a computation block under bound loops, which the passes lower to the kernel above.

    The block says what is computed, the loops around it who computes it; ``T.where`` leaves out what is too many.
    """
    if n % 4:
        raise ValueError(f"n is a multiple of 4, got {n}")
    blocks = -(-n // (4 * THREADS))

    @T.prim_func
    def vector_add_blocks(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32"), C: T.Buffer((n,), "float32")):
        T.func_attr({"tir.noalias": True})
        for bx in T.thread_binding(blocks, thread="blockIdx.x"):
            for tx in T.thread_binding(THREADS, thread="threadIdx.x"):
                for v in T.vectorized(4):
                    with T.block("C"):
                        T.where((bx * THREADS + tx) * 4 + v < n)
                        i = T.axis.spatial(n, (bx * THREADS + tx) * 4 + v)
                        C[i] = A[i] + B[i]

    return vector_add_blocks


def main() -> None:
    rng = np.random.default_rng(0)
    for make in (vector_add, vector_add_blocks):
        n = 2500
        a, b = rng.standard_normal(n, dtype=np.float32), rng.standard_normal(n, dtype=np.float32)
        c = np.zeros_like(a)
        where = launch(make(n), a, b, c)
        np.testing.assert_array_equal(c, a + b)
        print(f"{make.__name__} {where} agrees with NumPy")


if __name__ == "__main__":
    main()
