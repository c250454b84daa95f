"""Fit the polynomials of ``tirlower/emit/vmath``: minimax coefficients, rounded to the format that uses them.

    python tools/fit_vmath.py              # every fit
    python tools/fit_vmath.py SIN_F32 ...  # some of them
    python tools/fit_vmath.py --write      # all, into tirlower/emit/vmath/coefficients.py (five minutes)

Runs at development time only (needs the ``test`` extra: mpmath); the package ships the coefficients. Each fit
is a Remez exchange in 60 digits over the basis ``x**power``, then the coefficients are rounded one by one from the
lowest power up, and after each rounding the remaining ones are fitted again (Lawson's iteration), so that they make up
for what rounding took away. With them stands the largest weighted error of the polynomial with the *rounded* coefficients (the
rounding errors of evaluating it come on top; ``tests/emit/vmath`` measures whole functions).
"""

from __future__ import annotations

import struct
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mpmath import mp, mpf

mp.dps = 60
GRID = 400

Real = Callable[[mpf], mpf]
Row = tuple[mpf, mpf, mpf, list[mpf]]


@dataclass(frozen=True)
class Fit:
    """Minimise ``max |weight(x) * (target(x) - sum(c[k] * x**powers[k]))|`` over ``[low, high]``.

    ``bits`` is 32 or 64, the format of the coefficients.
    """

    target: Real
    weight: Real
    low: mpf
    high: mpf
    powers: Sequence[int]
    bits: int = 32


def round_to(value: mpf, bits: int) -> float:
    """The nearest float of ``bits`` bits, as a Python float."""
    number = float(value)
    if bits == 32:
        (number,) = struct.unpack("<f", struct.pack("<f", number))
    return number


def minimax(fit: Fit, fixed: dict[int, mpf]) -> dict[int, mpf]:
    """The coefficients by power that make the largest error smallest, those in ``fixed`` held at their values."""
    powers = [p for p in fit.powers if p not in fixed]

    def residue(x: mpf) -> mpf:
        return fit.target(x) - sum((c * x**p for p, c in fixed.items()), mpf(0))

    middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    # Chebyshev nodes: none at the ends or in the middle, where a weight may be zero
    grid = [middle - half * mp.cos(mp.pi * (i + mpf(1) / 2) / GRID) for i in range(GRID)]
    table = [(x, residue(x), abs(fit.weight(x)), [x**p for p in powers]) for x in grid]
    # Where the constant term is fixed the rest is no Chebyshev system on an interval around 0, and Remez may fail.
    coefficients = lawson(table, len(powers)) if fixed else remez(table, len(powers))
    return dict(zip(powers, coefficients, strict=True))


def remez(table: Sequence[Row], count: int) -> list[mpf]:
    """Remez' exchange on a grid of rows (x, target, weight, basis)."""
    nodes = [int(GRID * (i + mpf(1) / 2) / (count + 1)) for i in range(count + 1)]
    coefficients = [mpf(0)] * count
    for _ in range(60):
        system = mp.matrix(count + 1)
        right = mp.matrix(count + 1, 1)
        for row, node in enumerate(nodes):
            _x, r, w, basis = table[node]
            for column, value in enumerate(basis):
                system[row, column] = value
            system[row, count] = (-1) ** row / w
            right[row] = r
        solution = mp.lu_solve(system, right)
        coefficients = [solution[i] for i in range(count)]
        errors = weighted_errors(table, coefficients)
        # one extremum for each run of equal sign
        extrema: list[int] = []
        for i, e in enumerate(errors):
            if extrema and (errors[extrema[-1]] > 0) == (e > 0):
                if abs(e) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > count + 1:
            extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
        if len(extrema) < count + 1 or extrema == nodes:
            break
        nodes = extrema
    return coefficients


def lawson(table: Sequence[Row], count: int) -> list[mpf]:
    """Lawson's iteration: least squares whose weights grow where the error is large (converges to the minimax)."""
    importance = [mpf(1) / len(table)] * len(table)
    best, best_error = [mpf(0)] * count, mp.inf
    for _ in range(40):
        normal = mp.matrix(count)
        right = mp.matrix(count, 1)
        for (_x, r, w, basis), share in zip(table, importance, strict=True):
            scale = share * w * w
            for i in range(count):
                right[i] += scale * basis[i] * r
                for j in range(i, count):
                    normal[i, j] += scale * basis[i] * basis[j]
        for i in range(count):
            for j in range(i):
                normal[i, j] = normal[j, i]
        solution = mp.lu_solve(normal, right)
        coefficients = [solution[i] for i in range(count)]
        errors = [abs(e) for e in weighted_errors(table, coefficients)]
        if max(errors) < best_error:
            best, best_error = coefficients, max(errors)
        total = sum(s * e for s, e in zip(importance, errors, strict=True))
        if not total:
            break
        importance = [s * e / total for s, e in zip(importance, errors, strict=True)]
    return best


