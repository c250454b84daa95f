"""Many products of small matrices: a stripe of a result in registers, results written past the caches."""

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


def small_batched(machine: Machine, batch: int, side: int) -> PrimFunc:
    """``C[b] = A[b] @ B[b]``, ``side`` a multiple of a vector: what memory gives is what limits it.

    Each result is written once, past the caches; matrices stand in a row, which processors fetch unasked. A stripe has as
    many rows as divide the side and have registers. Its steps stay a loop: whole products written out are more code than
    the decoded instructions that a processor keeps.
    """
    W = machine.lanes()
    vectors = side // W
    rows = max(count for count in range(1, side + 1) if side % count == 0 and (count + 1) * vectors < machine.registers)

    @T.prim_func
    def small_batched(
        A: T.Buffer((batch, side, side), "float32", align=64),
        B: T.Buffer((batch, side, side), "float32", align=64),
        C: T.Buffer((batch, side, side), "float32", align=64),
    ):
        T.func_attr({"tir.noalias": True})
        for b in T.parallel(batch, annotations={"tir.nontemporal": True}):
            for stripe in T.unroll(side // rows):
                tile = T.alloc_buffer((rows, side), "float32", scope="local")
                for i in T.unroll(rows):
                    for l in T.vectorized(side):
                        tile[i, l] = T.float32(0)
                for k in range(side):
                    for i in T.unroll(rows):
                        for l in T.vectorized(side):
                            tile[i, l] += A[b, stripe * rows + i, k] * B[b, k, l]
                for i in T.unroll(rows):
                    for l in T.vectorized(side):
                        C[b, stripe * rows + i, l] = tile[i, l]

    return small_batched


def case(machine: Machine, batch: int, side: int = 16, reached: float = 0.85) -> Case:
    rng = np.random.default_rng(0)
    a, b, c = (tl.aligned_empty((batch, side, side), "float32") for _ in "abc")
    a[...], b[...], c[...] = rng.standard_normal(a.shape), rng.standard_normal(b.shape), 0
    return Case(
        func=small_batched(machine, batch, side),
        args=(a, b, c),
        expected=lambda: np.matmul(a, b),
        work=3.0 * a.nbytes,
        limit="sum past the caches",
        reached=reached,
        tolerance=1e-5,
        peers={"numpy": lambda: np.matmul(a, b, out=c), **peers.jax_call(lambda np, a, b: np.matmul(a, b), a, b)},
    )


CASES: dict[str, Maker] = {"16³ products × 100,000": partial(case, batch=100_000)}
SMALL: dict[str, Maker] = {
    f"{side}³ products × {batch}": partial(case, batch=batch, side=side) for side, batch in ((16, 3), (32, 1))
}
