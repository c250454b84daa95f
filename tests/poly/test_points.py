"""Subscripts that are not affine, over loops of few iterations: every verdict is what running the program shows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from tests.poly.brute import bounds_violations, events, parallel_conflict, vector_conflict
from tests.poly.legality_base import replayed
from tirlower.ir import PrimFunc
from tirlower.poly import can_reorder, check_bounds, extract, is_parallel, is_vectorizable, points
from tirlower.poly.digit_test import Sign
from tirlower.poly.points import Points
from tirlower.script import parse

INDICES = [
    "(i ^ 1) + 2", "i ^ 16", "1 << (i + 2)", "(1 << (i + 2)) - 1", "i * i", "i * i + i", "(i + 2) * (i + 3)", "i * i * i + 40",
    "(i ^ 21) & 63", "(i * 37) & 63", "(i * 32) & 63", "(i * 5 + 3) ^ 42", "i & 3", "i | 3", "(i >> 1) + 9", "(i + 2) >> (i & 1)",
    "~i + 20", "T.truncdiv(i, 2) + 5", "T.truncmod(i, 3) + 5", "(i * 7) // (i + 3) + 9", "(i + 30) % (i + 9)",
    "T.Cast('int32', T.Cast('uint8', i)) - 250", "T.Cast('int32', T.Cast('int8', i * 100)) + 200",
    "T.Cast('int32', T.Cast('uint8', i) * T.uint8(100))", "T.max(i * i, 4)", "T.min(i ^ 3, 2) + 5",
    "T.if_then_else((i ^ 1) < 2, i + 2, 20 + i)", "(i ^ j) + 8", "(i ^ j) * 8 + j + 2", "i * j + 30", "(i + 2) * 8 + (j ^ i) + 8",
    "((i + 2) ^ (j + 2)) + (i + 2) * 8", "(i << 3) + j + 40", "(j & 3) + (i & 7) * 4",
]  # fmt: skip


def program(index: str, guard: str = "True", value: str = "i") -> PrimFunc:
    found: Any = parse(f"""
@T.prim_func
def f(A: T.Buffer((300,), "int32")):
    for i in range(-2, 6):
        for j in range(-1, 5):
            if {guard}:
                A[{index}] = {value}
""")
    return found


def judge(func: PrimFunc, unknown: int = 0) -> None:
    scop, found = extract(func), events(func)
    for loop in scop.loops:
        for ask, brute in ((is_parallel, parallel_conflict), (is_vectorizable, vector_conflict)):
            conflict = brute(found, loop.node)
            verdict = ask(scop, loop)
            assert verdict.status == ("proved" if conflict is None else "refuted"), (loop.name, ask, verdict.reason)
            if conflict is not None:
                assert replayed(verdict.witness, found), str(verdict.witness)
    outside = {event.node for event in bounds_violations(found)}
    for bound in check_bounds(scop):
        verdict = bound.verdict
        assert verdict.status == ("refuted" if bound.access.node in outside else "proved"), verdict.reason
        if verdict.refuted:
            assert verdict.witness is not None
            assert any(e.indices == (verdict.witness.source.indices,) for e in bounds_violations(found))


@pytest.mark.parametrize("index", INDICES)
def test_subscripts(index: str) -> None:
    judge(program(index))
    judge(program(index, "(i ^ j) > 1"))
    judge(program("(i + 2) * 6 + j + 1", f"({index}) % 3 == 1"))
    judge(program(index, value="A[(i + 2) * 6 + j + 1]"))


def test_loops_with_such_bounds() -> None:
    func: Any = parse("""
@T.prim_func
def f(A: T.Buffer((300,), "int32")):
    for i in range(7):
        for j in range((i ^ 3) + 1):
            for k in range(i * j):
                A[(i ^ 5) * 40 + j * 4 + (k & 3)] = j
""")
    judge(func)


def test_loops_that_change_places() -> None:
    mirrored = program("(i ^ j) + 8", value="A[(i ^ j) + 9]")
    verdict = can_reorder(mirrored, ["j", "i"])
    assert verdict.refuted and replayed(verdict.witness, events(mirrored))
    assert can_reorder(
        program("(i + 2) * 8 + (j ^ i) + 8", value="A[(i + 2) * 8 + (j ^ i) + 8] * 2"), ["j", "i"]
    ).proved


def test_swizzles_of_more_bits() -> None:
    func: Any = parse("""
