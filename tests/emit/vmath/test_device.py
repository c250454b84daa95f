"""What is emitted for machines without a C library (GPUs), run on this one: against mpmath, and C's table of special values."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from tirlower.emit import vmath

pytestmark = pytest.mark.by_day

mpmath = pytest.importorskip("mpmath")
mpf = mpmath.mpf
inf, nan = math.inf, math.nan

EXACT = {
    "exp2": lambda x: mpf(2) ** x, "exp10": lambda x: mpf(10) ** x, "log2": lambda x: mpmath.log(x, 2),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)), "rsqrt": lambda x: 1 / mpmath.sqrt(x), "pow": mpmath.power,
    "fmod": lambda x, y: mpmath.fmod(abs(x), abs(y)) * mpmath.sign(x),
}  # fmt: skip
RANGES = {
    "exp": (-745, 709), "exp2": (-1074, 1023), "exp10": (-323, 308), "expm1": (-40, 709), "sigmoid": (-745, 40), "tanh": (-20, 20),
    "sinh": (-709, 709), "cosh": (-709, 709), "asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1), "acosh": (1, 100), "erf": (-6, 6),
    "log1p": (-1, 9),
}  # fmt: skip
POSITIVE = {"log", "log2", "log10", "sqrt", "rsqrt", "pow"}
FORMATS = {"f32": (np.float32, 24, -149), "f64": (np.float64, 53, -1074)}


def arguments(name: str, dtype: type, size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    low, high = RANGES.get(name, (0.01 if name in POSITIVE else -30, 30))
    if dtype == np.float32 and high > 100:
        low, high = low / 8, high / 8
    x = rng.uniform(low, high, size)
    x[: size // 4] = low + (high - low) * rng.uniform(0.5, 0.56, size // 4)  # around the middle, which mostly is 0
    if name in ("sin", "cos", "tan"):
        top = 127 if dtype == np.float32 else 1023
        x[: size // 4] = np.exp2(rng.uniform(-30, top, size // 4))
    if name in ("log", "log2", "log10", "atan", "asinh"):
        x[: size // 4] = np.exp(rng.uniform(-80, 80, size // 4))
    y = rng.uniform(-40, 40, size)
    if name in ("atan2", "hypot", "fmod"):
        y = x * np.exp(rng.uniform(-12, 12, size)) * rng.choice([-1, 1], size)
    return [v.astype(dtype) for v in (x, y)][: vmath.ARITY[name]]


@pytest.mark.parametrize("elem", FORMATS)
@pytest.mark.parametrize("name", sorted(vmath.SUPPORTED))
def test_against_mpmath(loop, name, elem):
    dtype, bits, least = FORMATS[elem]
    args = arguments(name, dtype, 600)
    got = loop(name, elem, 1, "device")(*args)
    bound = (vmath.ERRORS if elem == "f32" else vmath.ERRORS_F64)[name]
    exact = EXACT.get(name) or getattr(mpmath, name)
    with mpmath.workprec(1300 if name in ("sin", "cos", "tan", "fmod") else 160):
        for *xs, y in zip(*[a.tolist() for a in args], got.tolist(), strict=True):
            want = exact(*map(mpf, xs))
            if abs(want) >= np.finfo(dtype).max:
                assert y == (inf if want > 0 else -inf), (name, xs)
                continue
            unit = mpmath.ldexp(1, max(mpmath.frexp(want)[1] - bits, least)) if want else mpf(1)
            assert abs(mpf(y) - want) <= bound * unit, (name, xs, y)


@pytest.mark.parametrize("elem", FORMATS)
@pytest.mark.parametrize("name", sorted(vmath.SUPPORTED))
def test_nothing_is_called_but_our_own(loop, name, elem):
    called = set(re.findall(r"\b(?:callq?|jmp)\s+([\w.@]+)", loop(name, elem, 1, "device").assembly))
    assert all(symbol.startswith(("tirlower.", ".L")) for symbol in called), called


# C's Annex F, and what follows from the definition: argument(s) and result
SPECIAL = {
    "exp": [(0.0, 1), (-0.0, 1), (inf, inf), (-inf, 0.0)], "exp2": [(0.0, 1), (inf, inf), (-inf, 0.0)],
    "exp10": [(0.0, 1), (inf, inf), (-inf, 0.0)], "expm1": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1)],
    "log": [(0.0, -inf), (-0.0, -inf), (1, 0.0), (-1, nan), (inf, inf), (-inf, nan)],
    "log2": [(0.0, -inf), (-0.0, -inf), (1, 0.0), (-1, nan), (inf, inf), (8, 3)],
    "log10": [(0.0, -inf), (-0.0, -inf), (1, 0.0), (-1, nan), (inf, inf)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -inf), (-2, nan), (inf, inf)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (-1, nan), (inf, inf)], "rsqrt": [(0.0, inf), (-0.0, -inf), (-1, nan), (inf, 0.0)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (inf, nan), (-inf, nan)], "cos": [(0.0, 1), (-0.0, 1), (inf, nan)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (inf, nan)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (2, nan), (-2, nan), (inf, nan), (1, math.pi / 2), (-1, -math.pi / 2)],
    "acos": [(1, 0.0), (2, nan), (-2, nan), (-inf, nan), (-1, math.pi), (0.0, math.pi / 2)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (inf, math.pi / 2), (-inf, -math.pi / 2), (1, math.pi / 4)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (1000, inf)], "cosh": [(0.0, 1), (-0.0, 1), (inf, inf), (-inf, inf)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (inf, 1), (-inf, -1), (50, 1)], "asinh": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "acosh": [(1, 0.0), (0.5, nan), (0.0, nan), (-3, nan), (-inf, nan), (inf, inf)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1, inf), (-1, -inf), (1.5, nan), (-2, nan), (inf, nan)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (inf, 1), (-inf, -1)], "sigmoid": [(0.0, 0.5), (inf, 1), (-inf, 0.0)],
    "pow": [
        (0.0, -3, inf), (-0.0, -3, -inf), (0.0, -2, inf), (-0.0, -2, inf), (0.0, -inf, inf), (-0.0, 3, -0.0), (-0.0, 2, 0.0),
        (-1, inf, 1), (-1, -inf, 1), (1, nan, 1), (nan, 0.0, 1), (nan, -0.0, 1), (-2, 0.5, nan), (0.5, -inf, inf), (2, -inf, 0.0),
        (0.5, inf, 0.0), (2, inf, inf), (-inf, -3, -0.0), (-inf, -2, 0.0), (-inf, 3, -inf), (-inf, 2, inf), (inf, -1, 0.0),
        (inf, 1, inf), (-2, 3, -8), (nan, 1, nan), (2, nan, nan),
    ],
    "atan2": [
        (0.0, -0.0, math.pi), (-0.0, -0.0, -math.pi), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -1, math.pi), (-0.0, -1, -math.pi),
        (0.0, 1, 0.0), (-0.0, 1, -0.0), (-1, 0.0, -math.pi / 2), (1, -0.0, math.pi / 2), (1, -inf, math.pi), (-1, -inf, -math.pi),
        (1, inf, 0.0), (-1, inf, -0.0), (inf, 1, math.pi / 2), (-inf, -1, -math.pi / 2), (inf, -inf, 3 * math.pi / 4),
        (-inf, -inf, -3 * math.pi / 4), (inf, inf, math.pi / 4), (-inf, inf, -math.pi / 4), (nan, 1, nan), (1, nan, nan), (nan, inf, nan),
    ],
    "hypot": [(inf, nan, inf), (nan, -inf, inf), (nan, 1, nan), (0.0, -0.0, 0.0), (3, -4, 5), (-inf, 0.0, inf)],
    "fmod": [
        (0.0, 3, 0.0), (-0.0, 3, -0.0), (inf, 3, nan), (2, 0.0, nan), (2, -0.0, nan), (2, inf, 2), (-2, -inf, -2), (-6, 3, -0.0),
        (6, -4, 2), (nan, 1, nan), (1, nan, nan), (inf, inf, nan), (5.5, 2, 1.5), (-5.5, 2, -1.5),
    ],
}  # fmt: skip


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("elem", FORMATS)
@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_values(loop, name, elem, lanes):
    dtype = FORMATS[elem][0]
    rows = [*SPECIAL[name], *([(nan, nan)] if vmath.ARITY[name] == 1 else [])]
    *args, want = (np.array(column, dtype) for column in zip(*rows, strict=True))
    got = loop(name, elem, lanes, "device")(*args)
    for row, y, w in zip(rows, got, want, strict=True):
        # infinities, zeros and integers are exact; fractions of pi are within the error of others
        near = y == w or (w != np.trunc(w) and abs(y - w) <= np.spacing(abs(w)))
        assert (np.isnan(y) and np.isnan(w)) or (near and np.signbit(y) == np.signbit(w)), (row, y)


def test_every_function_has_its_special_values():
    assert SPECIAL.keys() == vmath.SUPPORTED


@pytest.mark.parametrize("elem", FORMATS)
@pytest.mark.parametrize("name", ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p"])
def test_tiny_numbers_are_their_own_values(loop, name, elem):
    dtype, bits, least = FORMATS[elem]
    x = np.ldexp(dtype(1.75), np.arange(least + 1, -bits, 3)).astype(dtype)
    x = np.concatenate([x, -x])
    np.testing.assert_array_equal(loop(name, elem, 1, "device")(x), x)


@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_float64_angles_next_to_multiples_of_a_right_angle(loop, lanes):
    """Neighbours of n*pi/2 for large n, among them the worst case of all float64 (6381956970095103 * 2**797, Kahan)."""
    rng = np.random.default_rng(2)
    with mpmath.workprec(1300):
        near = [
            float(mpmath.pi / 2 * int(n) * mpf(2) ** int(e))
            for n, e in zip(rng.integers(1, 1 << 50, 150), rng.integers(1, 960, 150), strict=True)
        ]
        x = np.array([math.ldexp(6381956970095103, 797), math.ldexp(6381956970095103, 798), *near])
        for name in ("sin", "cos", "tan"):
            got = loop(name, "f64", lanes, "device")(x)
            for value, y in zip(x.tolist(), got.tolist(), strict=True):
                want = getattr(mpmath, name)(mpf(value))
                assert abs(mpf(y) - want) <= vmath.ERRORS_F64[name] * mpmath.ldexp(1, mpmath.frexp(want)[1] - 53), value


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("elem", FORMATS)
def test_fmod_is_exact_for_quotients_of_any_size(loop, elem, lanes):
    dtype, bits, least = FORMATS[elem]
    rng = np.random.default_rng(7)

    def numbers() -> np.ndarray:
        return np.ldexp(
            rng.integers(1, 1 << bits, 400).astype(dtype), rng.integers(least, -least - 2 * bits, 400)
        ).astype(dtype)

    x, y = numbers() * rng.choice([-1, 1], 400).astype(dtype), numbers()
    x[:4], y[:4] = np.finfo(dtype).max, [np.finfo(dtype).smallest_subnormal * i for i in (1, 3, 5, 7)]
    y[4:9] = np.abs(x[4:9]) * dtype(0.5)
    got = loop("fmod", elem, lanes, "device")(x, y)
    for a, b, r in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        exact = Fraction(abs(a)) % Fraction(b)
        assert Fraction(abs(r)) == exact and math.copysign(1, r) == math.copysign(1, a), (a, b, r)


@pytest.mark.parametrize("elem", FORMATS)
@pytest.mark.parametrize(
    "name", ["tan", "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "sin", "pow", "fmod"]
)
def test_vectors_give_what_scalars_give(loop, name, elem):
    args = arguments(name, FORMATS[elem][0], 96)
    one = loop(name, elem, 1, "device")(*args)
    for lanes in (2, 3, 8):
        np.testing.assert_array_equal(loop(name, elem, lanes, "device")(*args), one)
