"""The formulas of the rows as anybody writes them: blocks as `create_prim_func` makes them, plain loops, local accumulators.

Each takes the arguments of the kernel by hand of the same name, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from bench.by_hand.stencil import NINTH
from bench.rows.sweeps import histogram, jacobi
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["NAIVE", "TARGETS"]


def product(form: str, M: int, N: int, K: int, dtype: str = "float32", result: str = "float32") -> PrimFunc:
    """``C = A @ B``."""

    @T.prim_func
    def block(A: T.Buffer((M, K), dtype), B: T.Buffer((K, N), dtype), C: T.Buffer((M, N), result)):
        for i, j, k in T.grid(M, N, K):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.Cast(result, 0)
                C[vi, vj] += T.Cast(result, A[vi, vk]) * T.Cast(result, B[vk, vj])

    @T.prim_func
    def plain(A: T.Buffer((M, K), dtype), B: T.Buffer((K, N), dtype), C: T.Buffer((M, N), result)):
        for i, j in T.grid(M, N):
            C[i, j] = T.Cast(result, 0)
            for k in range(K):
                C[i, j] += T.Cast(result, A[i, k]) * T.Cast(result, B[k, j])

    @T.prim_func
    def local(A: T.Buffer((M, K), dtype), B: T.Buffer((K, N), dtype), C: T.Buffer((M, N), result)):
        for i, j in T.grid(M, N):
            acc = T.Cast(result, 0)
            for k in range(K):
                acc += T.Cast(result, A[i, k]) * T.Cast(result, B[k, j])
            C[i, j] = acc

    return {"block": block, "plain": plain, "local": local}[form]


def batched(form: str, batch: int, side: int) -> PrimFunc:
    """``C[n] = A[n] @ B[n]``."""

    @T.prim_func
    def block(
        A: T.Buffer((batch, side, side), "float32"),
        B: T.Buffer((batch, side, side), "float32"),
        C: T.Buffer((batch, side, side), "float32"),
    ):
        for n, i, j, k in T.grid(batch, side, side, side):
            with T.block("C"):
                vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
                with T.init():
                    C[vn, vi, vj] = T.float32(0)
                C[vn, vi, vj] += A[vn, vi, vk] * B[vn, vk, vj]

    return block


def matvec(form: str, M: int, N: int) -> PrimFunc:
    """``y = A @ x``; the block leaves the order of the sums free."""

    @T.prim_func
    def block(A: T.Buffer((M, N), "float32"), x: T.Buffer((N,), "float32"), y: T.Buffer((M,), "float32")):
        for i, j in T.grid(M, N):
            with T.block("y"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    y[vi] = T.float32(0)
                y[vi] += A[vi, vj] * x[vj]

    return block


def convolution(form: str, size: int, channels: int, outputs: int) -> PrimFunc:
    """A 3 x 3 convolution of an image with its border."""

    @T.prim_func
    def block(
        X: T.Buffer((size + 2, size + 2, channels), "float32"),
        W: T.Buffer((3, 3, channels, outputs), "float32"),
        Y: T.Buffer((size, size, outputs), "float32"),
    ):
        for h, w, o, r, s, c in T.grid(size, size, outputs, 3, 3, channels):
            with T.block("Y"):
                vh, vw, vo, vr, vs, vc = T.axis.remap("SSSRRR", [h, w, o, r, s, c])
                with T.init():
                    Y[vh, vw, vo] = T.float32(0)
                Y[vh, vw, vo] += X[vh + vr, vw + vs, vc] * W[vr, vs, vc, vo]

    @T.prim_func
    def local(
        X: T.Buffer((size + 2, size + 2, channels), "float32"),
        W: T.Buffer((3, 3, channels, outputs), "float32"),
        Y: T.Buffer((size, size, outputs), "float32"),
    ):
        for h, w, o in T.grid(size, size, outputs):
            acc = T.float32(0)
            for r, s, c in T.grid(3, 3, channels):
                acc += X[h + r, w + s, c] * W[r, s, c, o]
            Y[h, w, o] = acc

    return {"block": block, "local": local}[form]


def depthwise(form: str, channels: int, size: int) -> PrimFunc:
    """A 3 x 3 convolution of each channel for itself."""

    @T.prim_func
    def local(
        X: T.Buffer((channels, size + 2, size + 2), "float32"),
        W: T.Buffer((channels, 3, 3), "float32"),
        Y: T.Buffer((channels, size, size), "float32"),
    ):
        for c, h, w in T.grid(channels, size, size):
            acc = T.float32(0)
            for r, s in T.grid(3, 3):
                acc += X[c, h + r, w + s] * W[c, r, s]
            Y[c, h, w] = acc

    return local


def row_sum(form: str, rows: int, cols: int) -> PrimFunc:
    """The sums of rows; the block leaves their order free."""

    @T.prim_func
    def block(X: T.Buffer((rows, cols), "float32"), S: T.Buffer((rows,), "float32")):
        for i, j in T.grid(rows, cols):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] += X[vi, vj]

    @T.prim_func
    def plain(X: T.Buffer((rows, cols), "float32"), S: T.Buffer((rows,), "float32")):
        for i in range(rows):
            S[i] = T.float32(0)
            for j in range(cols):
                S[i] += X[i, j]

    return {"block": block, "plain": plain}[form]


def softmax(form: str, rows: int, cols: int) -> PrimFunc:
    """The four nests of a softmax of rows."""

    @T.prim_func
    def block(X: T.Buffer((rows, cols), "float32"), Y: T.Buffer((rows, cols), "float32")):
        M = T.alloc_buffer((rows,), "float32")
        E = T.alloc_buffer((rows, cols), "float32")
        S = T.alloc_buffer((rows,), "float32")
        for i, j in T.grid(rows, cols):
            with T.block("M"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], X[vi, vj])
        for i, j in T.grid(rows, cols):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = T.exp(X[vi, vj] - M[vi])
        for i, j in T.grid(rows, cols):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] += E[vi, vj]
        for i, j in T.grid(rows, cols):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = E[vi, vj] / S[vi]

    @T.prim_func
    def plain(X: T.Buffer((rows, cols), "float32"), Y: T.Buffer((rows, cols), "float32")):
        M = T.alloc_buffer((rows,), "float32")
        E = T.alloc_buffer((rows, cols), "float32")
        S = T.alloc_buffer((rows,), "float32")
        for i in range(rows):
            M[i] = T.min_value("float32")
            for j in range(cols):
                M[i] = T.max(M[i], X[i, j])
        for i, j in T.grid(rows, cols):
            E[i, j] = T.exp(X[i, j] - M[i])
        for i in range(rows):
            S[i] = T.float32(0)
            for j in range(cols):
                S[i] += E[i, j]
        for i, j in T.grid(rows, cols):
            Y[i, j] = E[i, j] / S[i]

    return {"block": block, "plain": plain}[form]


def column_sum(form: str, rows: int, cols: int) -> PrimFunc:
    """The sums of columns."""

    @T.prim_func
    def plain(X: T.Buffer((rows, cols), "float32"), S: T.Buffer((cols,), "float32")):
        for j in range(cols):
            S[j] = T.float32(0)
            for i in range(rows):
                S[j] += X[i, j]

    return plain


def gelu(form: str, n: int) -> PrimFunc:
    """``Y = X * (1 + erf(X / sqrt(2))) / 2``."""

    @T.prim_func
    def plain(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in range(n):
            Y[i] = X[i] * (T.erf(X[i] * T.float32(0.70710678)) * T.float32(0.5) + T.float32(0.5))

    return plain


def bias_gelu_residual(form: str, rows: int, cols: int) -> PrimFunc:
    """``Y = gelu(X + bias) + Z`` in three nests."""

    @T.prim_func
    def plain(
        X: T.Buffer((rows, cols), "float32"),
        bias: T.Buffer((cols,), "float32"),
        Z: T.Buffer((rows, cols), "float32"),
        Y: T.Buffer((rows, cols), "float32"),
    ):
        S = T.alloc_buffer((rows, cols), "float32")
        G = T.alloc_buffer((rows, cols), "float32")
        for i, j in T.grid(rows, cols):
            S[i, j] = X[i, j] + bias[j]
        for i, j in T.grid(rows, cols):
            G[i, j] = S[i, j] * (T.erf(S[i, j] * T.float32(0.70710678)) * T.float32(0.5) + T.float32(0.5))
        for i, j in T.grid(rows, cols):
            Y[i, j] = G[i, j] + Z[i, j]

    return plain


def transpose(form: str, n: int) -> PrimFunc:
    """``Y = X.T``."""

    @T.prim_func
    def plain(X: T.Buffer((n, n), "float32"), Y: T.Buffer((n, n), "float32")):
        for i, j in T.grid(n, n):
            Y[i, j] = X[j, i]

    return plain


def layer_norm(form: str, rows: int, cols: int) -> PrimFunc:
    """Rows less their mean, by their deviation."""
    inverse = 1.0 / cols

    @T.prim_func
    def block(
        X: T.Buffer((rows, cols), "float32"),
        gamma: T.Buffer((cols,), "float32"),
        beta: T.Buffer((cols,), "float32"),
        Y: T.Buffer((rows, cols), "float32"),
    ):
        S = T.alloc_buffer((rows,), "float32")
        V = T.alloc_buffer((rows,), "float32")
        for i, j in T.grid(rows, cols):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] += X[vi, vj]
        for i, j in T.grid(rows, cols):
            with T.block("V"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    V[vi] = T.float32(0)
                V[vi] += (X[vi, vj] - S[vi] * T.float32(inverse)) * (X[vi, vj] - S[vi] * T.float32(inverse))
        for i, j in T.grid(rows, cols):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = (X[vi, vj] - S[vi] * T.float32(inverse)) / T.sqrt(
                    V[vi] * T.float32(inverse) + T.float32(1e-5)
                ) * gamma[vj] + beta[vj]

    return block


def rms_norm(form: str, rows: int, cols: int) -> PrimFunc:
    """Rows by the root of the mean of their squares."""
    inverse = 1.0 / cols

    @T.prim_func
    def block(
        X: T.Buffer((rows, cols), "float32"),
        gamma: T.Buffer((cols,), "float32"),
        Y: T.Buffer((rows, cols), "float32"),
    ):
        S = T.alloc_buffer((rows,), "float32")
        R = T.alloc_buffer((rows,), "float32")
        for i, j in T.grid(rows, cols):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] += X[vi, vj] * X[vi, vj]
        for i in range(rows):
            with T.block("R"):
                vi = T.axis.spatial(rows, i)
                R[vi] = T.float32(1) / T.sqrt(S[vi] * T.float32(inverse) + T.float32(1e-5))
        for i, j in T.grid(rows, cols):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = X[vi, vj] * R[vi] * gamma[vj]

    return block


def blur(form: str, rows: int, cols: int) -> PrimFunc:
    """The mean of nine, in two nests."""

    @T.prim_func
    def plain(X: T.Buffer((rows + 2, cols + 2), "float32"), Y: T.Buffer((rows, cols), "float32")):
        H = T.alloc_buffer((rows + 2, cols), "float32")
        for i, j in T.grid(rows + 2, cols):
            H[i, j] = X[i, j] + X[i, j + 1] + X[i, j + 2]
        for i, j in T.grid(rows, cols):
            Y[i, j] = (H[i, j] + H[i + 1, j] + H[i + 2, j]) * T.float32(NINTH)

    return plain


def attention(form: str, heads: int, queries: int, keys: int, width: int) -> PrimFunc:
    """``O = softmax(Q @ K.T / sqrt(width)) @ V`` of each head."""
    scale = float(np.float32(1) / np.sqrt(np.float32(width)))

    @T.prim_func
    def block(
        Q: T.Buffer((heads, queries, width), "float32"),
        K: T.Buffer((heads, keys, width), "float32"),
        V: T.Buffer((heads, keys, width), "float32"),
        O: T.Buffer((heads, queries, width), "float32"),
    ):
        S = T.alloc_buffer((heads, queries, keys), "float32")
        P = T.alloc_buffer((heads, queries, keys), "float32")
        R = T.alloc_buffer((heads, queries, keys), "float32")
        peak = T.alloc_buffer((heads, queries), "float32")
        total = T.alloc_buffer((heads, queries), "float32")
        for h, i, j, d in T.grid(heads, queries, keys, width):
            with T.block("S"):
                vh, vi, vj, vd = T.axis.remap("SSSR", [h, i, j, d])
                with T.init():
                    S[vh, vi, vj] = T.float32(0)
                S[vh, vi, vj] += Q[vh, vi, vd] * K[vh, vj, vd]
        for h, i, j in T.grid(heads, queries, keys):
            with T.block("peak"):
                vh, vi, vj = T.axis.remap("SSR", [h, i, j])
                with T.init():
                    peak[vh, vi] = T.min_value("float32")
                peak[vh, vi] = T.max(peak[vh, vi], S[vh, vi, vj])
        for h, i, j in T.grid(heads, queries, keys):
            with T.block("P"):
                vh, vi, vj = T.axis.remap("SSS", [h, i, j])
                P[vh, vi, vj] = T.exp((S[vh, vi, vj] - peak[vh, vi]) * T.float32(scale))
        for h, i, j in T.grid(heads, queries, keys):
            with T.block("total"):
                vh, vi, vj = T.axis.remap("SSR", [h, i, j])
                with T.init():
                    total[vh, vi] = T.float32(0)
                total[vh, vi] += P[vh, vi, vj]
        for h, i, j in T.grid(heads, queries, keys):
            with T.block("R"):
                vh, vi, vj = T.axis.remap("SSS", [h, i, j])
                R[vh, vi, vj] = P[vh, vi, vj] / total[vh, vi]
        for h, i, d, j in T.grid(heads, queries, width, keys):
            with T.block("O"):
                vh, vi, vd, vj = T.axis.remap("SSSR", [h, i, d, j])
                with T.init():
                    O[vh, vi, vd] = T.float32(0)
                O[vh, vi, vd] += R[vh, vi, vj] * V[vh, vj, vd]

    return block


Maker = Callable[[], PrimFunc]


def _products(name: str, sides: tuple[int, ...], dtype: str, result: str) -> dict[str, Mapping[str, Maker]]:
    return {
        f"product {name} {side}³": {
            form: partial(product, form, side, side, side, dtype, result) for form in ("block", "plain", "local")
        }
        for side in sides
    }


NAIVE: Mapping[str, Mapping[str, Maker]] = {
    **_products("float32", (256, 512, 1024), "float32", "float32"),
    **_products("int8", (1024,), "int8", "int32"),
    **_products("bfloat16", (1024,), "bfloat16", "float32"),
    "16³ products × 100,000": {"block": partial(batched, "block", 100_000, 16)},
    "matrix 4096² × vector": {"block": partial(matvec, "block", 4096, 4096)},
    "convolution 3×3, 64→64, 56²": {form: partial(convolution, form, 56, 64, 64) for form in ("block", "local")},
    "depthwise 3×3, 128, 56²": {"local": partial(depthwise, "local", 128, 56)},
    "softmax 4096²": {form: partial(softmax, form, 4096, 4096) for form in ("block", "plain")},
    "layer norm 4096²": {"block": partial(layer_norm, "block", 4096, 4096)},
    "rms norm 4096²": {"block": partial(rms_norm, "block", 4096, 4096)},
    "row sum 4096²": {form: partial(row_sum, form, 4096, 4096) for form in ("block", "plain")},
    "column sum 4096²": {"plain": partial(column_sum, "plain", 4096, 4096)},
    "gelu 16M": {"plain": partial(gelu, "plain", 4096 * 4096)},
    "bias + gelu + residual 16M": {"plain": partial(bias_gelu_residual, "plain", 4096, 4096)},
    "blur 3×3 4096²": {"plain": partial(blur, "plain", 4096, 4096)},
    "attention 8×1024×64": {"block": partial(attention, "block", 8, 1024, 1024, 64)},
    "transpose 4096²": {"plain": partial(transpose, "plain", 4096)},
    "jacobi 4096², 10 steps": {"plain": partial(jacobi, "plain", 4096, 10)},
    "histogram 16M bytes": {"plain": partial(histogram, "plain", 1 << 24)},
}
"""By the name of the kernel by hand: the forms in which its formula is written."""

TARGETS: Mapping[str, str] = {"product bfloat16 1024³": "-fast-math-dots=1"}
"""What a target has to permit for a row: instructions for products of bfloat16 round in their own way, as all peers let them."""
