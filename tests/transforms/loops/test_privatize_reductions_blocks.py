"""Several reductions in a loop, nested ones, and those of blocks with an init."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tests.transforms.loops.reductions import KINDS, loop, native
from tirlower.diagnostics import LegalityError
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import PrivatizeReductions


@pytest.mark.parametrize("kind", KINDS)
def test_several_reductions_and_private_temporaries(kind: str) -> None:
    func = parse(f"""
@T.prim_func
def moments(A: T.Buffer((48,), "int32"), B: T.Buffer((48,), "int32"), S: T.Buffer((2,), "int32"),
            M: T.Buffer((), "int32")):
    for i in {loop(kind, 48)}:
        square = T.alloc_buffer((1,), "int32")
        square[0] = A[i] * A[i]
        S[0] = S[0] + A[i]
        B[i] = square[0] + 1
        M[()] = T.min(M[()], A[i])
        S[1] = S[1] + square[0]
""")
    check(PrivatizeReductions(), func)
    rng = np.random.default_rng(4)
    a = rng.integers(-99, 99, 48).astype("int32")
    b, s, m = np.zeros(48, "int32"), np.zeros(2, "int32"), np.array(50, "int32")
    native(func, a, b, s, m)
    assert (s[0], s[1], m) == (a.sum(), (a * a).sum(), a.min())
    np.testing.assert_array_equal(b, a * a + 1)


@T.prim_func
def nested_sum(A: T.Buffer((37, 5, 16), "float32"), S: T.Buffer((1,), "float32")):
    for i in T.parallel(37, annotations={"tir.reduction": True}):
        for j in range(5):
            for l in T.vectorized(16, annotations={"tir.reduction": True}):
                S[0] = S[0] + A[i, j, l]


def test_nested_loops_share_partial_results() -> None:
    after = check(PrivatizeReductions(), nested_sum, tolerance=1e-4)
    script = after.script()
    # The lanes' partial results live around both serial loops of a chunk.
    assert script.index('scope="local") as') < script.index("for i in range(") < script.index("for l in T.vectorized")


def test_the_result_does_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(5)
    a = (rng.standard_normal((37, 5, 16)) * 10.0 ** rng.integers(-3, 4, (37, 5, 16))).astype("float32")
    found = set()
    for threads in (1, 2, 3, 8):
        for _ in range(3):
            s = np.zeros(1, "float32")
            native(nested_sum, a, s, threads=threads)
            found.add(s.tobytes())
    assert len(found) == 1
    interpreted = np.zeros(1, "float32")
    tl.interpret(PrivatizeReductions()(nested_sum), a, interpreted)
    assert interpreted.tobytes() in found  # the order is that of the rewritten program


@pytest.mark.parametrize("inner", ["T.serial(8)", loop("vectorized", 8)])
@pytest.mark.parametrize("outer", ["T.serial(6)", loop("parallel", 6)])
def test_blocks_with_init(inner: str, outer: str) -> None:
    func = parse(f"""
@T.prim_func
def matvec(A: T.Buffer((5, 45), "int32"), x: T.Buffer((45,), "int32"), y: T.Buffer((5,), "int32")):
    for i in range(5):
        for ko in {outer}:
            for ki in {inner}:
                with T.block("y"):
                    vi = T.axis.spatial(5, i)
                    vk = T.axis.reduce(45, ko * 8 + ki)
                    T.where(ko * 8 + ki < 45)
                    with T.init():
                        y[vi] = vi * 1000
                    y[vi] = y[vi] + A[vi, vk] * x[vk]
