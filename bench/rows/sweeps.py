"""The formulas of rows that go once over what they read, or many times over one array, as anybody writes them."""

from __future__ import annotations

from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["histogram", "jacobi"]


def histogram(form: str, n: int, bins: int = 256) -> PrimFunc:
    """``H[v]`` is how often the byte ``v`` is in ``A``."""

    @T.prim_func
    def plain(A: T.Buffer((n,), "uint8"), H: T.Buffer((bins,), "int32")):
        for b in range(bins):
            H[b] = 0
        for i in range(n):
            H[T.Cast("int32", A[i])] += 1

    return plain


def jacobi(form: str, n: int, steps: int) -> PrimFunc:
    """``steps`` times, an even number: each inner point becomes a quarter of the sum of its neighbours; the rim stays. B is the
    result."""

    @T.prim_func
    def plain(A: T.Buffer((n, n), "float32"), B: T.Buffer((n, n), "float32")):
        D = T.alloc_buffer((n, n), "float32")
        for i, j in T.grid(n, n):
            B[i, j] = A[i, j]
        for i, j in T.grid(n, n):
            D[i, j] = A[i, j]
        for _step in range(steps // 2):
            for i in range(1, n - 1):
                for j in range(1, n - 1):
                    D[i, j] = T.float32(0.25) * (B[i - 1, j] + B[i + 1, j] + B[i, j - 1] + B[i, j + 1])
            for i in range(1, n - 1):
                for j in range(1, n - 1):
                    B[i, j] = T.float32(0.25) * (D[i - 1, j] + D[i + 1, j] + D[i, j - 1] + D[i, j + 1])

    return plain
