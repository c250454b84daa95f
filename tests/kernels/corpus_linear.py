"""Dense linear algebra."""

from __future__ import annotations

import numpy as np

from tests.kernels.base import Ulps, kernel, put
from tirlower.script import tir as T


def wide(*arrays):
    return [a.astype(np.float64) for a in arrays]


def _matmul_arguments(g, n, m, k):
    return [g.floats(n, k), g.floats(k, m), g.blank(n, m)]


def _matmul(a, b, c):
    put(c, wide(a)[0] @ wide(b)[0])


MATMUL_SIZES = ({"n": 3, "m": 5, "k": 7}, {"n": 1, "m": 1, "k": 1})


@kernel(
    _matmul_arguments,
    _matmul,
    sizes=MATMUL_SIZES,
    large=[{"n": 33, "m": 47, "k": 129}],
    within=lambda n, m, k: Ulps(k, scale=k),
)
def matmul_block(n, m, k):
    @T.prim_func
    def matmul(A: T.Buffer((n, k), "float32"), B: T.Buffer((k, m), "float32"), C: T.Buffer((n, m), "float32")):
        for i, j, l in T.grid(n, m, k):
            with T.block("C"):
                vi, vj, vl = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vl] * B[vl, vj]

    return matmul


@kernel(
    _matmul_arguments,
    _matmul,
    sizes=[{"n": 3, "m": 5, "k": 7}, {"n": 1, "m": 2, "k": 0}, {"n": 0, "m": 3, "k": 4}, {"n": 4, "m": 1, "k": 2}],
    large=[{"n": 31, "m": 64, "k": 100}, {"n": 97, "m": 17, "k": 33}],
    within=lambda n, m, k: Ulps(k + 1, scale=k + 1),
    dynamic=True,
)
def matmul_dynamic():
    @T.prim_func
    def matmul(a: T.handle, b: T.handle, c: T.handle):
        n, m, k = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (n, k), "float32")
        B = T.match_buffer(b, (k, m), "float32")
        C = T.match_buffer(c, (n, m), "float32")
        for i, j in T.grid(n, m):
            C[i, j] = T.float32(0)
            for l in range(k):
                C[i, j] = C[i, j] + A[i, l] * B[l, j]

    return matmul


@kernel(
    _matmul_arguments,
    _matmul,
    sizes=[{"n": 5, "m": 3, "k": 7}, {"n": 1, "m": 1, "k": 1}],
    large=[{"n": 30, "m": 41, "k": 50}],
    within=lambda n, m, k: Ulps(k, scale=k),
    dynamic=True,
)
def matmul_tiled_with_predicate():
    @T.prim_func
    def matmul(a: T.handle, b: T.handle, c: T.handle):
        n, m, k = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, k), "float32")
        B = T.match_buffer(b, (k, m), "float32")
        C = T.match_buffer(c, (n, m), "float32")
        for io, jo, l, ii, ji in T.grid((n + 3) // 4, (m + 1) // 2, k, 4, 2):
            with T.block("C"):
                T.where(io * 4 + ii < n and jo * 2 + ji < m)
                vi = T.axis.spatial(n, io * 4 + ii)
                vj = T.axis.spatial(m, jo * 2 + ji)
                vl = T.axis.reduce(k, l)
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vl] * B[vl, vj]

    return matmul


@kernel(
    lambda g, n, m, k: [
        g.floats(k, n, dtype="float64"),
        g.floats(m, k, dtype="float64"),
        g.blank(n, m, dtype="float64"),
    ],
    lambda a, b, c: put(c, a.T @ b.T),
    sizes=MATMUL_SIZES,
    large=[{"n": 40, "m": 30, "k": 20}],
    within=lambda n, m, k: Ulps(k, scale=k),
)
def matmul_transposed(n, m, k):
    @T.prim_func
    def matmul_tt(A: T.Buffer((k, n), "float64"), B: T.Buffer((m, k), "float64"), C: T.Buffer((n, m), "float64")):
        for i, j, l in T.grid(n, m, k):
            with T.block("C"):
                vi, vj, vl = T.axis.remap("SSR", [i, j, l])
                with T.init():
                    C[vi, vj] = T.float64(0)
                C[vi, vj] = C[vi, vj] + A[vl, vi] * B[vj, vl]

    return matmul_tt


@kernel(
    lambda g, b, n, m, k: [g.floats(b, n, k), g.floats(b, k, m), g.blank(b, n, m)],
    _matmul,
    sizes=[{"b": 2, "n": 3, "m": 2, "k": 4}, {"b": 0, "n": 3, "m": 2, "k": 4}],
    large=[{"b": 7, "n": 16, "m": 17, "k": 18}],
    within=lambda b, n, m, k: Ulps(k, scale=k),
    dynamic=True,
)
def matmul_batched():
    @T.prim_func
    def batched(x: T.handle, y: T.handle, z: T.handle):
        b, n, m, k = T.int32(), T.int32(), T.int32(), T.int32()
        X = T.match_buffer(x, (b, n, k), "float32")
        Y = T.match_buffer(y, (b, k, m), "float32")
        Z = T.match_buffer(z, (b, n, m), "float32")
        for p in T.parallel(b):
            for i, j in T.grid(n, m):
                Z[p, i, j] = T.float32(0)
                for l in range(k):
                    Z[p, i, j] += X[p, i, l] * Y[p, l, j]

    return batched


