"""Reductions of parallel and vectorized loops: partial results against the serial loop, NumPy and exact sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.diagnostics import LegalityError, TransformError
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import PassContext, PrivatizeReductions, VectorizeLoop

KINDS = ("parallel", "vectorized")
MARK = '{"tir.reduction": True}'


def loop(kind: str, extent: Any, start: Any = 0) -> str:
    """The header of an annotated loop in a script."""
    return f"T.{kind}({start}, {start} + {extent}, annotations={MARK})"


def reduce_by(kind: str, extent: int, update: str, dtype: str = "int32", start: int = 0) -> PrimFunc:
    """``update`` (of S[0] by A[i]) for each i."""
    return parse(f"""
@T.prim_func
def f(A: T.Buffer(({max(start + extent, 1)},), "{dtype}"), S: T.Buffer((1,), "{dtype}")):
    for i in {loop(kind, extent, start)}:
        {update}
""")


def native(func: PrimFunc, *args: Any, threads: int = 2) -> None:
    tl.build(func, target=tl.Target("llvm", num_threads=threads), schedule="none")(*args)


@pytest.mark.parametrize("never", ["range(0)", "range(i - 6)", "range(i // 8)"])
def test_a_reduction_of_loops_that_never_run_needs_no_partial_results(never: str) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((6, 64), "int32"), S: T.Buffer((6,), "int32")):
    for i in range(6):
        S[i] = i
        for k in {never}:
            for j in T.vectorized(16, annotations={{"tir.reduction": True}}):
                S[i] = S[i] + A[i, k * 16 + j]
""")
    sums = np.zeros(6, "int32")
    native(func, np.ones((6, 64), "int32"), sums)
    assert sums.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("second", ["parallel", "vectorized"])
def test_a_second_reduction_behind_a_parallel_one_adds_to_the_same_buffer(dtype: str, second: str) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((1024,), "{dtype}"), S: T.Buffer((1,), "{dtype}")):
    for i in {loop("parallel", 64)}:
        S[0] = S[0] + A[i]
    for k in T.serial(60, annotations={MARK}):
        for j in {loop(second, 16)}:
            S[0] = S[0] + A[64 + k * 16 + j]
