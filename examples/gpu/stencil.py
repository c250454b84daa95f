"""One Jacobi step of the five-point stencil: a tile with its halo in shared memory."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def jacobi(H: int, W: int, *, TH: int = 32, TW: int = 64, ROWS: int = 4) -> PrimFunc:
    """``B[y, x]`` is the mean of the four neighbours of ``A[y, x]``; the border of the grid is kept.

    A block of TW x ROWS threads makes a TH x TW tile, each thread TH / ROWS elements of a column. Every element
    of A comes from memory once, the halo (a sixteenth more in rows, and two columns) mostly from the cache. A warp reads 32
    neighbours in a row, whole lines of 128 bytes; accesses of 16 bytes a thread would not bring more of a line, and the
    left and right neighbours, 4 bytes off, could not be read as such. Instead several loads of a thread are under way at
    a time. In shared memory a warp reads 32 words in a row, whatever the row's length: no two of one bank.

    Raises ValueError for sizes that are no multiples of the tile.
    """
    if H % TH or W % TW or TH % ROWS:
        raise ValueError(f"{H} x {W} is not a multiple of the tile {TH} x {TW}, or this not of {ROWS} rows of threads")
    loads = -(-(TH + 2) // ROWS)

    @T.prim_func
    def jacobi(A: T.Buffer((H, W), "float32"), B: T.Buffer((H, W), "float32")):
        T.func_attr({"tir.noalias": True})
        for by in T.thread_binding(H // TH, thread="blockIdx.y"):
            for bx in T.thread_binding(W // TW, thread="blockIdx.x"):
                tile = T.alloc_buffer((TH + 2, TW + 2), "float32", scope="shared")
                for ty in T.thread_binding(ROWS, thread="threadIdx.y"):
                    for tx in T.thread_binding(TW, thread="threadIdx.x"):
                        for r in T.unroll(loads):
                            if r * ROWS + ty < TH + 2:
                                # Beyond the border of the grid stand copies of the border, which are not used.
                                y: T.let[T.int32] = T.min(T.max(by * TH + r * ROWS + ty - 1, 0), H - 1)
                                tile[r * ROWS + ty, tx + 1] = A[y, bx * TW + tx]
                                if tx < 2:
                                    x: T.let[T.int32] = T.min(T.max(bx * TW - 1 + tx * (TW + 1), 0), W - 1)
                                    tile[r * ROWS + ty, tx * (TW + 1)] = A[y, x]
                        T.tvm_storage_sync("shared")
                        for r in T.unroll(TH // ROWS):
                            row: T.let[T.int32] = by * TH + r * ROWS + ty
                            col: T.let[T.int32] = bx * TW + tx
                            inside: T.let[T.bool] = (row > 0) and (row < H - 1) and (col > 0) and (col < W - 1)
                            B[row, col] = T.Select(
                                inside,
                                (
                                    (tile[r * ROWS + ty, tx + 1] + tile[r * ROWS + ty + 2, tx + 1])
                                    + (tile[r * ROWS + ty + 1, tx] + tile[r * ROWS + ty + 1, tx + 2])
                                )
                                * T.float32(0.25),
                                tile[r * ROWS + ty + 1, tx + 1],
                            )

    return jacobi


def reference(a: np.ndarray) -> np.ndarray:
    """The step in float64."""
    wide = a.astype(np.float64)
    out = wide.copy()
    out[1:-1, 1:-1] = (wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]) / 4
    return out


def main() -> None:
    a = np.random.default_rng(0).standard_normal((32, 64), dtype=np.float32)
    b = np.zeros_like(a)
    where = launch(jacobi(32, 64, TH=16, TW=32), a, b)
    np.testing.assert_allclose(b, reference(a), rtol=1e-6, atol=1e-6)
    print(f"jacobi {where} agrees with NumPy")


if __name__ == "__main__":
    main()
