"""Forms that may leave 64 bits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tirlower.poly import extract
from tirlower.poly.words import WORD_REACH
from tirlower.script import parse


def reaches(body: str, params: str = 'A: T.Buffer(("n", "m"), "int8")') -> list[str]:
    scop = extract(parse(f"@T.prim_func\ndef f({params}):\n{body}"))
    return [str(reach) for reach in scop.reaches]


@pytest.mark.parametrize(
    "condition",
    ["i * m < n", "n * n - i * m < 4", "i * m // 8 * 4 < n", "T.min(i, 7) * m + n < 4", "i * m + n < 4"],
)
def test_two_sizes_stay_within_64_bits(condition: str) -> None:
    assert reaches(f"    for i in range(n):\n        if {condition}:\n            A[i, 0] = 1") == []


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("i * m * m < n", lambda n, m: (n - 1) * m * m),
        ("i * m * 8 < n", lambda n, m: (n - 1) * m * 8),
        ("i * (m // 4) * m < 9", lambda n, m: (n - 1) * (m // 4) * m),
        ("T.min(n, m) * n * m < 9", lambda n, m: min(n, m) * n * m),
        ("(n - m * m * m) // 7 < i", lambda n, m: m * m * m - n),
        ("i * i * i % 5 < 4", lambda n, m: (n - 1) ** 3),
    ],
)
def test_the_reach_is_not_less_than_what_is_computed(condition: str, value: Callable[[int, int], int]) -> None:
    found = reaches(f"    for i in range(n):\n        if {condition}:\n            A[i, 0] = 1")
    assert found
    names = {"T": SimpleNamespace(Cast=lambda _, number: float(number), float64=float, max=max)}
    for n in (3, 1000, 2_000_000):
        for m in (5, 900, 3_000_000):
            reach = max(eval(text, {**names, "n": n, "m": m}) for text in found)
            assert 0.99 * abs(value(n, m)) <= reach <= 16 * max(n, m) ** 3


def test_what_depends_on_data_wraps_and_reaches_no_further() -> None:
    assert reaches("    if x * x * x < 4:\n        A[0] = 1", 'x: T.int32, A: T.Buffer((4,), "int8")') == []


def test_the_reach_is_that_of_all_that_is_computed() -> None:
    """The least of what was clamped says nothing of what is clamped."""
    (reach,) = reaches("    for i in range(n):\n        A[T.min(i * i * i, n - 1), 0] = 1")
    n = round(WORD_REACH ** (1 / 3))
    for size, fits in ((n - 1, True), (n + 2, False)):
        assert (eval(reach.replace('T.Cast("float64", n)', str(size))) <= WORD_REACH) is fits
