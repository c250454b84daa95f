"""Ten Jacobi steps in one pass over the memory: each step follows two rows behind the one before it.

Of each step the last four rows are kept, for a tile of columns, and all steps' rows lie in the second cache. Tiles reach
into each other by as many columns as there are steps; what is wrong at their edges moves in by one column a step.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tirlower as tl
from bench import peers
from bench.by_hand.case import Array, Case, Maker
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "jacobi"]

WHOLE = 64
"""Columns of a tile are a multiple: whole lines, and four vectors of any processor."""


def columns_of_tile(machine: Machine, n: int, steps: int) -> int:
    """As many as leave a quarter of the second cache; as many tiles as threads, or a multiple."""
    most = machine.l2 // 4 * 3 // (16 * steps)
    tiles = -(-n // most // machine.threads) * machine.threads
    return -(-n // tiles // WHOLE) * WHOLE


def jacobi(machine: Machine, n: int, steps: int, tile: int | None = None) -> PrimFunc:
    """``steps`` times: each inner point becomes a quarter of the sum of its neighbours; the rim stays. B is the result."""
    W = machine.lanes()
    wide = 4 * W
    tile = tile or columns_of_tile(machine, n, steps)
    halo = -(-steps // (wide // 2)) * (wide // 2)
    length = tile + 2 * halo
    first = W + halo  # the place of the tile's first column in a kept row
    tiles = -(-n // tile)

    @T.prim_func
    def jacobi(A: T.Buffer((n, n), "float32"), B: T.Buffer((n, n), "float32", align=64)):
        T.func_attr({"tir.noalias": True})
        for c in T.parallel(tiles, annotations={"tir.nontemporal": True}):
            kept = T.alloc_buffer((steps, 4, length + 2 * W), "float32")
            for t, r in T.grid(steps, 4):
                for x in range(length + 2 * W):
                    kept[t, r, x] = T.float32(0)
            for s in range((n + steps + 1) // 2):
                for r in range(2):
                    if s * 2 + r < n:
                        start = T.max(0, c * tile - halo)
                        count = T.min(n, (c + 1) * tile + halo) - start
                        for j in range(count // wide):
                            for l in T.vectorized(wide):
                                kept[0, (s * 2 + r) % 4, first + start - c * tile + j * wide + l] = A[
                                    s * 2 + r, start + j * wide + l
                                ]
                        for x in range(start + count // wide * wide, start + count):
                            kept[0, (s * 2 + r) % 4, first + x - c * tile] = A[s * 2 + r, x]
                for t in range(1, steps):
                    for r in range(2):
                        q = s * 2 + r - t
                        if q == 0 or q == n - 1:
                            for j in range(length // wide):
                                for l in T.vectorized(wide):
                                    kept[t, q % 4, W + j * wide + l] = kept[t - 1, q % 4, W + j * wide + l]
                        if q > 0 and q < n - 1:
                            for j in range(length // wide):
                                for l in T.vectorized(wide):
                                    kept[t, q % 4, W + j * wide + l] = T.float32(0.25) * (
                                        kept[t - 1, (q - 1) % 4, W + j * wide + l]
                                        + kept[t - 1, (q + 1) % 4, W + j * wide + l]
                                        + kept[t - 1, q % 4, W + j * wide + l - 1]
                                        + kept[t - 1, q % 4, W + j * wide + l + 1]
                                    )
                            if c == 0:
                                kept[t, q % 4, first] = A[q, 0]
                            if c == tiles - 1:
                                kept[t, q % 4, first + n - 1 - c * tile] = A[q, n - 1]
                for r in range(2):
                    q = s * 2 + r - steps
                    if q == 0 or q == n - 1:
                        for x in range(c * tile, T.min(n, (c + 1) * tile)):
                            B[q, x] = A[q, x]
                    if q > 0 and q < n - 1:
                        for j in range(T.min(tile, n - c * tile) // wide):
                            for l in T.vectorized(wide):
                                B[q, c * tile + j * wide + l] = T.float32(0.25) * (
                                    kept[steps - 1, (q - 1) % 4, first + j * wide + l]
                                    + kept[steps - 1, (q + 1) % 4, first + j * wide + l]
                                    + kept[steps - 1, q % 4, first + j * wide + l - 1]
                                    + kept[steps - 1, q % 4, first + j * wide + l + 1]
                                )
                        for x in range(T.min(tile, n - c * tile) // wide * wide, T.min(tile, n - c * tile)):
                            B[q, c * tile + x] = T.float32(0.25) * (
                                kept[steps - 1, (q - 1) % 4, first + x]
                                + kept[steps - 1, (q + 1) % 4, first + x]
                                + kept[steps - 1, q % 4, first + x - 1]
                                + kept[steps - 1, q % 4, first + x + 1]
                            )
                        if c == 0:
                            B[q, 0] = A[q, 0]
                        if c == tiles - 1:
                            B[q, n - 1] = A[q, n - 1]

    return jacobi


def in_numpy(a: Array, steps: int) -> Array:
    old, new = a.copy(), a.copy()
    for _ in range(steps):
        new[1:-1, 1:-1] = np.float32(0.25) * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])
        old, new = new, old
    return old


def in_jax(steps: int, np: Any, a: Any) -> Any:
    for _ in range(steps):
        inner = np.float32(0.25) * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a = a.at[1:-1, 1:-1].set(inner)
    return a


def in_numba(steps: int) -> Any:
    """Step after step, or None."""
    nb = peers.numba()
    if nb is None:
        return None
    quarter = np.float32(0.25)

    @nb.njit(fastmath=True, parallel=True)
    def step(a, b):
        for i in nb.prange(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = quarter * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])

    def run(a: Array, spare: Array, b: Array) -> None:
        # An even number of steps ends in the second array.
        first, second = (spare, b) if steps % 2 == 0 else (b, spare)
        for array in (spare, b):
            array[0], array[-1], array[:, 0], array[:, -1] = a[0], a[-1], a[:, 0], a[:, -1]
        step(a, first)
        for at in range(1, steps):
            step(*((first, second) if at % 2 else (second, first)))

    return run


def case(machine: Machine, n: int, steps: int = 10, tile: int | None = None) -> Case:
    a, b = np.random.default_rng(0).random((n, n), dtype=np.float32), tl.aligned_empty((n, n), "float32")
    spare = np.empty_like(a)
    numba = in_numba(steps)
    return Case(
        func=jacobi(machine, n, steps, tile),
        args=(a, b),
        expected=lambda: in_numpy(a, steps),
        work=4.0 * steps * n * n,
        limit="float32 multiply-add",
        reached=0.15,
        tolerance=1e-6,
        peers={
            **({"numba": lambda: numba(a, spare, b)} if numba else {}),
            **peers.jax_call(partial(in_jax, steps), a),
        },
    )


CASES: dict[str, Maker] = {"jacobi 4096², 10 steps": partial(case, n=4096)}
SMALL: dict[str, Maker] = {
    f"jacobi {n}², {steps} steps": partial(case, n=n, steps=steps, tile=64) for n, steps in ((3, 2), (23, 3), (80, 2))
}
