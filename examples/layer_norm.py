"""Layer normalisation of each row with scale and shift."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def layer_norm(rows: int, cols: int, lanes: int = 16, chains: int = 4, kind: str = "serial") -> PrimFunc:
    """``Y = (X - mean) / sqrt(var + 1e-5) * gamma + beta`` by rows; ``cols`` is a multiple of ``lanes * chains``.

    A sum is kept in ``chains`` independent vectors: one alone would wait for the latency of each addition. Its lanes, 16
    at most, are added in halves for the same reason.
    """
    rows_loop = T.parallel if kind == "parallel" else T.serial
    inverse = 1.0 / cols
    step = lanes * chains

    @T.prim_func
    def layer_norm(
        X: T.Buffer((rows, cols), "float32"),
        gamma: T.Buffer((cols,), "float32"),
        beta: T.Buffer((cols,), "float32"),
        Y: T.Buffer((rows, cols), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        for i in rows_loop(rows):
            sums = T.alloc_buffer((chains, lanes), "float32", scope="local")
            squares = T.alloc_buffer((chains, lanes), "float32", scope="local")
            mean = T.alloc_buffer((1,), "float32", scope="local")
            scale = T.alloc_buffer((1,), "float32", scope="local")
            for u in T.unroll(chains):
                for l in T.vectorized(lanes):
                    sums[u, l] = T.float32(0)
            for j in range(cols // step):
                for u in T.unroll(chains):
                    for l in T.vectorized(lanes):
                        sums[u, l] += X[i, j * step + u * lanes + l]
            for u in T.unroll(1, chains):
                for l in T.vectorized(lanes):
                    sums[0, l] += sums[u, l]
            for l in T.vectorized(lanes // 2):
                sums[0, l] += sums[0, l + lanes // 2]
            for l in T.vectorized(lanes // 4):
                sums[0, l] += sums[0, l + lanes // 4]
            for l in T.vectorized(lanes // 8):
                sums[0, l] += sums[0, l + lanes // 8]
            for l in T.vectorized(lanes // 16):
                sums[0, l] += sums[0, l + lanes // 16]
            mean[0] = sums[0, 0]
            mean[0] *= T.float32(inverse)
            # The second pass over the row subtracts the mean first: sums of squares would cancel.
            for u in T.unroll(chains):
                for l in T.vectorized(lanes):
                    squares[u, l] = T.float32(0)
            for j in range(cols // step):
                for u in T.unroll(chains):
                    for l in T.vectorized(lanes):
                        squares[u, l] += (X[i, j * step + u * lanes + l] - mean[0]) * (
                            X[i, j * step + u * lanes + l] - mean[0]
                        )
            for u in T.unroll(1, chains):
                for l in T.vectorized(lanes):
                    squares[0, l] += squares[u, l]
            for l in T.vectorized(lanes // 2):
                squares[0, l] += squares[0, l + lanes // 2]
            for l in T.vectorized(lanes // 4):
                squares[0, l] += squares[0, l + lanes // 4]
            for l in T.vectorized(lanes // 8):
                squares[0, l] += squares[0, l + lanes // 8]
            for l in T.vectorized(lanes // 16):
                squares[0, l] += squares[0, l + lanes // 16]
            scale[0] = squares[0, 0]
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
