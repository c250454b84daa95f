"""Scans and recurrences."""

from __future__ import annotations

import numpy as np

from tests.kernels.base import Ulps, kernel, put
from tirlower.script import tir as T

LENGTHS = tuple({"n": n} for n in (0, 1, 2, 13))


@kernel(
    lambda g, n: [g.ints(n, dtype="int64"), g.blank(n, dtype="int64")],
    lambda a, b: put(b, np.cumsum(a)),
    sizes=LENGTHS,
    large=[{"n": 4099}],
    dynamic=True,
)
def prefix_sum():
    @T.prim_func
    def prefix_sum(A: T.Buffer(("n",), "int64"), B: T.Buffer(("n",), "int64")):
        total = T.alloc_buffer((1,), "int64", scope="local")
        total[0] = T.int64(0)
        for i in range(n):
            total[0] += A[i]
            B[i] = total[0]

    return prefix_sum


@kernel(
    lambda g, n, m: [g.ints(n, m), g.blank(n, m, dtype="int32")],
    lambda a, b: put(b, np.cumsum(a, axis=0, dtype="int32")),
    sizes=[{"n": 1, "m": 3}, {"n": 5, "m": 4}],
    large=[{"n": 61, "m": 33}],
)
def prefix_sum_scan_block(n, m):
    @T.prim_func
    def scan(A: T.Buffer((n, m), "int32"), B: T.Buffer((n, m), "int32")):
        for j in range(m):
            with T.block("first"):
                vj = T.axis.spatial(m, j)
                B[0, vj] = A[0, vj]
        for i, j in T.grid(n - 1, m):
            with T.block("next"):
                vi = T.axis.scan((1, n), i + 1)
                vj = T.axis.spatial(m, j)
                B[vi, vj] = B[vi - 1, vj] + A[vi, vj]

    return scan