@kernel(
    lambda g, n: [g.floats(n, n) + np.eye(n, dtype=np.float32) * np.float32(n + 1), g.floats(n), g.blank(n)],
    lambda L, b, x: put(x, np.linalg.solve(np.tril(L.astype(np.float64)), b.astype(np.float64)) if len(b) else b),
    sizes=[{"n": n} for n in (0, 1, 2, 7)],
    large=[{"n": 61}],
    # Forward substitution is backward stable; the matrices are diagonally dominant, so their condition is below 4.
    within=lambda n: Ulps(4 * n + 8, scale=1.0),
    dynamic=True,
)
def triangular_solve():
    @T.prim_func
    def solve(a: T.handle, b: T.handle, x: T.handle):
        n = T.int32()
        L = T.match_buffer(a, (n, n), "float32")
        B = T.match_buffer(b, (n,), "float32")
        X = T.match_buffer(x, (n,), "float32")
        for i in range(n):
            X[i] = B[i]
            for j in range(i):
                X[i] = X[i] - L[i, j] * X[j]
            X[i] = X[i] / L[i, i]

    return solve


def _spd(g, n):
    a = g.floats(n, n, dtype="float64")
    return [a @ a.T + n * np.eye(n), g.blank(n, n, dtype="float64")]


@kernel(
    _spd,
    lambda a, L: put(L, np.linalg.cholesky(a)),
    sizes=[{"n": n} for n in (1, 2, 6)],
    large=[{"n": 37}],
    within=lambda n: Ulps(8 * n * n, scale=n),
)
def cholesky(n):
    @T.prim_func
    def factor(A: T.Buffer((n, n), "float64"), L: T.Buffer((n, n), "float64")):
        for i, j in T.grid(n, n):
            L[i, j] = T.float64(0)
        for j in range(n):
            L[j, j] = A[j, j]
            for k in range(j):
                L[j, j] -= L[j, k] * L[j, k]
            L[j, j] = T.sqrt(L[j, j])
            for i in range(j + 1, n):
                L[i, j] = A[i, j]
                for k in range(j):
                    L[i, j] -= L[i, k] * L[j, k]
                L[i, j] = L[i, j] / L[j, j]

    return factor


@kernel(
    lambda g, n, m: [g.floats(n), g.floats(m), g.blank(n, m)],
    lambda x, y, z: put(z, np.outer(x, y)),
    sizes=[{"n": 3, "m": 4}, {"n": 0, "m": 4}, {"n": 1, "m": 0}],
    large=[{"n": 97, "m": 101}],
    dynamic=True,
)
def outer_product():
    @T.prim_func
    def outer(x: T.handle, y: T.handle, z: T.handle):
        n, m = T.int64(), T.int64()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (m,), "float32")
        Z = T.match_buffer(z, (n, m), "float32")
        for i, j in T.grid(n, m):
            Z[i, j] = X[i] * Y[j]

    return outer


@kernel(
    lambda g, n, m: [g.floats(n, m), g.floats(m), g.blank(n)],
    lambda a, x, y: put(y, wide(a)[0] @ wide(x)[0]),
    sizes=[{"n": 3, "m": 4}, {"n": 5, "m": 1}],
    large=[{"n": 65, "m": 257}],
    within=lambda n, m: Ulps(m, scale=m),
)
def matvec(n, m):
    @T.prim_func
    def matvec(A: T.Buffer((n, m), "float32"), x: T.Buffer((m,), "float32"), y: T.Buffer((n,), "float32")):
        for i in range(n):
            acc = T.alloc_buffer((1,), "float32", scope="local")
            acc[0] = T.float32(0)
            for j in range(m):
                acc[0] += A[i, j] * x[j]
            y[i] = acc[0]

    return matvec


def _mixed(dtype):
    @kernel(
        lambda g, n, m, k: [g.floats(n, k, dtype=dtype), g.floats(k, m, dtype=dtype), g.blank(n, m)],
        _matmul,
        sizes=MATMUL_SIZES,
        large=[{"n": 17, "m": 33, "k": 64}],
        within=lambda n, m, k: Ulps(k, scale=k),
        name=f"matmul_{dtype}_to_float32",
    )
    def matmul_mixed(n, m, k, dtype=dtype):
        @T.prim_func
        def mixed(A: T.Buffer((n, k), dtype), B: T.Buffer((k, m), dtype), C: T.Buffer((n, m), "float32")):
            for i, j, l in T.grid(n, m, k):
                with T.block("C"):
                    vi, vj, vl = T.axis.remap("SSR", [i, j, l])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] += T.Cast("float32", A[vi, vl]) * T.Cast("float32", B[vl, vj])

        return mixed


for _dtype in ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"):
    _mixed(_dtype)


