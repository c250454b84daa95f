"""The table of 1/(2*pi), and angles that need all of it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tirlower.emit import vmath
from tirlower.emit.vmath.payne_hanek import WORDS, WORDS64

pytestmark = pytest.mark.by_day

BITS = 2600


def arctan_of_inverse(n: int) -> int:
    """``arctan(1/n) * 2**BITS`` by its series, in integers."""
    power, total, k = (1 << BITS) // n, 0, 1
    while power:
        total += power // k if k % 4 == 1 else -(power // k)
        power //= n * n
        k += 2
    return total


PI = Fraction(4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)), 1 << BITS)


def test_table_holds_the_first_bits_of_an_inverse_turn():
    bits = int((1 << 256) / (2 * PI))
    assert (0, *[bits >> (256 - 32 * (i + 1)) & 0xFFFFFFFF for i in range(8)]) == WORDS
    bits = int((1 << 1216) / (2 * PI))
    assert (0, *[bits >> (1216 - 64 * (i + 1)) & (1 << 64) - 1 for i in range(19)]) == WORDS64


@pytest.mark.parametrize("target", ["host", "sse2"])
def test_angles_of_every_size_against_rational_arithmetic(loop, target):
    rng = np.random.default_rng(0)
    x = np.exp2(rng.uniform(17, 128, 2000)).astype(np.float32)
    x = np.concatenate([x, np.array([131072.02, 3.4028235e38, 2.0**127, 1.0e22], np.float32)])
    got = loop("sin", "f32", 4, target)(x)
    for value, y in zip(x.tolist(), got.tolist(), strict=True):
        turns = Fraction(value) / (2 * PI)
        angle = float((turns - round(turns)) * 2 * PI)
        # the angle is exact to 1e-16, and sin of it in float64 to as much
        assert abs(y - np.sin(angle)) <= vmath.ERRORS["sin"] * 2.0**-24, value


def hard_angles() -> np.ndarray:
    """For each exponent the two float64 nearest to a multiple of pi/2: convergents of ``2**e / (pi/2)``."""
    found = [563416747700.2246]
    for e in range(-30, 971):
        rest, before, denominator = Fraction(2) ** e / (PI / 2), 0, 1
        near: list[int] = []
        while denominator < 1 << 53:
            near.append(denominator)
            rest = 1 / (rest - math.floor(rest))
            before, denominator = denominator, math.floor(rest) * denominator + before
        found += [math.ldexp(n, e) for n in near[-2:]]
    return np.array(found)


@pytest.fixture(scope="module")
def hard():
    """Hard angles, and the exact values of each function there."""
    mpmath = pytest.importorskip("mpmath")
    x = hard_angles()
    with mpmath.workprec(1300):
        return x, {name: [getattr(mpmath, name)(mpmath.mpf(v)) for v in x.tolist()] for name in ("sin", "cos", "tan")}


@pytest.mark.parametrize("target", ["host", "avx512", "avx2", "sse2", "device"])
@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_float64_nearest_to_multiples_of_a_right_angle(loop, hard, name, lanes, target):
    mpmath = pytest.importorskip("mpmath")
    x, exact = hard
    for value, y, want in zip(x.tolist(), loop(name, "f64", lanes, target)(x).tolist(), exact[name], strict=True):
        with mpmath.workprec(1300):
            error = abs(mpmath.mpf(y) - want) / mpmath.ldexp(1, mpmath.frexp(want)[1] - 53)
        assert error <= vmath.ERRORS_F64[name], (value, y, float(error))


@pytest.mark.parametrize("elem", ["f32", "f64"])
@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_infinity_and_nan_give_nan_beside_ordinary_lanes(loop, lanes, elem):
    x = np.array([np.inf, 0.5, -np.inf, np.nan, -0.0, 1e30, 1.0, 2.0], np.float32 if elem == "f32" else np.float64)
    y = loop("tan", elem, lanes)(x)
    assert np.isnan(y[[0, 2, 3]]).all()
    np.testing.assert_allclose(y[[1, 4, 5, 6, 7]], np.tan(x[[1, 4, 5, 6, 7]].astype(np.float64)), rtol=2e-7)
    assert np.signbit(y[4])
