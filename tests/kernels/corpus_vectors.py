"""Vectors: odd lengths, ramps and shuffles, masks, vector types, guards inside vectorized loops."""

from __future__ import annotations

import numpy as np

from tests.kernels.base import Ulps, kernel, put
from tirlower.script import tir as T

LANES = (3, 5, 7, 16, 17)


def _odd_lengths(lanes):
    @kernel(
        lambda g, n: [g.floats(n, lanes), g.floats(lanes), g.blank(n, lanes), g.blank(n, lanes, dtype="int32")],
        lambda a, b, c, d: (put(c, a * b + a), put(d, np.trunc(a * np.float32(100)) + np.arange(lanes))),
        sizes=[{"n": 0}, {"n": 3}],
        large=[{"n": 101}],
        within=Ulps(1, scale=2),
        dynamic=True,
        name=f"vectorized_{lanes}_lanes",
    )
    def vectorized(lanes=lanes):
        @T.prim_func
        def fused(a: T.handle, b: T.handle, c: T.handle, d: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n, lanes), "float32")
            B = T.match_buffer(b, (lanes,), "float32")
            C = T.match_buffer(c, (n, lanes), "float32")
            D = T.match_buffer(d, (n, lanes), "int32")
            for i in range(n):
                for j in T.vectorized(lanes):
                    C[i, j] = A[i, j] * B[j] + A[i, j]
                    D[i, j] = T.Cast("int32", A[i, j] * T.float32(100)) + j

        return fused


for _lanes in LANES:
    _odd_lengths(_lanes)


