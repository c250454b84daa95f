"""Softmax, norms and sums of rows: all stages of a row before the next row, which is fetched meanwhile.

Statements are four vectors wide: their chains of operations go side by side, and whole lines are written in a run. Where
the next row is fetched was found by trying: while exponentials are computed, or while the row is written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tirlower as tl
from bench import peers
from bench.by_hand.case import Array, Case, Maker
from bench.by_hand.lines import fetch, fold, halves
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "layer_norm", "rms_norm", "row_sum", "softmax"]


def softmax(machine: Machine, rows: int, cols: int) -> PrimFunc:
    """``Y[i, :] = exp(X[i, :] - max(X[i, :])) / sum(…)``."""
    wide = 4 * machine.lanes()
    whole = cols // wide

    @T.prim_func
    def softmax(X: T.Buffer((rows, cols), "float32"), Y: T.Buffer((rows, cols), "float32", align=64)):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(rows, annotations={"tir.nontemporal": True}):
            powers = T.alloc_buffer((cols,), "float32")
            peaks = T.alloc_buffer((wide,), "float32", scope="local")
            sums = T.alloc_buffer((wide,), "float32", scope="local")
            scale = T.alloc_buffer((1,), "float32", scope="local")
            for l in T.vectorized(wide):
                peaks[l] = T.min_value("float32")
            for j in range(whole):
                for l in T.vectorized(wide):
                    peaks[l] = T.max(peaks[l], X[i, j * wide + l])
            for j in range(whole * wide, cols):
                peaks[0] = T.max(peaks[0], X[i, j])
            for half in halves(wide):
                for l in T.vectorized(half):
                    peaks[l] = T.max(peaks[l], peaks[l + half])
            for l in T.vectorized(wide):
                sums[l] = T.float32(0)
            for j in range(whole):
                fetch(X, T.min(i + 1, rows - 1), j * wide, wide)
                for l in T.vectorized(wide):
                    powers[j * wide + l] = T.exp(X[i, j * wide + l] - peaks[0])
                for l in T.vectorized(wide):
                    sums[l] += powers[j * wide + l]
            for j in range(whole * wide, cols):
                powers[j] = T.exp(X[i, j] - peaks[0])
                sums[0] += powers[j]
            fold(sums, wide)
            scale[0] = T.float32(1) / sums[0]
            for j in range(whole):
                for l in T.vectorized(wide):
                    Y[i, j * wide + l] = powers[j * wide + l] * scale[0]
            for j in range(whole * wide, cols):
                Y[i, j] = powers[j] * scale[0]

    return softmax


def layer_norm(machine: Machine, rows: int, cols: int) -> PrimFunc:
    """``Y = (X - mean) / sqrt(variance + 1e-5) * gamma + beta`` by rows; the mean is subtracted before squares are added."""
    wide = 4 * machine.lanes()
    whole = cols // wide
    inverse = 1.0 / cols

    @T.prim_func
    def layer_norm(
        X: T.Buffer((rows, cols), "float32"),
        gamma: T.Buffer((cols,), "float32"),
        beta: T.Buffer((cols,), "float32"),
        Y: T.Buffer((rows, cols), "float32", align=64),
    ):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(rows, annotations={"tir.nontemporal": True}):
            sums = T.alloc_buffer((wide,), "float32", scope="local")
            squares = T.alloc_buffer((wide,), "float32", scope="local")
            mean = T.alloc_buffer((1,), "float32", scope="local")
            scale = T.alloc_buffer((1,), "float32", scope="local")
            for l in T.vectorized(wide):
                sums[l] = T.float32(0)
            for j in range(whole):
                for l in T.vectorized(wide):
                    sums[l] += X[i, j * wide + l]
            for j in range(whole * wide, cols):
                sums[0] += X[i, j]
            fold(sums, wide)
            mean[0] = sums[0] * T.float32(inverse)
            for l in T.vectorized(wide):
                squares[l] = T.float32(0)
            for j in range(whole):
                for l in T.vectorized(wide):
                    squares[l] += (X[i, j * wide + l] - mean[0]) * (X[i, j * wide + l] - mean[0])
            for j in range(whole * wide, cols):
                squares[0] += (X[i, j] - mean[0]) * (X[i, j] - mean[0])
            fold(squares, wide)
            scale[0] = T.float32(1) / T.sqrt(squares[0] * T.float32(inverse) + T.float32(1e-5))
            for j in range(whole):
                fetch(X, T.min(i + 1, rows - 1), j * wide, wide)
                for l in T.vectorized(wide):
                    Y[i, j * wide + l] = (X[i, j * wide + l] - mean[0]) * scale[0] * gamma[j * wide + l] + beta[
                        j * wide + l
                    ]
            for j in range(whole * wide, cols):
                Y[i, j] = (X[i, j] - mean[0]) * scale[0] * gamma[j] + beta[j]

    return layer_norm


def rms_norm(machine: Machine, rows: int, cols: int) -> PrimFunc:
    """``Y = X / sqrt(mean(X * X) + 1e-5) * gamma`` by rows."""
    wide = 4 * machine.lanes()
    whole = cols // wide
    inverse = 1.0 / cols

    @T.prim_func
    def rms_norm(
        X: T.Buffer((rows, cols), "float32"),
        gamma: T.Buffer((cols,), "float32"),
        Y: T.Buffer((rows, cols), "float32", align=64),
    ):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(rows, annotations={"tir.nontemporal": True}):
            squares = T.alloc_buffer((wide,), "float32", scope="local")
            scale = T.alloc_buffer((1,), "float32", scope="local")
            for l in T.vectorized(wide):
                squares[l] = T.float32(0)
            for j in range(whole):
                for l in T.vectorized(wide):
                    squares[l] += X[i, j * wide + l] * X[i, j * wide + l]
            for j in range(whole * wide, cols):
                squares[0] += X[i, j] * X[i, j]
            fold(squares, wide)
            scale[0] = T.float32(1) / T.sqrt(squares[0] * T.float32(inverse) + T.float32(1e-5))
            for j in range(whole):
                fetch(X, T.min(i + 1, rows - 1), j * wide, wide)
                for l in T.vectorized(wide):
                    Y[i, j * wide + l] = X[i, j * wide + l] * scale[0] * gamma[j * wide + l]
            for j in range(whole * wide, cols):
                Y[i, j] = X[i, j] * scale[0] * gamma[j]

    return rms_norm


def row_sum(machine: Machine, rows: int, cols: int) -> PrimFunc:
    """``S[i] = sum(X[i, :])``, eight rows at a time: the processor fetches each ahead by itself."""
    lanes, together = machine.lanes(), 8
    whole = cols // lanes

    @T.macro
    def add_rows(X, S, first, count):
        sums = T.alloc_buffer((count, lanes), "float32", scope="local")
        for r in T.unroll(count):
            for l in T.vectorized(lanes):
                sums[r, l] = T.float32(0)
        for j in range(whole):
            for r in T.unroll(count):
                for l in T.vectorized(lanes):
                    sums[r, l] += X[first + r, j * lanes + l]
        for r in T.unroll(count):
            for j in range(whole * lanes, cols):
                sums[r, 0] += X[first + r, j]
            for half in halves(lanes):
                for l in T.vectorized(half):
                    sums[r, l] += sums[r, l + half]
            S[first + r] = sums[r, 0]

    @T.prim_func
    def row_sum(X: T.Buffer((rows, cols), "float32"), S: T.Buffer((rows,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(rows // together):
            add_rows(X, S, i * together, together)
        for i in range(rows // together * together, rows):
            add_rows(X, S, i, 1)

    return row_sum


def formula(kind: str, np: Any, x: Any, *others: Any) -> Any:
    """The rows' formula in NumPy, or JAX's words of it."""
    if kind == "row sum":
        return x.sum(axis=1)
    if kind == "softmax":
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    if kind == "rms norm":
        return x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + np.float32(1e-5)) * others[0]
    centred = x - x.mean(axis=1, keepdims=True)
    return (
        centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + np.float32(1e-5)) * others[0] + others[1]
    )


def in_numba(kind: str) -> Any:
    """The rows' loops as Numba likes them best, or None."""
    nb = peers.numba()
    if nb is None:
        return None
    jit = nb.njit(fastmath=True, parallel=True)

    @jit
    def softmax(x, y):
        for i in nb.prange(x.shape[0]):
            peak = x[i, 0]
            for j in range(x.shape[1]):
                peak = max(peak, x[i, j])
            total = np.float32(0)
            for j in range(x.shape[1]):
                y[i, j] = np.exp(x[i, j] - peak)
                total += y[i, j]
            for j in range(x.shape[1]):
                y[i, j] /= total

    @jit
    def layer_norm(x, gamma, beta, y):
        n = np.float32(x.shape[1])
        for i in nb.prange(x.shape[0]):
            mean = np.float32(0)
            for j in range(x.shape[1]):
                mean += x[i, j]
            mean /= n
            squares = np.float32(0)
            for j in range(x.shape[1]):
                squares += (x[i, j] - mean) * (x[i, j] - mean)
            scale = np.float32(1) / np.sqrt(squares / n + np.float32(1e-5))
            for j in range(x.shape[1]):
                y[i, j] = (x[i, j] - mean) * scale * gamma[j] + beta[j]

    @jit
    def rms_norm(x, gamma, y):
        n = np.float32(x.shape[1])
        for i in nb.prange(x.shape[0]):
            squares = np.float32(0)
            for j in range(x.shape[1]):
                squares += x[i, j] * x[i, j]
            scale = np.float32(1) / np.sqrt(squares / n + np.float32(1e-5))
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] * scale * gamma[j]

    @jit
    def row_sum(x, s):
        for i in nb.prange(x.shape[0]):
            total = np.float32(0)
            for j in range(x.shape[1]):
                total += x[i, j]
            s[i] = total

    return {"softmax": softmax, "layer norm": layer_norm, "rms norm": rms_norm, "row sum": row_sum}[kind]


