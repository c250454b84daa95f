"""The formulas of rows that go once over what they read, or many times over one array, as anybody writes them."""

from __future__ import annotations

from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["histogram"]


def histogram(form: str, n: int, bins: int = 256) -> PrimFunc:
    """``H[v]`` is how often the byte ``v`` is in ``A``."""

    @T.prim_func
    def plain(A: T.Buffer((n,), "uint8"), H: T.Buffer((bins,), "int32")):
        for b in range(bins):
            H[b] = 0
        for i in range(n):
            H[T.Cast("int32", A[i])] += 1

    return plain
