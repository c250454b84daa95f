"""Layer normalisation of each row with scale and shift."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def layer_norm(rows: int, cols: int, lanes: int = 16, kind: str = "serial") -> PrimFunc:
    """``Y = (X - mean) / sqrt(var + 1e-5) * gamma + beta`` by rows; ``cols`` is a multiple of ``lanes``."""
    rows_loop = T.parallel if kind == "parallel" else T.serial
    inverse = 1.0 / cols

    @T.prim_func
    def layer_norm(
        X: T.Buffer((rows, cols), "float32"),
        gamma: T.Buffer((cols,), "float32"),
        beta: T.Buffer((cols,), "float32"),
        Y: T.Buffer((rows, cols), "float32"),
    ):
        for i in rows_loop(rows):
            sums = T.alloc_buffer((lanes,), "float32", scope="local")
            squares = T.alloc_buffer((lanes,), "float32", scope="local")
            mean = T.alloc_buffer((1,), "float32", scope="local")
            scale = T.alloc_buffer((1,), "float32", scope="local")
            for l in T.vectorized(lanes):
                sums[l] = T.float32(0)
            for j in range(cols // lanes):
                for l in T.vectorized(lanes):
                    sums[l] += X[i, j * lanes + l]
            mean[0] = T.float32(0)
            for l in T.unroll(lanes):
                mean[0] += sums[l]
            mean[0] *= T.float32(inverse)
            # The second pass over the row subtracts the mean first: sums of squares would cancel.
            for l in T.vectorized(lanes):
                squares[l] = T.float32(0)
            for j in range(cols // lanes):
                for l in T.vectorized(lanes):
                    squares[l] += (X[i, j * lanes + l] - mean[0]) * (X[i, j * lanes + l] - mean[0])
            scale[0] = T.float32(0)
            for l in T.unroll(lanes):
                scale[0] += squares[l]
            scale[0] = T.float32(1) / T.sqrt(scale[0] * T.float32(inverse) + T.float32(1e-5))
            for j in range(cols // lanes):
                for l in T.vectorized(lanes):
                    Y[i, j * lanes + l] = (X[i, j * lanes + l] - mean[0]) * scale[0] * gamma[j * lanes + l] + beta[
                        j * lanes + l
                    ]

    return layer_norm


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((256, 1024), dtype=np.float32)
    gamma, beta = rng.random(1024, dtype=np.float32), rng.random(1024, dtype=np.float32)
    y = np.empty_like(x)
    tl.build(layer_norm(256, 1024))(x, gamma, beta, y)
    mean, var = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    np.testing.assert_allclose(y, (x - mean) / np.sqrt(var + 1e-5) * gamma + beta, rtol=1e-4, atol=1e-5)
    print("layer_norm agrees with NumPy")


if __name__ == "__main__":
    main()
