"""Many products of small matrices: a stripe of a result in registers, the next matrices fetched while one is computed."""

from __future__ import annotations

from functools import partial

import numpy as np

import tirlower as tl
from bench import peers
from bench.by_hand.case import Case, Maker
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "small_batched"]

LINE = 16
"""Elements of float32 in a cache line."""


def small_batched(machine: Machine, batch: int, side: int, ahead: int = 4) -> PrimFunc:
    """``C[b] = A[b] @ B[b]``, ``side`` a multiple of a vector: what memory gives is what limits it.

    Each result is written once, past the caches, and the matrices ``ahead`` are asked for. A stripe has as many rows as
    divide the side and have registers.
    """
    W = machine.lanes()
    vectors = side // W
    rows = max(count for count in range(1, side + 1) if side % count == 0 and (count + 1) * vectors < machine.registers)
    step = LINE // side if side < LINE else 1  # rows of a matrix in a line

    @T.prim_func
    def small_batched(
        A: T.Buffer((batch, side, side), "float32"),
        B: T.Buffer((batch, side, side), "float32"),
        C: T.Buffer((batch, side, side), "float32", align=64),
    ):
        T.func_attr({"tir.noalias": True})
        for b in T.parallel(batch, annotations={"tir.nontemporal": True}):
            if b + ahead < batch:
                for i in T.unroll(side // step):
                    for line in T.unroll(max(1, side // LINE)):
                        T.prefetch(T.address_of(A[b + ahead, i * step, line * LINE]), 0, 3, 1)
                        T.prefetch(T.address_of(B[b + ahead, i * step, line * LINE]), 0, 3, 1)
            for stripe in range(side // rows):
                tile = T.alloc_buffer((rows, side), "float32", scope="local")
                for i in T.unroll(rows):
                    for l in T.vectorized(side):
                        tile[i, l] = T.float32(0)
                for k in T.unroll(side):
                    for i in T.unroll(rows):
                        for l in T.vectorized(side):
                            tile[i, l] += A[b, stripe * rows + i, k] * B[b, k, l]
                for i in T.unroll(rows):
                    for l in T.vectorized(side):
                        C[b, stripe * rows + i, l] = tile[i, l]

    return small_batched


def case(machine: Machine, batch: int, side: int = 16, reached: float = 0.85) -> Case:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((batch, side, side), dtype=np.float32) for _ in "ab")
    c = tl.aligned_empty((batch, side, side), "float32")
    c.fill(0)
    return Case(
        func=small_batched(machine, batch, side),
        args=(a, b, c),
        expected=lambda: np.matmul(a, b),
        work=3.0 * a.nbytes,
        limit="copy past the caches",
        reached=reached,
        tolerance=1e-5,
        peers={"numpy": lambda: np.matmul(a, b, out=c), **peers.jax_call(lambda np, a, b: np.matmul(a, b), a, b)},
    )


CASES: dict[str, Maker] = {"16³ products × 100,000": partial(case, batch=100_000)}
SMALL: dict[str, Maker] = {
    f"{side}³ products × {batch}": partial(case, batch=batch, side=side) for side, batch in ((16, 7), (32, 3))
}
