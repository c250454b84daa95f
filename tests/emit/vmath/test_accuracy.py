"""float32 errors of every function over the whole range of arguments, on every kind of target."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from tests.sampling import in_pairs
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

pytestmark = pytest.mark.by_day

UNARY = sorted(name for name in vmath.SUPPORTED if vmath.ARITY[name] == 1)
BINARY = sorted(name for name in vmath.SUPPORTED if vmath.ARITY[name] == 2)
# the bit patterns of the samples are this far apart: a prime, so that all low bits occur
STRIDE = {"host": 4093, "avx512": 4093, "avx2": 4093, "sse2": 4093, "device": 4093, "avx512 scalars": 16381}
DENSE = [pytest.param(name, "dense", marks=pytest.mark.nightly) for name in UNARY]
STRIDES = [*STRIDE.items(), pytest.param("host", 1021, marks=pytest.mark.nightly)]
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


@functools.lru_cache(1)
def over_all_exponents(exact, name, step) -> tuple[np.ndarray, np.ndarray]:
    """Arguments this far apart, and the function of them: those of the targets before, where they are the same."""
    x = np.concatenate([SPECIALS, bit_patterns(17, 1 << 32, step)])
    return x, exact(name, wide(x))


@pytest.mark.parametrize(("name", "target"), [*in_pairs(UNARY, STRIDE), *DENSE])
def test_unary_over_all_exponents(loop, exact, ulps, name, target):
    target, stride = ("host", 1021) if target == "dense" else (target, STRIDE[target])
    x, want = over_all_exponents(exact, name, stride * (8 if name == "erf" else 1))
    errors = ulps(loop(name, "f32", LANES[target], target)(x), want)
    assert errors.max() <= vmath.ERRORS[name], worst(errors, x)


@pytest.mark.parametrize(("target", "stride"), STRIDES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_over_all_exponents(loop, exact, ulps, name, target, stride):
    x = np.concatenate([SPECIALS, bit_patterns(17, 1 << 32, 4 * stride)])
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


# the arguments with the largest errors of those that have been run, with FMA and without: docs/numerics.md has the errors
WORST = {
    "acos": (-0.6118384599685669,), "acosh": (1.0685421228408813, 1.078352451324463), "asin": (0.526665985584259,),
    "asinh": (0.40215539932250977, 0.40596848726272583), "atan": (1.1167774200439453, 1.0998475551605225),
    "atanh": (0.17124193906784058, 0.1724475920200348), "cos": (2.3707761764526367, 3.9085142612457275, 148745471655936.0, -1946879232.0), "cosh": (16.96769142150879,),
    "erf": (1.0092517137527466, 1.0013601779937744), "exp": (59.30603790283203, -5.8533711433410645),
    "exp2": (-126.49649810791016, -0.4973885118961334), "exp10": (3.7883503437042236, 26.363874435424805, -3.737379550933838),
    "expm1": (16.979158401489258, 0.3575008511543274, 0.3727182447910309, 0.34678295254707336), "log": (0.7125197649002075, 0.7090441584587097),
    "log1p": (-0.2874802350997925, -0.2909558415412903), "log2": (0.7428650259971619, 0.7405641078948975),
    "log10": (0.749954104423523, 0.7499581575393677), "rsqrt": (1.0061858892440796,), "sigmoid": (-4.846455097198486,),
    "sin": (5.073734123248629e30, 2100.902099609375, 2.6469911972938512e31, -2.7946780378181823e26), "sinh": (0.41531601548194885, 0.4056750237941742),
    "tan": (140.3509979248047, 7.300635814666748, 1.3961802718857763e20), "tanh": (0.5562652945518494, 0.5576491951942444),
}  # fmt: skip


@pytest.mark.parametrize("target", STRIDE)
@pytest.mark.parametrize("name", WORST)
def test_worst_arguments(loop, exact, ulps, name, target):
    x = np.array(WORST[name], np.float32)
    errors = ulps(loop(name, "f32", LANES[target], target)(x), exact(name, wide(x)))
    assert errors.max() <= vmath.ERRORS[name], worst(errors, x)


def test_every_function_has_its_worst_arguments():
    assert set(WORST) == set(UNARY) - {"sqrt"}
