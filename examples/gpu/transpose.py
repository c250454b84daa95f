"""Transposition through a padded tile of shared memory."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

TILE = 64
QUADS = TILE // 4
"""Pieces of 16 bytes of a row of a tile."""


def transpose(M: int, N: int, threads: int = 512) -> PrimFunc:
    """``B = A.T`` for M x N float32, both multiples of 64.

    Read along the rows of A, written along the rows of B, 16 bytes a thread: half a warp reads or writes a row of a
    tile, 256 bytes. The turn happens in shared memory, where a thread gathers four elements of a column. Rows are 65
    words apart there: were they 64, the elements of a column would lie in one of the 32 banks, and be read one after
    another. The padding is a stride of the tile, not a 65th column: memory that nothing accesses is not allocated.
    All loads of a thread are under way before the first element is stored.
    """
    if M % TILE or N % TILE:
        raise ValueError(f"{M} x {N} is not a multiple of {TILE} x {TILE}")
    if threads % QUADS or TILE % (threads // QUADS):
        raise ValueError(f"{threads} threads do not divide a tile of {TILE} rows of {QUADS} pieces")
    rows = threads // QUADS

    @T.prim_func
    def transpose(A: T.Buffer((M, N), "float32"), B: T.Buffer((N, M), "float32")):
        T.func_attr({"tir.noalias": True})
        for by in T.thread_binding(M // TILE, thread="blockIdx.y"):
            for bx in T.thread_binding(N // TILE, thread="blockIdx.x"):
                tile = T.alloc_buffer((TILE, TILE), "float32", strides=(TILE + 1, 1), scope="shared")
                for tx in T.thread_binding(threads, thread="threadIdx.x"):
                    held = T.alloc_buffer((TILE // rows, 4), "float32", scope="local")
                    for r in T.unroll(TILE // rows):
                        for v in T.vectorized(4):
                            held[r, v] = A[by * TILE + r * rows + tx // QUADS, bx * TILE + tx % QUADS * 4 + v]
                    for r in T.unroll(TILE // rows):
                        for v in T.unroll(4):
                            tile[r * rows + tx // QUADS, tx % QUADS * 4 + v] = held[r, v]
                    T.tvm_storage_sync("shared")
                    for r in T.unroll(TILE // rows):
                        for v in T.unroll(4):
                            held[r, v] = tile[tx % QUADS * 4 + v, r * rows + tx // QUADS]
                    for r in T.unroll(TILE // rows):
                        for v in T.vectorized(4):
                            B[bx * TILE + r * rows + tx // QUADS, by * TILE + tx % QUADS * 4 + v] = held[r, v]

    return transpose


def main() -> None:
    a = np.random.default_rng(0).standard_normal((64, 128), dtype=np.float32)
    b = np.zeros((128, 64), np.float32)
    where = launch(transpose(64, 128), a, b)
    np.testing.assert_array_equal(b, a.T)
    print(f"transpose {where} agrees with NumPy")


if __name__ == "__main__":
    main()
