"""Reductions of parallel and vectorized loops: operations, extents, regions and refusals, against NumPy and exact sums."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tests.transforms.loops.reductions import KINDS, MARK, loop, native, reduce_by
from tirlower.diagnostics import LegalityError, TransformError
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import PassContext, PrivatizeReductions, VectorizeLoop


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
