"""What memory operations are worth: the same kernel with and without one, beside NumPy."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from bench.measure import Candidate, Timing, interleave
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["measure"]


def gathered_rows(table: int, rows: int, width: int, ahead: int) -> PrimFunc:
    """``Y[r] = sqrt(X[I[r]])`` for rows of a table, each fetched ``ahead`` rows before it is read; 0: left to the processor."""

    @T.prim_func
    def gather(
        X: T.Buffer((table, width), "float32"), I: T.Buffer((rows,), "int32"), Y: T.Buffer((rows, width), "float32")
    ):
        T.func_attr({"tir.noalias": True})
        for r in range(rows):
            if ahead > 0:
                if r + ahead < rows:
                    for line in T.unroll(width // 16):
                        T.prefetch(T.address_of(X[I[r + ahead], line * 16]), 0, 3, 1)
            for v in range(width // 16):
                for l in T.vectorized(16):
                    Y[r, v * 16 + l] = T.sqrt(X[I[r], v * 16 + l])

    return gather


def prefetch_rows() -> dict[str, dict[str, Candidate]]:
    """Rows of 256 bytes at random places of 128 MB: the processor's own prefetching cannot guess them."""
    table, rows, width = 1 << 19, 1 << 15, 64
    rng = np.random.default_rng(0)
    x = rng.random((table, width), dtype=np.float32)
    places = rng.integers(0, table, rows).astype(np.int32)
    y = np.empty((rows, width), np.float32)
    entry: dict[str, Candidate] = {}
    for name, ahead in (("tirlower", 8), ("no prefetch", 0)):
        kernel = tl.build(gathered_rows(table, rows, width, ahead))
        kernel(x, places, y)
        np.testing.assert_array_equal(y, np.sqrt(x[places]))
        entry[name] = lambda kernel=kernel: kernel(x, places, y)

    def peer() -> None:
        np.take(x, places, axis=0, out=y, mode="clip")
        np.sqrt(y, out=y)

    entry["numpy"] = peer
    return {"rows at random": entry}


def measure() -> dict[str, dict[str, Timing]]:
    """All rows, on one thread."""
    candidates = prefetch_rows()
    return {label: interleave(entry, rounds=21, slice_seconds=0.05) for label, entry in candidates.items()}
