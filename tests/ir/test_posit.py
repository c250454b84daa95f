"""Posits against the standard's formula and its definition of rounding, by enumeration, in rational arithmetic."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction

import numpy as np
import pytest

from tirlower.diagnostics import ArgumentValueError
from tirlower.ir.posit import Posit

POSIT8 = Posit(8, 2)


def value_by_formula(pattern: int, bits: int, es: int) -> Fraction | None:
    """((1 - 3s) + f) * 2 ** ((1 - 2s) * (2**es * r + e + s)), on the pattern itself, as the standard writes it."""
    text = format(pattern, f"0{bits}b")
    if "1" not in text[1:]:
        return None if text[0] == "1" else Fraction(0)
    s, rest = int(text[0]), text[1:]
    run = len(rest) - len(rest.lstrip(rest[0]))
    # r is -run for a run of zeros and run - 1 for ones.
    r = run - 1 if rest[0] == "1" else -run
    tail = rest[run + 1 :]
    e = int((tail[:es] + "0" * es)[:es] or "0", 2)
    fraction = tail[es:]
    f = Fraction(int(fraction, 2), 1 << len(fraction)) if fraction else Fraction(0)
    return ((1 - 3 * s) + f) * Fraction(2) ** ((1 - 2 * s) * ((r << es) + e + s))


class Nearest:
    """Rounding by search among all positive posits; the midpoint of neighbours is the posit of one bit more."""

    def __init__(self, bits: int, es: int) -> None:
        self.bits = bits
        self.numbers = [value_by_formula(p, bits, es) for p in range(1, 1 << (bits - 1))]
        self.midpoints = [value_by_formula(2 * p + 1, bits + 1, es) for p in range(1, (1 << (bits - 1)) - 1)]

    def __call__(self, value: Fraction | None) -> int:
        if value is None:
            return 1 << (self.bits - 1)
        if value == 0:
            return 0
        size = abs(value)
        at = bisect.bisect_left(self.midpoints, size)  # posit at + 1 is below every midpoint from here on
        pattern = at + 1
        if at < len(self.midpoints) and self.midpoints[at] == size and pattern % 2:
            pattern += 1
        return pattern if value > 0 else (1 << self.bits) - pattern


NEAREST8 = Nearest(8, 2)
NUMBERS8 = [value_by_formula(p, 8, 2) for p in range(256)]


@pytest.mark.parametrize(("bits", "es"), [(8, 2), (8, 0), (8, 1), (6, 2), (10, 3), (3, 2), (12, 2)])
def test_every_pattern_is_the_number_of_the_formula(bits: int, es: int) -> None:
    posit = Posit(bits, es)
    for pattern in range(1 << bits):
        value = value_by_formula(pattern, bits, es)
        assert posit.decode(pattern) == value
        assert posit.encode(value) == pattern


def test_known_numbers_of_posit8() -> None:
    assert NUMBERS8[0x40] == 1 and NUMBERS8[0x7F] == 2**24 and NUMBERS8[1] == Fraction(1, 2**24)
    assert NUMBERS8[0xC0] == -1 and NUMBERS8[0x80] is None


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", ["add", "mul", "sub", "div"])
@pytest.mark.by_day
def test_all_pairs_are_rounded_once_from_the_exact_result(name: str, step: int) -> None:
    """By day with each third number on the left, which zero is and the others beside the ends are, and those that are not one."""
    exact = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y if y else None,
    }[name]
    run = getattr(POSIT8, name)
    for a in sorted({*range(0, 256, step), 0x80}):
        x = NUMBERS8[a]
        for b, y in enumerate(NUMBERS8):
            want = 0x80 if x is None or y is None else NEAREST8(exact(x, y))
            assert run(a, b) == want, (name, a, b)


@pytest.mark.parametrize(("bits", "es"), [(8, 0), (7, 1), (6, 3)])
def test_rounding_at_and_beside_every_midpoint(bits: int, es: int) -> None:
    posit, nearest = Posit(bits, es), Nearest(bits, es)
    for middle in nearest.midpoints:
        for number in (middle, middle * Fraction(1000001, 1000000), middle * Fraction(999999, 1000000)):
            for value in (number, -number):
                assert posit.encode(value) == nearest(value)
    assert (
        posit.encode(Fraction(2) ** 500) == posit.maximum and posit.encode(-(Fraction(2) ** 500)) == posit.maximum + 2
    )
    assert posit.encode(Fraction(1, 2**500)) == 1


def test_the_order_is_that_of_the_numbers() -> None:
    def key(p: int) -> Fraction:
        return -(Fraction(2) ** 99) if NUMBERS8[p] is None else NUMBERS8[p]

    for a in range(256):
        for b in range(256):
            assert (POSIT8.signed(a) < POSIT8.signed(b)) == (key(a) < key(b))
            assert key(POSIT8.minimum(a, b)) == min(key(a), key(b))
            assert key(POSIT8.maximum_of(a, b)) == max(key(a), key(b))


def test_square_roots_and_remainders() -> None:
    for a, x in enumerate(NUMBERS8):
        root = POSIT8.sqrt(a)
        if x is None or x < 0:
            assert root == 0x80
            continue
        # Squaring keeps order: the root rounds to p iff x lies between the squares of p's two midpoints.
        if x > 0:
            below = NEAREST8.midpoints[root - 2] if root > 1 else 0
            assert below**2 <= x <= NEAREST8.midpoints[root - 1] ** 2
        else:
            assert root == 0
    for a in (0x40, 0xB3, 0x7F, 0x11, 0x80):
        for b, y in enumerate(NUMBERS8):
            x = NUMBERS8[a]
            if x is None or not y:
                assert POSIT8.mod(a, b) == POSIT8.floormod(a, b) == POSIT8.floordiv(a, b) == 0x80
                continue
            assert POSIT8.mod(a, b) == NEAREST8(x - y * math.trunc(x / y))
            assert POSIT8.floormod(a, b) == NEAREST8(x % y)
            assert POSIT8.floordiv(a, b) == NEAREST8(Fraction(x // y))


def test_fused_multiply_add_rounds_once() -> None:
    rng = np.random.default_rng(3)
    twice = 0
    for a, b, c in rng.integers(0, 256, (3000, 3)).tolist():
        x, y, z = NUMBERS8[a], NUMBERS8[b], NUMBERS8[c]
        want = 0x80 if x is None or y is None or z is None else NEAREST8(x * y + z)
        assert POSIT8.fma(a, b, c) == want
        twice += want != POSIT8.add(POSIT8.mul(a, b), c)
    assert twice > 10


def test_conversions() -> None:
    for a, x in enumerate(NUMBERS8):
        if x is None:
            assert math.isnan(POSIT8.to_float(a)) and POSIT8.to_int(a) == -(2**63)
        else:
            assert Fraction(POSIT8.to_float(a)) == x and POSIT8.to_int(a) == math.trunc(x)
    for value in (0.1, -3.7, 1e30, -1e-30, 5e-324, 0.0, -0.0):
        assert POSIT8.from_float(value) == NEAREST8(Fraction(value))
    assert POSIT8.from_float(math.inf) == POSIT8.from_float(math.nan) == 0x80
    assert POSIT8.from_int(-7) == NEAREST8(Fraction(-7))


def test_exponentials_neither_overflow_nor_vanish() -> None:
    for a, x in enumerate(NUMBERS8):
        got = POSIT8.exp(a)
        if x is None:
            assert got == 0x80
        elif x > 100:
            assert got == 0x7F
        elif x < -100:
            assert got == 1
        else:
            assert got == NEAREST8(Fraction(math.exp(x)))
    assert POSIT8.by_float(math.log)(0) == 0x80 and POSIT8.by_float(math.log)(0x40) == 0


def test_sizes() -> None:
    for bits, es in ((2, 0), (65, 2), (8, -1)):
        with pytest.raises(ArgumentValueError, match="3 to 64 bits"):
            Posit(bits, es)
