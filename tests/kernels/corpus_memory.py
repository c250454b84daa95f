"""Shapes, strides, allocations, views, regions."""

from __future__ import annotations

import numpy as np

from tests.kernels.base import kernel, put
from tirlower.script import tir as T


@kernel(
    lambda g, n, m: [g.ints(n, m), g.ints(m, n + 1), g.ints(n * m + 2), g.blank(2 * n, m, dtype="int32")],
    lambda a, b, c, d: put(d, np.concatenate([a + b[:, : len(a)].T, c[2:].reshape(a.shape) - b[:, 1:].T])),
    sizes=[{"n": 0, "m": 2}, {"n": 1, "m": 1}, {"n": 3, "m": 5}],
    large=[{"n": 41, "m": 29}],
    dynamic=True,
)
def compound_dimensions():
    @T.prim_func
    def compound(a: T.handle, b: T.handle, c: T.handle, d: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "int32")
        B = T.match_buffer(b, (m, n + 1), "int32")
        C = T.match_buffer(c, (n * m + 2,), "int32")
        D = T.match_buffer(d, (2 * n, m), "int32")
        for i, j in T.grid(n, m):
            D[i, j] = A[i, j] + B[j, i]
            D[n + i, j] = C[i * m + j + 2] - B[j, i + 1]

    return compound


def _views(g, n, m):
    base = g.ints(2 * n + 1, 3 * m + 1)
    out = np.full((n, 2 * m), 77, np.int32)
    return [base[1 : 2 * n + 1 : 2, 3 * m : 0 : -3] if n and m else base[:n, :m], out[:, ::2]]


@kernel(
    _views,
    lambda a, b: put(b, a + 1),
    sizes=[{"n": 1, "m": 1}, {"n": 3, "m": 4}, {"n": 0, "m": 2}],
    large=[{"n": 20, "m": 33}],
    dynamic=True,
)
def symbolic_strides():
    @T.prim_func
    def strided(a: T.handle, b: T.handle):
        n, m, s0, s1, t0, t1 = T.int64(), T.int64(), T.int64(), T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "int32", strides=(s0, s1))
        B = T.match_buffer(b, (n, m), "int32", strides=(t0, t1))
        for i, j in T.grid(n, m):
            B[i, j] = A[i, j] + 1

    return strided


@kernel(
    lambda g, n: [g.floats(n, 8)[:, :4], g.blank(n, 4)],
    lambda a, b: put(b, a * 2),
    sizes=[{"n": 0}, {"n": 3}],
    large=[{"n": 100}],
    dynamic=True,
)
def constant_row_stride():
    @T.prim_func
    def rows(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 4), "float32", strides=(8, 1))
        B = T.match_buffer(b, (n, 4), "float32")
        for i in range(n):
            for j in T.vectorized(4):
                B[i, j] = A[i, j] * T.float32(2)

    return rows


@kernel(
    lambda g, n: [g.ints(n), g.blank(n, dtype="int32")],
    lambda a, b: put(b, a[::-1]),
    sizes=[{"n": n} for n in (0, 1, 9)],
    large=[{"n": 301}],
    dynamic=True,
)
def element_offset_of_a_parameter():
    @T.prim_func
    def offset(a: T.handle, b: T.handle):
        n, off = T.int32(), T.int32()
        A = T.match_buffer(a, (n,), "int32", elem_offset=off)
        B = T.match_buffer(b, (n,), "int32")
        for i in range(n):
            B[i] = A[n - 1 - i]

    return offset


@kernel(
    lambda g: [g.ints(0, 4), g.ints(3, 0, dtype="int8"), g.blank(2, dtype="int64")],
    lambda a, b, s: put(s, [0, 3]),
)
def arrays_of_no_elements():
    @T.prim_func
    def empty(A: T.Buffer((0, 4), "int32"), B: T.Buffer((3, 0), "int8"), S: T.Buffer((2,), "int64")):
        S[0] = T.int64(0)
        S[1] = T.int64(0)
        for i, j in T.grid(0, 4):
            S[0] += T.Cast("int64", A[i, j])
        for i in range(3):
            S[1] += T.int64(1)
            for j in range(0):
                S[1] += T.Cast("int64", B[i, j])

    return empty


@kernel(
    lambda g: [g.floats(), g.blank(), 2.5],
    lambda a, b, x: put(b, a + np.float32(x)),
)
def arrays_of_no_dimensions():
    @T.prim_func
    def scalars(A: T.Buffer((), "float32"), B: T.Buffer((), "float32"), x: T.float32):
        kept = T.alloc_buffer((), "float32")
        kept[()] = A[()] + x
        B[()] = kept[()]

    return scalars