def weighted_errors(table: Sequence[Row], coefficients: Sequence[mpf]) -> list[mpf]:
    """The weighted error in every row."""
    return [w * (r - sum(c * b for c, b in zip(coefficients, basis, strict=True))) for _x, r, w, basis in table]


def solve(fit: Fit) -> tuple[list[float], float]:
    """The rounded coefficients in order of ``fit.powers`` and the largest weighted error."""
    fixed: dict[int, mpf] = {}
    best: dict[int, mpf] = {}
    for stage, power in enumerate(fit.powers):
        # In float64 only the rounding of the first few coefficients is felt.
        if fit.bits == 32 or stage < 3:
            best = minimax(fit, fixed)
        fixed[power] = mpf(round_to(best[power], fit.bits))
    worst = mpf(0)
    for i in range(2001):
        x = fit.low + (fit.high - fit.low) * i / 2000
        value = sum((c * x**p for p, c in fixed.items()), mpf(0))
        worst = max(worst, abs(fit.weight(x) * (fit.target(x) - value)))
    return [float(fixed[p]) for p in fit.powers], float(worst)


LN2, LN10, PI = mp.log(2), mp.log(10), mp.pi
TINY = mpf(10) ** -15  # stands for 0 where a removable singularity needs digits


def _at(f: Real, limit: mpf) -> Real:
    """``f`` with its limit at 0 (the quotients below cancel there)."""
    return lambda x: f(x) if abs(x) > TINY else limit


def _exp_tail(x: mpf) -> mpf:
    return (mp.expm1(x) - x) / x**2


def _log_tail(f: mpf) -> mpf:
    return (mp.log1p(f) - f + f * f / 2) / f**3


_pow_tail = _at(lambda r: (mp.log1p(r) - r) / LN2 / r**2, -1 / (2 * LN2))


_QUARTER = (PI / 4 * mpf("1.005")) ** 2  # a reduced argument may exceed pi/4 by the rounding of its multiple
_HALF_LN2 = LN2 / 2 * mpf("1.00001")


def _odd(f: Real, limit: mpf) -> Real:
    """``(f(r) - r) / r**3`` as a function of ``u = r*r``."""

    def g(u: mpf) -> mpf:
        if u < mpf(10) ** -14:
            return limit
        r = mp.sqrt(u)
        return (f(r) - r) / r**3

    return g


def _odd_weight(f: Real) -> Real:
    def w(u: mpf) -> mpf:
        r = mp.sqrt(u)
        return r**3 / f(r) if r else mpf(0)

    return w


