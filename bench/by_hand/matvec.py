"""A matrix times a vector: some rows at once share what is read of the vector, each with sums of its own in lanes."""

from __future__ import annotations

from functools import partial

import numpy as np

from bench import peers
from bench.by_hand.case import Case, Maker
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "matvec"]


def matvec(machine: Machine, M: int, N: int, rows: int = 4, vectors: int = 2) -> PrimFunc:
    """``y = A @ x``: ``rows`` times ``vectors`` vectors of sums, folded in halves; what is left of a row is added at last."""
    W = machine.lanes()
    step = W * vectors
    halves = [W >> s for s in range(1, W.bit_length())]
    most = N // step * step

    @T.prim_func
    def matvec(A: T.Buffer((M, N), "float32"), x: T.Buffer((N,), "float32"), y: T.Buffer((M,), "float32")):
        T.func_attr({"tir.noalias": True})
        for s in T.parallel(T.ceildiv(M, rows)):
            sums = T.alloc_buffer((rows, vectors, W), "float32", scope="local")
            for i, v in T.grid(rows, vectors):
                for l in T.vectorized(W):
                    sums[i, v, l] = T.float32(0)
            for j in range(N // step):
                for v in T.unroll(vectors):
                    for i in T.unroll(rows):
                        for l in T.vectorized(W):
                            sums[i, v, l] += (
                                A[T.min(s * rows + i, M - 1), j * step + v * W + l] * x[j * step + v * W + l]
                            )
            for i in T.unroll(rows):
                for v in T.unroll(1, vectors):
                    for l in T.vectorized(W):
                        sums[i, 0, l] += sums[i, v, l]
                for half in halves:
                    for l in T.vectorized(half):
                        sums[i, 0, l] += sums[i, 0, l + half]
                if s * rows + i < M:
                    total = sums[i, 0, 0]
                    for j in range(most, N):
                        total += A[s * rows + i, j] * x[j]
                    y[s * rows + i] = total

    return matvec


def case(machine: Machine, M: int, N: int, reached: float = 1.0) -> Case:
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((M, N), dtype=np.float32), rng.standard_normal(N, dtype=np.float32)
    y = np.empty(M, np.float32)
    return Case(
        func=matvec(machine, M, N),
        args=(a, x, y),
        expected=lambda: a @ x,
        work=float(a.nbytes),
        limit="read",
        reached=reached,
        tolerance=1e-5,
        peers={"numpy": lambda: np.matmul(a, x, out=y), **peers.jax_call(lambda np, a, x: np.matmul(a, x), a, x)},
    )


CASES: dict[str, Maker] = {"matrix 4096² × vector": partial(case, M=4096, N=4096)}
SMALL: dict[str, Maker] = {f"matrix {M}×{N} × vector": partial(case, M=M, N=N) for M, N in ((1, 1), (7, 83), (8, 64))}
