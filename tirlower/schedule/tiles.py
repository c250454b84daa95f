"""The ways to write a number as a product of so many factors: counted, enumerated, and each one by its number.

Nothing is drawn until it fits: a number below the count names a way, so that all ways are as likely.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence

__all__ = ["count", "enumerated", "nth", "repaired"]


@functools.lru_cache(maxsize=4096)
def divisors(number: int) -> tuple[int, ...]:
    """The divisors of a number, rising."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return (*small, *(number // d for d in reversed(small) if d * d != number))


@functools.lru_cache(maxsize=4096)
def _ways(number: int, factors: int) -> int:
    """In how many ways a number is a product of so many factors, in order: the exponent of each prime is shared out."""
    found, prime = 1, 2
    while prime * prime <= number:
        exponent = 0
        while number % prime == 0:
            number, exponent = number // prime, exponent + 1
        found *= math.comb(exponent + factors - 1, factors - 1)
        prime += 1
    return found * (factors if number > 1 else 1)


def _last(number: int, most: int) -> list[int]:
    """The last factors that are allowed: at most ``most``, any for -1."""
    return [d for d in divisors(number) if most < 0 or d <= most]


def count(number: int, factors: int, most: int = -1) -> int:
    """In how many ways a number is a product of so many factors, the last one at most ``most`` (-1: any).

    >>> count(12, 2), count(12, 2, 3), count(7, 3)
    (6, 3, 3)
    """
    if factors == 1:
        return 1
    return sum(_ways(number // last, factors - 1) for last in _last(number, most))


def nth(number: int, factors: int, at: int, most: int = -1) -> list[int]:
    """The way of a number from 0 to ``count(…) - 1``.

    >>> [nth(12, 2, at, 3) for at in range(3)]
    [[12, 1], [6, 2], [4, 3]]
    """
    if factors == 1:
        return [number]
    made: list[int] = []
    for last in _last(number, most):
        ways = _ways(number // last, factors - 1)
        if at < ways:
            made, number = [last], number // last
            break
        at -= ways
    for left in range(factors - 2, 0, -1):
        for one in divisors(number):
            ways = _ways(number // one, left)
            if at < ways:
                made, number = [one, *made], number // one
                break
            at -= ways
    return [number, *made]


def enumerated(number: int, factors: int, most: int = -1) -> Iterator[list[int]]:
    """All the ways in order."""
    return (nth(number, factors, at, most) for at in range(count(number, factors, most)))


def repaired(number: int, decision: Sequence[int]) -> list[int]:
    """Factors of another number made those of this one, from the inside: one that does not divide what is left takes all of it.

    >>> repaired(12, [4, 2, 8])
    [1, 1, 12]
    >>> repaired(24, [4, 2, 3])
    [4, 2, 3]
    """
    made = [*decision]
    left = number
    for at in range(len(made) - 1, 0, -1):
        if made[at] <= 0 or left % made[at]:
            made[at] = left
        left //= made[at]
    made[0] = left
    return made
