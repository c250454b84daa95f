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
        kernel = tl.build(gathered_rows(table, rows, width, ahead), schedule="none")
        kernel(x, places, y)
        np.testing.assert_array_equal(y, np.sqrt(x[places]))
        entry[name] = lambda kernel=kernel: kernel(x, places, y)

    def peer() -> None:
        np.take(x, places, axis=0, out=y, mode="clip")
        np.sqrt(y, out=y)

    entry["numpy"] = peer
    return {"rows at random": entry}


def ahead(n: int, note: str) -> PrimFunc:
    """``Y = 2 * X + 1``, element by element, each fetched ahead; an annotation keeps the loop from becoming strips."""

    @T.prim_func
    def axpb(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in T.serial(n, annotations={note: False} if note else {}):
            T.prefetch(T.address_of(X[i + 256]), 0, 3, 1)
            Y[i] = X[i] * T.float32(2) + T.float32(1)

    return axpb


def ahead_rows() -> dict[str, dict[str, Candidate]]:
    """A plain loop that fetches ahead, in the second cache: as strips, and as LLVM leaves it."""
    n = 1 << 14
    x, y = np.random.default_rng(0).random(n, dtype=np.float32), np.empty(n, np.float32)
    entry: dict[str, Candidate] = {}
    for name, note in (("tirlower", ""), ("not in strips", "tir.llvm_vectorize")):
        kernel = tl.build(ahead(n, note), schedule="none")
        kernel(x, y)
        np.testing.assert_allclose(y, x * 2 + 1, rtol=1e-6)
        entry[name] = lambda kernel=kernel: kernel(x, y)
    return {"fetched ahead, 64 KB": entry}


def copy(n: int, past: bool) -> PrimFunc:
    """``Y = X``."""

    @T.prim_func
    def copy(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in T.serial(n, annotations={"tir.nontemporal": past}):
            Y[i] = X[i]

    return copy


def add(n: int, aligned: bool) -> PrimFunc:
    """``Y = X + Y``, in vectors of whole lines, of arrays that begin at one or are said to begin anywhere."""
    align = 64 if aligned else 4

    @T.prim_func
    def add(X: T.Buffer((n,), "float32", align=align), Y: T.Buffer((n,), "float32", align=align)):
        for i in range(n // 16):
            for l in T.vectorized(16):
                Y[i * 16 + l] = X[i * 16 + l] + Y[i * 16 + l]

    return add


def alignment_rows() -> dict[str, dict[str, Candidate]]:
    """16 KB each, in the first cache: arrays at lines, as `align=64` says, and NumPy's, 16 bytes behind one."""
    n = 4096
    x, y = (tl.aligned_empty((n,), "float32") for _ in "xy")
    beside = [tl.aligned_empty((n + 4,), "float32")[4:] for _ in "xy"]
    for array in (x, y, *beside):
        array[:] = 0
    at_lines, anywhere = tl.build(add(n, True), schedule="none"), tl.build(add(n, False), schedule="none")
    return {
        "add 16 KB at lines": {
            "tirlower": lambda: at_lines(x, y),
            "not said": lambda: anywhere(x, y),
            "16 bytes behind": lambda: anywhere(*beside),
            "numpy": lambda: np.add(x, y, out=y),
        }
    }


def masked_sums(rows: int) -> PrimFunc:
    """The sums of the first columns of a matrix of sixteen, in lanes under a condition."""

    @T.prim_func
    def sums(X: T.Buffer((rows, 16), "float32"), columns: T.int32, S: T.Buffer((16,), "float32")):
        sums = T.alloc_buffer((16,), scope="local")
        for l in T.vectorized(16):
            sums[l] = T.float32(0)
        for r in range(rows):
            for l in T.vectorized(16):
                if l < columns:
                    sums[l] = sums[l] + X[r, l]
        for l in T.vectorized(16):
            S[l] = sums[l]

    return sums


def masked_rows() -> dict[str, dict[str, Candidate]]:
    """Accumulators under a mask, in the first cache."""
    rows, columns = 256, 13
    x, s = np.ones((rows, 16), np.float32), np.empty(16, np.float32)
    kernel = tl.build(masked_sums(rows), schedule="none")
    kernel(x, columns, s)
    assert s.tolist() == [rows] * columns + [0] * (16 - columns)
    first, out = x[:, :columns], s[:columns]
    return {
        "masked sums of 256 rows": {
            "tirlower": lambda: kernel(x, columns, s),
            "numpy": lambda: np.sum(first, axis=0, out=out),
        }
    }


def gelu(n: int, past: bool) -> PrimFunc:
    """``Y = X * (1 + tanh(X)) / 2``, about what GELU costs."""

    @T.prim_func
    def gelu(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in T.serial(n // 16, annotations={"tir.nontemporal": past}):
            for l in T.vectorized(16):
                Y[i * 16 + l] = X[i * 16 + l] * (T.tanh(X[i * 16 + l]) * T.float32(0.5) + T.float32(0.5))

    return gelu


def transpose(side: int, past: bool) -> PrimFunc:
    """``Y = X.T`` by squares of 16 columns, which are kept in a local array, so that rows of Y are written in whole lines."""

    @T.prim_func
    def transpose(X: T.Buffer((side, side), "float32"), Y: T.Buffer((side, side), "float32", align=64)):
        for c in range(side // 16):
            for r in T.serial(side // 64, annotations={"tir.nontemporal": past}):
                tile = T.alloc_buffer((16, 64), "float32", scope="local")
                for i in range(64):
                    for l in T.vectorized(16):
                        tile[l, i] = X[r * 64 + i, c * 16 + l]
                for j in range(16):
                    for v in range(4):
                        for l in T.vectorized(16):
                            Y[c * 16 + j, r * 64 + v * 16 + l] = tile[j, v * 16 + l]

    return transpose


def tiled_transpose(side: int, tile: int) -> PrimFunc:
    """``Y = X.T`` by square tiles, which go through registers."""

    @T.prim_func
    def transpose(X: T.Buffer((side, side), "float32"), Y: T.Buffer((side, side), "float32")):
        for r, c in T.grid(side // tile, side // tile):
            for i in range(tile):
                for l in T.vectorized(tile):
                    Y[c * tile + l, r * tile + i] = X[r * tile + i, c * tile + l]

    return transpose


def tile_rows() -> dict[str, dict[str, Candidate]]:
    """A transpose whose arrays the second cache holds, by tiles of 8 by 8."""
    side = 240
    x = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
    y = np.empty_like(x)
    kernel = tl.build(tiled_transpose(side, 8), schedule="none")
    kernel(x, y)
    np.testing.assert_array_equal(y, x.T)
    return {"transpose 225 KB": {"tirlower": lambda: kernel(x, y), "numpy": lambda: np.copyto(y, x.T)}}


def store_rows() -> dict[str, dict[str, Candidate]]:
    """62 MB each way, past the caches and through them."""
    side = 4032  # rows that are no power of two apart do not meet in the same places of the caches
    x = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
    y = tl.aligned_empty(x.shape, "float32")
    flat, out = x.reshape(-1), y.reshape(-1)

    def numpy_gelu() -> None:
        np.tanh(flat, out=out)
        np.multiply(out, np.float32(0.5), out=out)
        np.add(out, np.float32(0.5), out=out)
        np.multiply(out, flat, out=out)

    found: dict[str, dict[str, Candidate]] = {}
    for label, make, size, args, peer in (
        ("copy 62 MB", copy, x.size, (flat, out), lambda: np.copyto(y, x)),
        ("gelu 62 MB", gelu, x.size, (flat, out), numpy_gelu),
        ("transpose 62 MB", transpose, side, (x, y), lambda: np.copyto(y, x.T)),
    ):
        peer()
        wanted = y.copy()
        entry: dict[str, Candidate] = {"numpy": peer}
        for name, past in (("tirlower", True), ("ordinary stores", False)):
            kernel = tl.build(make(size, past), schedule="none")
            y.fill(0)
            kernel(*args)
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)
            entry[name] = lambda kernel=kernel, args=args: kernel(*args)
        found[label] = entry
    return found


def measure() -> dict[str, dict[str, Timing]]:
    """All rows, on one thread."""
    candidates = {**prefetch_rows(), **ahead_rows(), **tile_rows(), **store_rows(), **alignment_rows(), **masked_rows()}
    return {label: interleave(entry, rounds=21, slice_seconds=0.05) for label, entry in candidates.items()}
