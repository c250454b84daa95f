"""float32 errors of every function over the whole range of arguments, on every kind of target."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tirlower.emit import vmath
from tirlower.emit.vmath import (
    error_function,
    exponential,
    inverse_hyperbolic,
    inverse_trigonometric,
    logarithm,
    power,
    remainder,
    trigonometric,
)

UNARY = sorted(name for name in vmath.SUPPORTED if vmath.ARITY[name] == 1)
BINARY = sorted(name for name in vmath.SUPPORTED if vmath.ARITY[name] == 2)
# the bit patterns of the samples are this far apart: a prime, so that all low bits occur
STRIDE = {"host": 1021, "avx512": 4093, "avx2": 4093, "sse2": 4093, "device": 4093, "avx512 scalars": 16381}
LANES = {"host": 16, "avx512": 16, "avx2": 8, "sse2": 4, "device": 1, "avx512 scalars": 1}

SPECIAL = [0.0, 1.0, 0.5, 2.0, 3.0, math.inf, 1e-45, 1.1754944e-38, 1.17549421e-38, 3.4028235e38, 5.9604645e-8]
SPECIAL += [88.72284, 88.722855, 103.97207, 103.97209, 104.0, 127.99999, 128.0, 149.0, 149.5, 150.0, 38.53184, 45.0]
SPECIAL += [
    1.0000001,
    0.99999994,
    16384.0,
    16384.002,
    math.pi / 2,
    math.pi,
    131072.0,
    131072.02,
    16777215.0,
    16777216.0,
    8388607.5,
    1e10,
    2.0**100,
]
SPECIALS = np.array([math.nan, *SPECIAL, *[-x for x in SPECIAL]], np.float32)


def bit_patterns(start: int, stop: int, step: int) -> np.ndarray:
    return np.arange(start, stop, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


def wide(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # signalling NaNs become quiet
        return x.astype(np.float64)


def worst(errors, *args):
    i = int(np.argmax(errors))
    return f"{errors[i]:.4f} ulp at {[float(a[i]) for a in args]}"


@pytest.mark.parametrize("target", STRIDE)
@pytest.mark.parametrize("name", UNARY)
def test_unary_over_all_exponents(loop, exact, ulps, name, target):
    step = STRIDE[target] * (8 if name == "erf" else 1)
    x = np.concatenate([SPECIALS, bit_patterns(17, 1 << 32, step)])
    errors = ulps(loop(name, "f32", LANES[target], target)(x), exact(name, wide(x)))
    assert errors.max() <= vmath.ERRORS[name], worst(errors, x)


@pytest.mark.parametrize("target", STRIDE)
@pytest.mark.parametrize("name", BINARY)
def test_binary_over_all_exponents(loop, exact, ulps, name, target):
    x = np.concatenate([SPECIALS, bit_patterns(17, 1 << 32, 4 * STRIDE[target])])
    y = np.random.default_rng(0).permutation(x)
    grid = np.meshgrid(SPECIALS, SPECIALS)
    x, y = np.concatenate([x, grid[0].ravel()]), np.concatenate([y, grid[1].ravel()])
    errors = ulps(loop(name, "f32", LANES[target], target)(x, y), exact(name, wide(x), wide(y)))
    assert errors.max() <= vmath.ERRORS[name], worst(errors, x, y)


@pytest.mark.parametrize("target", STRIDE)
@pytest.mark.parametrize("spread", [0.03, 0.5, 30.0])
def test_pow_where_the_exponent_magnifies_the_error_of_the_logarithm(loop, exact, ulps, target, spread):
    rng = np.random.default_rng(1)
    n = 300_000
    x = np.exp2(rng.uniform(-spread, spread, n)).astype(np.float32)
    with np.errstate(all="ignore"):
        y = (rng.choice([-1, 1], n) * rng.uniform(0, 149, n) / np.log2(wide(x))).astype(np.float32)
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    errors = ulps(loop("pow", "f32", LANES[target], target)(x, y), exact("pow", wide(x), wide(y)))
    assert errors.max() <= vmath.ERRORS["pow"], worst(errors, x, y)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_next_to_multiples_of_a_right_angle(loop, exact, ulps, name):
    n = np.unique(np.exp2(np.random.default_rng(2).uniform(0, 31, 200_000)).astype(np.int64))
    near = (n * (np.pi / 2)).astype(np.float32)
    x = np.concatenate([np.nextafter(near, np.float32(0)), near, np.nextafter(near, np.float32(np.inf))])
    errors = ulps(loop(name)(x), exact(name, wide(x)))
    assert errors.max() <= vmath.ERRORS[name], worst(errors, x)


def test_the_bounds_are_those_that_we_promise():
    assert vmath.ERRORS["exp"] <= 1.1
    assert max(vmath.ERRORS.values()) <= 2.0
    assert max(vmath.ERRORS_F64.values()) <= 2.0
    assert vmath.ERRORS.keys() == vmath.ERRORS_F64.keys() == vmath.SUPPORTED == vmath.ARITY.keys()


@pytest.mark.parametrize("name", sorted(vmath.SUPPORTED))
def test_docstrings_state_the_bounds(name):
    modules = [exponential, logarithm, trigonometric, inverse_trigonometric, inverse_hyperbolic, error_function, power]
    (formula,) = [getattr(m, name) for m in [*modules, remainder] if name in m.__all__]
    assert f"At most {vmath.ERRORS[name]:g} ulp, in float64 {vmath.ERRORS_F64[name]:g} ulp." in formula.__doc__