@kernel(
    lambda g, n: [g.floats(n, dtype="float64"), g.blank(n, dtype="float64")],
    lambda a, b: put(b, np.maximum.accumulate(a)),
    sizes=LENGTHS,
    large=[{"n": 1003}],
    dynamic=True,
)
def cumulative_maximum():
    @T.prim_func
    def cummax(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float64")
        B = T.match_buffer(b, (n,), "float64")
        for i in range(n):
            if i == 0:
                B[i] = A[i]
            else:
                B[i] = T.max(B[i - 1], A[i])

    return cummax


def _recurrence(a, x, y):
    state = 0.0
    for i in range(len(x)):
        state = a * state + float(x[i])
        y[i] = state


@kernel(
    lambda g, n: [0.75, g.floats(n, dtype="float64"), g.blank(n, dtype="float64")],
    _recurrence,
    sizes=LENGTHS,
    large=[{"n": 777}],
    within=Ulps(8, scale=4),  # the state is below 1 / (1 - 0.75), and so is the weight of all earlier errors
    dynamic=True,
)
def linear_recurrence():
    @T.prim_func
    def recurrence(a: T.float64, x: T.handle, y: T.handle):
        n = T.int32()
        X = T.match_buffer(x, (n,), "float64")
        Y = T.match_buffer(y, (n,), "float64")
        for i in range(n):
            Y[i] = X[i]
            if i > 0:
                Y[i] = a * Y[i - 1] + X[i]

    return recurrence


def _segments(a, flag, b):
    total = 0
    for i in range(len(a)):
        total = int(a[i]) if flag[i] else total + int(a[i])
        b[i] = np.array(total, dtype=np.int64).astype(np.int16)


@kernel(
    lambda g, n: [g.ints(n, dtype="int16"), g.bools(n), g.blank(n, dtype="int16")],
    _segments,
    sizes=LENGTHS,
    large=[{"n": 501}],
    dynamic=True,
)
def segmented_sum():
    @T.prim_func
    def segmented(a: T.handle, f: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int16")
        F = T.match_buffer(f, (n,), "bool")
        B = T.match_buffer(b, (n,), "int16")
        for i in range(n):
            B[i] = A[i] + T.if_then_else(F[i] or i == 0, T.int16(0), B[T.max(i - 1, 0)])

    return segmented


def _fibonacci(b):
    x, y = 0, 1
    for i in range(len(b)):
        b[i] = x
        x, y = y, (x + y) % 2**32


@kernel(
    lambda g, n: [g.blank(n, dtype="uint32")],
    _fibonacci,
    sizes=LENGTHS,
    large=[{"n": 200}],
    dynamic=True,
)
def fibonacci_wrapping():
    @T.prim_func
    def fibonacci(b: T.handle):
        n = T.int32()
        B = T.match_buffer(b, (n,), "uint32")
        for i in range(n):
            B[i] = T.if_then_else(i < 2, T.Cast("uint32", i), B[T.max(i - 1, 0)] + B[T.max(i - 2, 0)])

    return fibonacci


@kernel(
    lambda g, n, degree: [g.floats(n), g.floats(degree + 1), g.blank(n)],
    lambda x, c, y: put(y, np.polynomial.polynomial.polyval(x.astype(np.float64), c.astype(np.float64))),
    sizes=[{"n": 5, "degree": 0}, {"n": 1, "degree": 4}],
    large=[{"n": 301, "degree": 9}],
    within=lambda n, degree: Ulps(2 * degree + 2, scale=degree + 1),
    dynamic=True,
)
def horner():
    @T.prim_func
    def horner(x: T.handle, c: T.handle, y: T.handle):
        n, d = T.int32(), T.int32()
        X = T.match_buffer(x, (n,), "float32")
        C = T.match_buffer(c, (d,), "float32")
        Y = T.match_buffer(y, (n,), "float32")
        for i in range(n):
            Y[i] = T.float32(0)
            for k in range(d):
                Y[i] = Y[i] * X[i] + C[d - 1 - k]

    return horner


@kernel(
    lambda g, n: [g.ints(n, low=-5, high=5), g.blank(n, dtype="int32")],
    lambda a, b: put(b, [int(np.argmax(a[: i + 1])) for i in range(len(a))]),
    sizes=LENGTHS,
    large=[{"n": 300}],
    dynamic=True,
)
def running_argmax():
    @T.prim_func
    def argmax(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        for i in range(n):
            B[i] = 0
            if i > 0:
                B[i] = T.Select(A[i] > A[B[i - 1]], i, B[i - 1])

    return argmax


@kernel(
    lambda g, n: [g.ints(n, dtype="uint32"), g.blank(n, dtype="uint32")],
    lambda a, b: put(b, np.cumsum(a, dtype="uint32")),
    sizes=[{"n": n} for n in (0, 1, 15, 16, 17, 40)],
    large=[{"n": 5003}],
    dynamic=True,
)
def prefix_sum_two_passes_parallel():
    @T.prim_func
    def scan(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "uint32")
        B = T.match_buffer(b, (n,), "uint32")
        offsets = T.alloc_buffer(((n + 15) // 16 + 1,), "uint32")
        for c in T.parallel((n + 15) // 16):
            for i in range(16):
                if c * 16 + i < n:
                    if i == 0:
                        B[c * 16 + i] = A[c * 16 + i]
                    else:
                        B[c * 16 + i] = B[c * 16 + i - 1] + A[c * 16 + i]
        offsets[0] = T.uint32(0)
        for c in range((n + 15) // 16):
            offsets[c + 1] = offsets[c] + B[T.min(c * 16 + 15, n - 1)]
        for c in T.parallel((n + 15) // 16):
            for i in range(16):
                if c * 16 + i < n:
                    B[c * 16 + i] = B[c * 16 + i] + offsets[c]

    return scan


def _median(a, b):
    wide = np.concatenate([a[:1], a, a[-1:]]) if len(a) else a
    for i in range(len(a)):
        b[i] = sorted(wide[i : i + 3])[1]


@kernel(
    lambda g, n: [g.ints(n, dtype="int8"), g.blank(n, dtype="int8")],
    _median,
    sizes=LENGTHS,
    large=[{"n": 999}],
    dynamic=True,
)
def median_of_three():
    def median(x, y, z):
        return T.max(T.min(x, y), T.min(T.max(x, y), z))

    @T.prim_func
    def filter_median(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int8")
        B = T.match_buffer(b, (n,), "int8")
        for i in range(n):
            B[i] = median(A[T.max(i - 1, 0)], A[i], A[T.min(i + 1, n - 1)])

    return filter_median