MAKERS: dict[str, tuple[Callable[[Machine, int, int], PrimFunc], int, float]] = {
    "softmax": (softmax, 0, 0.59),
    "layer norm": (layer_norm, 2, 0.71),
    "rms norm": (rms_norm, 1, 0.67),
    "row sum": (row_sum, 0, 1.0),
}
"""By kind: the kernel, how many vectors stand beside the rows, and the part of the limit that was reached elsewhere."""


def case(machine: Machine, kind: str, rows: int, cols: int) -> Case:
    make, count, reached = MAKERS[kind]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, cols), dtype=np.float32)
    others: list[Array] = [rng.random(cols, dtype=np.float32) for _ in range(count)]
    summed = kind == "row sum"
    y = tl.aligned_empty((rows,) if summed else (rows, cols), "float32")
    numba = in_numba(kind)
    return Case(
        func=make(machine, rows, cols),
        args=(x, *others, y),
        expected=lambda: np.asarray(formula(kind, np, x.astype(np.float64), *others)),
        work=(4.0 if summed else 8.0) * rows * cols,
        limit="read" if summed else "copy past the caches",
        reached=reached,
        tolerance=1e-4 if summed else 1e-5,
        ordered=kind != "softmax",
        peers={
            "numpy": lambda: np.copyto(y, formula(kind, np, x, *others)),
            **({"numba": lambda: numba(x, *others, y)} if numba else {}),
            **peers.jax_call(partial(formula, kind), x, *others),
        },
    )


CASES: dict[str, Maker] = {f"{kind} 4096²": partial(case, kind=kind, rows=4096, cols=4096) for kind in MAKERS}
SMALL: dict[str, Maker] = {
    f"{kind} {rows}×{cols}": partial(case, kind=kind, rows=rows, cols=cols)
    for kind in MAKERS
    for rows, cols in ((1, 1), (9, 131), (3, 256))
}
