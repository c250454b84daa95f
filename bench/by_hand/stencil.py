"""The blur of 3 by 3: the sums along the columns of R + 2 rows stay in registers, and give R rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tirlower as tl
from bench import peers
from bench.by_hand.case import Array, Case, Maker
from bench.by_hand.lines import LINE
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "blur"]

NINTH = 1.0 / 9.0


def blur(machine: Machine, rows: int, cols: int) -> PrimFunc:
    """Each element of Y is the mean of nine of X, which has a rim of one around."""
    wide = 2 * machine.lanes()
    together = 2
    whole = cols // wide

    @T.macro
    def give_rows(X, Y, i, count):
        for j in range(whole):
            # The rows below are asked for in time.
            for r in T.unroll(count):
                for line in T.unroll(wide // LINE):
                    T.prefetch(T.address_of(X[T.min(i + count + 2 + r, rows + 1), j * wide + line * LINE]), 0, 3, 1)
            sums = T.alloc_buffer((count + 2, wide), "float32", scope="local")
            for r in T.unroll(count + 2):
                for l in T.vectorized(wide):
                    sums[r, l] = X[i + r, j * wide + l] + X[i + r, j * wide + l + 1] + X[i + r, j * wide + l + 2]
            for r in T.unroll(count):
                for l in T.vectorized(wide):
                    Y[i + r, j * wide + l] = (sums[r, l] + sums[r + 1, l] + sums[r + 2, l]) * T.float32(NINTH)
        for r in T.unroll(count):
            for j in range(whole * wide, cols):
                Y[i + r, j] = (
                    (X[i + r, j] + X[i + r, j + 1] + X[i + r, j + 2])
                    + (X[i + r + 1, j] + X[i + r + 1, j + 1] + X[i + r + 1, j + 2])
                    + (X[i + r + 2, j] + X[i + r + 2, j + 1] + X[i + r + 2, j + 2])
                ) * T.float32(NINTH)

    @T.prim_func
    def blur(X: T.Buffer((rows + 2, cols + 2), "float32"), Y: T.Buffer((rows, cols), "float32", align=64)):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(rows // together, annotations={"tir.nontemporal": True}):
            give_rows(X, Y, i * together, together)
        if rows % together > 0:
            give_rows(X, Y, rows - 1, 1)

    return blur


def formula(np: Any, x: Any) -> Any:
    """In NumPy, or JAX's words."""
    sums = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    return (sums[:-2] + sums[1:-1] + sums[2:]) * np.float32(NINTH)


def in_numba() -> Any:
    """As nine loads, which LLVM takes apart."""
    nb = peers.numba()
    if nb is None:
        return None
    ninth = np.float32(NINTH)

    @nb.njit(fastmath=True, parallel=True)
    def blur(x, y):
        for i in nb.prange(y.shape[0]):
            for j in range(y.shape[1]):
                a = x[i, j] + x[i, j + 1] + x[i, j + 2]
                b = x[i + 1, j] + x[i + 1, j + 1] + x[i + 1, j + 2]
                c = x[i + 2, j] + x[i + 2, j + 1] + x[i + 2, j + 2]
                y[i, j] = (a + b + c) * ninth

    return blur


def case(machine: Machine, rows: int, cols: int) -> Case:
    x: Array = np.random.default_rng(0).random((rows + 2, cols + 2), dtype=np.float32)
    y = tl.aligned_empty((rows, cols), "float32")
    numba = in_numba()
    return Case(
        func=blur(machine, rows, cols),
        args=(x, y),
        expected=lambda: np.asarray(formula(np, x)),
        work=8.0 * rows * cols,
        limit="copy past the caches",
        reached=0.63,
        tolerance=1e-6,
        peers={
            "numpy": lambda: np.copyto(y, formula(np, x)),
            **({"numba": lambda: numba(x, y)} if numba else {}),
            **peers.jax_call(formula, x),
        },
    )


CASES: dict[str, Maker] = {"blur 3×3 4096²": partial(case, rows=4096, cols=4096)}
SMALL: dict[str, Maker] = {
    f"blur 3×3 {rows}×{cols}": partial(case, rows=rows, cols=cols) for rows, cols in ((1, 1), (5, 131), (4, 64))
}