@T.prim_func
def f(A: T.Buffer((128, 64), "int32")):
    for i, j in T.grid(128, 64):
        A[i, (j ^ ((i & 7) << 3)) & 63] = i
""")
    assert is_parallel(func, "i").proved and is_parallel(func, "j").proved
    assert all(bound.verdict.proved for bound in check_bounds(func))


LARGE = {
    "more rows": "for i, j in T.grid(4000, 3000):\n        A[(i ^ j) & 63] = i",
    "more pairs": "for i in range(60000):\n        A[(i * i) & 63] = i",
    "more accesses": "for i in range(3000):\n" + "".join(f"        A[(i ^ {n}) & 63] = A[(i * {n + 3}) & 63]\n" for n in range(40)),
}  # fmt: skip


@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
def test_the_work_is_bounded(body: str) -> None:
    func: Any = parse(f'@T.prim_func\ndef f(A: T.Buffer((64,), "int32")):\n    {body}')
    scop = extract(func)
    start = time.process_time()
    assert not is_parallel(scop, "i").proved
    assert time.process_time() - start < 0.5


def test_what_depends_on_memory_is_not_known() -> None:
    func: Any = parse("""
@T.prim_func
def f(A: T.Buffer((64,), "int32"), X: T.Buffer((64,), "int32"), n: T.int32):
    for i in range(16):
        if X[i] > 3:
            A[i ^ n] = 1
            A[(i * i) & 63] = 2
""")
    verdict = is_parallel(func, "i")
    assert verdict.unknown
    assert {b.access.text: b.verdict.status for b in check_bounds(func)} == {
        "X[i]": "proved", "A[T.bitwise_xor(i, n)]": "unknown", "A[T.bitwise_and(i * i, 63)]": "proved",
    }  # fmt: skip


HUGE = [
    "T.Cast('int32', T.shift_left(T.Cast('int64', i) + T.int64(-9223372036854775808), T.int64(2)))",
    "T.Cast('int32', T.Cast('int64', i) * T.int64(9223372036854775807) * T.int64(9223372036854775807) // T.int64(4611686018427387904))",
    "T.Cast('int32', T.Cast('int64', i) // T.int64(9223372036854775807))",
    "T.Cast('int32', (T.Cast('int64', i) ^ T.int64(-9223372036854775808)) & T.int64(7))",
    "T.Cast('int32', T.Cast('int64', i) * T.Cast('int64', i) * T.Cast('int64', i) * T.int64(4611686018427387904))",
]  # fmt: skip


@pytest.mark.parametrize("index", HUGE)
@pytest.mark.parametrize("extent", ["8", "n"])
def test_numbers_at_the_limits_of_their_types_are_no_error(index: str, extent: str) -> None:
    func: Any = parse(f"""
@T.prim_func
def f(A: T.Buffer((300,), "int32"), n: T.int32):
    for i in range({extent}):
        A[{index}] = A[3]
""")
    for ask in (is_parallel, is_vectorizable):
        assert ask(func, "i").status in ("proved", "refuted", "unknown")
    assert len(check_bounds(func)) == 2


@pytest.mark.parametrize("most", [0, points.MAX_PAIRS])
@pytest.mark.parametrize("sign", ["<", ">", "!"])
def test_pairs_of_equal_keys_that_relate(sign: Sign, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are more pairs than that, by the extremes of each group."""
    monkeypatch.setattr(points, "MAX_PAIRS", most)
    relates = {"<": np.less, ">": np.greater, "!": np.not_equal}[sign]
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mine, theirs = rng.integers(0, 4, 5), rng.integers(0, 4, 7)
        x, y = rng.integers(0, 3, 5), rng.integers(0, 3, 7)
        wanted = {tuple(pair) for pair in np.argwhere((mine[:, None] == theirs) & relates(x[:, None], y))}
        found = Points(extract(program("i")))._matching((mine, theirs), [(x, y, sign)])
        assert found in wanted if wanted else found is None
