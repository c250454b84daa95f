"""Transposition through a padded tile of shared memory."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

TILE = 32
ROWS = 8
"""The rows of threads of a block: each thread moves TILE / ROWS elements, so that many loads are under way at a time."""


def transpose(M: int, N: int) -> PrimFunc:
    """``B = A.T`` for M x N float32, both multiples of 32.

    Read along the rows of A, written along the rows of B, so that each warp reads and writes 128 bytes in a row: one
    whole cache line. The turn happens in shared memory, where a warp reads a column. Its 32 elements would all lie in
    one of the 32 banks if rows were 32 words apart, and be read one after another; with rows 33 words apart they lie in
    32 banks. The padding is a stride of the tile, not a 33rd column: memory that nothing accesses is not allocated.
    """
    if M % TILE or N % TILE:
        raise ValueError(f"{M} x {N} is not a multiple of {TILE} x {TILE}")

    @T.prim_func
    def transpose(A: T.Buffer((M, N), "float32"), B: T.Buffer((N, M), "float32")):
        T.func_attr({"tir.noalias": True})
        for by in T.thread_binding(M // TILE, thread="blockIdx.y"):
            for bx in T.thread_binding(N // TILE, thread="blockIdx.x"):
                tile = T.alloc_buffer((TILE, TILE), "float32", strides=(TILE + 1, 1), scope="shared")
                for ty in T.thread_binding(ROWS, thread="threadIdx.y"):
                    for tx in T.thread_binding(TILE, thread="threadIdx.x"):
                        for r in T.unroll(TILE // ROWS):
                            tile[r * ROWS + ty, tx] = A[by * TILE + r * ROWS + ty, bx * TILE + tx]
                        T.tvm_storage_sync("shared")
                        for r in T.unroll(TILE // ROWS):
                            B[bx * TILE + r * ROWS + ty, by * TILE + tx] = tile[tx, r * ROWS + ty]

    return transpose


def main() -> None:
    a = np.random.default_rng(0).standard_normal((64, 96), dtype=np.float32)
    b = np.zeros((96, 64), np.float32)
    where = launch(transpose(64, 96), a, b)
    np.testing.assert_array_equal(b, a.T)
    print(f"transpose {where} agrees with NumPy")


if __name__ == "__main__":
    main()