FITS: dict[str, Fit] = {
    # e^r = 1 + (r + r*r*q(r)); 2^r = 1 + r*q(r); 10^r = 1 + r*q(r)
    "EXP_F32": Fit(_at(_exp_tail, mpf(1) / 2), lambda x: x * x / mp.exp(x), -_HALF_LN2, _HALF_LN2, range(5)),
    "EXP2_F32": Fit(
        _at(lambda x: mp.expm1(x * LN2) / x, LN2), lambda x: x / mp.exp(x * LN2), mpf("-0.5"), mpf("0.5"), range(6)
    ),
    "EXP10_F32": Fit(
        _at(lambda x: mp.expm1(x * LN10) / x, LN10),
        lambda x: x / mp.exp(x * LN10),
        -mpf("0.15052"),
        mpf("0.15052"),
        range(6),
    ),
    "EXP_F64": Fit(_at(_exp_tail, mpf(1) / 2), lambda x: x * x / mp.exp(x), -_HALF_LN2, _HALF_LN2, range(10), 64),
    "EXP2_F64": Fit(
        _at(lambda x: mp.expm1(x * LN2) / x, LN2), lambda x: x / mp.exp(x * LN2), mpf("-0.5"), mpf("0.5"), range(11), 64
    ),
    "EXP10_F64": Fit(
        _at(lambda x: mp.expm1(x * LN10) / x, LN10),
        lambda x: x / mp.exp(x * LN10),
        -mpf("0.15052"),
        mpf("0.15052"),
        range(11),
        64,
    ),
    "EXPM1_F64": Fit(
        _at(_exp_tail, mpf(1) / 2), _at(lambda x: x * x / mp.expm1(x), mpf(0)), -_HALF_LN2, _HALF_LN2, range(11), 64
    ),
    # expm1(2h)/2 = h + h*h*q(h), |h| <= ln2/4
    "TANH_F64": Fit(
        _at(lambda h: (mp.expm1(2 * h) / 2 - h) / h**2, mpf(1)),
        _at(lambda h: 2 * h * h / mp.expm1(2 * h), mpf(0)),
        -_HALF_LN2 / 2,
        _HALF_LN2 / 2,
        range(11),
        64,
    ),
    # expm1(r) = r + r*r*q(r), to relative precision
    "EXPM1_F32": Fit(
        _at(_exp_tail, mpf(1) / 2), _at(lambda x: x * x / mp.expm1(x), mpf(0)), -_HALF_LN2, _HALF_LN2, range(6)
    ),
    # tanh(r) = r + r**3 * q(r*r), |r| <= 0.55
    "TANH_F32": Fit(_odd(mp.tanh, mpf(-1) / 3), _odd_weight(mp.tanh), mpf(0), mpf("0.55") ** 2, range(5)),
    # log(1+f) = f - f*f/2 + f*f*f*q(f), 3/4 <= 1+f <= 3/2
    "LOG_F32": Fit(
        _at(_log_tail, mpf(1) / 3), _at(lambda f: f**3 / mp.log1p(f), mpf(0)), -mpf(1) / 4, mpf(1) / 2, range(8)
    ),
    # log(1+f) = f - f*f/2 + s*(f*f/2 + z*q(z)), s = f/(2+f), z = s*s (fdlibm's form)
    "LOG_F64": Fit(
        lambda z: (mp.atanh(mp.sqrt(z)) * 2 / mp.sqrt(z) - 2) / z if z > mpf(10) ** -20 else mpf(2) / 3,
        lambda z: mp.sqrt(z) * z / mp.atanh(mp.sqrt(z)) / 2 if z else mpf(0),
        mpf(0),
        mpf(1) / 25,
        range(8),
        64,
    ),
    # erf(x) = x + x*q(x*x), |x| <= 1
    "ERF_F32": Fit(
        lambda u: (mp.erf(mp.sqrt(u)) / mp.sqrt(u) if u > mpf(10) ** -14 else 2 / mp.sqrt(PI)) - 1,
        lambda u: mp.sqrt(u) / mp.erf(mp.sqrt(u)) if u > mpf(10) ** -14 else mpf(1),
        mpf(0),
        mpf(1),
        range(7),
    ),
    # erfc(x) = 2**q(x), 1 <= x <= 4; what counts is the error of 1 - erfc(x)
    "ERFC_F32": Fit(
        lambda x: mp.log(mp.erfc(x), 2),
        lambda x: mp.erfc(x) * LN2 / mp.erf(x),
        mpf(1),
        mpf(4),
        range(7),
    ),
    # log2(1+r) = r*log2(e) + r*r*q(r), |r| <= 0.0245 (pow, behind its table)
    "POW_LOG2_F32": Fit(_pow_tail, lambda r: r, mpf("-0.0245"), mpf("0.0245"), range(5)),
    # the same with -log2(e)/2 as the first coefficient, in two parts there: q(r) = -log2(e)/2 + r*p(r)
    "POW_LOG2_F64": Fit(
        _at(lambda r: (_pow_tail(r) + 1 / (2 * LN2)) / r, 1 / (3 * LN2)),
        lambda r: r * r,
        mpf("-0.0235"),
        mpf("0.0235"),
        range(8),
        64,
    ),
    "ERF_F64": Fit(
        lambda u: (mp.erf(mp.sqrt(u)) / mp.sqrt(u) if u > mpf(10) ** -20 else 2 / mp.sqrt(PI)) - 1,
        lambda u: mp.sqrt(u) / mp.erf(mp.sqrt(u)) if u > mpf(10) ** -20 else mpf(1),
        mpf(0),
        mpf(1),
        range(13),
        64,
    ),
    "ERFC_F64": Fit(
        lambda x: mp.log(mp.erfc(x), 2), lambda x: mp.erfc(x) * LN2 / mp.erf(x), mpf(1), mpf(6), range(19), 64
    ),
    # sin(r) = r + r*u*q(u), cos(r) = 1 - u/2 + u*u*q(u), u = r*r, |r| <= pi/4
    "SIN_F32": Fit(_odd(mp.sin, -mpf(1) / 6), _odd_weight(mp.sin), mpf(0), _QUARTER, range(3)),
    "COS_F32": Fit(
        lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2 if u > mpf(10) ** -14 else mpf(1) / 24,
        lambda u: u * u / mp.cos(mp.sqrt(u)),
        mpf(0),
        _QUARTER,
        range(3),
    ),
    "SIN_F64": Fit(_odd(mp.sin, -mpf(1) / 6), _odd_weight(mp.sin), mpf(0), _QUARTER, range(6), 64),
    "COS_F64": Fit(
        lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2 if u > mpf(10) ** -20 else mpf(1) / 24,
        lambda u: u * u / mp.cos(mp.sqrt(u)),
        mpf(0),
        _QUARTER,
        range(6),
        64,
    ),
    # asin(x) = x + x*z*q(z), z = x*x, |x| <= 1/2; atan(x) likewise, |x| <= 1
    "ASIN_F32": Fit(_odd(mp.asin, mpf(1) / 6), _odd_weight(mp.asin), mpf(0), mpf(1) / 4, range(5)),
    "ATAN_F32": Fit(_odd(mp.atan, -mpf(1) / 3), _odd_weight(mp.atan), mpf(0), mpf(1), range(9)),
    # tan(r) = r + r*u*q(u), |r| <= pi/4
    "TAN_F32": Fit(_odd(mp.tan, mpf(1) / 3), _odd_weight(mp.tan), mpf(0), _QUARTER, range(7)),
    "ASIN_F64": Fit(_odd(mp.asin, mpf(1) / 6), _odd_weight(mp.asin), mpf(0), mpf(1) / 4, range(13), 64),
    # float64's atan has five intervals, so that |x| <= 7/16
    "ATAN_F64": Fit(_odd(mp.atan, -mpf(1) / 3), _odd_weight(mp.atan), mpf(0), mpf("0.19143"), range(12), 64),
    "TAN_F64": Fit(_odd(mp.tan, mpf(1) / 3), _odd_weight(mp.tan), mpf(0), _QUARTER, range(15), 64),
}


