"""Layer normalization of each row, with a scale and a shift for each column."""

from __future__ import annotations

import numpy as np

from examples.gpu._running import launch
from examples.gpu._warps import WARP, block_fold
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def layer_norm(rows: int, cols: int, threads: int = 256, epsilon: float = 1e-5) -> PrimFunc:
    """``Y = (X - mean) / sqrt(variance + epsilon) * G + B``, row by row; cols is a multiple of 4 x threads.

    A row stays in the registers of its block, so the variance can be summed from the differences to the mean (exact
    where a sum of squares would cancel) without another read: 8 bytes move for each element, and G and B, the same for
    all rows, come from the cache.
    """
    if cols % (4 * threads) or threads % WARP:
        raise ValueError(f"{cols} columns are not a multiple of 4 x {threads} threads, or these not of {WARP}")
    parts = cols // (4 * threads)
    share = 1.0 / cols

    @T.prim_func
    def layer_norm(
        X: T.Buffer((rows, cols), "float32"),
        G: T.Buffer((cols,), "float32"),
        B: T.Buffer((cols,), "float32"),
        Y: T.Buffer((rows, cols), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        for row in T.thread_binding(rows, thread="blockIdx.x"):
            # One array for each reduction: a warp may begin the second while another one still reads the first.
            sums = T.alloc_buffer((threads // WARP,), "float32", scope="shared")
            squares = T.alloc_buffer((threads // WARP,), "float32", scope="shared")
            for tx in T.thread_binding(threads, thread="threadIdx.x"):
                held = T.alloc_buffer((parts, 4), "float32", scope="local")
                mean = T.alloc_buffer((1,), "float32", scope="local")
                scale = T.alloc_buffer((1,), "float32", scope="local")
                for p in T.unroll(parts):
                    for v in T.vectorized(4):
                        held[p, v] = X[row, (p * threads + tx) * 4 + v]
                mean[0] = T.float32(0)
                for p in T.unroll(parts):
                    for v in T.unroll(4):
                        mean[0] = mean[0] + held[p, v]
                block_fold(mean, sums, lambda x, y: x + y, tx, threads)
                mean[0] = mean[0] * T.float32(share)
                scale[0] = T.float32(0)
                for p in T.unroll(parts):
                    for v in T.unroll(4):
                        held[p, v] = held[p, v] - mean[0]
                        scale[0] = scale[0] + held[p, v] * held[p, v]
                block_fold(scale, squares, lambda x, y: x + y, tx, threads)
                scale[0] = T.rsqrt(scale[0] * T.float32(share) + T.float32(epsilon))
                for p in T.unroll(parts):
                    for v in T.vectorized(4):
                        Y[row, (p * threads + tx) * 4 + v] = (
                            held[p, v] * scale[0] * G[(p * threads + tx) * 4 + v] + B[(p * threads + tx) * 4 + v]
                        )

    return layer_norm


def reference(x: np.ndarray, g: np.ndarray, b: np.ndarray, epsilon: float = 1e-5) -> np.ndarray:
    """Layer normalization in float64."""
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + epsilon) * g + b


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 512), dtype=np.float32) * 3 + 5
    g, b = rng.standard_normal(512, dtype=np.float32), rng.standard_normal(512, dtype=np.float32)
    y = np.zeros_like(x)
    where = launch(layer_norm(3, 512, threads=64), x, g, b, y)
    np.testing.assert_allclose(y, reference(x, g, b), rtol=2e-5, atol=2e-5)
    print(f"layer_norm {where} agrees with NumPy")


if __name__ == "__main__":
    main()