""")
    total = np.ones(1, dtype)
    native(func, np.ones(1024, dtype), total)
    assert total[0] == 1025


# -- form -------------------------------------------------------------------------------------------------------------


def test_partial_results_of_lanes_live_around_the_serial_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 3, 8), "int32"), C: T.Buffer((4,), "int32")):
        for i, j in T.grid(4, 3):
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                C[i] = C[i] + A[i, j, l]

    @T.prim_func
    def expected(A: T.Buffer((4, 3, 8), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            part = T.alloc_buffer((8,), "int32", scope="local")
            for lane in T.vectorized(8):
                part[lane] = 0
            for j in range(3):
                for l in T.vectorized(8):
                    part[l] = part[l] + A[i, j, l]
            for lane in T.vectorized(4):
                part[lane] = part[lane] + part[lane + 4]
            for lane in T.vectorized(2):
                part[lane] = part[lane] + part[lane + 2]
            part[0] = part[0] + part[1]
            C[i] = C[i] + part[0]

    check(PrivatizeReductions(), before, expected)


def test_four_chains_of_float_lanes_and_the_rest_of_the_iterations() -> None:
    @T.prim_func
    def before(A: T.Buffer((10, 8), "float32"), S: T.Buffer((1,), "float32")):
        for i in range(10):
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[0] = S[0] + A[i, l]

    @T.prim_func
    def expected(A: T.Buffer((10, 8), "float32"), S: T.Buffer((1,), "float32")):
        part = T.alloc_buffer((32,), scope="local")
        for lane in T.vectorized(32):
            part[lane] = T.float32(-0.0)
        for i in range(2):
            for c in T.unroll(4):
                for l in T.vectorized(8):
                    part[c * 8 + l] = part[c * 8 + l] + A[i * 4 + c, l]
        for c in T.unroll(2):
            for i in T.serial(c + 8, c + 9, annotations={"tir.no_unroll": True}):
                for l in T.vectorized(8):
                    part[c * 8 + l] = part[c * 8 + l] + A[i, l]
        for lane in T.vectorized(16):
            part[lane] = part[lane] + part[lane + 16]
        for lane in T.vectorized(8):
            part[lane] = part[lane] + part[lane + 8]
        for lane in T.vectorized(4):
            part[lane] = part[lane] + part[lane + 4]
        for lane in T.vectorized(2):
            part[lane] = part[lane] + part[lane + 2]
        part[0] = part[0] + part[1]
        S[0] = S[0] + part[0]

    check(PrivatizeReductions(), before, expected, tolerance=1e-5)


#: bodies around ``S[0] += A[i * 8 + l]``, and how many iterations of the loop over ``i`` accumulate side by side
SIDE_BY_SIDE = {
    "alone": ("range(64)", "S[0] = S[0] + A[i * 8 + l]", 4),
    "few iterations": ("range(7)", "S[0] = S[0] + A[i * 8 + l]", 1),
    "as many as needed": ("range(8)", "S[0] = S[0] + A[i * 8 + l]", 4),
    "of unknown length": ("range(n)", "S[0] = S[0] + A[i * 8 + l]", 4),
    "unrolled": ("T.unroll(16)", "S[0] = S[0] + A[i * 8 + l]", 1),
    "annotated": ("T.serial(16, annotations={'pragma_unroll': 2})", "S[0] = S[0] + A[i * 8 + l]", 1),
    "integers": ("range(64)", "K[0] = K[0] + T.Cast('int32', A[i * 8 + l])", 1),
    "an elementary function": ("range(64)", "S[0] = S[0] + T.exp(A[i * 8 + l])", 1),
    "two sums": ("range(64)", "S[0] = S[0] + A[i * 8 + l]\n            M[0] = T.max(M[0], A[i * 8 + l])", 4),
    "doubles": ("range(64)", "D[0] = D[0] + T.Cast('float64', A[i * 8 + l])", 4),
}


@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_which_loops_accumulate_side_by_side(name: str) -> None:
    head, update, chains = SIDE_BY_SIDE[name]
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((1024,), "float32"), S: T.Buffer((2,), "float32"), K: T.Buffer((1,), "int32"),
      D: T.Buffer((1,), "float64"), M: T.Buffer((1,), "float32"), n: T.int32):
    for i in {head}:
        for l in {loop("vectorized", 8)}:
            {update}
""")
    script = PrivatizeReductions()(func).script()
    assert f"alloc_buffer(({8 * chains},)" in script and (f"T.unroll({chains})" in script) is (chains > 1)


