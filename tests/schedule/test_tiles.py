"""Factorizations: counted and enumerated against all tuples tried one by one."""

from __future__ import annotations

import itertools
import math

import pytest

from tirlower.schedule.tiles import count, divisors, enumerated, nth, repaired


@pytest.mark.parametrize("number", [1, 2, 7, 12, 16, 36, 60])
@pytest.mark.parametrize("factors", [1, 2, 3])
@pytest.mark.parametrize("most", [-1, 1, 4, 16])
def test_all_of_them_once(number: int, factors: int, most: int) -> None:
    every = itertools.product(range(1, number + 1), repeat=factors - 1)
    wanted = [(*rest, number // math.prod(rest)) for rest in every if number % math.prod(rest) == 0]
    wanted = [one for one in wanted if factors == 1 or most < 0 or one[-1] <= most]
    found = [tuple(one) for one in enumerated(number, factors, most)]
    assert sorted(found) == sorted(wanted) and len(found) == count(number, factors, most)


def test_a_large_one_is_counted_without_being_enumerated() -> None:
    number = 2**30 * 3**10
    total = count(number, 6)
    assert total == math.comb(35, 5) * math.comb(15, 5)
    for at in (0, total // 3, total - 1):
        assert math.prod(nth(number, 6, at)) == number
    assert divisors(1) == (1,) and divisors(49) == (1, 7, 49)


def test_what_no_longer_divides_takes_what_is_left() -> None:
    assert repaired(30, [4, 2, 8]) == [1, 1, 30] and repaired(48, [9, 2, 8]) == [3, 2, 8]
    assert repaired(5, [1]) == [5] and repaired(6, [0, 0]) == [1, 6]
