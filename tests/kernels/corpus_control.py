"""Control: guards, while loops, unrolled and parallel loops, bindings, choices, returned values, calls."""

from __future__ import annotations

import numpy as np

from tests.kernels.base import Ulps, kernel, put
from tirlower.script import ir as I
from tirlower.script import tir as T


def _branches(a, b):
    for i, x in enumerate(a.tolist()):
        if x < -50:
            b[i] = -2
        elif x < 0:
            b[i] = -1
        elif x == 0:
            b[i] = 0
        else:
            b[i] = 1 if x < 50 and i % 2 == 0 else 2


@kernel(
    lambda g, n: [g.ints(n, low=-100, high=100), g.blank(n, dtype="int8")],
    _branches,
    sizes=[{"n": 0}, {"n": 25}],
    large=[{"n": 1000}],
    dynamic=True,
)
def nested_branches():
    @T.prim_func
    def branches(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int8")
        for i in range(n):
            if A[i] < -50:
                B[i] = T.int8(-2)
            elif A[i] < 0:
                B[i] = T.int8(-1)
            elif A[i] == 0:
                B[i] = T.int8(0)
            else:
                if A[i] < 50 and i % 2 == 0:
                    B[i] = T.int8(1)
                else:
                    B[i] = T.int8(2)

    return branches


@kernel(
    lambda g, n, m: [g.ints(n, m), g.blank(n, m, dtype="int32")],
    lambda a, b: put(b, a + 1),
    sizes=[{"n": 1, "m": 1}, {"n": 5, "m": 9}],
    large=[{"n": 33, "m": 70}],
)
def fused_and_split_with_predicate(n, m):
    @T.prim_func
    def fused(A: T.Buffer((n, m), "int32"), B: T.Buffer((n, m), "int32")):
        for outer, inner in T.grid((n * m + 6) // 7, 7):
            with T.block("add"):
                T.where(outer * 7 + inner < n * m)
                vi = T.axis.spatial(n, (outer * 7 + inner) // m)
                vj = T.axis.spatial(m, (outer * 7 + inner) % m)
                B[vi, vj] = A[vi, vj] + 1

    return fused


def _collatz(a, out):
    for i, x in enumerate(a.tolist()):
        steps = 0
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            steps += 1
        out[i] = steps


@kernel(
    lambda g, n: [g.ints(n, dtype="int64", low=1, high=10000), g.blank(n, dtype="int32")],
    _collatz,
    sizes=[{"n": 0}, {"n": 5}],
    large=[{"n": 300}],
    dynamic=True,
)
def collatz():
    @T.prim_func
    def collatz(a: T.handle, o: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int64")
        O = T.match_buffer(o, (n,), "int32")
        for i in T.parallel(n):
            x = T.alloc_buffer((1,), "int64", scope="local")
            x[0] = A[i]
            O[i] = 0
            while x[0] != T.int64(1):
                x[0] = T.if_then_else(
                    x[0] % T.int64(2) == T.int64(0), x[0] // T.int64(2), T.int64(3) * x[0] + T.int64(1)
                )
                O[i] = O[i] + 1

    return collatz


@kernel(
    lambda g, n: [g.floats(n, dtype="float64", low=1e-3, high=1e3), g.blank(n, dtype="float64")],
    lambda a, out: put(out, np.sqrt(a)),
    sizes=[{"n": 6}],
    large=[{"n": 200}],
    within=Ulps(2),
    dynamic=True,
)
def newton_square_root():
    @T.prim_func
    def newton(a: T.handle, o: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float64")
        O = T.match_buffer(o, (n,), "float64")
        before = T.alloc_buffer((1,), "float64", scope="local")
        for i in range(n):
            before[0] = T.float64(0)
            O[i] = T.max(A[i], T.float64(1))
            while T.abs(O[i] - before[0]) > T.float64(1e-15) * O[i]:
                before[0] = O[i]
                O[i] = T.float64(0.5) * (O[i] + A[i] / O[i])

    return newton


@kernel(
    lambda g, n, m: [g.ints(n, m, dtype="int64"), g.blank(n, m, dtype="int64"), g.blank(n, dtype="int64")],
    lambda a, b, s: (put(b, a * 3), put(s, a.sum(1))),
    sizes=[{"n": 0, "m": 3}, {"n": 3, "m": 5}],
    large=[{"n": 65, "m": 130}],
    dynamic=True,
)
def nested_parallel_loops():
    @T.prim_func
    def nested(a: T.handle, b: T.handle, s: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "int64")
        B = T.match_buffer(b, (n, m), "int64")
        S = T.match_buffer(s, (n,), "int64")
        for i in T.parallel(n):
            for j in T.parallel(m):
                B[i, j] = A[i, j] * T.int64(3)
            S[i] = T.int64(0)
            for j in range(m):
                S[i] = S[i] + A[i, j]

    return nested


@kernel(
    lambda g, n: [g.ints(n, low=-9, high=9), g.blank(n, dtype="int32")],
    lambda a, b: put(b, np.arange(len(a)) + (a.sum() if len(a) else 0)),
    sizes=[{"n": 1}, {"n": 10}],
    large=[{"n": 3000}],
    dynamic=True,
)
def parallel_reads_of_a_shared_scalar():
    @T.prim_func
    def shared(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        total = T.alloc_buffer((1,), "int32")
        total[0] = 0
        for i in range(n):
            total[0] = total[0] + A[i]
        offset = T.bind(total[0])
        for i in T.parallel(n):
            B[i] = i + offset

    return shared


@kernel(
    lambda g, n: [g.ints(n, 6), g.blank(n, 6, dtype="int32")],
    lambda a, b: put(b, a * np.arange(6, dtype=np.int32) - a[:, ::-1]),
    sizes=[{"n": 0}, {"n": 3}],
    large=[{"n": 70}],
    dynamic=True,
)
def unrolled_loops():
    @T.prim_func
    def unrolled(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 6), "int32")
        B = T.match_buffer(b, (n, 6), "int32")
        for i in range(n):
            for j in T.unroll(2):
                for k in T.unroll(3):
                    B[i, j * 3 + k] = A[i, j * 3 + k] * (j * 3 + k) - A[i, 5 - j * 3 - k]

    return unrolled


@kernel(lambda g: [g.ints(20), g.blank(20, dtype="int32")], lambda *args: _steps(*args))
def stepped_loops():
    @T.prim_func
    def stepped(A: T.Buffer((20,), "int32"), B: T.Buffer((20,), "int32")):
        for i in range(1, 20, 3):
            B[i] = A[i]
        for i in range(18, 2, -4):
            B[i] = A[i - 1] + i
        for i in T.serial(4, 8, annotations={"note": "text"}):
            B[i] = i

    return stepped


def _steps(a, b):
    b[1:20:3] = a[1:20:3]
    for i in range(18, 2, -4):
        b[i] = wrap32(int(a[i - 1]) + i)
    b[4:8] = range(4, 8)


def wrap32(value):
    return (value + 2**31) % 2**32 - 2**31


@kernel(
    lambda g, n: [g.ints(n, low=0, high=50), g.blank(2, n, dtype="int32")],
    lambda *args: _until(*args),
    sizes=[{"n": 0}, {"n": 12}],
    large=[{"n": 300}],
    dynamic=True,
)
def break_and_continue():
    @T.prim_func
    def loops(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (2, n), "int32")
        for i in range(n):
            B[0, i] = 0
            for j in range(A[i]):
                if j % 3 == 1:
                    continue
                if j > 20:
                    break
                B[0, i] += j
        for i in range(n):
            B[1, i] = A[i]
            while B[1, i] > 0:
                B[1, i] -= 7
                if B[1, i] % 2 == 0:
                    break

    return loops


def _until(a, b):
    for i, x in enumerate(a.tolist()):
        b[0, i] = sum(j for j in range(min(x, 21)) if j % 3 != 1)
        while x > 0:
            x -= 7
            if x % 2 == 0:
                break
        b[1, i] = x


def _bound(a, b):
    for i, x in enumerate(a.tolist()):
        y = x * 2 + 1
        z = y * y - x
        b[0, i], b[1, i], b[2, i] = y, z, z + y + 7


@kernel(
    lambda g, n: [g.ints(n, low=-999, high=999), g.blank(3, n, dtype="int32")],
    _bound,
    sizes=[{"n": 5}],
    large=[{"n": 100}],
    dynamic=True,
)
def lets_and_bindings():
    @T.prim_func
    def lets(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (3, n), "int32")
        seven: T.let[T.int32] = 3 + 4
        for i in range(n):
            y: T.int32 = A[i] * 2 + 1
            with T.LetStmt(y * y) as z:
                B[0, i] = y
                B[1, i] = z - A[i]
            w = T.int32()
            B[2, i] = T.Let(w + y, where={w: B[1, i]}) + seven

    return lets


def _choices(a, b):
    n = len(a)
    for i, x in enumerate(a.tolist()):
        b[0, i] = x if x > 0 else -x
        b[1, i] = a[i + 1] if i + 1 < n else -1
        b[2, i] = 100 // x if x != 0 else 0
        b[3, i] = 1 if 0 < x <= 5 or x == -7 else 0


@kernel(
    lambda g, n: [g.ints(n, low=-9, high=9), g.blank(4, n, dtype="int32")],
    _choices,
    sizes=[{"n": 0}, {"n": 1}, {"n": 40}],
    large=[{"n": 400}],
    dynamic=True,
)
def select_evaluates_both_and_if_then_else_one():
    @T.prim_func
    def choices(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (4, n), "int32")
        for i in range(n):
            B[0, i] = T.Select(A[i] > 0, A[i], 0 - A[i])
            B[1, i] = T.if_then_else(i + 1 < n, A[i + 1], -1)
            B[2, i] = T.if_then_else(A[i] != 0, 100 // A[i], 0)
            B[3, i] = 1 if 0 < A[i] <= 5 or A[i] == -7 else 0

    return choices


def _returns(dtype):
    @kernel(
        lambda g, x: [g.ints(4, dtype="int32", low=0, high=9), x],
        lambda a, x: dtype(a.sum() * 2 + x) if x > 0 else dtype(-1.5),
        sizes=[{"x": 5}, {"x": -5}],
        dynamic=True,
        name=f"returned_{dtype.__name__}",
    )
    def returned(kind=dtype.__name__):
        @T.prim_func
        def total(A: T.Buffer((4,), "int32"), x: T.int32) -> kind:
            if x <= 0:
                T.ret(T.cast(T.float32(-1.5), kind))
            acc = T.alloc_buffer((1,), "int32", scope="local")
            acc[0] = x
            for i in range(4):
                acc[0] += A[i] * 2
            T.ret(T.cast(acc[0], kind))

        return total


for _dtype in (np.int32, np.int64, np.float32, np.float64):
    _returns(_dtype)


@kernel(
    lambda g, n: [g.ints(n, low=-99, high=99), g.blank(n, dtype="int32")],
    lambda a, b: put(b, np.maximum(a * a + 1, 50)),
    sizes=[{"n": 0}, {"n": 6}],
    large=[{"n": 200}],
    dynamic=True,
    entry="main",
)
def calls_between_functions():
    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def square(x: T.int32) -> T.int32:
            T.ret(x * x)

        @T.prim_func(private=True)
        def clamp(x: T.int32, low: T.int32) -> T.int32:
            if x < low:
                T.ret(low)
            T.ret(x)

        @T.prim_func
        def main(a: T.handle, b: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), "int32")
            B = T.match_buffer(b, (n,), "int32")
            for i in range(n):
                B[i] = Mod.clamp(Mod.square(A[i]) + 1, 50)

    return Mod


@kernel(
    lambda g, n: [g.ints(n, low=0, high=99), n],
    lambda a, n: a.sort(),
    sizes=[{"n": 1}, {"n": 6}],
    large=[{"n": 70}],
    dynamic=True,
    entry="main",
)
def calls_that_pass_memory():
    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def bubble(p: T.handle("int32"), n: T.int32):
            A = T.Buffer((n,), "int32", data=p)
            for i in range(n - 1):
                if A[i] > A[i + 1]:
                    t = T.bind(A[i])
                    A[i] = A[i + 1]
                    A[i + 1] = t

        @T.prim_func
        def main(a: T.handle, n: T.int32):
            A = T.match_buffer(a, (n,), "int32")
            for _i in range(n):
                Mod.bubble(A.data, n)

    return Mod


@kernel(
    lambda g, n: [n],
    lambda n: _fibonacci(n),
    sizes=[{"n": n} for n in (0, 1, 12)],
    large=[{"n": 20}],
    dynamic=True,
    entry="fibonacci",
)
def recursive_calls():
    @I.ir_module
    class Mod:
        @T.prim_func
        def fibonacci(n: T.int32) -> T.int64:
            if n < 2:
                T.ret(T.Cast("int64", n))
            T.ret(Mod.fibonacci(n - 1) + Mod.fibonacci(n - 2))

    return Mod


def _fibonacci(n):
    x, y = 0, 1
    for _ in range(n):
        x, y = y, x + y
    return np.int64(x)


@kernel(
    lambda g, n: [g.ints(n, low=0, high=9), g.blank(n, dtype="int32")],
    lambda a, b: put(b, a + 1),
    sizes=[{"n": 4}],
    large=[{"n": 64}],
    dynamic=True,
)
def asserts_assumes_and_attributes():
    @T.prim_func
    def checked(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        T.assume(n > 0)
        assert n % 4 == 0, "the length is a multiple of four"
        T.attr("default", "pragma_note", 1)
        for i in range(n):
            T.Assert(A[i] < 10, "digits only")
            B[i] = A[i] + 1

    return checked