def in_halves(values: np.ndarray, combine: Callable[[Any, Any], Any]) -> Any:
    """Partial results combined as the page on numerics says."""
    values = values.copy()
    while len(values) > 1:
        half = -(-len(values) // 2)
        values[: len(values) - half] = combine(values[: len(values) - half], values[half:])
        values = values[:half]
    return values[0]


@pytest.mark.parametrize(
    "update, operation",
    [
        ("S[0] + A[i * LANES + l]", (np.add, -0.0)),
        ("A[i * LANES + l] * S[0]", (np.multiply, 1.0)),
        ("T.max(S[0], A[i * LANES + l])", (np.fmax, np.nan)),
    ],
)
@pytest.mark.parametrize(
    "dtype, lanes", [("float32", 16), ("float32", 5), ("float64", 4), ("float16", 24), ("float32", 48)]
)
def test_the_order_is_the_one_that_is_documented(update: str, operation: Any, dtype: str, lanes: int) -> None:
    func = parse(f"""
@T.prim_func
def f(a: T.handle, S: T.Buffer((1,), "{dtype}"), n: T.int32):
    m = T.int32()
    A = T.match_buffer(a, (m,), "{dtype}")
    for i in range(n):
        for l in {loop("vectorized", lanes)}:
            S[0] = {update.replace("LANES", str(lanes))}
""")
    kernel = tl.build(func, schedule="none")
    combine, identity = operation
    chains = max(1, min(4, 256 // (lanes * np.dtype(dtype).itemsize)))
    rng = np.random.default_rng(lanes)
    for count in (-3, 0, 1, 3, 4, 7, 8, 9, 30):
        a = (0.5 + rng.random(max(count, 0) * lanes)).astype(dtype)
        start = np.array([0.7], dtype)
        partial = np.full((chains, lanes), identity, dtype)
        for i, row in enumerate(a.reshape(-1, lanes)):
            partial[i % chains] = combine(partial[i % chains], row)
        wanted = combine(start, in_halves(partial.reshape(-1), combine))
        got = start.copy()
        kernel(a, got, count)
        assert got.tobytes() == wanted.tobytes(), (count, got, wanted)


def test_a_sum_of_negative_zeros_is_one_in_every_chain() -> None:
    func = parse(f"""
@T.prim_func
def f(a: T.handle, S: T.Buffer((1,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (n, 16), "float32")
    for i in range(n):
        for l in {loop("vectorized", 16)}:
            S[0] = S[0] + A[i, l]
""")
    for count in range(12):
        a, s = np.full((count, 16), -0.0, "float32"), np.array([-0.0], "float32")
        native(func, a, s)
        assert s[0] == 0 and np.signbit(s[0]), count


def test_what_else_a_loop_does_it_does_in_order() -> None:
    @T.prim_func
    def running(A: T.Buffer((11, 8), "float32"), S: T.Buffer((1,), "float32"), P: T.Buffer((12, 8), "float32")):
        for i in range(11):
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[0] = S[0] + P[i, l]
            for l in T.vectorized(8):
                P[i + 1, l] = P[i, l] * A[i, l]

    after = check(PrivatizeReductions(), running, tolerance=1e-4)
    assert "T.unroll(4)" in after.script()


def test_a_loop_that_may_end_early_keeps_one_chain() -> None:
    @T.prim_func
    def until(A: T.Buffer((64, 8), "float32"), S: T.Buffer((1,), "float32")):
        for i in range(64):
            if A[i, 0] < T.float32(0):
                break
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[0] = S[0] + A[i, l]

    assert "T.unroll" not in check(PrivatizeReductions(), until, tolerance=1e-4).script()


def test_chunks_have_rows_of_whole_cache_lines_and_are_combined_in_order() -> None:
    @T.prim_func
    def before(A: T.Buffer((64, 10), "float32"), S: T.Buffer((1,), "float32")):
        for i in T.parallel(64, annotations={"tir.reduction": True, "pragma_mine": 1}):
            for j in range(10):
                S[0] = S[0] + A[i, j]

    @T.prim_func
    def expected(A: T.Buffer((64, 10), "float32"), S: T.Buffer((1,), "float32")):
        rows = T.alloc_buffer((1024,))
        for c in T.parallel(64, annotations={"pragma_mine": 1}):
            own = T.alloc_buffer((1,), scope="local")
            own[0] = T.float32(-0.0)
            for i in range(c, c + 1):
                for j in range(10):
                    own[0] = own[0] + A[i, j]
            rows[c * 16] = own[0]
        for c in range(64):
            S[0] = S[0] + rows[c * 16]

    check(PrivatizeReductions(), before, expected, tolerance=1e-5)


def test_a_function_without_the_annotation_is_the_same_object() -> None:
    @T.prim_func
    def plain(A: T.Buffer((8,), "int32"), S: T.Buffer((1,), "int32")):
        for i in range(8):
            S[0] = S[0] + A[i]
        for i in T.parallel(8, annotations={"tir.reduction": False}):
            A[i] = A[i] + 1

    check(PrivatizeReductions(), plain, plain)


def test_something_in_between_keeps_the_partial_results_inside() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), S: T.Buffer((1,), "int32"), P: T.Buffer((4,), "int32")):
        for i in range(4):
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[0] = S[0] + A[i, l]
            P[i] = S[0]  # a prefix sum

    after = check(PrivatizeReductions(), before)
    assert after.script().index("for i in range(4)") < after.script().index("alloc_buffer")


def test_two_loops_on_one_accumulator_are_combined_at_one_place() -> None:
    @T.prim_func
    def same(A: T.Buffer((4, 8), "int32"), S: T.Buffer((1,), "int32")):
        for i in range(4):
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[0] = S[0] + A[i, l]
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[0] = S[0] - A[i, l] * 3

    @T.prim_func
    def different(A: T.Buffer((4, 8), "int32"), S: T.Buffer((1,), "int32")):
        for i in range(4):
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[0] = S[0] + A[i, l]
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                S[0] = T.max(S[0], A[i, l])

    for func, outside in ((same, True), (different, False)):
        script = check(PrivatizeReductions(), func).script()
        assert (script.index("alloc_buffer") < script.index("for i in range(4)")) is outside


# -- operations and types ---------------------------------------------------------------------------------------------

UPDATES = {
    "sum": "S[0] = S[0] + A[i]",
    "difference": "S[0] = S[0] - A[i]",
    "product": "S[0] = A[i] * S[0]",
    "min": "S[0] = T.min(S[0], A[i])",
    "max": "S[0] = T.max(A[i], S[0])",
    "select": "S[0] = T.Select(A[i] < S[0], A[i], S[0])",
    "branch": "if A[i] > S[0]:\n            S[0] = A[i]",
    "guarded": "S[0] = T.if_then_else(i % 3 != 0, S[0] + A[i], S[0])",
    "condition": "if i % 4 == 1:\n            S[0] = S[0] + A[i]",
    "bound": "t = S[0] + A[i]\n        S[0] = t",
}
BITS = {
    "and": "S[0] = S[0] & A[i]",
    "or": "S[0] = S[0] | A[i]",
    "xor": "S[0] = A[i] ^ S[0]",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*UPDATES, *BITS])
