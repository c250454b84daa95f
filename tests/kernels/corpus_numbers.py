"""Number theory, random numbers, checksums: loops over wrapping integers."""

from __future__ import annotations

import math
import zlib

import numpy as np

from tests.kernels.base import kernel, put
from tirlower.script import tir as T


def _gcd(a, b, out):
    put(out, [math.gcd(int(x), int(y)) for x, y in zip(a, b, strict=True)])


@kernel(
    lambda g, n: [g.ints(n, low=0, high=10**6), g.ints(n, low=0, high=10**6), g.blank(n, dtype="int32")],
    _gcd,
    sizes=[{"n": 0}, {"n": 9}],
    large=[{"n": 200}],
    dynamic=True,
)
def greatest_common_divisor():
    @T.prim_func
    def gcd(a: T.handle, b: T.handle, o: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        O = T.match_buffer(o, (n,), "int32")
        y = T.alloc_buffer((1,), "int32", scope="local")
        for i in range(n):
            O[i] = A[i]
            y[0] = B[i]
            while y[0] != 0:
                t = T.bind(O[i] % y[0])
                O[i] = y[0]
                y[0] = t

    return gcd


@kernel(
    lambda g, n: [g.ints(n, dtype="int64", low=0, high=2**62), g.blank(n, dtype="int64")],
    lambda a, b: put(b, [math.isqrt(int(x)) for x in a]),
    sizes=[{"n": 7}],
    large=[{"n": 100}],
    dynamic=True,
)
def integer_square_root():
    @T.prim_func
    def isqrt(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int64")
        B = T.match_buffer(b, (n,), "int64")
        for i in range(n):
            B[i] = T.int64(0)
            for k in range(31):
                trial = T.bind(B[i] | (T.int64(1) << T.cast(30 - k, "int64")))
                if trial * trial <= A[i]:
                    B[i] = trial

    return isqrt


def _lcg(seed, out):
    x = seed
    for i in range(len(out)):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        out[i] = x >> 33


@kernel(
    lambda g, n: [12345678901234567890, g.blank(n, dtype="uint64")],
    _lcg,
    sizes=[{"n": 0}, {"n": 9}],
    large=[{"n": 300}],
    dynamic=True,
)
def linear_congruential_generator():
    @T.prim_func
    def lcg(seed: T.uint64, o: T.handle):
        n = T.int32()
        O = T.match_buffer(o, (n,), "uint64")
        x = T.alloc_buffer((1,), "uint64", scope="local")
        x[0] = seed
        for i in range(n):
            x[0] = x[0] * T.uint64(6364136223846793005) + T.uint64(1442695040888963407)
            O[i] = x[0] >> T.uint64(33)

    return lcg


@kernel(
    lambda g, n: [g.ints(n, dtype="uint8"), g.blank(1, dtype="uint32")],
    lambda a, out: put(out, [zlib.crc32(a.tobytes())]),
    sizes=[{"n": 0}, {"n": 11}],
    large=[{"n": 400}],
    dynamic=True,
)
def crc32():
    @T.prim_func
    def crc(a: T.handle, out: T.Buffer((1,), "uint32")):
        n = T.int32()
        A = T.match_buffer(a, (n,), "uint8")
        out[0] = T.uint32(0xFFFFFFFF)
        for i in range(n):
            out[0] = out[0] ^ T.Cast("uint32", A[i])
            for _k in T.unroll(8):
                out[0] = T.Select(
                    (out[0] & T.uint32(1)) != T.uint32(0),
                    (out[0] >> T.uint32(1)) ^ T.uint32(0xEDB88320),
                    out[0] >> T.uint32(1),
                )
        out[0] = out[0] ^ T.uint32(0xFFFFFFFF)

    return crc


@kernel(
    lambda g, n: [g.ints(n, dtype="uint64"), g.ints(n, dtype="uint64"), g.blank(n, dtype="uint64")],
    lambda a, b, c: put(c, np.array([(int(x) * int(y)) >> 64 for x, y in zip(a, b, strict=True)], dtype=np.uint64)),
    sizes=[{"n": 13}],
    large=[{"n": 300}],
    dynamic=True,
)
def high_half_of_a_product():
    @T.prim_func
    def mulhi(a: T.handle, b: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "uint64")
        B = T.match_buffer(b, (n,), "uint64")
        C = T.match_buffer(c, (n,), "uint64")
        low = T.meta_var(T.uint64(0xFFFFFFFF))
        for i in range(n):
            a0 = T.bind(A[i] & low)
            a1 = T.bind(A[i] >> T.uint64(32))
            b0 = T.bind(B[i] & low)
            b1 = T.bind(B[i] >> T.uint64(32))
            middle = T.bind(a1 * b0 + ((a0 * b0) >> T.uint64(32)))
            C[i] = a1 * b1 + (middle >> T.uint64(32)) + ((a0 * b1 + (middle & low)) >> T.uint64(32))

    return mulhi


def _sieve(out):
    out[:] = True
    out[:2] = False
    for p in range(2, len(out)):
        if out[p]:
            out[p * p :: p] = False


@kernel(
    lambda g, n: [g.blank(n, dtype="bool")],
    _sieve,
    sizes=[{"n": n} for n in (0, 1, 2, 30)],
    large=[{"n": 1000}],
    dynamic=True,
)
def prime_sieve():
    @T.prim_func
    def sieve(o: T.handle):
        n = T.int32()
        O = T.match_buffer(o, (n,), "bool")
        for i in range(n):
            O[i] = i >= 2
        for p in range(2, n):
            if O[p] and p * p < n:
                for m in range((n - 1 - p * p) // p + 1):
                    O[p * p + m * p] = T.bool(False)

    return sieve


@kernel(
    lambda g, n: [g.ints(n, dtype="uint32", low=0, high=10**4), 1000003, 17, g.blank(n, dtype="uint32")],
    lambda a, m, e, out: put(out, [pow(int(x), e, m) for x in a]),
    sizes=[{"n": 5}],
    large=[{"n": 100}],
    dynamic=True,
)
def power_modulo():
    @T.prim_func
    def power(a: T.handle, m: T.uint64, e: T.int32, o: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "uint32")
        O = T.match_buffer(o, (n,), "uint32")
        state = T.alloc_buffer((2,), "uint64", scope="local")
        rest = T.alloc_buffer((1,), "int32", scope="local")
        for i in range(n):
            state[0] = T.uint64(1)
            state[1] = T.Cast("uint64", A[i]) % m
            rest[0] = e
            while rest[0] > 0:
                if rest[0] & 1 == 1:
                    state[0] = state[0] * state[1] % m
                state[1] = state[1] * state[1] % m
                rest[0] = rest[0] >> 1
            O[i] = T.Cast("uint32", state[0])

    return power


def _compare(a, b, u, v, out):
    for row, (x, y) in enumerate(((a, b), (u, v))):
        for column, found in enumerate((x < y, x <= y, x > y, x >= y, x == y, x != y)):
            out[row, column] = found


@kernel(
    lambda g, n: [
        g.ints(n, dtype="int16"),
        g.ints(n, dtype="int16"),
        g.ints(n, dtype="uint64"),
        g.ints(n, dtype="uint64"),
        g.blank(2, 6, n, dtype="bool"),
    ],
    _compare,
    sizes=[{"n": 23}],
    large=[{"n": 200}],
    dynamic=True,
)
def signed_and_unsigned_comparisons():
    @T.prim_func
    def compare(a: T.handle, b: T.handle, u: T.handle, v: T.handle, o: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int16")
        B = T.match_buffer(b, (n,), "int16")
        U = T.match_buffer(u, (n,), "uint64")
        V = T.match_buffer(v, (n,), "uint64")
        O = T.match_buffer(o, (2, 6, n), "bool")
        for i in range(n):
            O[0, 0, i] = A[i] < B[i]
            O[0, 1, i] = A[i] <= B[i]
            O[0, 2, i] = A[i] > B[i]
            O[0, 3, i] = A[i] >= B[i]
            O[0, 4, i] = A[i] == B[i]
            O[0, 5, i] = A[i] != B[i]
            O[1, 0, i] = U[i] < V[i]
            O[1, 1, i] = U[i] <= V[i]
            O[1, 2, i] = U[i] > V[i]
            O[1, 3, i] = U[i] >= V[i]
            O[1, 4, i] = U[i] == V[i]
            O[1, 5, i] = U[i] != V[i]

    return compare
