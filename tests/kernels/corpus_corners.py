"""Corners: empty and backward loops, shadowed names, odd scalars, returns from loops, statements where few put them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.kernels.base import kernel, put
from tests.kernels.corpus_integer import wrap
from tirlower.script import ir as I
from tirlower.script import tir as T


def _extents(n, low, out):
    out[0] = max(n, 0)
    out[1] = sum(range(low, low + max(n, 0)))
    out[2] = max(n - 5, 0) * max(5 - n, 0)
    out[3] = sum(range(low, n)) if low < n else 0


@kernel(
    lambda g, n, low: [n, low, g.blank(4, dtype="int64")],
    _extents,
    sizes=[{"n": 3, "low": -2}, {"n": 0, "low": 5}, {"n": -4, "low": 1}, {"n": 7, "low": -7}],
    dynamic=True,
)
def loops_of_negative_extent():
    @T.prim_func
    def loops(n: T.int32, low: T.int64, out: T.Buffer((4,), "int64")):
        for k in range(4):
            out[k] = T.int64(0)
        for _i in range(n):
            out[0] += T.int64(1)
        for i in T.serial(low, low + T.Cast("int64", n)):
            out[1] += i
        for _i, _j in T.grid(n - 5, 5 - n):
            out[2] += T.int64(1)
        for i in T.serial(low, T.Cast("int64", n)):
            out[3] += i

    return loops


@kernel(
    lambda g, n: [g.ints(n, low=-9, high=9), g.blank(n, dtype="int32")],
    lambda a, b: put(b, np.arange(len(a)) * 2 + 3),
    sizes=[{"n": 4}],
    dynamic=True,
)
def names_that_repeat_and_clash():
    @T.prim_func
    def alloca(a: T.handle, b: T.handle):
        n = T.int32()
        define = T.match_buffer(a, (n,), "int32")
        ret = T.match_buffer(b, (n,), "int32")
        for i in range(n):
            x: T.int32 = 1
            for br in range(2):
                x: T.int32 = br
                ret[i] = x
            entry: T.int32 = define[i] * 0 + i
            ret[i] = entry
        for i in range(n):
            i1: T.int32 = ret[i] + 1
            i_1: T.int32 = i1 + ret[i]
            ret[i] = i_1 + 2

    return alloca


def _scalars(flag, h, b, e, u, i, out):
    put(out, [float(flag), float(np.float16(h)), float(ml_dtypes.bfloat16(b)), float(ml_dtypes.float8_e4m3fn(e)), u, i])


@kernel(
    lambda g, flag: [bool(flag), 1.337, 3.14159, 0.3, 250, -(2**40), g.blank(6, dtype="float64")],
    _scalars,
    sizes=[{"flag": 0}, {"flag": 1}],
    dynamic=True,
)
def scalar_parameters_of_every_kind():
    @T.prim_func
    def scalars(
        flag: T.bool, h: T.float16, b: T.bfloat16, e: T.float8_e4m3fn, u: T.uint8, i: T.int48,
        out: T.Buffer((6,), "float64"),
    ):  # fmt: skip
        out[0] = T.Cast("float64", flag)
        out[1] = T.Cast("float64", h)
        out[2] = T.Cast("float64", b)
        out[3] = T.Cast("float64", e)
        out[4] = T.Cast("float64", u)
        out[5] = T.Cast("float64", i)

    return scalars


def _returning(kind, value):
    @kernel(
        lambda g, x: [x],
        lambda x: value(x),
        sizes=[{"x": 0}, {"x": 3}],
        dynamic=True,
        name=f"return_of_{kind}",
    )
    def returning(kind=kind):
        @T.prim_func
        def returning(x: T.int32) -> kind:
            T.ret(T.cast(x, kind))

        return returning


_returning("bool", lambda x: bool(x))
_returning("uint8", lambda x: np.uint8(x))
_returning("float16", lambda x: np.float16(x))
_returning("int64", lambda x: np.int64(x))


@kernel(
    lambda g, n: [g.ints(n, low=0, high=20), 7],
    lambda a, x: np.int32(a.tolist().index(x) if x in a.tolist() else -1),
    sizes=[{"n": 0}, {"n": 3}, {"n": 50}],
    large=[{"n": 300}],
    dynamic=True,
)
def return_from_a_nested_loop():
    @T.prim_func
    def find(a: T.handle, x: T.int32) -> T.int32:
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        kept = T.alloc_buffer((n,), "int32")
        for i in range(n):
            kept[i] = A[i]
            while kept[i] >= x:
                if kept[i] == x:
                    T.ret(i)
                kept[i] = x - 1
        T.ret(-1)

    return find


def _conditional(a, b):
    for i, x in enumerate(a.tolist()):
        b[i] = sum(range(x)) if x % 2 == 0 else -x


@kernel(
    lambda g, n: [g.ints(n, low=0, high=40), g.blank(n, dtype="int32")],
    _conditional,
    sizes=[{"n": 9}],
    large=[{"n": 200}],
    dynamic=True,
)
def allocation_in_a_branch_of_a_data_size():
    @T.prim_func
    def branches(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        for i in range(n):
            if A[i] % 2 == 0:
                size = T.bind(A[i])
                kept = T.alloc_buffer((size,), "int32")
                for j in range(size):
                    kept[j] = j
                B[i] = 0
                for j in range(size):
                    B[i] += kept[j]
            else:
                B[i] = 0 - A[i]

    return branches


def _loop_types(out):
    out[0] = sum(i * i for i in range(200)) % 256
    out[1] = sum(range(-100, 100, 7)) % 256
    out[2] = 60


@kernel(lambda g: [g.blank(3, dtype="uint8")], _loop_types)
def loop_variables_of_other_widths():
    @T.prim_func
    def loops(out: T.Buffer((3,), "uint8")):
        for k in range(3):
            out[k] = T.uint8(0)
        for i in T.serial(T.uint8(200)):
            out[0] = out[0] + i * i
        for i in range(T.int64(-100), T.int64(100), T.int64(7)):
            out[1] = out[1] + T.Cast("uint8", i)
        for i, j in T.grid(T.int16(5), T.int64(12)):
            out[2] = out[2] + T.Cast("uint8", T.Cast("int64", i) - j - T.Cast("int64", i) + j + T.int64(1))

    return loops


def _vector_condition(a, b):
    for i in range(8):
        total = 0
        for k in range(int(a[i])):
            total += k * (i + 1)
        b[i] = total


@kernel(lambda g: [g.ints(8, low=0, high=9), g.blank(8, dtype="int32")], _vector_condition)
def serial_loop_of_lane_extent_inside_a_vectorized_loop():
    @T.prim_func
    def lanes(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in T.vectorized(8):
            B[i] = 0
            for k in range(A[i]):
                B[i] = B[i] + k * (i + 1)

    return lanes


@kernel(lambda g: [g.bools(2, 8), g.blank(2, 8, dtype="bool"), g.blank(16, dtype="bool")],
        lambda a, b, c: (put(b, ~a), put(c, a.reshape(-1)[::-1] & a.reshape(-1))))  # fmt: skip
def vectors_of_bool_in_memory():
    @T.prim_func
    def flags(A: T.Buffer((2, 8), "bool"), B: T.Buffer((2, 8), "bool"), C: T.Buffer((16,), "bool")):
        for i in range(2):
            for j in T.vectorized(8):
                B[i, j] = not A[i, j]
        for k in T.vectorized(16):
            C[k] = A[(15 - k) // 8, (15 - k) % 8] and A[k // 8, k % 8]

    return flags


@kernel(
    lambda g: [np.array([np.nan, 1.0, -0.0, 0.0, np.inf, -np.inf, 2.0, np.nan], "float32"),
               np.array([1.0, np.nan, 0.0, -0.0, np.nan, np.inf, 2.0, np.nan], "float32"), g.blank(8, 8, dtype="int8")],
    lambda a, b, c: [put(c[k], f) for k, f in enumerate(
        (a < b, a <= b, a > b, a >= b, a == b, a != b, ~(a < b), np.isnan(np.fmin(a, b))))] and None,
)  # fmt: skip
def comparisons_of_nans_and_zeros():
    @T.prim_func
    def compare(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8, 8), "int8")):
        for i in range(8):
            C[0, i] = T.Cast("int8", A[i] < B[i])
            C[1, i] = T.Cast("int8", A[i] <= B[i])
            C[2, i] = T.Cast("int8", A[i] > B[i])
            C[3, i] = T.Cast("int8", A[i] >= B[i])
            C[4, i] = T.Cast("int8", A[i] == B[i])
            C[5, i] = T.Cast("int8", A[i] != B[i])
            C[6, i] = T.Cast("int8", not (A[i] < B[i]))
            C[7, i] = T.Cast("int8", T.isnan(T.min(A[i], B[i])))

    return compare


@kernel(
    lambda g, n: [g.ints(n, dtype="int64"), g.blank(n, dtype="int64")],
    lambda a, b: put(b, [wrap(int(x) * 5 + sum(range(i % 3)), "int64") for i, x in enumerate(a)]),
    sizes=[{"n": 0}, {"n": 10}],
    large=[{"n": 200}],
    dynamic=True,
    entry="outer",
)
def chain_of_calls_with_loops_and_memory():
    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def small(n: T.int32) -> T.int64:
            acc = T.alloc_buffer((1,), "int64", scope="local")
            acc[0] = T.int64(0)
            for i in range(n):
                acc[0] += T.Cast("int64", i)
            T.ret(acc[0])

        @T.prim_func(private=True)
        def middle(x: T.int64, i: T.int32) -> T.int64:
            T.ret(x * T.int64(5) + Mod.small(i % 3))

        @T.prim_func
        def outer(a: T.handle, b: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), "int64")
            B = T.match_buffer(b, (n,), "int64")
            for i in T.parallel(n):
                B[i] = Mod.middle(A[i], i)

    return Mod


@kernel(
    lambda g: [g.ints(30, low=-9, high=9), g.blank(2, 3, dtype="int32"), g.blank(2, 3, 5, dtype="int32")],
    lambda a, s, c: (put(s, a.reshape(2, 3, 5).sum(2)), put(c, a.reshape(2, 3, 5) * 2)),
)
def deep_views_and_block_offsets():
    @T.prim_func
    def deep(A: T.Buffer((30,), "int32"), S: T.Buffer((2, 3), "int32"), C: T.Buffer((2, 3, 5), "int32")):
        cube = T.Buffer((2, 3, 5), "int32", data=A.data)
        for i, j, k in T.grid(2, 3, 5):
            with T.block("sum"):
                vi = T.axis.spatial((10, 12), i + 10)
                vj = T.axis.spatial(3, j)
                vk = T.axis.reduce((-2, 3), k - 2)
                T.reads(cube[vi - 10, vj, vk + 2])
                T.writes(S[vi - 10, vj], C[vi - 10, vj, vk + 2])
                with T.init():
                    S[vi - 10, vj] = 0
                S[vi - 10, vj] += cube[vi - 10, vj, vk + 2]
                C[vi - 10, vj, vk + 2] = cube[vi - 10, vj, vk + 2] * 2

    return deep


def _short_circuit(a, p, b):
    n = len(a)
    for i, at in enumerate(p.tolist()):
        b[i] = 0 <= at < n and a[at] > 0


@kernel(
    lambda g, n: [g.ints(n, low=-9, high=9), g.ints(12, low=-5, high=20), g.blank(12, dtype="bool")],
    _short_circuit,
    sizes=[{"n": 1}, {"n": 9}],
    dynamic=True,
)
def conditions_that_guard_their_own_loads():
    @T.prim_func
    def guarded(a: T.handle, P: T.Buffer((12,), "int32"), B: T.Buffer((12,), "bool")):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        for i in range(12):
            B[i] = P[i] >= 0 and P[i] < n and A[P[i]] > 0

    return guarded


@kernel(
    lambda g, n: [g.ints(n, low=0, high=9), g.blank(n, dtype="int32")],
    lambda a, b: put(b, np.where(np.arange(len(a)) % 3 == 0, a, 7)),
    sizes=[{"n": 0}, {"n": 10}],
    dynamic=True,
)
def continue_inside_a_parallel_loop():
    @T.prim_func
    def skipping(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        for i in T.parallel(n):
            B[i] = 7
            if i % 3 != 0:
                continue
            B[i] = A[i]

    return skipping


@kernel(
    lambda g: [g.floats(64), g.blank(64)],
    lambda a, b: put(b, a + 1),
)
def shuffles_of_wide_vectors():
    @T.prim_func
    def wide(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        B[0:64] = A[0:64] + T.Broadcast(T.float32(1), 64)

    return wide


def _unrolled_guards(a, b):
    for i in range(9):
        b[i] = a[i] if i in (0, 8) else a[i - 1] + a[i + 1]


@kernel(lambda g: [g.ints(9, low=-99, high=99), g.blank(9, dtype="int32")], _unrolled_guards)
def unrolled_loop_with_guards():
    @T.prim_func
    def guards(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        for i in T.unroll(9):
            if i == 0 or i == 8:
                B[i] = A[i]
            else:
                B[i] = A[i - 1] + A[i + 1]

    return guards
