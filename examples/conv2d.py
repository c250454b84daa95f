"""A 3 x 3 convolution with padding, channels last, vectorized over the output channels."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def conv2d(size: int, channels_in: int, channels_out: int, lanes: int = 16) -> PrimFunc:
    """``Y[h, w, o] = sum over dh, dw, c of X[h + dh - 1, w + dw - 1, c] * W[dh, dw, c, o]``, zero outside."""

    @T.prim_func
    def conv2d(
        X: T.Buffer((size, size, channels_in), "float32"),
        W: T.Buffer((3, 3, channels_in, channels_out), "float32"),
        Y: T.Buffer((size, size, channels_out), "float32"),
    ):
        padded = T.alloc_buffer((size + 2, size + 2, channels_in), "float32")
        for h, w, c in T.grid(size + 2, size + 2, channels_in):
            padded[h, w, c] = T.if_then_else(
                h >= 1 and h <= size and w >= 1 and w <= size, X[h - 1, w - 1, c], T.float32(0)
            )
        for h, w, o in T.grid(size, size, channels_out // lanes):
            acc = T.alloc_buffer((lanes,), "float32", scope="local")
            for l in T.vectorized(lanes):
                acc[l] = T.float32(0)
            for dh, dw, c in T.grid(3, 3, channels_in):
                for l in T.vectorized(lanes):
                    acc[l] += padded[h + dh, w + dw, c] * W[dh, dw, c, o * lanes + l]
            for l in T.vectorized(lanes):
                Y[h, w, o * lanes + l] = acc[l]

    return conv2d


def main() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.random((28, 28, 16), dtype=np.float32), rng.random((3, 3, 16, 32), dtype=np.float32)
    y = np.empty((28, 28, 32), np.float32)
    tl.build(conv2d(28, 16, 32))(x, w, y)
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    expected = sum(padded[i : i + 28, j : j + 28] @ w[i, j] for i in range(3) for j in range(3))
    np.testing.assert_allclose(y, expected, rtol=1e-4)
    print("conv2d agrees with NumPy")


if __name__ == "__main__":
    main()