def test_integer_reductions_are_exact(kind: str, name: str) -> None:
    for dtype in ("int32", "uint8", "int64"):
        func = reduce_by(kind, 37, {**UPDATES, **BITS}[name], dtype)
        check(PrivatizeReductions(), func, samples=2)
        rng = np.random.default_rng(1)
        low, high = (0, 256) if dtype == "uint8" else (-(2**30), 2**30)
        a, s = rng.integers(low, high, 37).astype(dtype), rng.integers(low, high, 1).astype(dtype)
        wanted = s.copy()
        tl.interpret(func, a, wanted)
        native(func, a, s)
        np.testing.assert_array_equal(s, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("update", ["S[0] = S[0] and A[i]", "S[0] = A[i] or S[0]"])
def test_logical_reductions(kind: str, update: str) -> None:
    func = reduce_by(kind, 13, update, "bool")
    check(PrivatizeReductions(), func)
    for at in (None, 0, 12):
        a = np.full(13, "and" in update)
        if at is not None:
            a[at] = not a[at]
        s = np.array(["and" in update])
        native(func, a, s)
        assert s[0] == (a.all() if "and" in update else a.any())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_float_sums_are_within_the_bound_of_any_order(kind: str, dtype: str) -> None:
    count = 1000 if kind == "parallel" else 64
    func = reduce_by(kind, count, "S[0] = S[0] + A[i]", dtype)
    numpy = np.dtype(getattr(ml_dtypes, dtype, dtype))
    rng = np.random.default_rng(2)
    a, s = rng.standard_normal(count).astype(numpy), np.zeros(1, numpy)
    native(func, a, s)
    exact = math.fsum(a.astype("float64"))
    # Any order of n additions: |error| <= (n - 1) u sum |a| to first order, here also of each partial sum.
    unit = float(ml_dtypes.finfo(numpy).eps) / 2
    assert abs(float(s[0]) - exact) <= 1.1 * count * unit * np.abs(a.astype("float64")).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_float_identities_change_no_bit(kind: str) -> None:
    negative, nan, inf = np.float32(-0.0), np.float32(np.nan), np.float32(np.inf)
    cases: list[tuple[str, list[np.float32], np.float32, np.float32]] = [
        ("sum", [negative] * 5, negative, negative),  # 0.0 as identity would give 0.0
        ("sum", [negative, np.float32(0.0)] * 2, negative, np.float32(0.0)),
        ("product", [np.float32(-1.0)] * 5, np.float32(0.0), negative),
        ("min", [nan] * 5, nan, nan),  # infinity as identity would give infinity
        ("min", [nan, np.float32(3), nan, np.float32(2), nan], nan, np.float32(2)),
        ("max", [-inf, nan, -inf, -inf, nan], -inf, -inf),
        ("select", [nan, np.float32(3), nan, inf, inf], np.float32(7), np.float32(3)),
        ("select", [np.float32(1)] * 5, nan, nan),
        ("branch", [nan, -inf, nan, -inf, nan], -inf, -inf),
    ]
    for name, values, start, wanted in cases:
        func = reduce_by(kind, len(values), UPDATES[name], "float32")
        a, s = np.array(values, "float32"), np.array([start], "float32")
        check(PrivatizeReductions(), func, inputs=[(a, s)])
        native(func, a, s)
        assert np.isnan(s[0]) if np.isnan(wanted) else s.tobytes() == np.array([wanted]).tobytes(), (name, values, s)


# -- extents, starts, sizes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("extent", [0, 1, 2, 31, 64, 65, 127])
def test_extents(kind: str, extent: int) -> None:
    func = reduce_by(kind, extent, "S[0] = S[0] + A[i]", start=3)
    check(PrivatizeReductions(), func)
    a, s = np.arange(3 + extent, dtype="int32") ** 2, np.array([5], "int32")
    native(func, a, s)
    assert s[0] == 5 + a[3:].sum()


def test_symbolic_extents_and_starts_below_zero() -> None:
    @T.prim_func
    def total(a: T.handle, S: T.Buffer((2,), "int64")):
        n = T.int64()
        A = T.match_buffer(a, (n,), "int64")
        for i in T.parallel(T.int64(-3), n - T.int64(3), annotations={"tir.reduction": True}):
            S[1] = S[1] + A[i + T.int64(3)] * i

    check(PrivatizeReductions(), total, samples=6, sizes=(1, 2, 63, 64, 65, 200))
    kernel = tl.build(total, schedule="none")
    for n in (0, 1, 63, 64, 65, 1000, 100_003):
        a, s = np.arange(n, dtype="int64"), np.zeros(2, "int64")
        kernel(a, s)
        assert s[1] == (a * (np.arange(n) - 3)).sum()


def test_that_a_loop_runs_is_no_fact_around_it() -> None:
    @T.prim_func
    def shorter(A: T.Buffer((8, 64), "int32"), S: T.Buffer((1,), "int32"), n: T.int32):
        T.assume(n >= 0)
        T.assume(n <= 64)
        for i in T.parallel(3, annotations={"tir.reduction": True}):
            for j in T.parallel(n - 2, annotations={"tir.reduction": True}):
                S[0] += A[i, j]

    a = np.arange(512, dtype="int32").reshape(8, 64)
    check(PrivatizeReductions(), shorter, inputs=[(a, np.zeros(1, "int32"), n) for n in (0, 1, 2, 3, 64)])


def test_a_zero_extent_touches_nothing_outside_its_accumulator() -> None:
    @T.prim_func
    def rows(a: T.handle, c: T.handle, k: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, 8), "int32")
        C = T.match_buffer(c, (n,), "int32")
        for i in range(k):
            for l in T.vectorized(8, annotations={"tir.reduction": True}):
                if i < n:
                    C[i] = C[i] + A[i, l]

    a, c = np.arange(24, dtype="int32").reshape(3, 8), np.zeros(3, "int32")
    check(PrivatizeReductions(), rows, inputs=[(a, c, 5), (a, c, 0), (a[:0], c[:0], 4)])