def _integer(source, target):
    @kernel(
        lambda g, n, m, k: [g.ints(n, k, dtype=source), g.ints(k, m, dtype=source), g.blank(n, m, dtype=target)],
        lambda a, b, c: put(c, a.astype(target) @ b.astype(target)),
        sizes=MATMUL_SIZES,
        large=[{"n": 19, "m": 23, "k": 65}],
        name=f"matmul_{source}_to_{target}",
    )
    def matmul_integer(n, m, k, source=source, target=target):
        @T.prim_func
        def integer(A: T.Buffer((n, k), source), B: T.Buffer((k, m), source), C: T.Buffer((n, m), target)):
            for i, j, l in T.grid(n, m, k):
                with T.block("C"):
                    vi, vj, vl = T.axis.remap("SSR", [i, j, l])
                    with T.init():
                        C[vi, vj] = T.cast(0, target)
                    C[vi, vj] += T.Cast(target, A[vi, vl]) * T.Cast(target, B[vl, vj])

        return integer


for _source, _target in (("int8", "int32"), ("uint8", "int32"), ("int16", "int64"), ("int32", "int32")):
    _integer(_source, _target)


@kernel(
    _matmul_arguments,
    _matmul,
    sizes=[{"n": 4, "m": 8, "k": 5}],
    large=[{"n": 64, "m": 96, "k": 72}],
    within=lambda n, m, k: Ulps(k, scale=k),
)
def matmul_register_tile(n, m, k):
    @T.prim_func
    def tiled(A: T.Buffer((n, k), "float32"), B: T.Buffer((k, m), "float32"), C: T.Buffer((n, m), "float32")):
        for io, jo in T.grid(n // 4, m // 8):
            tile = T.alloc_buffer((4, 8), "float32", scope="local")
            for i in T.unroll(4):
                for j in T.vectorized(8):
                    tile[i, j] = T.float32(0)
            for l in range(k):
                for i in T.unroll(4):
                    for j in T.vectorized(8):
                        tile[i, j] += A[io * 4 + i, l] * B[l, jo * 8 + j]
            for i in T.unroll(4):
                for j in T.vectorized(8):
                    C[io * 4 + i, jo * 8 + j] = tile[i, j]

    return tiled


def _lu(a, lu):
    m = a.astype(np.float64)
    n = len(m)
    for k in range(n):
        m[k + 1 :, k] /= m[k, k]
        m[k + 1 :, k + 1 :] -= np.outer(m[k + 1 :, k], m[k, k + 1 :])
    put(lu, m)


@kernel(
    lambda g, n: [g.floats(n, n) + np.eye(n, dtype=np.float32) * np.float32(n), g.blank(n, n)],
    _lu,
    sizes=[{"n": n} for n in (0, 1, 5)],
    large=[{"n": 43}],
    within=lambda n: Ulps(8 * n + 8, scale=2 * n + 1),  # diagonally dominant: elements grow at most twofold
    dynamic=True,
)
def lu_without_pivoting():
    @T.prim_func
    def lu(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, n), "float32")
        LU = T.match_buffer(b, (n, n), "float32")
        for i, j in T.grid(n, n):
            LU[i, j] = A[i, j]
        for k in range(n):
            for i in range(k + 1, n):
                LU[i, k] = LU[i, k] / LU[k, k]
                for j in range(k + 1, n):
                    LU[i, j] = LU[i, j] - LU[i, k] * LU[k, j]

    return lu


@kernel(
    lambda g, n: [g.floats(n), g.floats(n), g.blank()],
    lambda x, y, out: put(out, np.dot(*wide(x, y))),
    sizes=[{"n": n} for n in (0, 1, 13)],
    large=[{"n": 1000}],
    within=lambda n: Ulps(n + 1, scale=n + 1),
    dynamic=True,
)
def dot_to_zero_dimensions():
    @T.prim_func
    def dot(x: T.handle, y: T.handle, out: T.Buffer((), "float32")):
        n = T.int32()
        X = T.match_buffer(x, (n,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        out[()] = T.float32(0)
        for i in range(n):
            out[()] = out[()] + X[i] * Y[i]

    return dot


@kernel(
    lambda g, n: [g.floats(n, n, dtype="float64"), g.blank(n, n, dtype="float64")],
    lambda a, b: put(b, np.linalg.matrix_power(a, 4) if len(a) else a),
    sizes=[{"n": n} for n in (0, 1, 4)],
    large=[{"n": 12}],
    within=lambda n: Ulps(8 * n + 1, scale=max(n, 1) ** 3),
    dynamic=True,
)
def matrix_fourth_power():
    @T.prim_func
    def power(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, n), "float64")
        B = T.match_buffer(b, (n, n), "float64")
        square = T.alloc_buffer((n, n), "float64")
        for i, j, k in T.grid(n, n, n):
            with T.block("square"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    square[vi, vj] = T.float64(0)
                square[vi, vj] += A[vi, vk] * A[vk, vj]
        for i, j, k in T.grid(n, n, n):
            with T.block("fourth"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    B[vi, vj] = T.float64(0)
                B[vi, vj] += square[vi, vk] * square[vk, vj]

    return power
