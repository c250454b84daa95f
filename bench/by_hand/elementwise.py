"""Activations of whole arrays: four vectors a statement, so that their chains of operations go side by side."""

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

__all__ = ["CASES", "SMALL", "bias_gelu_residual", "gelu"]

MULTIPLY_ADDS = 24
"""Of an element: the two polynomials of `erf`, its exponential, and products, which take the same units."""


def activated(x: Any) -> Any:
    """GELU of an expression."""
    return x * (T.erf(x * T.float32(0.70710678)) * T.float32(0.5) + T.float32(0.5))


def gelu(machine: Machine, n: int) -> PrimFunc:
    """``Y = X * (1 + erf(X / sqrt(2))) / 2``."""
    wide = 4 * machine.lanes()
    whole = n // wide
    block = 256

    @T.prim_func
    def gelu(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32", align=64)):
        T.func_attr({"tir.noalias": True})
        for b in T.parallel(T.ceildiv(whole, block), annotations={"tir.nontemporal": True}):
            for i in range(T.min(block, whole - b * block)):
                for l in T.vectorized(wide):
                    Y[(b * block + i) * wide + l] = activated(X[(b * block + i) * wide + l])
        for i in range(whole * wide, n):
            Y[i] = activated(X[i])

    return gelu


def bias_gelu_residual(machine: Machine, rows: int, cols: int) -> PrimFunc:
    """``Y = gelu(X + bias) + Z``, the bias by columns."""
    wide = 4 * machine.lanes()
    whole = cols // wide

    @T.prim_func
    def bias_gelu_residual(
        X: T.Buffer((rows, cols), "float32"),
        bias: T.Buffer((cols,), "float32"),
        Z: T.Buffer((rows, cols), "float32"),
        Y: T.Buffer((rows, cols), "float32", align=64),
    ):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(rows, annotations={"tir.nontemporal": True}):
            for j in range(whole):
                for l in T.vectorized(wide):
                    Y[i, j * wide + l] = activated(X[i, j * wide + l] + bias[j * wide + l]) + Z[i, j * wide + l]
            for j in range(whole * wide, cols):
                Y[i, j] = activated(X[i, j] + bias[j]) + Z[i, j]

    return bias_gelu_residual


def erf(x: Array) -> Array:
    """Of float64, right to 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    sums = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.asarray(np.copysign(1 - sums * np.exp(-x * x), x))


def in_numba() -> Any:
    """``gelu(x, y)`` and ``chain(x, bias, z, y)``, or None."""
    nb = peers.numba()
    if nb is None:
        return None
    import math

    root, half, one = np.float32(0.70710678), np.float32(0.5), np.float32(1)

    @nb.njit(fastmath=True, parallel=True)
    def gelu(x, y):
        for i in nb.prange(x.size):
            y[i] = x[i] * half * (one + math.erf(x[i] * root))

    @nb.njit(fastmath=True, parallel=True)
    def chain(x, bias, z, y):
        for i in nb.prange(x.shape[0]):
            for j in range(x.shape[1]):
                v = x[i, j] + bias[j]
                y[i, j] = v * half * (one + math.erf(v * root)) + z[i, j]

    return gelu, chain


def case(machine: Machine, rows: int, cols: int, alone: bool) -> Case:
    rng = np.random.default_rng(0)
    if alone:
        shape: tuple[int, ...] = (rows * cols,)
        inputs: list[Array] = [rng.standard_normal(shape, dtype=np.float32)]
    else:
        shape = (rows, cols)
        inputs = [rng.standard_normal(of, dtype=np.float32) for of in (shape, (cols,), shape)]
    y = tl.aligned_empty(shape, "float32")
    numba = in_numba()

    def expected() -> Array:
        x, bias, z = (inputs[0], 0.0, 0.0) if alone else inputs
        total = x.astype(np.float64) + bias
        return np.asarray(total * 0.5 * (1 + erf(total / np.sqrt(2))) + z)

    def jax(np: Any, x: Any, bias: Any = 0, z: Any = 0) -> Any:
        return peers.find("jax").nn.gelu(x + bias, approximate=False) + z

    return Case(
        func=gelu(machine, rows * cols) if alone else bias_gelu_residual(machine, rows, cols),
        args=(*inputs, y),
        expected=expected,
        work=2.0 * MULTIPLY_ADDS * rows * cols,
        limit="float32 multiply-add",
        reached=0.65 if alone else 0.57,
        tolerance=1e-6,
        ordered=False,
        peers={
            **({"numba": lambda: numba[0 if alone else 1](*inputs, y)} if numba else {}),
            **peers.jax_call(jax, *inputs),
        },
    )


CASES: dict[str, Maker] = {
    "gelu 16M": partial(case, rows=4096, cols=4096, alone=True),
    "bias + gelu + residual 16M": partial(case, rows=4096, cols=4096, alone=False),
}
SMALL: dict[str, Maker] = {
    f"{'gelu' if alone else 'bias + gelu + residual'} {rows}×{cols}": partial(case, rows=rows, cols=cols, alone=alone)
    for alone in (True, False)
    for rows, cols in ((1, 1), (3, 144))
}
