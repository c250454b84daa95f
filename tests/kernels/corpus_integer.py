"""Integers: division of both signs, wrap-around at every width, bits."""

from __future__ import annotations

import numpy as np

from tests.kernels.base import kernel
from tirlower.ir import DataType
from tirlower.script import tir as T

STANDARD = tuple(f"{code}{bits}" for code in ("int", "uint") for bits in (8, 16, 32, 64))
ODD = ("int5", "uint12", "int33", "uint3", "int17", "uint63")


def wrap(value, dtype):
    """A Python integer brought into a type modulo 2**bits."""
    kind = DataType(dtype)
    low = int(kind.min_value)
    return (value - low) % (1 << kind.bits) + low


def each(out, dtype, fn, *arrays):
    """Fill a row by a function of Python integers, wrapped."""
    for i, values in enumerate(zip(*[a.tolist() for a in arrays], strict=True)):
        out[i] = wrap(int(fn(*values)), dtype)


def drawn(g, n, dtype, least=None):
    """Integers over the whole range of a type in NumPy's next wider one, extremes likely."""
    kind = DataType(dtype)
    low, high = int(kind.min_value) if least is None else least, int(kind.max_value)
    made = g.rng.integers(low, high, n, dtype=kind.numpy, endpoint=True)
    special = np.array([low, high, 1, max(low, -1) if kind.is_int else 2, high - 1, low + 1], dtype=kind.numpy)
    where = g.rng.integers(0, 3, n) == 0
    made[where] = special[g.rng.integers(0, len(special), int(where.sum()))]
    return made


def trunc_div(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _nonzero(a):
    a[a == 0] = 3
    return a


def _family(dtype):
    kind = DataType(dtype)
    storage = str(DataType.from_numpy(kind.numpy))
    bits = kind.bits

    def divided(a, b, c):
        each(c[0], dtype, lambda x, y: x // y, a, b)
        each(c[1], dtype, lambda x, y: x % y, a, b)
        each(c[2], dtype, trunc_div, a, b)
        each(c[3], dtype, lambda x, y: x - y * trunc_div(x, y), a, b)

    @kernel(
        lambda g, n: [drawn(g, n, dtype), _nonzero(drawn(g, n, dtype)), g.blank(4, n, dtype=storage)],
        divided,
        sizes=[{"n": 0}, {"n": 41}],
        large=[{"n": 400}],
        dynamic=True,
        name=f"division_{dtype}",
    )
    def division(dtype=dtype, storage=storage):
        @T.prim_func
        def division(a: T.handle, b: T.handle, c: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), storage)
            B = T.match_buffer(b, (n,), storage)
            C = T.match_buffer(c, (4, n), storage)
            for i in range(n):
                x = T.bind(T.cast(A[i], dtype))
                y = T.bind(T.cast(B[i], dtype))
                C[0, i] = T.cast(x // y, storage)
                C[1, i] = T.cast(x % y, storage)
                C[2, i] = T.cast(T.truncdiv(x, y), storage)
                C[3, i] = T.cast(T.truncmod(x, y), storage)

        return division

    def computed(a, b, c):
        each(c[0], dtype, lambda x, y: x + y, a, b)
        each(c[1], dtype, lambda x, y: x - y, a, b)
        each(c[2], dtype, lambda x, y: x * y, a, b)
        each(c[3], dtype, lambda x, y: wrap(x * x, dtype) * y - x, a, b)
        each(c[4], dtype, min, a, b)
        each(c[5], dtype, max, a, b)
        each(c[6], dtype, lambda x, y: x + 1 if x < y else y - 1, a, b)
        each(c[7], dtype, lambda x, y: 0 - x, a, b)

    @kernel(
        lambda g, n: [drawn(g, n, dtype), drawn(g, n, dtype), g.blank(8, n, dtype=storage)],
        computed,
        sizes=[{"n": 1}, {"n": 37}],
        large=[{"n": 300}],
        dynamic=True,
        name=f"wrap_around_{dtype}",
    )
    def arithmetic(dtype=dtype, storage=storage):
        @T.prim_func
        def arithmetic(a: T.handle, b: T.handle, c: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), storage)
            B = T.match_buffer(b, (n,), storage)
            C = T.match_buffer(c, (8, n), storage)
            for i in range(n):
                x = T.bind(T.cast(A[i], dtype))
                y = T.bind(T.cast(B[i], dtype))
                C[0, i] = T.cast(x + y, storage)
                C[1, i] = T.cast(x - y, storage)
                C[2, i] = T.cast(x * y, storage)
                C[3, i] = T.cast(x * x * y - x, storage)
                C[4, i] = T.cast(T.min(x, y), storage)
                C[5, i] = T.cast(T.max(x, y), storage)
                C[6, i] = T.cast(T.Select(x < y, x + T.cast(1, dtype), y - T.cast(1, dtype)), storage)
                C[7, i] = T.cast(T.cast(0, dtype) - x, storage)

        return arithmetic

    mask = (1 << bits) - 1

    def bitwise(a, b, s, c):
        each(c[0], dtype, lambda x, y: x & y, a, b)
        each(c[1], dtype, lambda x, y: x | y, a, b)
        each(c[2], dtype, lambda x, y: x ^ y, a, b)
        each(c[3], dtype, lambda x, y: ~x, a, b)
        each(c[4], dtype, lambda x, y: x << y, a, s)
        each(c[5], dtype, lambda x, y: x >> y, a, s)
        each(c[6], dtype, lambda x: (x & mask).bit_count(), a)
        each(c[7], dtype, lambda x: bits - (x & mask).bit_length(), a)

    @kernel(
        lambda g, n: [
            drawn(g, n, dtype),
            drawn(g, n, dtype),
            g.ints(n, dtype=storage, low=0, high=min(bits - 1, int(kind.max_value))),
            g.blank(8, n, dtype=storage),
        ],
        bitwise,
        sizes=[{"n": 1}, {"n": 37}],
        large=[{"n": 300}],
        dynamic=True,
        name=f"bits_{dtype}",
    )
    def bit_operations(dtype=dtype, storage=storage):
        @T.prim_func
        def bit_operations(a: T.handle, b: T.handle, s: T.handle, c: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), storage)
            B = T.match_buffer(b, (n,), storage)
            S = T.match_buffer(s, (n,), storage)
            C = T.match_buffer(c, (8, n), storage)
            for i in range(n):
                x = T.bind(T.cast(A[i], dtype))
                y = T.bind(T.cast(B[i], dtype))
                z = T.bind(T.cast(S[i], dtype))
                C[0, i] = T.cast(x & y, storage)
                C[1, i] = T.cast(x | y, storage)
                C[2, i] = T.cast(x ^ y, storage)
                C[3, i] = T.cast(~x, storage)
                C[4, i] = T.cast(x << z, storage)
                C[5, i] = T.cast(x >> z, storage)
                C[6, i] = T.cast(T.popcount(x), storage)
                C[7, i] = T.cast(T.cast(T.clz(x), dtype), storage)

        return bit_operations