HEADER = '''"""Minimax coefficients of the vector functions, written by ``python tools/fit_vmath.py --write``.

Each tuple holds the coefficients of rising powers; what they approximate, and where, is said in that file.
"""

from __future__ import annotations

from typing import Final
'''


def pow_tables() -> list[tuple[str, str, list[float]]]:
    """The tables of pow: reciprocals ``c`` of 6 bits for 32 intervals an octave, and ``-log2(c)`` in two parts.

    The first part has so few bits that an exponent can be added to it exactly. The intervals begin at ``1 - 2**-7``, and
    the first and the last use 1 and 1/2: around 1 the logarithm is then that of ``1 + r`` alone, without cancellation.
    """
    reciprocals = [1.0] + [round(64.0 / (1.0 + j / 32.0)) / 64.0 for j in range(1, 31)] + [0.5]
    tables = [("POW_RECIPROCAL", "one of 32 reciprocals for each interval", reciprocals)]
    for bits, unit in ((32, 2.0**-16), (64, 2.0**-40)):
        logs = [-mp.log(mpf(c), 2) for c in reciprocals]
        heads = [float(mp.nint(v / unit)) * unit for v in logs]
        tails = [round_to(v - mpf(h), bits) for v, h in zip(logs, heads, strict=True)]
        tables.append((f"POW_HEAD_F{bits}", "their logarithms to base 2, negated: the leading part", heads))
        tables.append((f"POW_TAIL_F{bits}", "and the rest", tails))
    return tables


TARGET = Path(__file__).resolve().parents[1] / "tirlower" / "emit" / "vmath" / "coefficients.py"


def definition(name: str, meaning: str, values: Sequence[float]) -> str:
    """A constant of the file, some values a line."""
    rows = textwrap.wrap(", ".join([repr(v) for v in values]) + ",", 110)
    return f"#: {meaning}\n{name}: Final = (\n" + "".join([f"    {row}\n" for row in rows]) + ")  # fmt: skip\n"


def main(arguments: Sequence[str]) -> int:
    """Print the asked fits as Python tuples; ``--write`` makes all of them and replaces ``coefficients.py``."""
    write = "--write" in arguments
    names = [a for a in arguments if a != "--write"]
    unknown = [n for n in names if n not in FITS]
    if unknown or (write and names):
        print(f"unknown fit {unknown[0]}; there are {', '.join(FITS)}" if unknown else "--write takes no names")
        return 2
    out = []
    for name in names or FITS:
        start = time.perf_counter()
        coefficients, worst = solve(FITS[name])
        bits = float(mp.log(worst, 2))
        print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
        out.append(definition(name, f"largest weighted error 2**{bits:.2f}", coefficients))
    if not names:
        for name, meaning, table in pow_tables():
            out.append(definition(name, meaning, table))
    text = "\n".join(out)
    if write:
        TARGET.write_text(HEADER + "\n" + text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
