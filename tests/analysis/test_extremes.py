from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from tirlower.analysis.extremes import Domain, Extremes
from tirlower.arith import Analyzer
from tirlower.ir import Broadcast, IntImm, Ramp, Range, Var, as_expr, build, substitute
from tirlower.ir.structural import structural_equal


def number(expr: Any, point: dict[Var, int]) -> int:
    found = Analyzer().simplify(substitute(expr, point))
    assert isinstance(found, IntImm), found
    return found.value


def values(index: Any, loops: list[tuple[Var, Any, Any]], guards: Sequence[Any] = ()) -> list[int]:
    """An index at every iteration of nested loops, given as (variable, minimum, extent), where guards hold."""
    found: list[int] = []

    def walk(position: int, point: dict[Var, int]) -> None:
        if position == len(loops):
            if all(number(guard, point) for guard in guards):
                found.append(number(index, point))
            return
        var, start, extent = loops[position]
        first = number(as_expr(start), point)
        for step in range(number(as_expr(extent), point)):
            walk(position + 1, {**point, var: first + step})

    walk(0, {})
    return found


def ends(index: Any, loops: list[tuple[Var, Any, Any]], guards: Sequence[Any] = ()) -> tuple[Any, Any]:
    analyzer = Analyzer()
    for var, start, extent in loops:
        analyzer.bind(var, Range(as_expr(start), as_expr(extent)))
    domains = [Domain.of_loop(var, as_expr(start), as_expr(extent)) for var, start, extent in loops]
    extremes = Extremes(analyzer, domains, guards)
    return extremes.least(as_expr(index)), extremes.greatest(as_expr(index))


i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n")

CASES = [
    (i * 4 + j, [(i, 0, 8), (j, 0, 4)], []),
    (j - i * 2, [(i, 3, 5), (j, -2, 7)], []),
    (i - j, [(i, 0, 8), (j, 0, i + 1)], []),  # triangular: the bound cancels
    (i + j + k, [(i, 0, 4), (j, i, 3), (k, 0, 4 - i)], []),
    (i * 8 + j, [(i, 0, 8), (j, 0, 8)], [build.lt(i * 8 + j, 60)]),
    (i * 8 + j, [(i, 0, 8), (j, 0, 8)], [build.ge(i * 8 + j, 5), build.le(i * 8 + j, 33)]),
    (j, [(i, 0, 5), (j, 0, 40)], [build.lt(j * 3, i + 20)]),
    (i + j, [(i, 0, 6), (j, 0, 6)], [build.eq(j, i)]),
    (i * 8 + j, [(i, 0, 4), (j, 0, build.min_(8, 30 - i * 8))], []),
    ((i * 4 + j) // 8, [(i, 0, 4), (j, 0, 4)], []),
    ((i * 4 + j) % 8, [(i, 0, 4), (j, 0, 4)], []),
    (build.min_(i, 3) + j, [(i, 0, 8), (j, 0, 2)], []),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_ends_are_those_of_every_iteration(case: int) -> None:
    index, loops, guards = CASES[case]
    every = values(index, loops, guards)
    low, high = ends(index, loops, guards)
    assert (low.value, high.value) == (min(every), max(every))


@pytest.mark.parametrize("seed", range(60))
def test_random_linear_loops_are_bounded_and_without_conditions_exact(seed: int) -> None:
    rng = random.Random(seed)
    loops: list[tuple[Var, Any, Any]] = []
    index: Any = as_expr(rng.randint(-5, 5))
    for depth in range(rng.randint(1, 3)):
        var = Var(f"v{depth}")
        start: Any = as_expr(rng.randint(-3, 3))
        extent: Any = as_expr(rng.randint(1, 5))
        if loops and rng.random() < 0.5:
            outer = rng.choice(loops)
            # An extent from 1 up: the outer variable counts from its minimum.
            extent = extent + (outer[0] - outer[1]) if rng.random() < 0.5 else extent
            start = start + outer[0] if rng.random() < 0.5 else start
        loops.append((var, start, extent))
        index = index + var * rng.randint(-4, 4)
    every = values(index, loops)
    low, high = ends(index, loops)
    assert low.value <= min(every) and high.value >= max(every)
    # Every bound is attained when all loops run: elimination of one bound at a time is exact.
    assert (low.value, high.value) == (min(every), max(every))
    limit = rng.randint(-10, 10)
    guard = build.le(index, limit)
    allowed = values(index, loops, [guard])
    if allowed:
        low, high = ends(index, loops, [guard])
        assert low.value <= min(allowed) and high.value >= max(allowed)


def test_symbolic_ends_stay_symbolic() -> None:
    low, high = ends(n + i * 2, [(i, 0, n)])
    assert low is n and structural_equal(high, n * 3 - 2)
    low, high = ends(i * n + j, [(i, 0, 4), (j, 0, n)])
    # As the inner loop runs, n is not negative.
    assert structural_equal(low, as_expr(0)) and structural_equal(high, n * 4 - 1)


def test_lanes_and_what_cannot_be_told() -> None:
    extremes = Extremes(Analyzer(), [Domain.of_loop(i, as_expr(0), as_expr(4))])
    for index, wanted in (
        (Ramp(i * 8, 1, 8), (0, 31)),
        (Ramp(i * 8 + 7, -1, 8), (0, 31)),
        (Ramp(i, 3, 4), (0, 12)),
        (Broadcast(i + 2, 8), (2, 5)),
    ):
        found = extremes.interval(index)
        assert found is not None and tuple(number(end, {}) for end in found) == wanted
    unknown = Extremes(Analyzer(), [Domain(i)])
    assert unknown.least(i + 1) is None and unknown.interval(i) is None
    bounded = Extremes(Analyzer(), [Domain(i)], [build.ge(i, 3), build.lt(i * 2, 15)])
    assert [number(end, {}) for end in bounded.interval(i) or ()] == [3, 7]


def test_every_combination_of_small_loops_with_one_guard() -> None:
    for a, b, c in itertools.product((-2, 1, 3), (-1, 2), (0, 4, 9)):
        loops = [(i, 0, 4), (j, 0, 5)]
        index, guard = i * a + j * b, build.lt(i * 5 + j, c + 3)
        every = values(index, loops, [guard])
        low, high = ends(index, loops, [guard])
        assert low.value <= min(every) and high.value >= max(every)
