"""Networks: convolutions, pooling, normalisation, attention, activations, quantisation; and transforms of signals."""

from __future__ import annotations

import math

import numpy as np

from tests.kernels.base import Ulps, kernel, put
from tirlower.script import tir as T

EXP = "the interpreter's exponential and tanh are correctly rounded, the compiled ones are within 2 ulp"


def wide(a):
    return a.astype(np.float64)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True)) if x.size else x
    return e / e.sum(-1, keepdims=True) if x.size else x


@kernel(
    lambda g, n, m: [g.floats(n, m, low=-5, high=5), g.blank(n, m)],
    lambda a, b: put(b, _softmax(wide(a))),
    sizes=[{"n": 0, "m": 3}, {"n": 2, "m": 1}, {"n": 3, "m": 9}],
    large=[{"n": 20, "m": 333}],
    # exp of a rounded difference of numbers up to 10, a sum of m terms, a division
    within=lambda n, m: Ulps(16 + m),
    differs=EXP,
    dynamic=True,
)
def softmax():
    @T.prim_func
    def softmax(a: T.handle, b: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n, m), "float32")
        for i in T.parallel(n):
            top = T.alloc_buffer((1,), "float32", scope="local")
            total = T.alloc_buffer((1,), "float32", scope="local")
            top[0] = T.min_value("float32")
            total[0] = T.float32(0)
            for j in range(m):
                top[0] = T.max(top[0], A[i, j])
            for j in range(m):
                B[i, j] = T.exp(A[i, j] - top[0])
                total[0] += B[i, j]
            for j in range(m):
                B[i, j] = B[i, j] / total[0]

    return softmax


def _layer_norm(x, gamma, beta, y):
    x = wide(x)
    mean, var = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    put(y, (x - mean) / np.sqrt(var + 1e-5) * wide(gamma) + wide(beta))