def _vector_division(dtype):
    @kernel(
        lambda g: [g.ints(7, dtype=dtype), g.ints(7, dtype=dtype, low=1, high=100), g.blank(4, 7, dtype=dtype)],
        lambda a, b, c: (put(c[0], a // b), put(c[1], a % b), put(c[2], a // dtype_of(b, 3)), put(c[3], a << (b & 7))),
        name=f"vectorized_division_{dtype}",
    )
    def division(dtype=dtype):
        @T.prim_func
        def division(A: T.Buffer((7,), dtype), B: T.Buffer((7,), dtype), C: T.Buffer((4, 7), dtype)):
            for i in T.vectorized(7):
                C[0, i] = A[i] // B[i]
                C[1, i] = A[i] % B[i]
                C[2, i] = A[i] // T.cast(3, dtype)
                C[3, i] = T.shift_left(A[i], B[i] & T.cast(7, dtype))

        return division


def dtype_of(array, value):
    return np.asarray(value, dtype=array.dtype)


for _dtype in ("int8", "int16", "uint32", "uint64"):
    _vector_division(_dtype)


def _ramps(a, b):
    b[0:8] = a[0:16:2]
    b[8:16] = a[15:7:-1]
    b[16:21] = 3.5
    b[21:26] = a[2] + np.arange(5, dtype=np.float32)
    b[26:28] = a[[5, 11]]
    b[28:35] = a[[6, 0, 15, 1, 1, 8, 3]]


@kernel(lambda g: [g.floats(16), g.blank(35)], _ramps)
def ramps_broadcasts_and_shuffles():
    @T.prim_func
    def vectors(A: T.Buffer((16,), "float32"), B: T.Buffer((35,), "float32")):
        B[T.Ramp(0, 1, 8)] = A[T.Ramp(0, 2, 8)]
        B[T.Ramp(8, 1, 8)] = A[T.Ramp(15, -1, 8)]
        B[T.Ramp(16, 1, 5)] = T.Broadcast(T.float32(3.5), 5)
        B[21:26] = T.Broadcast(A[2], 5) + T.Cast("float32x5", T.Ramp(0, 1, 5))
        B[26:28] = T.Shuffle([A[4:8], A[8:12]], [1, 7])
        B[28:35] = T.Shuffle([A[0:4], A[4:8], A[8:16]], [6, 0, 15, 1, 1, 8, 3])

    return vectors


def _halves(a, b):
    b[0:4], b[4:8], b[8:16] = a[4:8], a[0:4], np.concatenate([a[12:16], a[8:12]])
    b[16] = a[3]


@kernel(lambda g: [g.ints(16, dtype="int16"), g.blank(17, dtype="int16")], _halves)
def vector_halves():
    @T.prim_func
    def halves(A: T.Buffer((16,), "int16"), B: T.Buffer((17,), "int16")):
        B[0:4] = T.vectorhigh("int16x4", A[0:8])
        B[4:8] = T.vectorlow("int16x4", A[0:8])
        B[8:16] = T.vectorcombine("int16x8", A[12:16], A[8:12])
        B[16] = T.Shuffle([A[0:4]], [3])

    return halves


def _masked(a, n, b, c):
    b[:n] = a[:n] * 2
    for i in range(8):
        if a[i] > 0:
            c[i] = a[i]


@kernel(
    lambda g, n: [g.floats(8), n, g.blank(8), g.blank(8)],
    _masked,
    sizes=[{"n": n} for n in (0, 1, 5, 8)],
    dynamic=True,
)
def predicated_loads_and_stores():
    @T.prim_func
    def masked(A: T.Buffer((8,), "float32"), n: T.int32, B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        tail = T.meta_var(T.Ramp(0, 1, 8) < T.Broadcast(n, 8))
        B.vstore([0], A.vload([0], "float32x8", predicate=tail) * T.Broadcast(T.float32(2), 8), predicate=tail)
        positive = T.meta_var(A[0:8] > T.Broadcast(T.float32(0), 8))
        C.vstore([0], A[0:8], predicate=positive)

    return masked


@kernel(
    lambda g, n: [g.floats(n), g.blank(n)],
    lambda a, b: put(b, a + 1),
    sizes=[{"n": n} for n in (0, 1, 7, 8, 9, 23)],
    large=[{"n": 1001}],
    dynamic=True,
)
def predicated_tail_of_a_dynamic_loop():
    @T.prim_func
    def tail(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range((n + 7) // 8):
            mask = T.meta_var(T.get_active_lane_mask("boolx8", i * 8, n))
            B.vstore(
                [i * 8],
                A.vload([i * 8], "float32x8", predicate=mask) + T.Broadcast(T.float32(1), 8),
                predicate=mask,
            )

    return tail


def _masked_gather(a, p, b, c):
    for i in range(7):
        if p[i] >= 0:
            b[i] = a[p[i]]
            c[p[i]] = i


@kernel(
    lambda g: [
        g.floats(20),
        np.array([3, -1, 19, 0, -7, 5, 100 - 101], np.int32),
        g.blank(7),
        g.blank(20, dtype="int32"),
    ],
    _masked_gather,
)
def masked_gather_and_scatter():
    @T.prim_func
    def masked(
        A: T.Buffer((20,), "float32"),
        P: T.Buffer((7,), "int32"),
        B: T.Buffer((7,), "float32"),
        C: T.Buffer((20,), "int32"),
    ):
        mask = T.meta_var(P[0:7] >= T.Broadcast(0, 7))
        B.vstore([0], A.vload([P[0:7]], predicate=mask), predicate=mask)
        C.vstore([P[0:7]], T.Ramp(0, 1, 7), predicate=mask)

    return masked


@kernel(
    lambda g, n: [g.floats(n, 4), g.floats(1, 4), g.blank(n, 4)],
    lambda a, b, c: put(c, a * np.float32(2) + b),
    sizes=[{"n": 0}, {"n": 3}],
    large=[{"n": 100}],
    dynamic=True,
)
def buffers_of_a_vector_type():
    @T.prim_func
    def typed(a: T.handle, B: T.Buffer((1,), "float32x4"), c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32x4")
        C = T.match_buffer(c, (n,), "float32x4")
        for i in range(n):
            C[i] = A[i] * T.Broadcast(T.float32(2), 4) + B[0]

    return typed


def _guarded(a, n, b):
    for i in range(13):
        if i < n:
            b[i] = a[i] * 3
        elif i % 2 == 0:
            b[i] = -1


@kernel(
    lambda g, n: [g.ints(13, low=-99, high=99), n, g.blank(13, dtype="int32")],
    _guarded,
    sizes=[{"n": n} for n in (0, 6, 13)],
    dynamic=True,
)
def guard_inside_a_vectorized_loop():
    @T.prim_func
    def guarded(A: T.Buffer((13,), "int32"), n: T.int32, B: T.Buffer((13,), "int32")):
        for i in T.vectorized(13):
            if i < n:
                B[i] = A[i] * 3
            else:
                if i % 2 == 0:
                    B[i] = -1

    return guarded


def _selected(a, b):
    b[0] = np.where(a > 0, a, -a)
    b[1] = np.where((a > 10) & (a < 50), 1, 0)
    b[2] = np.minimum(np.maximum(a, -20), 20)
    b[3] = np.where(np.arange(17) < 5, a, b[2])


@kernel(lambda g: [g.ints(17, low=-99, high=99), g.blank(4, 17, dtype="int32")], _selected)
def vector_selects():
    @T.prim_func
    def selects(A: T.Buffer((17,), "int32"), B: T.Buffer((4, 17), "int32")):
        for i in T.vectorized(17):
            B[0, i] = T.Select(A[i] > 0, A[i], 0 - A[i])
        for i in T.vectorized(17):
            B[1, i] = T.Cast("int32", A[i] > 10 and A[i] < 50)
        for i in T.vectorized(17):
            B[2, i] = T.min(T.max(A[i], -20), 20)
        for i in T.vectorized(17):
            B[3, i] = T.if_then_else(i < 5, A[i], B[2, i])

    return selects


@kernel(
    lambda g: [g.floats(5, 3), g.blank(3, 5), g.blank(5)],
    lambda a, b, c: (put(b, a.T), put(c, a[np.arange(5), np.arange(5) % 3])),
)
def strided_lanes():
    @T.prim_func
    def strided(A: T.Buffer((5, 3), "float32"), B: T.Buffer((3, 5), "float32"), C: T.Buffer((5,), "float32")):
        for j in range(3):
            for i in T.vectorized(5):
                B[j, i] = A[i, j]
        for i in T.vectorized(5):
            C[i] = A[i, i % 3]

    return strided


def _bool_lanes(a, b, c):
    put(b, a > 0)
    put(c, (a > 0) & (a < 50))


@kernel(lambda g: [g.ints(9, low=-99, high=99), g.blank(9, dtype="bool"), g.blank(9, dtype="bool")], _bool_lanes)
def vectors_of_bool():
    @T.prim_func
    def flags(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "bool"), C: T.Buffer((9,), "bool")):
        for i in T.vectorized(9):
            B[i] = A[i] > 0
        for i in T.vectorized(9):
            C[i] = B[i] and A[i] < 50

    return flags


def _vector_casts(a, i8, bf, f16, e4, back):
    put(i8, np.trunc(a * 50))
    put(bf, a)
    put(f16, a)
    put(e4, a)
    put(back, e4.astype(np.float32) + f16.astype(np.float32) - bf.astype(np.float32))


@kernel(
    lambda g: [
        g.floats(11), g.blank(11, dtype="int8"), g.blank(11, dtype="bfloat16"), g.blank(11, dtype="float16"),
        g.blank(11, dtype="float8_e4m3fn"), g.blank(11),
    ],
    _vector_casts,
)  # fmt: skip
def vector_conversions():
    @T.prim_func
    def conversions(
        A: T.Buffer((11,), "float32"),
        I: T.Buffer((11,), "int8"),
        B: T.Buffer((11,), "bfloat16"),
        F: T.Buffer((11,), "float16"),
        E: T.Buffer((11,), "float8_e4m3fn"),
        R: T.Buffer((11,), "float32"),
    ):
        for i in T.vectorized(11):
            I[i] = T.Cast("int8", A[i] * T.float32(50))
            B[i] = T.Cast("bfloat16", A[i])
            F[i] = T.Cast("float16", A[i])
            E[i] = T.Cast("float8_e4m3fn", A[i])
            R[i] = T.Cast("float32", E[i]) + T.Cast("float32", F[i]) - T.Cast("float32", B[i])

    return conversions


@kernel(
    lambda g, n: [g.floats(n, 16), g.blank(n)],
    lambda a, b: put(b, a.astype(np.float64).sum(1)),
    sizes=[{"n": 1}, {"n": 4}],
    large=[{"n": 50}],
    within=Ulps(16, scale=16),
    dynamic=True,
)
def lane_reduction_by_shuffles():
    @T.prim_func
    def reduce(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 16), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            x8 = T.bind(T.vectorlow("float32x8", A[i, 0:16]) + T.vectorhigh("float32x8", A[i, 0:16]))
            x4 = T.bind(T.vectorlow("float32x4", x8) + T.vectorhigh("float32x4", x8))
            B[i] = (T.Shuffle([x4], [0]) + T.Shuffle([x4], [1])) + (T.Shuffle([x4], [2]) + T.Shuffle([x4], [3]))

    return reduce


@kernel(
    lambda g, n: [g.ints(n, 6, low=-9, high=9), g.blank(n, 6, dtype="int32")],
    lambda a, b: put(b, np.cumsum(a, axis=0)),
    sizes=[{"n": 1}, {"n": 5}],
    large=[{"n": 60}],
    dynamic=True,
)
def vectorized_over_a_serial_scan():
    @T.prim_func
    def scan(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 6), "int32")
        B = T.match_buffer(b, (n, 6), "int32")
        for j in T.vectorized(6):
            B[0, j] = A[0, j]
        for i in range(1, n):
            for j in T.vectorized(6):
                B[i, j] = B[i - 1, j] + A[i, j]

    return scan


@kernel(
    lambda g, n: [g.ints(n, 4, low=0, high=99), g.blank(n, 4, dtype="int32")],
    lambda a, b: put(b, a * (np.arange(len(a))[:, None] * 4 + np.arange(4))),
    sizes=[{"n": 0}, {"n": 3}],
    large=[{"n": 1000}],
    dynamic=True,
)
def parallel_and_vectorized():
    @T.prim_func
    def both(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 4), "int32")
        B = T.match_buffer(b, (n, 4), "int32")
        for i in T.parallel(n):
            for j in T.vectorized(4):
                with T.block("scaled"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * (vi * 4 + vj)

    return both


def _lets(a, b):
    x = a * a
    put(b, np.where(x > np.float32(0.25), x - np.float32(0.25), np.float32(0)))


@kernel(lambda g: [g.floats(7), g.blank(7)], _lets, within=Ulps(2, scale=1))
def bindings_inside_a_vectorized_loop():
    @T.prim_func
    def lets(A: T.Buffer((7,), "float32"), B: T.Buffer((7,), "float32")):
        for i in T.vectorized(7):
            x = T.bind(A[i] * A[i])
            y = T.float32()
            B[i] = T.Let(T.max(y, T.float32(0)), where={y: x - T.float32(0.25)})

    return lets


@kernel(
    lambda g: [g.floats(6), g.blank(6), g.blank(1)],
    lambda a, b, s: (put(b, a * 2), put(s, a[5] * 2)),
)
def scalar_code_inside_a_vectorized_loop():
    @T.prim_func
    def mixed(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32"), S: T.Buffer((1,), "float32")):
        for i in T.vectorized(6):
            B[i] = A[i] * T.float32(2)
        S[0] = B[5]

    return mixed


@kernel(
    lambda g, n: [g.ints(n, dtype="int64"), g.blank(n, dtype="int64")],
    lambda a, b: put(b, a[::-1]),
    sizes=[{"n": n} for n in (8, 24)],
    large=[{"n": 800}],
    dynamic=True,
)
def reversal_by_backward_ramps():
    @T.prim_func
    def reverse(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int64")
        B = T.match_buffer(b, (n,), "int64")
        for i in range(n // 8):
            B[T.Ramp(i * 8, T.int64(1), 8)] = A[T.Ramp(n - 1 - i * 8, T.int64(-1), 8)]

    return reverse
