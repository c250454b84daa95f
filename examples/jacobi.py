"""The 5-point Jacobi iteration on a square grid."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def jacobi(size: int, kind: str = "serial") -> PrimFunc:
    """One sweep: each inner point becomes the mean of its four neighbours; the rim is copied."""
    rows_loop = T.parallel if kind == "parallel" else T.serial

    @T.prim_func
    def jacobi(A: T.Buffer((size, size), "float32"), B: T.Buffer((size, size), "float32")):
        T.func_attr({"tir.noalias": True})
        for j in range(size):
            B[0, j] = A[0, j]
            B[size - 1, j] = A[size - 1, j]
        for i in rows_loop(1, size - 1):
            B[i, 0] = A[i, 0]
            B[i, size - 1] = A[i, size - 1]
            for j in range(1, size - 1):
                B[i, j] = T.float32(0.25) * (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])

    return jacobi


def main() -> None:
    a = np.random.default_rng(0).random((512, 512), dtype=np.float32)
    b = np.empty_like(a)
    step = tl.build(jacobi(512))
    expected = a.copy()
    for _ in range(10):
        step(a, b)
        a, b = b, a
        inner = 0.25 * (expected[:-2, 1:-1] + expected[2:, 1:-1] + expected[1:-1, :-2] + expected[1:-1, 2:])
        expected[1:-1, 1:-1] = inner
    np.testing.assert_allclose(a, expected, rtol=1e-5)
    print("jacobi agrees with NumPy after 10 sweeps")


if __name__ == "__main__":
    main()
