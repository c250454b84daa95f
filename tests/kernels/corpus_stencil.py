"""Stencils: one to three dimensions, in place, in time, periodic; and triangular loops."""

from __future__ import annotations

import numpy as np

from tests.kernels.base import Ulps, kernel, put
from tirlower.script import tir as T


def _blur(a, b):
    b[:] = a
    if len(a) > 2:
        put(b[1:-1], (a[:-2].astype(np.float64) + 2.0 * a[1:-1] + a[2:]) / 4)


@kernel(
    lambda g, n: [g.floats(n), g.blank(n)],
    _blur,
    sizes=[{"n": n} for n in (0, 1, 2, 3, 11)],
    large=[{"n": 1009}],
    within=Ulps(3, scale=1),
    dynamic=True,
)
def blur_1d():
    @T.prim_func
    def blur(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            if i > 0 and i < n - 1:
                B[i] = (A[i - 1] + T.float32(2) * A[i] + A[i + 1]) * T.float32(0.25)
            else:
                B[i] = A[i]

    return blur


def _jacobi(a, b):
    b[:] = a
    f = a.astype(np.float64)
    put(b[1:-1, 1:-1], 0.25 * (f[:-2, 1:-1] + f[2:, 1:-1] + f[1:-1, :-2] + f[1:-1, 2:]))


@kernel(
    lambda g, n, m: [g.floats(n, m), g.blank(n, m)],
    _jacobi,
    sizes=[{"n": 3, "m": 3}, {"n": 5, "m": 7}],
    large=[{"n": 64, "m": 101}],
    within=Ulps(4, scale=1),
)
def jacobi_2d(n, m):
    @T.prim_func
    def jacobi(A: T.Buffer((n, m), "float32"), B: T.Buffer((n, m), "float32")):
        for i in T.parallel(n):
            for j in range(m):
                if i > 0 and i < n - 1 and j > 0 and j < m - 1:
                    B[i, j] = T.float32(0.25) * (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])
                else:
                    B[i, j] = A[i, j]

    return jacobi


def _heat(a, b):
    b[:] = a
    f = a.astype(np.float64)
    c = f[1:-1, 1:-1, 1:-1]
    around = (
        f[:-2, 1:-1, 1:-1] + f[2:, 1:-1, 1:-1] + f[1:-1, :-2, 1:-1]
        + f[1:-1, 2:, 1:-1] + f[1:-1, 1:-1, :-2] + f[1:-1, 1:-1, 2:]
    )  # fmt: skip
    put(b[1:-1, 1:-1, 1:-1], c + 0.125 * (around - 6 * c))


@kernel(
    lambda g, n: [g.floats(n, n + 1, n + 2, dtype="float64"), g.blank(n, n + 1, n + 2, dtype="float64")],
    _heat,
    sizes=[{"n": 3}, {"n": 4}],
    large=[{"n": 21}],
    within=Ulps(12, scale=2),
)
def heat_3d(n):
    shape = (n, n + 1, n + 2)

    @T.prim_func
    def heat(A: T.Buffer(shape, "float64"), B: T.Buffer(shape, "float64")):
        for i, j, k in T.grid(n, n + 1, n + 2):
            B[i, j, k] = A[i, j, k]
        for i, j, k in T.grid(n - 2, n - 1, n):
            with T.block("inner"):
                x = T.axis.spatial((1, n - 1), i + 1)
                y = T.axis.spatial((1, n), j + 1)
                z = T.axis.spatial((1, n + 1), k + 1)
                B[x, y, z] = A[x, y, z] + T.float64(0.125) * (
                    A[x - 1, y, z] + A[x + 1, y, z] + A[x, y - 1, z] + A[x, y + 1, z]
                    + A[x, y, z - 1] + A[x, y, z + 1] - T.float64(6) * A[x, y, z]
                )  # fmt: skip

    return heat


def _gauss_seidel(a, steps):
    for _ in range(steps):
        for i in range(1, len(a) - 1):
            a[i] = (int(a[i - 1]) + int(a[i]) * 2 + int(a[i + 1])) // 4