def test_a_range_of_negative_stride() -> None:
    @T.prim_func
    def backwards(a: T.handle, S: T.Buffer((1,), "int32")):
        n, s = T.int32(), T.int32()
        A = T.match_buffer(a, (n,), "int32", strides=(s,))
        for i in T.parallel(n, annotations={"tir.reduction": True}):
            S[0] = S[0] * 3 * A[n - 1 - i]

    check(PrivatizeReductions(), backwards, samples=5)


# -- regions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_histogram_is_privatized_whole(kind: str) -> None:
    func = parse(f"""
@T.prim_func
def histogram(B: T.Buffer((128,), "uint8"), H: T.Buffer((256,), "int32")):
    for i in {loop(kind, 128)}:
        H[T.Cast("int32", B[i])] += 1
""")
    rng = np.random.default_rng(3)
    b, h = rng.integers(0, 256, 128).astype("uint8"), np.arange(256, dtype="int32")
    check(PrivatizeReductions(), func, inputs=[(b, h)])
    wanted = h + np.bincount(b, minlength=256)
    native(func, b, h)
    np.testing.assert_array_equal(h, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_the_part_that_is_accumulated_into_alone_is_privatized(kind: str) -> None:
    func = parse(f"""
@T.prim_func
def columns(A: T.Buffer((32, 5), "int32"), C: T.Buffer((100, 9), "int32"), k: T.int32):
    T.assume(k >= 0)
    T.assume(k < 100)
    for i in {loop(kind, 32)}:
        for j in range(5):
            C[k, j + 2] = C[k, j + 2] + A[i, j]
""")
    after = check(PrivatizeReductions(), func)
    assert "(5, 32)" in after.script() if kind == "vectorized" else "(5,)" in after.script()
    a, c = np.arange(160, dtype="int32").reshape(32, 5), np.zeros((100, 9), "int32")
    native(func, a, c, 41)
    np.testing.assert_array_equal(c[41, 2:7], a.sum(axis=0))
    assert c.sum() == a.sum()


@pytest.mark.parametrize("kind", KINDS)
def test_indices_that_depend_on_the_loop(kind: str) -> None:
    func = parse(f"""
@T.prim_func
def fold(A: T.Buffer((32,), "int32"), C: T.Buffer((9,), "int32"), D: T.Buffer((7,), "int32")):
    for i in {loop(kind, 32)}:
        C[i // 4 + 1] = C[i // 4 + 1] + A[i]
        D[i * 3 % 7] = T.max(D[i * 3 % 7], A[i])
""")
    check(PrivatizeReductions(), func)
    a, c, d = np.arange(32, dtype="int32"), np.zeros(9, "int32"), np.zeros(7, "int32")
    native(func, a, c, d)
    np.testing.assert_array_equal(c[1:], a.reshape(8, 4).sum(axis=1))


def test_a_bounded_symbolic_accumulator() -> None:
    source = """
@T.prim_func
def bins(B: T.Buffer((50,), "int32"), h: T.handle):
    n = T.int32()
    H = T.match_buffer(h, (n,), "int32")
    {fact}
    for i in T.parallel(50, annotations={{"tir.reduction": True}}):
        H[B[i] % n] += 2
"""
    func = parse(source.format(fact="T.assume(n <= 40)"))
    b = np.arange(50, dtype="int32") * 7
    check(PrivatizeReductions(), func, inputs=[(b, np.zeros(n, "int32")) for n in (1, 7, 40)])
    with pytest.raises(LegalityError, match="n has no upper bound") as info:
        PrivatizeReductions()(parse(source.format(fact="T.evaluate(0)")))
    assert "T.assume(n <= 4096)" in (info.value.help or "")


def test_large_partial_results_are_refused_up_to_the_limit() -> None:
    @T.prim_func
    def scatter(B: T.Buffer((64,), "int32"), H: T.Buffer((100000,), "int32")):
        for i in T.parallel(64, annotations={"tir.reduction": True}):
            H[B[i]] += 1

    with pytest.raises(LegalityError, match="64 partial results of 'H' takes 400000 bytes") as info:
        tl.build(scatter, schedule="none")
    assert "max_partial_bytes" in (info.value.help or "") and "atomic" in (info.value.help or "")
    b = (np.arange(64, dtype="int32") ** 3) % 1000
    with PassContext(config={"tir.PrivatizeReductions": {"max_partial_bytes": 400000, "max_chunks": 4}}):
        assert "T.parallel(4)" in PrivatizeReductions()(scatter).script()
        h = np.zeros(100000, "int32")
        native(scatter, b, h)
    np.testing.assert_array_equal(h, np.bincount(b, minlength=100000))


# -- several, nested, blocks ------------------------------------------------------------------------------------------


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


# -- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = {
    "reads": ("S[0] = S[0] + A[i]\n        B[i] = S[0]", "carries more than reductions|is not only updated"),
    "mixed": ("S[0] = S[0] + A[i]\n        S[0] = T.max(S[0], A[i])", "more than reductions"),
    "scan": ("B[i + 1] = B[i] + A[i]\n        S[0] = S[0] + A[i]", "more than reductions"),
    "none": ("B[i] = A[i]", "carries no reduction"),
    "bound": ("t = S[0] + A[i]\n        S[0] = t\n        B[i] = t", "more than reductions"),
    "argument": ("S[0] = S[0] + A[i]\n        T.call_extern('int32', 'g', S.data)", "more than reductions"),
    "square": ("S[0] = S[0] * S[0] + A[i]", "more than reductions"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_reduction_is_refused(kind: str, name: str) -> None:
    body, why = REFUSED[name]
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((17,), "int32"), S: T.Buffer((1,), "int32")):
    for i in {loop(kind, 16)}:
        {body}
""")
    with pytest.raises(LegalityError, match=why) as info:
        PrivatizeReductions()(func)
    assert info.value.help
    with pytest.raises(LegalityError):
        tl.build(func, schedule="none")


def test_unchecked_and_switched_off_loops_still_must_be_reductions() -> None:
    @T.prim_func
    def reads(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), S: T.Buffer((1,), "int32")):
        for i in T.parallel(16, annotations={"tir.reduction": True, "tir.unchecked": "no"}):
            S[0] = S[0] + A[i]
            B[i] = S[0]

    with pytest.raises(LegalityError, match="'S' is not only updated: S\\[0\\] is read"):
        PrivatizeReductions()(reads)

    @T.prim_func
    def scatter(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), S: T.Buffer((1,), "int32")):
        for i in T.parallel(16, annotations={"tir.reduction": True, "tir.unchecked": "A is a permutation"}):
            S[0] = S[0] + A[i]
            B[A[i]] = i

    a, b, s = np.arange(16, dtype="int32")[::-1].copy(), np.zeros(16, "int32"), np.zeros(1, "int32")
    check(PrivatizeReductions(), scatter, inputs=[(a, b, s)])
    native(scatter, a, b, s)
    assert s[0] == 120 and b[15] == 0


def test_an_unannotated_reduction_names_its_remedies() -> None:
    @T.prim_func
    def total(A: T.Buffer((16,), "int32"), S: T.Buffer((1,), "int32")):
        for i in T.parallel(16):
            S[0] = S[0] + A[i]

    with pytest.raises(LegalityError, match="carries the reduction of S") as info:
        tl.build(total, schedule="none")
    for word in ("tir.reduction", "private", "rfactor", "atomic"):
        assert word in (info.value.help or "")


def test_lanes_must_be_a_constant_and_privatized_before_they_are_vectors() -> None:
    @T.prim_func
    def symbolic(A: T.Buffer((64,), "int32"), S: T.Buffer((1,), "int32"), n: T.int32):
        for i in T.vectorized(n, annotations={"tir.reduction": True}):
            S[0] = S[0] + A[i]

    with pytest.raises(LegalityError, match="its extent n is not a constant") as info:
        PrivatizeReductions()(symbolic)
    assert "split" in (info.value.help or "")
    with pytest.raises(TransformError, match="carries reductions") as other:
        VectorizeLoop()(reduce_by("vectorized", 8, UPDATES["sum"]))
    assert "PrivatizeReductions" in (other.value.help or "")
    with pytest.raises(TransformError, match="'max_chunks' of PrivatizeReductions is an integer of at least 1, got 0"):
        PrivatizeReductions(max_chunks=0)(reduce_by("parallel", 8, UPDATES["sum"]))
