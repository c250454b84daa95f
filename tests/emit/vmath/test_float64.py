"""float64 errors, against the 64-bit mantissas of x87 (long double); mpmath for erf."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from tests.sampling import in_pairs
from tirlower.emit import vmath

EXTENDED = np.finfo(np.longdouble).nmant >= 63
pytestmark = pytest.mark.skipif(not EXTENDED, reason="long double is no wider than double here")

COUNT = 60_000
RANGES = {
    "exp": (-746, 710),
    "exp2": (-1075, 1024),
    "exp10": (-324, 308.3),
    "expm1": (-40, 710),
    "tanh": (-20, 20),
    "sigmoid": (-746, 40),
    "sinh": (-710.5, 710.5),
    "cosh": (-710.5, 710.5),
    "sin": (-1e4, 1e4),
    "cos": (-1e4, 1e4),
    "tan": (-1e4, 1e4),
    "log": (0.4, 3),
    "log2": (0.4, 3),
    "log10": (0.4, 3),
    "log1p": (-0.9, 3),
    "sqrt": (0, 9),
    "rsqrt": (0, 9),
    "acosh": (1, 9),
    "asinh": (-9, 9),
    "atan": (-9, 9),
}
UNARY = sorted(name for name in vmath.SUPPORTED if vmath.ARITY[name] == 1 and name not in ("erf",))
SPECIAL = [
    0.0,
    1.0,
    0.5,
    2.0,
    math.inf,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    709.78,
    709.79,
    745.13,
]
SPECIAL += [
    745.14,
    1023.9999999999999,
    1024.0,
    1074.0,
    1075.0,
    1076.0,
    math.pi,
    2.0**30,
    2.0**31,
    1e22,
    1e300,
    2.0**-60,
    1.0000000000000002,
    0.9999999999999999,
    2.0**30 + 2.0**-22,
    7 / 16,
    11 / 16,
    19 / 16,
    39 / 16,
    2.0**1000,
    2.0**-800,
]
SPECIALS = np.array([math.nan, *SPECIAL, *[-x for x in SPECIAL]])
LANES = {"host": 8, "avx512": 8, "avx2": 4, "sse2": 2, "device": 1}


def ulps64(got, want):
    """Errors in units of the last place; `want` is of long double."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float64)
        unit = np.ldexp(np.longdouble(1), np.maximum(np.frexp(want)[1] - 53, -1074))
        error = (np.abs(got.astype(np.longdouble) - want) / unit).astype(np.float64)
        same = (np.isnan(got) & np.isnan(rounded)) | (got == rounded)
        near_top = np.isinf(got) & (np.abs(want) > np.longdouble(1.797693134862315e308))
        error = np.where(same | near_top, 0.0, np.where(np.isfinite(got) & np.isfinite(rounded), error, np.inf))
        return np.where((np.signbit(got) != np.signbit(rounded)) & ~np.isnan(got), np.inf, error)


def samples(name):
    rng = np.random.default_rng(3)
    low, high = RANGES.get(name, (-1, 1))
    parts = [SPECIALS, rng.uniform(low, high, COUNT)]
    parts.append(np.exp(rng.uniform(-40, math.log(max(abs(high), 2)), COUNT)) * rng.choice([-1, 1], COUNT))
    parts.append(np.exp(rng.uniform(-744, 709, COUNT)))
    parts.append(1 + rng.uniform(-1, 1, COUNT) * 10.0 ** rng.uniform(-16, 0, COUNT))
    parts.append(rng.integers(0, 1 << 29, COUNT) * (math.pi / 2))
    return np.concatenate(parts)


@functools.lru_cache(1)
def meant(exact, name) -> tuple[np.ndarray, np.ndarray]:
    """The samples of a function, and the function of them: once for all targets."""
    x = samples(name)
    return x, exact(name, x.astype(np.longdouble))


@pytest.mark.parametrize(("name", "target"), in_pairs(UNARY, LANES))
def test_unary(loop, exact, name, target):
    x, want = meant(exact, name)
    got = loop(name, "f64", LANES[target], target)(x)
    errors = ulps64(got, want)
    i = int(np.argmax(errors))
    assert errors[i] <= vmath.ERRORS_F64[name], f"{errors[i]} ulp at {x[i]!r}: {got[i]!r}"


@pytest.mark.parametrize("target", LANES)
def test_pow(loop, exact, target):
    rng = np.random.default_rng(4)
    with np.errstate(all="ignore"):
        x = np.concatenate([np.exp(rng.uniform(-700, 700, COUNT)), np.exp2(rng.uniform(-0.06, 0.06, COUNT))])
        y = rng.uniform(-1074, 1024, 2 * COUNT) / np.log2(x)
    grid = np.meshgrid([*SPECIALS, 3.0, -3.0, 2.0**53 - 1, 2.0**53, 0.25, -7.5], [*SPECIALS, 3.0, -3.0, 2.0**53 - 1])
    x, y = np.concatenate([x, grid[0].ravel()]), np.concatenate([y, grid[1].ravel()])
    got = loop("pow", "f64", LANES[target], target)(x, y)
    errors = ulps64(got, exact("pow", x.astype(np.longdouble), y.astype(np.longdouble)))
    i = int(np.argmax(errors))
    assert errors[i] <= vmath.ERRORS_F64["pow"], f"{errors[i]} ulp at {x[i]!r} ** {y[i]!r}: {got[i]!r}"


@pytest.mark.parametrize("target", LANES)
@pytest.mark.parametrize("name", ["hypot", "atan2", "fmod"])
def test_points_in_the_plane(loop, exact, name, target):
    rng = np.random.default_rng(5)
    x = np.exp(rng.uniform(-744, 700, COUNT)) * rng.choice([-1, 1], COUNT)
    y = x * np.exp(rng.uniform(-20, 9, COUNT)) * rng.choice([-1, 1], COUNT)
    x, y = np.concatenate([x, rng.uniform(-1, 1, COUNT)]), np.concatenate([y, rng.uniform(-1, 1, COUNT)])
    grid = np.meshgrid(SPECIALS, SPECIALS)
    x, y = np.concatenate([x, grid[0].ravel()]), np.concatenate([y, grid[1].ravel()])
    got = loop(name, "f64", LANES[target], target)(x, y)
    errors = ulps64(got, exact(name, x.astype(np.longdouble), y.astype(np.longdouble)))
    i = int(np.argmax(errors))
    assert errors[i] <= vmath.ERRORS_F64[name], f"{errors[i]} ulp at {x[i]!r}, {y[i]!r}: {got[i]!r}"


@pytest.mark.parametrize("target", LANES)
def test_erf(loop, target):
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(6)
    x = np.concatenate([rng.uniform(-6.5, 6.5, 4000), 10.0 ** rng.uniform(-300, 0, 1000), [1.0, 6.0, 0.0, -0.0]])
    got = loop("erf", "f64", LANES[target], target)(x)
    with mpmath.workprec(100):
        for value, y in zip(x.tolist(), got.tolist(), strict=True):
            want = mpmath.erf(mpmath.mpf(value))
            unit = mpmath.ldexp(1, max(mpmath.frexp(want)[1] - 53, -1074))
            assert abs(mpmath.mpf(y) - want) <= vmath.ERRORS_F64["erf"] * unit, value
    assert np.signbit(got[-1]) and not np.signbit(got[-2])
    assert loop("erf", "f64", LANES[target], target)(np.array([math.inf, -math.inf, math.nan])).tolist()[:2] == [
        1.0,
        -1.0,
    ]
