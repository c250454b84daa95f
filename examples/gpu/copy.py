"""A copy: the most that a kernel reads and writes at once, to which those that the memory bounds are held."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def copy(n: int, threads: int = 1024) -> PrimFunc:
    """``B = A`` for n float32; n is a multiple of 4.

    A thread moves 16 bytes: 2048 threads of a multiprocessor have enough under way.
    """
    if n % 4:
        raise ValueError(f"n is a multiple of 4, got {n}")
    blocks = -(-n // (4 * threads))

    @T.prim_func
    def copy(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        T.func_attr({"tir.noalias": True})
        for bx in T.thread_binding(blocks, thread="blockIdx.x"):
            for tx in T.thread_binding(threads, thread="threadIdx.x"):
                if (bx * threads + tx) * 4 < n:
                    for v in T.vectorized(4):
                        B[(bx * threads + tx) * 4 + v] = A[(bx * threads + tx) * 4 + v]

    return copy


def main() -> None:
    n = 5000
    a = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
    b = np.zeros_like(a)
    where = launch(copy(n), a, b)
    np.testing.assert_array_equal(b, a)
    print(f"copy {where} agrees with NumPy")


if __name__ == "__main__":
    main()
