from __future__ import annotations

import pytest

from tests.poly.brute import events
from tests.poly.nests import random_nest
from tirlower.ir import Buffer, substitute
from tirlower.poly import check_bounds, extract
from tirlower.script import tir as T
from tirlower.script.printer import script


def verdicts(func) -> dict[tuple[str, bool], str]:
    return {(b.access.text, b.access.is_write): b.verdict.status for b in check_bounds(func)}


@pytest.mark.parametrize("first", range(7000, 7100, 20))
def test_bounds_equal_brute_force(first: int):
    for seed in range(first, first + 20):
        func = random_nest(seed)
        small = {b: Buffer(b.name, (12,) * b.ndim, b.dtype) for b in func.buffers}
        func = func.with_(
            buffer_map={p: small[b] for p, b in func.buffer_map.items()}, body=substitute(func.body, {}, small)
        )
        found = events(func)
        if len(found) > 3000:
            continue
        outside: dict[int, bool] = {}
        for event in found:
            outside[id(event.node)] = outside.get(id(event.node), False) or not event.inside
        for bound in check_bounds(func):
            wanted = "refuted" if outside.get(id(bound.access.node), False) else "proved"
            assert bound.verdict.status == wanted, (seed, bound, script(func))
            if wanted == "refuted":
                witness = bound.verdict.witness
                assert witness is not None and witness.sink is None
                values = tuple(value for _, value in witness.source.loops)
                assert any(
                    e.node is bound.access.node
                    and not e.inside
                    and tuple(v for _, v, _ in e.loops) == values
                    and witness.source.indices in e.indices
                    for e in found
                )


def test_symbolic_sizes():
    @T.prim_func
    def kernel(A: T.Buffer(("n",), "float32"), B: T.Buffer(("m",), "float32"), n: T.int32, m: T.int32, k: T.int32):
        for i in range(n):
            A[i] = B[i]
        for i in range(n):
            A[i + 1] = 0.0
        for i in range(n - 1):
            A[n - 1 - i] = 1.0
        A[k] = 2.0

    found = verdicts(kernel)
    assert found["A[i]", True] == "proved"
    assert found["B[i]", False] == "unknown"  # no relation between n and m
    assert found["A[i + 1]", True] == "refuted"  # whatever n is, if it runs at all
    assert found["A[n - 1 - i]", True] == "proved"
    assert found["A[k]", True] == "unknown"


def test_a_refuted_access_names_the_iteration():
    @T.prim_func
    def kernel(A: T.Buffer(("n",), "float32"), n: T.int32):
        for i in range(n):
            A[i + 1] = 0.0

    (found,) = check_bounds(kernel)
    text = str(found.verdict.error("out of bounds"))
    assert "goes outside" in text and "i = 0" in text and "n = 1" in text and "^" in text


def test_facts_relate_sizes():
    @T.prim_func
    def kernel(A: T.Buffer(("n",), "float32"), B: T.Buffer(("m",), "float32"), n: T.int32, m: T.int32):
        T.evaluate(T.assume(m >= n))
        for i in range(n):
            A[i] = B[i]

    assert set(verdicts(kernel).values()) == {"proved"}


def test_guards_tiles_and_padding():
    @T.prim_func
    def kernel(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), n: T.int32):
        for io, ii in T.grid((n + 7) // 8, 8):
            if io * 8 + ii < n:
                B[io * 8 + ii] = T.if_then_else(io * 8 + ii >= 1, A[io * 8 + ii - 1], T.float32(0))

    assert set(verdicts(kernel).values()) == {"proved"}


def test_a_select_does_not_guard_its_arms():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.Select(i >= 1, A[i - 1], T.float32(0))

    assert verdicts(kernel)["A[i - 1]", False] == "refuted"


def test_gathers_are_unknown_and_bounded_ones_are_not():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "float32"), X: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[X[i]] + A[X[i] % 8]

    found = verdicts(kernel)
    assert found["A[X[i]]", False] == "unknown" and found["A[X[i] % 8]", False] == "proved"
    assert found["X[i]", False] == "proved"


def test_flattened_symbolic_buffers():
    @T.prim_func
    def kernel(A: T.Buffer(("n * m",), "float32"), B: T.Buffer(("n * m",), "float32"), n: T.int32, m: T.int32):
        for i, j in T.grid(n, m):
            A[i * m + j] = B[i * m + j]

    assert set(verdicts(kernel).values()) == {"proved"}


def test_vectors_reach_their_last_lane():
    @T.prim_func
    def kernel(A: T.Buffer((16,), "float32"), B: T.Buffer((15,), "float32")):
        for i in range(4):
            A[i * 4 : i * 4 + 4] = B[i * 4 : i * 4 + 4]

    statuses = [b.verdict.status for b in check_bounds(kernel)]
    assert sorted(statuses) == ["proved", "refuted"]


def test_an_access_that_never_happens_is_inside():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32")):
        for i in range(4):
            if i > 5:
                A[i + 100] = 0.0

    assert set(verdicts(extract(kernel)).values()) == {"proved"}


def test_of_two_versions_one_may_be_there_for_wrong_sizes():
    """What is outside for all sizes of a branch, and would be inside for those of another one, is no certain fault."""

    @T.prim_func
    def versions(n: T.int32, m: T.int32, A: T.Buffer((n,), "int32"), B: T.Buffer((m,), "int32")):
        if n >= m:
            for i in range(m):
                B[i] = A[i]
        else:
            for i in range(m):
                B[i] = A[i]

    @T.prim_func
    def wrong(n: T.int32, A: T.Buffer((n,), "int32")):
        if n > 3:
            for i in range(n):
                A[i] = A[i + 1]

    @T.prim_func
    def asserted(n: T.int32, m: T.int32, A: T.Buffer((n,), "int32"), B: T.Buffer((m,), "int32")):
        assert n < m, "smaller"
        for i in range(m):
            B[i] = A[i]

    status = [[found.verdict.status for found in check_bounds(func)] for func in (versions, wrong, asserted)]
    assert status == [["proved", "proved", "unknown", "proved"], ["refuted", "proved"], ["refuted", "proved"]]
