"""Sums of columns in the order of the formula: eight rows at a time are added to the sums, which the first cache holds."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench import peers
from bench.by_hand.case import Case, Maker
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "column_sum"]


def column_sum(machine: Machine, rows: int, cols: int) -> PrimFunc:
    """``S[j] = X[0, j] + X[1, j] + …``."""
    wide = 2 * machine.lanes()
    together = 8
    whole = cols // wide
    block = max(1, min(-(-whole // machine.threads), machine.l1 // 2 // 4 // wide))

    @T.macro
    def add_rows(X, S, i, count, first, columns):
        for j in range(columns):
            sums = T.alloc_buffer((wide,), "float32", scope="local")
            for l in T.vectorized(wide):
                sums[l] = S[(first + j) * wide + l]
            for r in T.unroll(count):
                for l in T.vectorized(wide):
                    sums[l] += X[i + r, (first + j) * wide + l]
            for l in T.vectorized(wide):
                S[(first + j) * wide + l] = sums[l]

    @T.prim_func
    def column_sum(X: T.Buffer((rows, cols), "float32"), S: T.Buffer((cols,), "float32")):
        T.func_attr({"tir.noalias": True})
        for j in range(cols):
            S[j] = T.float32(0)
        for c in T.parallel(T.ceildiv(whole, block)):
            for i in range(rows // together):
                add_rows(X, S, i * together, together, c * block, T.min(block, whole - c * block))
            for i in range(rows // together * together, rows):
                add_rows(X, S, i, 1, c * block, T.min(block, whole - c * block))
        if cols % wide > 0:
            for i in range(rows):
                for j in range(whole * wide, cols):
                    S[j] += X[i, j]

    return column_sum


def in_numba() -> Any:
    """Rows outermost, as columns are added fastest."""
    nb = peers.numba()
    if nb is None:
        return None

    @nb.njit(fastmath=True, parallel=True)
    def column_sum(x, s):
        pieces = 4
        width = (s.size + pieces - 1) // pieces
        for p in nb.prange(pieces):
            first, last = p * width, min(s.size, (p + 1) * width)
            s[first:last] = 0
            for i in range(x.shape[0]):
                for j in range(first, last):
                    s[j] += x[i, j]

    return column_sum


def case(machine: Machine, rows: int, cols: int) -> Case:
    x, s = np.random.default_rng(0).standard_normal((rows, cols), dtype=np.float32), np.empty(cols, np.float32)
    numba = in_numba()
    return Case(
        func=column_sum(machine, rows, cols),
        args=(x, s),
        expected=lambda: x.astype(np.float64).sum(axis=0),
        work=4.0 * rows * cols,
        limit="read",
        reached=1.0,
        tolerance=1e-4,
        peers={
            "numpy": lambda: np.sum(x, axis=0, out=s),
            **({"numba": lambda: numba(x, s)} if numba else {}),
            **peers.jax_call(lambda np, x: x.sum(axis=0), x),
        },
    )


CASES: dict[str, Maker] = {"column sum 4096²": partial(case, rows=4096, cols=4096)}
SMALL: dict[str, Maker] = {
    f"column sum {rows}×{cols}": partial(case, rows=rows, cols=cols) for rows, cols in ((1, 1), (9, 131), (16, 256))
}