@kernel(
    lambda g, n, m: [g.floats(n, m), g.floats(m), g.floats(m), g.blank(n, m)],
    _layer_norm,
    sizes=[{"n": 2, "m": 8}],
    large=[{"n": 9, "m": 128}],
    within=lambda n, m: Ulps(4 * m, scale=4),
)
def layer_norm_in_blocks(n, m):
    inverse = 1.0 / m

    @T.prim_func
    def norm(
        X: T.Buffer((n, m), "float32"),
        G: T.Buffer((m,), "float32"),
        B: T.Buffer((m,), "float32"),
        Y: T.Buffer((n, m), "float32"),
    ):
        mean = T.alloc_buffer((n,), "float32")
        var = T.alloc_buffer((n,), "float32")
        for i, j in T.grid(n, m):
            with T.block("mean"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    mean[vi] = T.float32(0)
                mean[vi] += X[vi, vj] * T.float32(inverse)
        for i, j in T.grid(n, m):
            with T.block("variance"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    var[vi] = T.float32(0)
                var[vi] += (X[vi, vj] - mean[vi]) * (X[vi, vj] - mean[vi]) * T.float32(inverse)
        for i, j in T.grid(n, m):
            with T.block("normalised"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = (X[vi, vj] - mean[vi]) / T.sqrt(var[vi] + T.float32(1e-5)) * G[vj] + B[vj]

    return norm


def _attention(q, k, v, o):
    scores = wide(q) @ wide(k).T / math.sqrt(q.shape[1])
    scores[np.triu_indices(len(q), 1)] = -np.inf
    put(o, _softmax(scores) @ wide(v))


@kernel(
    lambda g, n, d: [g.floats(n, d), g.floats(n, d), g.floats(n, d), g.blank(n, d)],
    _attention,
    sizes=[{"n": 1, "d": 2}, {"n": 5, "d": 4}],
    large=[{"n": 40, "d": 16}],
    within=lambda n, d: Ulps(4 * (n + d) + 16, scale=1),
    differs=EXP,
    dynamic=True,
)
def causal_attention_online():
    """One pass with a running maximum (Milakov and Gimelshein, 2018)."""

    @T.prim_func
    def attention(q: T.handle, k: T.handle, v: T.handle, o: T.handle):
        n, d = T.int32(), T.int32()
        Q = T.match_buffer(q, (n, d), "float32")
        K = T.match_buffer(k, (n, d), "float32")
        V = T.match_buffer(v, (n, d), "float32")
        O = T.match_buffer(o, (n, d), "float32")
        for i in T.parallel(n):
            top = T.alloc_buffer((1,), "float32", scope="local")
            total = T.alloc_buffer((1,), "float32", scope="local")
            score = T.alloc_buffer((1,), "float32", scope="local")
            top[0] = T.min_value("float32")
            total[0] = T.float32(0)
            for c in range(d):
                O[i, c] = T.float32(0)
            for j in range(i + 1):
                score[0] = T.float32(0)
                for c in range(d):
                    score[0] += Q[i, c] * K[j, c]
                score[0] = score[0] / T.sqrt(T.Cast("float32", d))
                high = T.bind(T.max(top[0], score[0]))
                fade = T.bind(T.exp(top[0] - high))
                weight = T.bind(T.exp(score[0] - high))
                total[0] = total[0] * fade + weight
                for c in range(d):
                    O[i, c] = O[i, c] * fade + V[j, c] * weight
                top[0] = high
            for c in range(d):
                O[i, c] = O[i, c] / total[0]

    return attention


def _conv(x, w, y, stride, groups=1):
    x, w = wide(x), wide(w)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    out = np.zeros(y.shape)
    for i in range(y.shape[1]):
        for j in range(y.shape[2]):
            window = padded[:, i * stride : i * stride + 3, j * stride : j * stride + 3, :]
            if groups == 1:
                out[:, i, j, :] = np.tensordot(window, w, axes=([1, 2, 3], [0, 1, 2]))
            else:
                out[:, i, j, :] = (window * w).sum((1, 2))
    put(y, out)


@kernel(
    lambda g, n, h, c, o: [g.floats(n, h, h, c), g.floats(3, 3, c, o), g.blank(n, (h + 1) // 2, (h + 1) // 2, o)],
    lambda x, w, y: _conv(x, w, y, 2),
    sizes=[{"n": 1, "h": 3, "c": 2, "o": 3}],
    large=[{"n": 2, "h": 13, "c": 8, "o": 16}],
    within=lambda n, h, c, o: Ulps(9 * c, scale=9 * c),
)
def conv2d_strided(n, h, c, o):
    half = (h + 1) // 2

    @T.prim_func
    def conv(
        X: T.Buffer((n, h, h, c), "float32"),
        W: T.Buffer((3, 3, c, o), "float32"),
        Y: T.Buffer((n, half, half, o), "float32"),
    ):
        padded = T.alloc_buffer((n, h + 2, h + 2, c), "float32")
        for b, i, j, k in T.grid(n, h + 2, h + 2, c):
            with T.block("pad"):
                vb, vi, vj, vk = T.axis.remap("SSSS", [b, i, j, k])
                padded[vb, vi, vj, vk] = T.if_then_else(
                    vi >= 1 and vi < h + 1 and vj >= 1 and vj < h + 1, X[vb, vi - 1, vj - 1, vk], T.float32(0)
                )
        for b, i, j, f, di, dj, k in T.grid(n, half, half, o, 3, 3, c):
            with T.block("conv"):
                vb, vi, vj, vf, vx, vy, vk = T.axis.remap("SSSSRRR", [b, i, j, f, di, dj, k])
                with T.init():
                    Y[vb, vi, vj, vf] = T.float32(0)
                Y[vb, vi, vj, vf] += padded[vb, vi * 2 + vx, vj * 2 + vy, vk] * W[vx, vy, vk, vf]

    return conv


@kernel(
    lambda g, n, h, c: [g.floats(n, h, h, c), g.floats(3, 3, c), g.blank(n, h, h, c)],
    lambda x, w, y: _conv(x, w, y, 1, groups=0),
    sizes=[{"n": 1, "h": 3, "c": 5}],
    large=[{"n": 2, "h": 14, "c": 17}],
    within=Ulps(9, scale=9),
)
def depthwise_conv_vectorized(n, h, c):
    @T.prim_func
    def depthwise(
        X: T.Buffer((n, h, h, c), "float32"), W: T.Buffer((3, 3, c), "float32"), Y: T.Buffer((n, h, h, c), "float32")
    ):
        for b, i, j in T.grid(n, h, h):
            for k in T.vectorized(c):
                Y[b, i, j, k] = T.float32(0)
            for di, dj in T.grid(3, 3):
                if 1 <= i + di <= h and 1 <= j + dj <= h:
                    for k in T.vectorized(c):
                        Y[b, i, j, k] += X[b, i + di - 1, j + dj - 1, k] * W[di, dj, k]

    return depthwise


def _pools(x, top, mean):
    n, h, c = x.shape
    tiles = x.reshape(n // 2, 2, h // 2, 2, c)
    put(top, tiles.max((1, 3)))
    put(mean, wide(tiles).mean((1, 3)))


@kernel(
    lambda g, n: [g.floats(2 * n, 4, 3), g.blank(n, 2, 3), g.blank(n, 2, 3)],
    _pools,
    sizes=[{"n": 0}, {"n": 2}],
    large=[{"n": 33}],
    within=Ulps(4, scale=1),
    dynamic=True,
)
def pooling():
    @T.prim_func
    def pool(x: T.handle, top: T.handle, mean: T.handle):
        n = T.int32()
        P = T.match_buffer(top, (n, 2, 3), "float32")
        M = T.match_buffer(mean, (n, 2, 3), "float32")
        X = T.match_buffer(x, (2 * n, 4, 3), "float32")
        for i, j, c, di, dj in T.grid(n, 2, 3, 2, 2):
            with T.block("max"):
                vi, vj, vc, vx, vy = T.axis.remap("SSSRR", [i, j, c, di, dj])
                with T.init():
                    P[vi, vj, vc] = T.min_value("float32")
                    M[vi, vj, vc] = T.float32(0)
                P[vi, vj, vc] = T.max(P[vi, vj, vc], X[vi * 2 + vx, vj * 2 + vy, vc])
                M[vi, vj, vc] = M[vi, vj, vc] + X[vi * 2 + vx, vj * 2 + vy, vc] * T.float32(0.25)

    return pool


@kernel(
    lambda g, n, m: [g.ints(n, m, low=-50, high=50), g.blank(n, dtype="int32"), g.blank(n, dtype="int32")],
    lambda a, v, p: (put(v, a.min(1)), put(p, a.argmin(1))),
    sizes=[{"n": 1, "m": 1}, {"n": 4, "m": 7}],
    large=[{"n": 33, "m": 65}],
)
def argmin_with_two_buffers(n, m):
    @T.prim_func
    def argmin(A: T.Buffer((n, m), "int32"), V: T.Buffer((n,), "int32"), P: T.Buffer((n,), "int32")):
        for i, j in T.grid(n, m):
            with T.block("argmin"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.reads(A[vi, vj])
                T.writes(V[vi], P[vi])
                with T.init():
                    V[vi] = T.max_value("int32")
                    P[vi] = -1
                at = T.bind(T.Select(A[vi, vj] < V[vi], vj, P[vi]))
                least = T.bind(T.min(A[vi, vj], V[vi]))
                P[vi] = at
                V[vi] = least

    return argmin


def _gelu(x, y):
    x = wide(x)
    put(y[0], 0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))))
    put(y[1], x / (1 + np.exp(-x)))
    put(y[2], np.where(x > 0, x, 0.1 * x))
    put(y[3], np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


@kernel(
    lambda g, n: [g.floats(n, low=-6, high=6), g.blank(4, n)],
    _gelu,
    sizes=[{"n": 0}, {"n": 9}],
    large=[{"n": 1000}],
    within=Ulps(8, scale=1),  # gelu cancels for negative x: an error relative to |x|
    differs=EXP,
    dynamic=True,
)
def activations():
    @T.prim_func
    def gelu(x: T.handle, y: T.handle):
        n = T.int32()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (4, n), "float32")
        for i in range(n):
            Y[0, i] = T.float32(0.5) * X[i] * (T.float32(1) + T.erf(X[i] * T.float32(0.70710678)))
            Y[1, i] = X[i] * T.sigmoid(X[i])
            Y[2, i] = T.if_then_else(X[i] > T.float32(0), X[i], X[i] * T.float32(0.1))
            Y[3, i] = T.max(X[i], T.float32(0)) + T.log1p(T.exp(T.float32(0) - T.abs(X[i])))

    return gelu


def _quantize(x, q, back):
    put(q, np.clip(np.rint(wide(x) * 32), -128, 127))
    put(back, wide(q) / 32)


@kernel(
    lambda g, n: [g.floats(n, low=-5, high=5), g.blank(n, dtype="int8"), g.blank(n)],
    _quantize,
    sizes=[{"n": 0}, {"n": 20}],
    large=[{"n": 900}],
    dynamic=True,
)
def quantisation():
    @T.prim_func
    def quantize(x: T.handle, q: T.handle, r: T.handle):
        n = T.int32()
        X = T.match_buffer(x, (n,), "float32")
        Q = T.match_buffer(q, (n,), "int8")
        R = T.match_buffer(r, (n,), "float32")
        for i in range(n):
            scaled = T.bind(T.nearbyint(X[i] * T.float32(32)))
            Q[i] = T.Cast("int8", T.max(T.min(scaled, T.float32(127)), T.float32(-128)))
            R[i] = T.Cast("float32", Q[i]) * T.float32(0.03125)

    return quantize


def _fft_arguments(g, n):
    w = np.exp(-2j * np.pi * np.arange(n) / n)
    return [
        g.floats(n, dtype="float64"), g.floats(n, dtype="float64"), w.real.copy(), w.imag.copy(),
        g.blank(n, dtype="float64"), g.blank(n, dtype="float64"),
    ]  # fmt: skip


def _fft(x, y, wr, wi, re, im):
    f = np.fft.fft(x + 1j * y)
    put(re, f.real)
    put(im, f.imag)


@kernel(
    _fft_arguments,
    _fft,
    sizes=[{"n": 2}, {"n": 8}],
    large=[{"n": 256}],
    within=lambda n: Ulps(8 * n.bit_length(), scale=n),
)
def fast_fourier_transform(n):
    bits = n.bit_length() - 1

    order = [int(format(i, f"0{bits}b")[::-1], 2) for i in range(n)]

    @T.prim_func
    def fft(
        X: T.Buffer((n,), "float64"),
        Y: T.Buffer((n,), "float64"),
        WR: T.Buffer((n,), "float64"),
        WI: T.Buffer((n,), "float64"),
        R: T.Buffer((n,), "float64"),
        I: T.Buffer((n,), "float64"),
    ):
        table = T.allocate_const(order, "int32", [n])
        rev = T.Buffer((n,), "int32", data=table)
        for i in range(n):
            R[i] = X[rev[i]]
            I[i] = Y[rev[i]]
        for s in range(bits):
            half: T.int32 = T.shift_left(1, s)
            for pair in range(n // 2):
                a: T.int32 = pair // half * (half * 2) + pair % half
                b: T.int32 = a + half
                w: T.int32 = pair % half * (n // (half * 2))
                re = T.bind(R[b] * WR[w] - I[b] * WI[w])
                im = T.bind(R[b] * WI[w] + I[b] * WR[w])
                R[b] = R[a] - re
                I[b] = I[a] - im
                R[a] = R[a] + re
                I[a] = I[a] + im

    return fft


def _rope(x, y):
    n, d = x.shape
    angle = np.arange(n)[:, None] / 10000.0 ** (2 * np.arange(d // 2)[None, :] / d)
    cos, sin = np.cos(angle), np.sin(angle)
    even, odd = wide(x)[:, ::2], wide(x)[:, 1::2]
    out = np.empty((n, d))
    out[:, ::2], out[:, 1::2] = even * cos - odd * sin, even * sin + odd * cos
    put(y, out)


@kernel(
    lambda g, n, d: [g.floats(n, d, dtype="float64"), g.blank(n, d, dtype="float64")],
    _rope,
    sizes=[{"n": 3, "d": 4}],
    large=[{"n": 50, "d": 16}],
    within=lambda n, d: Ulps(16 + 16 * n, scale=1),  # the angle itself is rounded
    differs="sin, cos and pow of the C library and of NumPy differ in the last bits",
)
def rotary_embedding(n, d):
    @T.prim_func
    def rope(X: T.Buffer((n, d), "float64"), Y: T.Buffer((n, d), "float64")):
        for i, j in T.grid(n, d // 2):
            angle = T.bind(T.Cast("float64", i) / T.pow(T.float64(10000), T.Cast("float64", 2 * j) / T.float64(d)))
            Y[i, 2 * j] = X[i, 2 * j] * T.cos(angle) - X[i, 2 * j + 1] * T.sin(angle)
            Y[i, 2 * j + 1] = X[i, 2 * j] * T.sin(angle) + X[i, 2 * j + 1] * T.cos(angle)

    return rope


def _top(a, k, v, p):
    for i in range(len(a)):
        order = np.lexsort((np.arange(a.shape[1]), -a[i]))[:k]
        v[i], p[i] = a[i][order], order


@kernel(
    lambda g, n, m, k: [g.floats(n, m), k, g.blank(n, k), g.blank(n, k, dtype="int32")],
    _top,
    sizes=[{"n": 2, "m": 6, "k": 3}, {"n": 1, "m": 1, "k": 1}],
    large=[{"n": 20, "m": 100, "k": 9}],
    dynamic=True,
)
def top_k_by_insertion():
    @T.prim_func
    def topk(a: T.handle, k: T.int32, v: T.handle, p: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "float32")
        V = T.match_buffer(v, (n, k), "float32")
        P = T.match_buffer(p, (n, k), "int32")
        at = T.alloc_buffer((1,), "int32", scope="local")
        for i in range(n):
            for j in range(k):
                V[i, j] = T.min_value("float32")
                P[i, j] = -1
            for j in range(m):
                at[0] = k
                while T.if_then_else(at[0] > 0, V[i, T.max(at[0] - 1, 0)] < A[i, j], T.bool(False)):
                    at[0] = at[0] - 1
                    if at[0] + 1 < k:
                        V[i, at[0] + 1] = V[i, at[0]]
                        P[i, at[0] + 1] = P[i, at[0]]
                if at[0] < k:
                    V[i, at[0]] = A[i, j]
                    P[i, at[0]] = j

    return topk