""")
    check(PrivatizeReductions(), func)
    rng = np.random.default_rng(6)
    a, x = rng.integers(-9, 9, (5, 45)).astype("int32"), rng.integers(-9, 9, 45).astype("int32")
    y = np.full(5, -77, "int32")
    native(func, a, x, y)
    np.testing.assert_array_equal(y, np.arange(5) * 1000 + a @ x)


def test_a_reduction_loop_around_the_spatial_ones_and_symbolic_sizes() -> None:
    @T.prim_func
    def columns(a: T.handle, c: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "int32")
        C = T.match_buffer(c, (m,), "int32")
        T.assume(m <= 64)
        for k in T.parallel(n, annotations={"tir.reduction": True}):
            for j in range(m):
                with T.block("C"):
                    vj = T.axis.spatial(m, j)
                    vk = T.axis.reduce(n, k)
                    with T.init():
                        C[vj] = 5
                    C[vj] += A[vk, vj]

    inputs = [
        (np.arange(n * m, dtype="int32").reshape(n, m), np.full(m, -1, "int32")) for n in (0, 1, 70) for m in (1, 7)
    ]
    check(PrivatizeReductions(), columns, inputs=inputs)
    for a, c in inputs:
        native(columns, a, c)
        np.testing.assert_array_equal(c, a.sum(axis=0) + 5 if len(a) else -1)


def test_an_init_in_another_iteration_than_the_first_is_refused() -> None:
    @T.prim_func
    def backwards(A: T.Buffer((8,), "int32"), C: T.Buffer((1,), "int32")):
        for k in T.parallel(8, annotations={"tir.reduction": True}):
            with T.block("C"):
                vk = T.axis.reduce(8, 7 - k)
                with T.init():
                    C[0] = 0
                C[0] += A[vk]

    @T.prim_func
    def again(A: T.Buffer((8,), "int32"), C: T.Buffer((1,), "int32")):
        for t in T.parallel(3, annotations={"tir.reduction": True}):
            for k in range(8):
                with T.block("C"):
                    vk = T.axis.reduce(8, k)
                    with T.init():
                        C[0] = 0
                    C[0] += A[vk]

    for func, var in ((backwards, "k"), (again, "t")):
        with pytest.raises(LegalityError, match=f"'{var}' carries more .* behind an update of the same element"):
            PrivatizeReductions()(func)


def test_an_init_stays_behind_what_it_reads() -> None:
    @T.prim_func
    def biased(A: T.Buffer((4, 8), "int32"), b: T.Buffer((1,), "int32"), C: T.Buffer((1,), "int32")):
        for ko in range(4):
            b[0] = b[0] + 1
            for ki in T.vectorized(8, annotations={"tir.reduction": True}):
                with T.block("C"):
                    vk = T.axis.reduce(32, ko * 8 + ki)
                    with T.init():
                        C[0] = b[0]
                    C[0] += A[vk // 8, vk % 8]

    check(PrivatizeReductions(), biased)

    @T.prim_func
    def inside(A: T.Buffer((8,), "int32"), b: T.Buffer((1,), "int32"), C: T.Buffer((1,), "int32")):
        for k in T.parallel(8, annotations={"tir.reduction": True}):
            b[0] = b[0] + 1
            with T.block("C"):
                vk = T.axis.reduce(8, k)
                with T.init():
                    C[0] = b[0]
                C[0] += A[vk]

    with pytest.raises(LegalityError, match=r"it reads what the loop writes|more than reductions"):
        PrivatizeReductions()(inside)


def test_a_block_keeps_its_own_allocations_and_another_blocks_init_its_place() -> None:
    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("outer"):
                vi = T.axis.spatial(4, i)
                t = T.alloc_buffer((2,), "int32")
                with T.init():
                    t[1] = 5
                    B[vi] = t[1]
                t[0] = vi
                for l in T.vectorized(8, annotations={"tir.reduction": True}):
                    B[vi] = B[vi] + A[vi, l] * t[0]
        for j in T.parallel(4, annotations={"tir.reduction": True}):
            for k in range(8):
                with T.block("C"):
                    vj = T.axis.spatial(4, j)
                    vk = T.axis.reduce(8, k)
                    with T.init():
                        C[vj] = 3
                    C[vj] += A[vj, vk]
            with T.block("B"):
                vj = T.axis.spatial(4, j)
                B[0] = B[0] + vj

    check(PrivatizeReductions(), f)
    a, b, c = np.arange(32, dtype="int32").reshape(4, 8), np.zeros(4, "int32"), np.zeros(4, "int32")
    native(f, a, b, c)
    np.testing.assert_array_equal(b, 5 + a.sum(axis=1) * np.arange(4) + [6, 0, 0, 0])
    np.testing.assert_array_equal(c, 3 + a.sum(axis=1))


def test_what_a_serial_loop_binds_may_be_used_by_the_lanes() -> None:
    @T.prim_func
    def weighted(A: T.Buffer((4, 8), "int32"), w: T.Buffer((4,), "int32"), S: T.Buffer((2,), "int32")):
        for i in range(4):
            x: T.int32 = w[i]
            k: T.int32 = i % 2
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[0] = S[0] + A[i, l] * x
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[k] = S[k] + A[i, l]

    check(PrivatizeReductions(), weighted)

    @T.prim_func
    def early(A: T.Buffer((4, 8), "int32"), S: T.Buffer((1,), "int32"), n: T.int32):
        for i in range(4):
            if i == n:
                break
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[0] = S[0] + A[i, l]

    after = check(PrivatizeReductions(), early)
    assert after.script().index("alloc_buffer") < after.script().index("for i in range(4)")


def test_views_whiles_and_local_accumulators() -> None:
    @T.prim_func
    def f(A: T.Buffer((6, 16), "int32"), B: T.Buffer((6,), "int32")):
        flat = T.Buffer((96,), "int32", data=A.data)
        for i in range(6):
            s = T.alloc_buffer((1,), "int32")
            s[0] = 100
            for l in T.vectorized(16, annotations={"tir.reduction": True}):
                n = T.alloc_buffer((1,), "int32")
                n[0] = 0
                while n[0] < 3:
                    s[0] = s[0] + flat[i * 16 + l] * n[0]
                    n[0] = n[0] + 1
            B[i] = s[0]

    check(PrivatizeReductions(), f)
    a, b = np.arange(96, dtype="int32").reshape(6, 16), np.zeros(6, "int32")
    native(f, a, b)
    np.testing.assert_array_equal(b, 100 + 3 * a.sum(axis=1))