@kernel(
    lambda g, n, steps: [g.ints(n, low=-1000, high=1000), steps],
    _gauss_seidel,
    sizes=[{"n": 3, "steps": 2}, {"n": 9, "steps": 3}, {"n": 5, "steps": 0}],
    large=[{"n": 401, "steps": 7}],
    dynamic=True,
)
def gauss_seidel_in_place():
    @T.prim_func
    def relax(a: T.handle, steps: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        for _t in range(steps):
            for i in range(1, n - 1):
                A[i] = (A[i - 1] + A[i] * 2 + A[i + 1]) // 4

    return relax


@kernel(
    lambda g, n, k: [g.ints(n, dtype="int64"), g.blank(n, dtype="int64"), k],
    lambda a, b, k: put(b, np.roll(a, k) - np.roll(a, -k)),
    sizes=[{"n": 1, "k": 3}, {"n": 7, "k": -9}, {"n": 8, "k": 8}],
    large=[{"n": 311, "k": 1000}],
    dynamic=True,
)
def periodic_shift_by_floormod():
    @T.prim_func
    def shift(a: T.handle, b: T.handle, k: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int64")
        B = T.match_buffer(b, (n,), "int64")
        for i in range(n):
            B[i] = A[(i - k) % n] - A[(i + k) % n]

    return shift


def _life(a, b):
    around = sum(np.roll(a, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - a
    put(b, (around == 3) | ((around == 2) & (a == 1)))


@kernel(
    lambda g, n, m: [g.ints(n, m, dtype="uint8", low=0, high=1), g.blank(n, m, dtype="uint8")],
    _life,
    sizes=[{"n": 3, "m": 3}, {"n": 5, "m": 4}],
    large=[{"n": 32, "m": 37}],
)
def game_of_life(n, m):
    @T.prim_func
    def life(A: T.Buffer((n, m), "uint8"), B: T.Buffer((n, m), "uint8")):
        for i, j in T.grid(n, m):
            count = T.alloc_buffer((1,), "uint8", scope="local")
            count[0] = T.uint8(0)
            for di, dj in T.grid(3, 3):
                if di != 1 or dj != 1:
                    count[0] += A[(i + di - 1) % n, (j + dj - 1 + m) % m]
            if count[0] == T.uint8(3) or (count[0] == T.uint8(2) and A[i, j] == T.uint8(1)):
                B[i, j] = T.uint8(1)
            else:
                B[i, j] = T.uint8(0)

    return life


def _wave(u, out, steps):
    prev, cur = u.astype(np.float64), u.astype(np.float64)
    for _ in range(steps):
        nxt = cur.copy()
        nxt[1:-1] = 2 * cur[1:-1] - prev[1:-1] + 0.25 * (cur[:-2] - 2 * cur[1:-1] + cur[2:])
        prev, cur = cur, nxt
    put(out, cur)


@kernel(
    lambda g, n, steps: [g.floats(n, dtype="float64"), g.blank(n, dtype="float64"), steps],
    _wave,
    sizes=[{"n": 5, "steps": 3}, {"n": 3, "steps": 0}],
    large=[{"n": 200, "steps": 20}],
    # Stable (Courant number 1/2): each step adds a few roundings of numbers that grow at most linearly.
    within=lambda n, steps: Ulps(8 * (steps + 1) ** 2, scale=4),
    dynamic=True,
)
def wave_in_time():
    @T.prim_func
    def wave(u: T.handle, o: T.handle, steps: T.int32):
        n = T.int32()
        U = T.match_buffer(u, (n,), "float64")
        O = T.match_buffer(o, (n,), "float64")
        field = T.alloc_buffer((3, n), "float64")
        for j, i in T.grid(3, n):
            field[j, i] = U[i]
        for t in range(steps):
            for i in range(1, n - 1):
                field[(t + 2) % 3, i] = (
                    T.float64(2) * field[(t + 1) % 3, i]
                    - field[t % 3, i]
                    + T.float64(0.25)
                    * (field[(t + 1) % 3, i - 1] - T.float64(2) * field[(t + 1) % 3, i] + field[(t + 1) % 3, i + 1])
                )
        for i in range(n):
            O[i] = field[(steps + 1) % 3, i]

    return wave


def _pascal(c):
    for i in range(len(c)):
        for j in range(i + 1):
            c[i, j] = 1 if j in (0, i) else np.uint16(int(c[i - 1, j - 1]) + int(c[i - 1, j]) & 0xFFFF)


@kernel(
    lambda g, n: [g.blank(n, n, dtype="uint16")],
    _pascal,
    sizes=[{"n": n} for n in (0, 1, 2, 9)],
    large=[{"n": 40}],
    dynamic=True,
)
def pascal_triangle_wrapping():
    @T.prim_func
    def pascal(c: T.handle):
        n = T.int32()
        C = T.match_buffer(c, (n, n), "uint16")
        for i in range(n):
            for j in range(i + 1):
                C[i, j] = T.uint16(1)
                if j > 0 and j < i:
                    C[i, j] = C[i - 1, j - 1] + C[i - 1, j]

    return pascal


@kernel(
    lambda g, n: [g.ints(n, n, dtype="int32"), g.blank(n, dtype="int32"), g.blank(n, dtype="int32")],
    lambda a, lo, hi: (put(lo, np.tril(a, -1).sum(1, dtype="int32")), put(hi, np.triu(a, 1).sum(1, dtype="int32"))),
    sizes=[{"n": n} for n in (1, 2, 6)],
    large=[{"n": 61}],
)
def triangular_sums(n):
    @T.prim_func
    def sums(A: T.Buffer((n, n), "int32"), lo: T.Buffer((n,), "int32"), hi: T.Buffer((n,), "int32")) -> None:
        for i in range(n):
            lo[i] = 0
            hi[i] = 0
            for j in range(i):
                lo[i] += A[i, j]
            for j in T.serial(i + 1, n):
                hi[i] += A[i, j]

    return sums


def _edit_distance(x, y, out):
    d = np.zeros((len(x) + 1, len(y) + 1), np.int64)
    d[:, 0], d[0, :] = np.arange(len(x) + 1), np.arange(len(y) + 1)
    for i in range(1, len(x) + 1):
        for j in range(1, len(y) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (x[i - 1] != y[j - 1]))
    out[0] = d[-1, -1]


@kernel(
    lambda g, n, m: [
        g.ints(n, dtype="int8", low=0, high=3),
        g.ints(m, dtype="int8", low=0, high=3),
        g.blank(1, dtype="int32"),
    ],
    _edit_distance,
    sizes=[{"n": 0, "m": 3}, {"n": 1, "m": 1}, {"n": 6, "m": 5}],
    large=[{"n": 53, "m": 47}],
    dynamic=True,
)
def edit_distance():
    @T.prim_func
    def distance(x: T.handle, y: T.handle, out: T.Buffer((1,), "int32")):
        n, m = T.int32(), T.int32()
        X = T.match_buffer(x, (n,), "int8")
        Y = T.match_buffer(y, (m,), "int8")
        D = T.alloc_buffer((n + 1, m + 1), "int32")
        for i in range(n + 1):
            D[i, 0] = i
        for j in range(m + 1):
            D[0, j] = j
        for i, j in T.grid(n, m):
            D[i + 1, j + 1] = T.min(T.min(D[i, j + 1] + 1, D[i + 1, j] + 1), D[i, j] + T.Select(X[i] == Y[j], 0, 1))
        out[0] = D[n, m]

    return distance


def _floyd(d):
    for k in range(len(d)):
        np.minimum(d, d[:, k : k + 1] + d[k : k + 1, :], out=d)


@kernel(
    lambda g, n: [g.ints(n, n, low=0, high=100000)],
    _floyd,
    sizes=[{"n": n} for n in (1, 2, 6)],
    large=[{"n": 31}],
)
def floyd_warshall(n):
    @T.prim_func
    def shortest(D: T.Buffer((n, n), "int32")):
        for k, i, j in T.grid(n, n, n):
            with T.block("relax"):
                vk = T.axis.scan(n, k)
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.min(D[vi, vj], D[vi, vk] + D[vk, vj])

    return shortest


@kernel(
    lambda g, n: [g.floats(n, n)],
    lambda a: put(a, a.T.copy()),
    sizes=[{"n": n} for n in (0, 1, 2, 5)],
    large=[{"n": 67}],
    dynamic=True,
)
def transpose_in_place():
    @T.prim_func
    def transpose(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, n), "float32")
        for i in range(n):
            for j in range(i):
                t = T.bind(A[i, j])
                A[i, j] = A[j, i]
                A[j, i] = t

    return transpose
