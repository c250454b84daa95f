"""The arithmetic of intervals: every result of operands in two intervals lies in the interval that it gives."""

from __future__ import annotations

import itertools
import math
import operator

import pytest

from tirlower.arith import intervals
from tirlower.arith.intervals import EVERYTHING, INF, Bound

ENDS = range(-5, 6)
NUMBERS = range(-9, 10)
"""Infinite ends stand for these too: what an interval without end holds of them must be in the result."""


def truncated(a: int, b: int) -> int:
    return int(a / b)


OPERATIONS = {
    intervals.add: lambda a, b: a + b,
    intervals.subtract: lambda a, b: a - b,
    intervals.multiply: lambda a, b: a * b,
    intervals.floordiv: lambda a, b: a // b if b else None,
    intervals.floormod: lambda a, b: a % b if b else None,
    intervals.truncdiv: lambda a, b: truncated(a, b) if b else None,
    intervals.truncmod: lambda a, b: a - b * truncated(a, b) if b else None,
    intervals.minimum: min,
    intervals.maximum: max,
    intervals.bitwise_and: lambda a, b: a & b,
    intervals.bitwise_or_xor: lambda a, b: a | b,
    intervals.shift_left: lambda a, b: a << b if b >= 0 else None,
    intervals.shift_right: lambda a, b: a >> b if b >= 0 else None,
}


def boxes() -> list[Bound]:
    """Intervals with both ends, one, and none."""
    closed: list[Bound] = [(low, high) for low, high in itertools.combinations_with_replacement(ENDS, 2)]
    return [*closed[::3], *[(low, INF) for low in ENDS[::3]], *[(-INF, high) for high in ENDS[::3]], EVERYTHING]


@pytest.mark.parametrize(
    ("operation", "meaning"),
    [*OPERATIONS.items(), (intervals.bitwise_or_xor, operator.xor)],
    ids=[*[operation.__name__ for operation in OPERATIONS], "bitwise_xor"],
)
def test_an_operation_holds_all_results(operation, meaning):
    for a, b in itertools.product(boxes(), repeat=2):
        low, high = operation(a, b)
        for x, y in itertools.product(NUMBERS, repeat=2):
            if a[0] <= x <= a[1] and b[0] <= y <= b[1] and (value := meaning(x, y)) is not None:
                assert low <= value <= high, (a, b, x, y)


@pytest.mark.parametrize("operation", [intervals.add, intervals.subtract, intervals.multiply, intervals.minimum])
def test_the_ends_of_closed_intervals_are_reached(operation):
    meaning = OPERATIONS[operation]
    for a, b in itertools.product([box for box in boxes() if intervals.is_finite(box)], repeat=2):
        values = [meaning(x, y) for x in range(a[0], a[1] + 1) for y in range(b[0], b[1] + 1)]
        assert operation(a, b) == (min(values), max(values))


def test_numbers_that_no_float_holds():
    huge = 10**400
    for a, b in itertools.product(
        [(-huge, huge), (3, huge), (huge, INF), (-INF, -huge)], [(1, huge), (7, 7), (2, INF)]
    ):
        assert all(not math.isnan(end) for end in intervals.floordiv(a, b) if end.__class__ is float)
        assert intervals.multiply(a, b)[0] <= intervals.multiply(a, b)[1]
        assert intervals.floormod(a, b)[0] >= 0
    assert intervals.floordiv((huge, INF), (10, 10)) == (huge // 10, INF)


def test_saturated_ends():
    assert intervals.saturated(-(1 << 70), 1 << 70) == EVERYTHING
    assert intervals.saturated(-3, 1 << 70) == (-3, INF)
    assert intervals.intersection((0, INF), (-INF, 7)) == (0, 7) and intervals.union((0, 2), (5, INF)) == (0, INF)