for _dtype in (*STANDARD, *ODD):
    _family(_dtype)


DIVISORS = (1, -1, 2, -3, 7, -16, 100)


def _by_constants(a, c):
    dtype = a.dtype.name
    for row, k in enumerate(DIVISORS):
        each(c[4 * row + 0], dtype, lambda x, k=k: x // k, a)
        each(c[4 * row + 1], dtype, lambda x, k=k: x % k, a)
        each(c[4 * row + 2], dtype, lambda x, k=k: trunc_div(x, k), a)
        each(c[4 * row + 3], dtype, lambda x, k=k: x - k * trunc_div(x, k), a)


def _constant_divisors(dtype):
    @kernel(
        lambda g, n: [drawn(g, n, dtype), g.blank(28, n, dtype=dtype)],
        _by_constants,
        sizes=[{"n": 33}],
        large=[{"n": 300}],
        dynamic=True,
        name=f"division_by_constants_{dtype}",
    )
    def divide(dtype=dtype):
        @T.macro
        def four(C, row, i, x, k):
            C[row, i] = x // k
            C[row + 1, i] = x % k
            C[row + 2, i] = T.truncdiv(x, k)
            C[row + 3, i] = T.truncmod(x, k)

        d0, d1, d2, d3, d4, d5, d6 = DIVISORS

        @T.prim_func
        def by_constants(a: T.handle, c: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), dtype)
            C = T.match_buffer(c, (28, n), dtype)
            for i in range(n):
                four(C, 0, i, A[i], d0)
                four(C, 4, i, A[i], d1)
                four(C, 8, i, A[i], d2)
                four(C, 12, i, A[i], d3)
                four(C, 16, i, A[i], d4)
                four(C, 20, i, A[i], d5)
                four(C, 24, i, A[i], d6)

        return by_constants


for _dtype in ("int8", "int32", "int64"):
    _constant_divisors(_dtype)


def _wrapping_expressions(dtype):
    """What would be simpler if sums and products did not wrap: computed data may wrap, unlike indices."""

    def computed(a, b, c):
        def w(x):
            return wrap(x, dtype)

        each(c[0], dtype, lambda x, y: w(w(x * 2) + y) // 2, a, b)
        each(c[1], dtype, lambda x, y: w(x * 4) // 2, a, b)
        each(c[2], dtype, lambda x, y: w(x + 1) > x, a, b)
        each(c[3], dtype, lambda x, y: w(x * y) // y, a, b)
        each(c[4], dtype, lambda x, y: w(x + y) - y, a, b)
        each(c[5], dtype, lambda x, y: w(x * 2) < w(y * 2), a, b)
        each(c[6], dtype, lambda x, y: max(w(x + 1), x), a, b)
        each(c[7], dtype, lambda x, y: trunc_div(w(x * 6), 3), a, b)
        each(c[8], dtype, lambda x, y: w(x * 3 + y) % 3, a, b)
        each(c[9], dtype, lambda x, y: w(x - y) < 0, a, b)

    @kernel(
        lambda g, n: [drawn(g, n, dtype), _nonzero(drawn(g, n, dtype)), g.blank(10, n, dtype=dtype)],
        computed,
        sizes=[{"n": 61}],
        large=[{"n": 300}],
        dynamic=True,
        name=f"wrapping_expressions_{dtype}",
    )
    def wrapping(dtype=dtype):
        @T.prim_func
        def wrapping(a: T.handle, b: T.handle, c: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), dtype)
            B = T.match_buffer(b, (n,), dtype)
            C = T.match_buffer(c, (10, n), dtype)
            for i in range(n):
                C[0, i] = (A[i] * 2 + B[i]) // 2
                C[1, i] = A[i] * 4 // 2
                C[2, i] = T.cast(A[i] + 1 > A[i], dtype)
                C[3, i] = A[i] * B[i] // B[i]
                C[4, i] = A[i] + B[i] - B[i]
                C[5, i] = T.cast(A[i] * 2 < B[i] * 2, dtype)
                C[6, i] = T.max(A[i] + 1, A[i])
                C[7, i] = T.truncdiv(A[i] * 6, 3)
                C[8, i] = (A[i] * 3 + B[i]) % 3
                C[9, i] = T.cast(A[i] - B[i] < 0, dtype)

        return wrapping


for _dtype in ("int16", "int32", "int64"):
    _wrapping_expressions(_dtype)
