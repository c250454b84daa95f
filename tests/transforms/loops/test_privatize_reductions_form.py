"""Where partial results of reductions stand, how many there are, and in which order they are combined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tests.transforms.loops.reductions import loop, native
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import PrivatizeReductions


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
