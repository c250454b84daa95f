"""Convolutions of 3 by 3: channels last, as a product whose rows are read in place; and depthwise, rows sharing what they read."""

from __future__ import annotations

from functools import partial

import numpy as np

from bench import peers
from bench.by_hand.case import Array, Case, Maker
from bench.by_hand.machine import Machine
from bench.by_hand.product import rows_of_tile
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "convolution", "depthwise"]


def convolution(machine: Machine, size: int, channels: int, outputs: int, taps: int = 3) -> PrimFunc:
    """``Y[y, x, o] = sum over r, s, c of X[y + r, x + s, c] * W[r, s, c, o]``; X has its border already.

    Lanes are output channels, and a tile some pixels, which may stand on two rows of the picture. The pixels of ``taps``
    columns and their channels stand beside each other: a step of the sum is one of those. Weights are packed by tiles.
    """
    L, NV = machine.lanes(), 2
    NR = NV * L
    pixels = size * size
    MR = rows_of_tile(machine, NV, pixels)
    panels = -(-outputs // NR)
    whole, tidy = outputs // NR, pixels % MR == 0
    wide, border = taps * channels, size + taps - 1

    @T.macro
    def multiply(Y, flat, packed, t, q, masked):
        tile = T.alloc_buffer((MR, NR), "float32", scope="local")
        for i in T.unroll(MR):
            for l in T.vectorized(NR):
                tile[i, l] = T.float32(0)
        for r in range(taps):
            for k in range(wide):
                for i in T.unroll(MR):
                    p = T.meta_var(T.min(t * MR + i, pixels - 1))
                    for l in T.vectorized(NR):
                        tile[i, l] += flat[p // size + r, p % size * channels + k] * packed[q, r, k, l]
        for i in T.unroll(MR):
            if tidy or t * MR + i < pixels:
                for l in T.vectorized(NR):
                    if not masked or q * NR + l < outputs:
                        Y[(t * MR + i) // size, (t * MR + i) % size, q * NR + l] = tile[i, l]

    @T.prim_func
    def convolution(
        X: T.Buffer((border, border, channels), "float32"),
        W: T.Buffer((taps, taps, channels, outputs), "float32"),
        Y: T.Buffer((size, size, outputs), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        flat = T.decl_buffer((border, border * channels), "float32", data=X.data)
        packed = T.alloc_buffer((panels, taps, wide, NR), "float32")
        for q, r in T.grid(panels, taps):
            for s, c in T.grid(taps, channels):
                for l in T.vectorized(NR):
                    packed[q, r, s * channels + c, l] = T.if_then_else(
                        q * NR + l < outputs, W[r, s, c, q * NR + l], T.float32(0)
                    )
        for t in T.parallel(T.ceildiv(pixels, MR)):
            for q in range(whole):
                multiply(Y, flat, packed, t, q, False)
            if whole < panels:
                multiply(Y, flat, packed, t, whole, True)

    return convolution


def depthwise(machine: Machine, channels: int, size: int) -> PrimFunc:
    """``Y[c, y, x] = sum over r, s of X[c, y + r, x + s] * W[c, r, s]``; X has its border already.

    Lanes are pixels of a row; some rows of the result share the rows that they read, and the nine weights stay in
    registers.
    """
    L = machine.lanes()
    rows = max(count for count in range(1, 8) if size % count == 0 and count + 9 + 3 <= machine.registers)
    whole = size // L

    @T.macro
    def column(X, weights, Y, c, y, x, masked):
        tile = T.alloc_buffer((rows, L), "float32", scope="local")
        for i in T.unroll(rows):
            for l in T.vectorized(L):
                tile[i, l] = T.float32(0)
        for r in T.unroll(rows + 2):
            for s in T.unroll(3):
                for i in T.unroll(rows):
                    if T.And(r - i >= 0, r - i < 3):
                        for l in T.vectorized(L):
                            if not masked or x + l < size:
                                tile[i, l] += X[c, y + r, x + s + l] * weights[r - i, s]
        for i in T.unroll(rows):
            for l in T.vectorized(L):
                if not masked or x + l < size:
                    Y[c, y + i, x + l] = tile[i, l]

    @T.prim_func
    def depthwise(
        X: T.Buffer((channels, size + 2, size + 2), "float32"),
        W: T.Buffer((channels, 3, 3), "float32"),
        Y: T.Buffer((channels, size, size), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        for c in T.parallel(channels):
            weights = T.alloc_buffer((3, 3), "float32", scope="local")
            for r, s in T.grid(3, 3):
                weights[r, s] = W[c, r, s]
            for y in range(size // rows):
                for x in range(whole):
                    column(X, weights, Y, c, y * rows, x * L, False)
                if whole * L < size:
                    column(X, weights, Y, c, y * rows, whole * L, True)

    return depthwise


def _jax(layout: tuple[str, str, str], x: Array, w: Array, groups: int) -> peers.Candidates:
    def convolve(jnp: object, x: object, w: object) -> object:
        import jax

        return jax.lax.conv_general_dilated(
            x[None], w, (1, 1), "VALID", dimension_numbers=layout, feature_group_count=groups
        )[0]

    return peers.jax_call(convolve, x, w)


def dense_case(machine: Machine, size: int, channels: int, outputs: int, reached: float = 0.93) -> Case:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((size + 2, size + 2, channels), dtype=np.float32)
    w = rng.standard_normal((3, 3, channels, outputs), dtype=np.float32)
    y = np.empty((size, size, outputs), np.float32)
    places = [(r, s) for r in range(3) for s in range(3)]

    def numpy() -> Array:
        np.matmul(x[:size, :size], w[0, 0], out=y)
        for r, s in places[1:]:
            y[...] += x[r : r + size, s : s + size] @ w[r, s]
        return y

    return Case(
        func=convolution(machine, size, channels, outputs),
        args=(x, w, y),
        expected=lambda: sum((x[r : r + size, s : s + size] @ w[r, s] for r, s in places), np.zeros(())),
        work=2.0 * y.size * 9 * channels,
        limit="float32 multiply-add",
        reached=reached,
        tolerance=1e-5,
        peers={"numpy": numpy, **_jax(("NHWC", "HWIO", "NHWC"), x, w, 1)},
    )


def _numba_depthwise(x: Array, w: Array, y: Array) -> peers.Candidates:
    nb = peers.numba()
    if nb is None:
        return {}

    @nb.njit(fastmath=True, parallel=True)
    def run(x, w, y):
        for c in nb.prange(y.shape[0]):
            for i in range(y.shape[1]):
                for j in range(y.shape[2]):
                    y[c, i, j] = (
                        x[c, i, j] * w[c, 0, 0] + x[c, i, j + 1] * w[c, 0, 1] + x[c, i, j + 2] * w[c, 0, 2]
                        + x[c, i + 1, j] * w[c, 1, 0] + x[c, i + 1, j + 1] * w[c, 1, 1] + x[c, i + 1, j + 2] * w[c, 1, 2]
                        + x[c, i + 2, j] * w[c, 2, 0] + x[c, i + 2, j + 1] * w[c, 2, 1] + x[c, i + 2, j + 2] * w[c, 2, 2]
                    )  # fmt: skip

    return {"numba": lambda: run(x, w, y)}


def depthwise_case(machine: Machine, channels: int, size: int, reached: float = 0.66) -> Case:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((channels, size + 2, size + 2), dtype=np.float32)
    w = rng.standard_normal((channels, 3, 3), dtype=np.float32)
    y = np.empty((channels, size, size), np.float32)
    places = [(r, s) for r in range(3) for s in range(3)]
    return Case(
        func=depthwise(machine, channels, size),
        args=(x, w, y),
        expected=lambda: sum(
            (x[:, r : r + size, s : s + size] * w[:, r, s, None, None] for r, s in places), np.zeros(())
        ),
        work=2.0 * y.size * 9,
        limit="float32 multiply-add",
        reached=reached,
        tolerance=1e-5,
        peers={**_numba_depthwise(x, w, y), **_jax(("NCHW", "OIHW", "NCHW"), x, w[:, None], channels)},
    )


CASES: dict[str, Maker] = {
    "convolution 3×3, 64→64, 56²": partial(dense_case, size=56, channels=64, outputs=64),
    "depthwise 3×3, 128, 56²": partial(depthwise_case, channels=128, size=56),
}
SMALL: dict[str, Maker] = {
    "convolution 3×3, 3→17, 5²": partial(dense_case, size=5, channels=3, outputs=17),
    "convolution 3×3, 2→32, 4²": partial(dense_case, size=4, channels=2, outputs=32),
    "depthwise 3×3, 3, 9²": partial(depthwise_case, channels=3, size=9),
    "depthwise 3×3, 2, 16²": partial(depthwise_case, channels=2, size=16),
}
