"""The transpose: squares of eight elements turn in registers, and sixteen rows become whole lines of the result.

Tiles of 64 by 64 keep the pages that are written to few: a page is left after four lines.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tirlower as tl
from bench import peers
from bench.by_hand.case import Case, Maker
from bench.by_hand.lines import LINE
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "transpose"]

TILE = 64


def transpose(machine: Machine, n: int) -> PrimFunc:
    """``Y = X.T``."""
    W = machine.lanes()
    tiles = n // TILE

    @T.prim_func
    def transpose(X: T.Buffer((n, n), "float32"), Y: T.Buffer((n, n), "float32", align=64)):
        T.func_attr({"tir.noalias": True})
        for r in T.parallel(tiles, annotations={"tir.nontemporal": True}):
            for c, rr, cc in T.grid(tiles, TILE // LINE, TILE // W):
                turned = T.alloc_buffer((W, LINE), "float32", scope="local")
                for h in T.unroll(LINE // W):
                    for i in range(W):
                        for l in T.vectorized(W):
                            turned[l, h * W + i] = X[r * TILE + rr * LINE + h * W + i, c * TILE + cc * W + l]
                for j in T.unroll(W):
                    for l in T.vectorized(LINE):
                        Y[c * TILE + cc * W + j, r * TILE + rr * LINE + l] = turned[j, l]
        if n % TILE > 0:
            for i in range(n):
                for j in range(tiles * TILE, n):
                    Y[j, i] = X[i, j]
            for i in range(tiles * TILE, n):
                for j in range(tiles * TILE):
                    Y[j, i] = X[i, j]

    return transpose


def in_numba() -> Any:
    """By tiles, which is what helps most there."""
    nb = peers.numba()
    if nb is None:
        return None

    @nb.njit(parallel=True)
    def transpose(x, y):
        side = 32
        for b in nb.prange((x.shape[0] + side - 1) // side):
            for c in range((x.shape[1] + side - 1) // side):
                for i in range(b * side, min((b + 1) * side, x.shape[0])):
                    for j in range(c * side, min((c + 1) * side, x.shape[1])):
                        y[j, i] = x[i, j]

    return transpose


def case(machine: Machine, n: int) -> Case:
    x, y = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32), tl.aligned_empty((n, n), "float32")
    numba = in_numba()
    return Case(
        func=transpose(machine, n),
        args=(x, y),
        expected=lambda: x.T,
        work=8.0 * n * n,
        limit="copy past the caches",
        reached=0.61,
        peers={
            "numpy": lambda: np.copyto(y, x.T),
            **({"numba": lambda: numba(x, y)} if numba else {}),
            **peers.jax_call(lambda np, x: x.T, x),
        },
    )


CASES: dict[str, Maker] = {"transpose 4096²": partial(case, n=4096)}
SMALL: dict[str, Maker] = {f"transpose {n}²": partial(case, n=n) for n in (1, 7, 67)}
