"""The arithmetic of intervals: pairs ``(low, high)`` of Python ints, either of which may be infinite (``-inf``, ``inf``).

Operations are those of the integers themselves: whether a type holds the values is asked elsewhere. Every function gives
an interval that holds each result of operands in theirs. Ints may be longer than any float, so they are told from
infinite ends by their class and never converted.
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = [
    "EVERYTHING", "INF", "Bound", "add", "bitwise_and", "bitwise_or_xor", "floordiv", "floordiv_num", "floormod", "intersection",
    "is_finite", "maximum", "minimum", "mul_num", "multiply", "num", "saturated", "shift_left", "shift_right", "subtract",
    "truncdiv", "truncdiv_num", "truncmod", "union",
]  # fmt: skip

INF = math.inf
num = int | float
Bound = tuple[num, num]
EVERYTHING: Bound = (-INF, INF)
SATURATED = 1 << 66
"""Ends beyond every type are infinite, so that long products stay cheap."""


def saturated(low: num, high: num) -> Bound:
    """A bound with ends beyond every type taken as infinite: weaker, and cheap however long a product is."""
    if high > SATURATED or low < -SATURATED:
        low, high = -INF if low < -SATURATED else low, INF if high > SATURATED else high
    return min(low, SATURATED), max(high, -SATURATED)


def is_finite(a: Bound) -> bool:
    """Whether an interval has both ends."""
    return a[0].__class__ is not float and a[1].__class__ is not float


# -- numbers that may be infinite ---------------------------------------------------------------------------------------
def mul_num(a: num, b: num) -> num:
    """The product, where zero times infinity is zero."""
    if a == 0 or b == 0:
        return 0
    if a.__class__ is float or b.__class__ is float:
        return INF if (a > 0) == (b > 0) else -INF
    return a * b


def floordiv_num(a: num, b: num) -> num:
    """The flooring quotient, ``b`` not zero."""
    if b.__class__ is float:
        if a.__class__ is float:
            return INF if (a > 0) == (b > 0) else -INF
        return 0 if (a >= 0) == (b > 0) or a == 0 else -1
    if a.__class__ is float:
        return a if b > 0 else -a
    return a // b


def truncdiv_num(a: num, b: num) -> num:
    """The truncating quotient, ``b`` not zero."""
    if a == 0 or (a > 0) == (b > 0):
        return floordiv_num(abs(a), abs(b))
    return -floordiv_num(abs(a), abs(b))


# -- operations of the language -----------------------------------------------------------------------------------------
def add(a: Bound, b: Bound) -> Bound:
    """``a + b``."""
    return (a[0] + b[0], a[1] + b[1])


def subtract(a: Bound, b: Bound) -> Bound:
    """``a - b``."""
    return (a[0] - b[1], a[1] - b[0])


def multiply(a: Bound, b: Bound) -> Bound:
    """``a * b``."""
    c = b[0]
    if c == b[1] and c.__class__ is not float:
        return (mul_num(a[0], c), mul_num(a[1], c)) if c >= 0 else (mul_num(a[1], c), mul_num(a[0], c))
    ends = [mul_num(p, q) for p in a for q in b]
    return (min(ends), max(ends))


def _divide(a: Bound, b: Bound, quotient: Callable[[num, num], num]) -> Bound:
    """Both divisions are monotone in each operand while the divisor keeps its sign."""
    c = b[0]
    if c == b[1] and c > 0:
        return (quotient(a[0], c), quotient(a[1], c))
    parts = []
    if b[1] > 0:
        parts.append((max(b[0], 1), b[1]))
    if b[0] < 0:
        parts.append((b[0], min(b[1], -1)))
    if not parts:
        return EVERYTHING  # a division by zero has no value to bound
    ends = [quotient(p, q) for part in parts for p in a for q in part]
    return (min(ends), max(ends))


def floordiv(a: Bound, b: Bound) -> Bound:
    """``a // b``, flooring."""
    return _divide(a, b, floordiv_num)


def truncdiv(a: Bound, b: Bound) -> Bound:
    """``a / b``, toward zero."""
    return _divide(a, b, truncdiv_num)


def floormod(a: Bound, b: Bound) -> Bound:
    """``a - b * (a // b)``."""
    low, high = b
    if low > 0:
        if a[0] >= 0 and a[1] < low:
            return a
        if low == high and is_finite(a) and a[0] // low == a[1] // low:
            return (a[0] % low, a[1] % low)
        return (0, min(high - 1, a[1]) if a[0] >= 0 else high - 1)
    if high < 0:
        return (low + 1, 0)
    # Whatever the sign of the divisor, the remainder of a number from 0 on is at most that number.
    return (min(low + 1, 0), max(min(high - 1, a[1]) if a[0] >= 0 else high - 1, 0))


def truncmod(a: Bound, b: Bound) -> Bound:
    """The remainder of :func:`truncdiv`."""
    most = max(abs(b[0]), abs(b[1])) - 1
    if most < 0:
        return EVERYTHING
    low = 0 if a[0] >= 0 else max(a[0], -most)
    high = 0 if a[1] <= 0 else min(a[1], most)
    if a[0] >= 0 and b[0] > a[1]:
        return a
    return (low, high)


def minimum(a: Bound, b: Bound) -> Bound:
    """The lesser of two values."""
    return (min(a[0], b[0]), min(a[1], b[1]))


def maximum(a: Bound, b: Bound) -> Bound:
    """The greater of two values."""
    return (max(a[0], b[0]), max(a[1], b[1]))


def union(a: Bound, b: Bound) -> Bound:
    """The least interval around two."""
    return (min(a[0], b[0]), max(a[1], b[1]))


def intersection(a: Bound, b: Bound) -> Bound:
    """What two intervals have in common."""
    return (max(a[0], b[0]), min(a[1], b[1]))


def bitwise_and(a: Bound, b: Bound) -> Bound:
    """``a & b``, the numbers in two's complement without end."""
    tops = [bound[1] for bound in (a, b) if bound[0] >= 0]
    if not tops:
        return (-INF, max(a[1], b[1], -1) if a[1] < 0 and b[1] < 0 else INF)
    return (0, min(tops))


def bitwise_or_xor(a: Bound, b: Bound) -> Bound:
    """``a | b`` and ``a ^ b``."""
    if a[0] >= 0 and b[0] >= 0 and is_finite(a) and is_finite(b):
        return (0, (1 << max(int(a[1]).bit_length(), int(b[1]).bit_length())) - 1)
    return EVERYTHING if a[0] < 0 or b[0] < 0 else (0, INF)


def shift_right(a: Bound, b: Bound) -> Bound:
    """``a >> b``."""
    if b[0] < 0 or b[1] > 64:
        return union(a, (0, 0)) if b[0] >= 0 else EVERYTHING
    return floordiv(a, (1 << int(b[0]), 1 << int(b[1])))


def shift_left(a: Bound, b: Bound) -> Bound:
    """``a << b``."""
    if b[0] < 0 or b[1] > 64:
        return EVERYTHING
    return multiply(a, (1 << int(b[0]), 1 << int(b[1])))
