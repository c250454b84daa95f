"""Running sums: where several threads work, pieces that the second cache holds are added up first, then summed one by one.

A vector is summed in itself by a few moves of lanes; what stands before it is one addition more, so that the chain from
vector to vector is one addition long. Stored are whole lines at a time: half lines with work between them leave the
processor's write buffers before they are full.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tirlower as tl
from bench import peers
from bench.by_hand.case import Case, Maker
from bench.by_hand.lines import LINE, fold
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "scan"]


def moves(lanes: int) -> list[list[int]]:
    """The lanes that are added in each step, counted from 1; 0 is nothing.

    Groups of four are summed by shifts, which stay in a register's quarters; then the last of each group is added to the
    group behind it, the last of each two to the two behind them.
    """
    shifts = [[0 if lane % 4 < by else 1 + lane - by for lane in range(lanes)] for by in (1, 2) if by < lanes]
    spans = [4 << level for level in range((lanes // 4).bit_length() - 1)]
    return shifts + [[lane // by * by if lane // by % 2 else 0 for lane in range(lanes)] for by in spans]


def scan(machine: Machine, n: int, piece: int | None = None, workers: int | None = None) -> PrimFunc:
    """``B[i] = A[0] + … + A[i]``."""
    workers = workers or machine.threads
    W = machine.lanes()
    vectors = 8
    wide = vectors * W
    piece = piece or machine.l2 // 4 // 4
    ahead = 8 * wide
    whole = n // wide
    part = piece // wide // workers
    steps = part * workers
    groups = -(-whole // (workers * steps))

    @T.prim_func
    def scan(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32", align=64)):
        T.func_attr({"tir.noalias": True})
        starts = T.alloc_buffer((workers + 1,), "float32")
        parts = T.alloc_buffer((workers, workers), "float32")
        starts[0] = T.float32(0)
        for g in T.serial(groups, annotations={"tir.nontemporal": True}):
            # All workers add up a part of each piece but the last, which nothing stands behind.
            for q in T.parallel(workers):
                for p in range(workers - 1):
                    total = T.alloc_buffer((wide,), "float32", scope="local")
                    for l in T.vectorized(wide):
                        total[l] = T.float32(0)
                    for i in range(T.min(part, whole - (g * workers + p) * steps - q * part)):
                        for l in T.vectorized(wide):
                            total[l] += A[((g * workers + p) * steps + q * part + i) * wide + l]
                    fold(total, wide)
                    parts[q, p] = total[0]
            for p in range(workers - 1):
                starts[p + 1] = starts[p]
                for q in range(workers):
                    starts[p + 1] += parts[q, p]
            for p in T.parallel(workers):
                before = T.alloc_buffer((W,), "float32", scope="local")
                for l in T.vectorized(W):
                    before[l] = starts[p]
                for i in range(T.min(steps, whole - (g * workers + p) * steps)):
                    if workers == 1:
                        for line in T.unroll(wide // LINE):
                            T.prefetch(
                                T.address_of(A[T.min((g * steps + i) * wide + ahead + line * LINE, n - 1)]), 0, 3, 1
                            )
                    sums = T.alloc_buffer((vectors, W), "float32", scope="local")
                    for u in T.unroll(vectors):
                        for l in T.vectorized(W):
                            sums[u, l] = A[((g * workers + p) * steps + i) * wide + u * W + l]
                        for lanes in moves(W):
                            sums[u, 0:W] = sums[u, 0:W] + T.Shuffle([T.float32(0), sums[u, 0:W]], lanes)
                        total: T.let[f"float32x{W}"] = T.Shuffle([sums[u, 0:W]], [W - 1] * W)
                        for l in T.vectorized(W):
                            sums[u, l] += before[l]
                        before[0:W] = before[0:W] + total
                    for l in T.vectorized(wide):
                        B[((g * workers + p) * steps + i) * wide + l] = sums[l // W, l % W]
                if p == workers - 1:
                    starts[workers] = before[0]
            starts[0] = starts[workers]
        for i in range(whole * wide, n):
            starts[0] += A[i]
            B[i] = starts[0]

    return scan


def in_numba() -> Any:
    nb = peers.numba()
    if nb is None:
        return None

    @nb.njit(fastmath=True)
    def running(a, b):
        total = np.float32(0)
        for i in range(a.size):
            total += a[i]
            b[i] = total

    return running


def case(machine: Machine, n: int, piece: int | None = None, workers: int | None = None) -> Case:
    a, b = np.random.default_rng(0).random(n, dtype=np.float32), tl.aligned_empty((n,), "float32")
    numba = in_numba()
    return Case(
        func=scan(machine, n, piece, workers),
        args=(a, b),
        expected=lambda: np.cumsum(a, dtype=np.float64),
        work=8.0 * n,
        limit="copy past the caches",
        reached=0.89,
        tolerance=1e-3,
        peers={
            "numpy": lambda: np.cumsum(a, out=b),
            **({"numba": lambda: numba(a, b)} if numba else {}),
            **peers.jax_call(lambda np, a: np.cumsum(a), a),
        },
    )


CASES: dict[str, Maker] = {"scan 16M": partial(case, n=1 << 24)}
SMALL: dict[str, Maker] = {
    f"scan {n}, {workers} at a time": partial(case, n=n, piece=512, workers=workers)
    for n, workers in ((1, 1), (7, 2), (1153, 1), (1153, 2), (3000, 3))
}