@kernel(
    lambda g, n: [g.ints(n), g.blank(n, dtype="int32")],
    lambda a, b: put(b, a[::-1] ^ 5),
    sizes=[{"n": n} for n in (0, 1, 10)],
    large=[{"n": 5000}],
    dynamic=True,
)
def allocation_of_a_dynamic_size():
    @T.prim_func
    def dynamic(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        kept = T.alloc_buffer((n,), "int32")
        for i in range(n):
            kept[n - 1 - i] = A[i]
        for i in range(n):
            B[i] = kept[i] ^ 5

    return dynamic


@kernel(
    lambda g, n: [g.ints(n, dtype="int64", low=-99, high=99), g.blank(n, dtype="int64")],
    lambda a, b: put(b, a * 65536 + 65535 * 65536 // 2),
    sizes=[{"n": 1}],
    large=[{"n": 3}],
)
def allocation_on_the_heap(n):
    size = 4096 if n == 1 else 65536  # the interpreter runs the small one

    @T.prim_func
    def heap(A: T.Buffer((n,), "int64"), B: T.Buffer((n,), "int64")):
        kept = T.alloc_buffer((size,), "int64")
        for i in range(n):
            for j in range(size):
                kept[j] = A[i] + T.Cast("int64", j)
            B[i] = T.int64(0)
            for j in range(size):
                B[i] = B[i] + kept[j] * T.int64(65536 // size)
            B[i] = B[i] + T.int64(65535 * 65536 // 2) - T.int64((size - 1) * size // 2 * (65536 // size))

    return heap


def _inside(a, b):
    for i in range(len(a)):
        part = np.cumsum(a[i].astype(np.int64))
        b[i] = part[-1] + part[0]


@kernel(
    lambda g, n: [g.ints(n, 5, low=-99, high=99), g.blank(n, dtype="int32")],
    _inside,
    sizes=[{"n": 0}, {"n": 4}],
    large=[{"n": 2000}],
    dynamic=True,
)
def allocation_inside_a_parallel_loop():
    @T.prim_func
    def inside(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 5), "int32")
        B = T.match_buffer(b, (n,), "int32")
        for i in T.parallel(n):
            part = T.alloc_buffer((5,), "int32", scope="local")
            big = T.alloc_buffer((3000,), "int32")
            part[0] = A[i, 0]
            for j in range(1, 5):
                part[j] = part[j - 1] + A[i, j]
            big[2999] = part[4]
            B[i] = big[2999] + part[0]

    return inside


@kernel(
    lambda g: [g.ints(6), g.blank(6, dtype="int32")],
    lambda a, b: put(b, np.array([2, 3, 5, 7, 11, 13], np.int32) * a),
)
def constant_tables():
    primes = [2, 3, 5, 7, 11, 13]

    @T.prim_func
    def table(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32")):
        data = T.allocate_const(primes, "int32", [6])
        P = T.Buffer((6,), "int32", data=data)
        for i in range(6):
            B[i] = P[i] * A[i]

    return table


def _views_of(a, bits, out):
    put(bits, a.view(np.uint32).reshape(-1))
    flat = a.reshape(-1).copy()
    flat[3:7] = -flat[3:7]
    put(out, flat.reshape(4, 3))


@kernel(lambda g: [g.floats(3, 4), g.blank(12, dtype="uint32"), g.blank(4, 3)], _views_of)
def views_reshape_reinterpret_and_offset():
    @T.prim_func
    def views(A: T.Buffer((3, 4), "float32"), U: T.Buffer((12,), "uint32"), C: T.Buffer((4, 3), "float32")):
        bits = T.decl_buffer((12,), "uint32", data=A.data)
        for i in range(12):
            U[i] = bits[i]
        kept = T.allocate([12], "float32", "global")
        flat = T.decl_buffer((12,), "float32", data=kept)
        square = T.decl_buffer((4, 3), "float32", data=kept)
        middle = T.decl_buffer((4,), "float32", data=kept, elem_offset=3)
        for i, j in T.grid(3, 4):
            flat[i * 4 + j] = A[i, j]
        for i in range(4):
            middle[i] = T.float32(0) - middle[i]
        for i, j in T.grid(4, 3):
            C[i, j] = square[i, j]

    return views


@kernel(lambda g: [g.ints(8), g.blank(8, dtype="int32")], lambda a, b: put(b, a.reshape(2, 4).T.reshape(-1)))
def allocation_used_only_through_views():
    @T.prim_func
    def through(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        with T.block("root"):
            T.reads(A[0:8])
            T.writes(B[0:8])
            kept = T.alloc_buffer((8,), "int32")
            upper = T.decl_buffer((4,), "int32", data=kept.data, elem_offset=4)
            square = T.decl_buffer((2, 4), "int32", data=kept.data)
            for i in range(4):
                with T.block("low"):
                    vi = T.axis.spatial(4, i)
                    square[0, vi] = A[vi]
            for i in range(4):
                with T.block("high"):
                    vi = T.axis.spatial(4, i)
                    upper[vi] = A[vi + 4]
            for i, j in T.grid(4, 2):
                with T.block("out"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi * 2 + vj] = square[vj, vi]

    return through


@kernel(
    lambda g, n, m: [g.ints(4 * n, 4 * m), g.blank(4 * n, 4 * m, dtype="int32")],
    lambda a, b: put(b, a.reshape(len(a) // 4, 4, -1, 4).transpose(0, 3, 2, 1).reshape(a.shape) if a.size else a),
    sizes=[{"n": 1, "m": 1}, {"n": 2, "m": 3}],
    large=[{"n": 9, "m": 7}],
)
def matched_regions(n, m):
    @T.prim_func
    def tiles(A: T.Buffer((4 * n, 4 * m), "int32"), B: T.Buffer((4 * n, 4 * m), "int32")):
        for i, j in T.grid(n, m):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                s0, s1 = T.int32(), T.int32()
                a = T.match_buffer(
                    A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "int32", strides=(s0, s1), offset_factor=1
                )
                t0, t1 = T.int32(), T.int32()
                b = T.match_buffer(
                    B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "int32", strides=(t0, t1), offset_factor=1
                )
                for x, y in T.grid(4, 4):
                    b[x, y] = a[y, x]

    return tiles


@kernel(
    lambda g, n: [g.ints(n), g.blank(n, dtype="int32")],
    lambda a, b: put(b, np.cumsum(a, dtype="int32")),
    sizes=[{"n": 1}, {"n": 7}],
    large=[{"n": 100}],
)
def opaque_blocks(n):
    @T.prim_func
    def opaque(A: T.Buffer((n,), "int32"), B: T.Buffer((n,), "int32")):
        with T.block("root"):
            T.reads(A[0:n])
            T.writes(B[0:n])
            total = T.alloc_buffer((1,), "int32")
            with T.block("start"):
                T.reads()
                T.writes(total[0])
                total[0] = 0
            for i in range(n):
                with T.block("step"):
                    vi = T.axis.opaque(n, i)
                    T.reads(A[vi], total[0])
                    T.writes(B[vi], total[0])
                    total[0] = total[0] + A[vi]
                    B[vi] = total[0]

    return opaque


@kernel(
    lambda g, n: [g.ints(n, 4, 3), g.blank(n, 3, 4, dtype="int32")],
    lambda a, b: put(b, a.transpose(0, 2, 1)),
    sizes=[{"n": 1}, {"n": 3}],
    large=[{"n": 20}],
)
def allocation_with_axis_separators(n):
    @T.prim_func
    def separated(A: T.Buffer((n, 4, 3), "int32"), B: T.Buffer((n, 3, 4), "int32")):
        kept = T.alloc_buffer((n, 4, 3), "int32", axis_separators=[1])
        for i, j, k in T.grid(n, 4, 3):
            kept[i, j, k] = A[i, j, k]
        for i, j, k in T.grid(n, 3, 4):
            B[i, j, k] = kept[i, k, j]

    return separated


@kernel(
    lambda g, n: [g.ints(n, dtype="uint8"), g.blank(n, dtype="uint8")],
    lambda a, b: put(b, a),
    sizes=[{"n": 0}, {"n": 5}],
    large=[{"n": 1000}],
    dynamic=True,
)
def pointers_to_the_c_library():
    @T.prim_func
    def pointers(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "uint8")
        B = T.match_buffer(b, (n,), "uint8")
        T.evaluate(T.call_extern("handle", "memcpy", B.data, A.data, n))

    return pointers


@kernel(
    lambda g, n: [g.ints(n, 6), g.blank(n, 6, dtype="int32")],
    lambda a, b: put(b, a * 2 + np.roll(a, 1, axis=1)),
    sizes=[{"n": 1}, {"n": 4}],
    large=[{"n": 30}],
)
def temporaries_between_blocks(n):
    @T.prim_func
    def staged(A: T.Buffer((n, 6), "int32"), B: T.Buffer((n, 6), "int32")):
        doubled = T.alloc_buffer((n, 6), "int32")
        rolled = T.alloc_buffer((n, 6), "int32")
        for i in range(n):
            for j in range(6):
                with T.block("double"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    doubled[vi, vj] = A[vi, vj] * 2
            for j in range(6):
                with T.block("roll"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    rolled[vi, (vj + 1) % 6] = A[vi, vj]
            for j in range(6):
                with T.block("add"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = doubled[vi, vj] + rolled[vi, vj]

    return staged


@kernel(
    lambda g, n: [g.ints(n), g.ints(n, 1), g.blank(n, n, dtype="int32")],
    lambda a, b, c: put(c, a + b),
    sizes=[{"n": 0}, {"n": 4}],
    large=[{"n": 50}],
    dynamic=True,
)
def one_array_in_two_shapes():
    @T.prim_func
    def shapes(a: T.handle, b: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n, 1), "int32")
        C = T.match_buffer(c, (n, n), "int32")
        for i, j in T.grid(n, n):
            C[i, j] = A[j] + B[i, 0]

    return shapes
