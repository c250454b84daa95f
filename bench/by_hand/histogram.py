"""A histogram: each thread counts in a table of its own, and the tables are added up at the end."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench import peers
from bench.by_hand.case import Array, Case, Maker
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "histogram"]

BINS = 256
PIECE = 1024
"""Elements of a loop whose length is a number, which is written out."""


def histogram(machine: Machine, n: int) -> PrimFunc:
    """``H[v]`` is how often the byte ``v`` is in ``A``."""
    workers = machine.threads
    pieces = n // PIECE
    part = -(-pieces // workers)

    @T.prim_func
    def histogram(A: T.Buffer((n,), "uint8"), H: T.Buffer((BINS,), "int32")):
        T.func_attr({"tir.noalias": True})
        tables = T.alloc_buffer((workers, BINS), "int32")
        for w in T.parallel(workers):
            table = T.alloc_buffer((BINS,), "int32", scope="local")
            for b in range(BINS):
                table[b] = 0
            for p in range(T.max(0, T.min(part, pieces - w * part))):
                for i in range(PIECE):
                    table[T.Cast("int32", A[(w * part + p) * PIECE + i])] += 1
            for b in range(BINS):
                tables[w, b] = table[b]
        for b in range(BINS):
            H[b] = 0
        for w, b in T.grid(workers, BINS):
            H[b] += tables[w, b]
        for i in range(pieces * PIECE, n):
            H[T.Cast("int32", A[i])] += 1

    return histogram


def in_numba() -> Any:
    """A table a thread, or None."""
    nb = peers.numba()
    if nb is None:
        return None

    @nb.njit(fastmath=True, parallel=True)
    def histogram(a: Array, h: Array) -> None:
        workers = nb.get_num_threads()
        tables = np.zeros((workers, h.size), np.int32)
        part = (a.size + workers - 1) // workers
        for w in nb.prange(workers):
            for i in range(w * part, min(a.size, (w + 1) * part)):
                tables[w, a[i]] += 1
        h[:] = tables.sum(axis=0)

    return histogram


def case(machine: Machine, n: int) -> Case:
    a, h = np.random.default_rng(0).integers(0, BINS, n).astype(np.uint8), np.empty(BINS, np.int32)
    numba = in_numba()
    return Case(
        func=histogram(machine, n),
        args=(a, h),
        expected=lambda: np.bincount(a, minlength=BINS),
        work=float(n),
        limit="read",
        reached=0.1,
        peers={
            "numpy": lambda: np.bincount(a, minlength=BINS),
            **({"numba": lambda: numba(a, h)} if numba else {}),
            **peers.jax_call(lambda np, a: np.bincount(a, length=BINS), a),
        },
    )


CASES: dict[str, Maker] = {"histogram 16M bytes": partial(case, n=1 << 24)}
SMALL: dict[str, Maker] = {f"histogram {n}": partial(case, n=n) for n in (1, 1023, 5000)}
