"""Softmax of each row, stable: the maximum is subtracted before the exponential."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def softmax(rows: int, cols: int, lanes: int = 16, kind: str = "serial") -> PrimFunc:
    """``Y[i, :] = exp(X[i, :] - max(X[i, :])) / sum(…)``; ``cols`` is a multiple of ``lanes``.

    The reductions keep one partial result in each lane, so that they are vectors too.
    """
    rows_loop = T.parallel if kind == "parallel" else T.serial

    @T.prim_func
    def softmax(X: T.Buffer((rows, cols), "float32"), Y: T.Buffer((rows, cols), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in rows_loop(rows):
            peak = T.alloc_buffer((lanes,), "float32", scope="local")
            total = T.alloc_buffer((lanes,), "float32", scope="local")
            top = T.alloc_buffer((1,), "float32", scope="local")
            scale = T.alloc_buffer((1,), "float32", scope="local")
            for l in T.vectorized(lanes):
                peak[l] = T.min_value("float32")
            for j in range(cols // lanes):
                for l in T.vectorized(lanes):
                    peak[l] = T.max(peak[l], X[i, j * lanes + l])
            top[0] = peak[0]
            for l in T.unroll(1, lanes):
                top[0] = T.max(top[0], peak[l])
            for l in T.vectorized(lanes):
                total[l] = T.float32(0)
            for j in range(cols // lanes):
                for l in T.vectorized(lanes):
                    Y[i, j * lanes + l] = T.exp(X[i, j * lanes + l] - top[0])
                    total[l] += Y[i, j * lanes + l]
            scale[0] = total[0]
            for l in T.unroll(1, lanes):
                scale[0] += total[l]
            scale[0] = T.float32(1) / scale[0]
            for j in range(cols // lanes):
                for l in T.vectorized(lanes):
                    Y[i, j * lanes + l] *= scale[0]

    return softmax


def main() -> None:
    x = np.random.default_rng(0).standard_normal((256, 1024), dtype=np.float32)
    y = np.empty_like(x)
    tl.build(softmax(256, 1024))(x, y)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    print("softmax agrees with NumPy")


if __name__ == "__main__":
    main()
