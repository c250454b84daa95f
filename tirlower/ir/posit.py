"""Posits, as a custom data type: the Posit Standard (2022), exact to the bit for any width and exponent size.

A posit of n bits is zero, NaR (not a real: the pattern ``10…0``) or ``(1 + f) * 2**(k * 2**es + e)``: after the sign a run
of equal bits gives ``k``, then follow ``es`` bits of exponent and the fraction; negative numbers are the two's complement.
A result is the posit nearest to the exact one in the sense of the standard (the midpoint of two neighbours is the posit of one
bit more between them), ties to the even pattern; nothing rounds to zero or to NaR. Posits are ordered as the signed
integers of their patterns, NaR below all.

>>> posit8 = Posit(8, 2)
>>> posit8.encode(Fraction(1)), posit8.decode(64), posit8.encode(Fraction(10) ** 30) == posit8.maximum
(64, Fraction(1, 1), True)
>>> posit8.mul(posit8.encode(3), posit8.encode(5)) == posit8.encode(15)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from tirlower.diagnostics import ArgumentValueError
from tirlower.ir.custom_datatype import CustomType, register, register_op

__all__ = ["Posit", "register_posit"]


class Posit:
    """The arithmetic of posits of ``bits`` bits (2 to 64) with ``es`` bits of exponent (the standard's is 2).

    Its methods take and give bit patterns. Raises :class:`ArgumentValueError` for other sizes.
    """

    def __init__(self, bits: int, es: int = 2) -> None:
        if not 2 < bits <= 64 or es < 0:
            raise ArgumentValueError(f"a posit has 3 to 64 bits and an exponent of 0 or more, got {bits} and {es}")
        self.bits = bits
        self.es = es
        self.mask = (1 << bits) - 1
        self.nar = 1 << (bits - 1)
        self.maximum = self.nar - 1
        """The pattern of the greatest number."""
        self.least = 1
        """The pattern of the least positive number."""
        self._greatest = Fraction(2) ** ((bits - 2) << es)

    # -- patterns and numbers ----------------------------------------------------------------------------------------
    def decode(self, pattern: int) -> Fraction | None:
        """The number of a pattern; None for NaR."""
        if pattern == 0:
            return Fraction(0)
        if pattern == self.nar:
            return None
        if pattern & self.nar:
            return -self._positive(-pattern & self.mask)
        return self._positive(pattern)

    def _positive(self, pattern: int) -> Fraction:
        rest = self.bits - 1
        first = (pattern >> (rest - 1)) & 1
        run = 0
        while run < rest and (pattern >> (rest - 1 - run)) & 1 == first:
            run += 1
        k = run - 1 if first else -run
        rest = max(rest - run - 1, 0)
        tail = pattern & ((1 << rest) - 1)
        # Exponent bits beyond the end of the pattern are zeros.
        held = min(self.es, rest)
        exponent = (tail >> (rest - held)) << (self.es - held)
        rest -= held
        fraction = Fraction(tail & ((1 << rest) - 1), 1 << rest)
        return (1 + fraction) * Fraction(2) ** ((k << self.es) + exponent)

    def encode(self, value: Fraction | int | None) -> int:
        """The pattern nearest to a number; None is NaR."""
        if value is None:
            return self.nar
        number = Fraction(value)
        if number == 0:
            return 0
        pattern = self._nearest(abs(number))
        return pattern if number > 0 else -pattern & self.mask

    def _nearest(self, number: Fraction) -> int:
        if number >= self._greatest:
            return self.maximum
        if number <= 1 / self._greatest:
            return self.least
        scale = number.numerator.bit_length() - number.denominator.bit_length()
        if Fraction(2) ** scale > number:
            scale -= 1
        k, exponent = scale >> self.es, scale & ((1 << self.es) - 1)
        # The endless pattern of the number, cut after more bits than any posit holds; the rest is remembered in one.
        kept = self.bits + 2
        fraction, more = divmod((number / Fraction(2) ** scale - 1) * (1 << kept), 1)
        regime, length = (((1 << (k + 1)) - 1) << 1, k + 2) if k >= 0 else (1, 1 - k)
        pattern = (((regime << self.es) | exponent) << kept) | int(fraction)
        cut = length + self.es + kept - (self.bits - 1)
        body, rest = pattern >> cut, pattern & ((1 << cut) - 1)
        half = 1 << (cut - 1)
        if rest > half or (rest == half and (more > 0 or body & 1)):
            body += 1
        return body

    def signed(self, pattern: int) -> int:
        """The pattern as a signed integer, which is ordered as the numbers are."""
        return pattern - (1 << self.bits) if pattern & self.nar else pattern

    # -- operations --------------------------------------------------------------------------------------------------
    def _apply(self, fn: Callable[[Fraction, Fraction], Fraction | None], a: int, b: int) -> int:
        x, y = self.decode(a), self.decode(b)
        return self.nar if x is None or y is None else self.encode(fn(x, y))

    def add(self, a: int, b: int) -> int:
        """The sum."""
        return self._apply(lambda x, y: x + y, a, b)

    def sub(self, a: int, b: int) -> int:
        """The difference."""
        return self._apply(lambda x, y: x - y, a, b)

    def mul(self, a: int, b: int) -> int:
        """The product."""
        return self._apply(lambda x, y: x * y, a, b)

    def div(self, a: int, b: int) -> int:
        """The quotient; by zero it is NaR."""
        return self._apply(lambda x, y: x / y if y else None, a, b)

    def mod(self, a: int, b: int) -> int:
        """The remainder of the quotient truncated toward zero; by zero it is NaR."""
        return self._apply(lambda x, y: x - y * math.trunc(x / y) if y else None, a, b)

    def floordiv(self, a: int, b: int) -> int:
        """The floor of the exact quotient; by zero it is NaR."""
        return self._apply(lambda x, y: Fraction(math.floor(x / y)) if y else None, a, b)

    def floormod(self, a: int, b: int) -> int:
        """The remainder of the floored quotient; by zero it is NaR."""
        return self._apply(lambda x, y: x - y * math.floor(x / y) if y else None, a, b)

    def minimum(self, a: int, b: int) -> int:
        """The lesser (NaR is the least of all)."""
        return a if self.signed(a) <= self.signed(b) else b

    def maximum_of(self, a: int, b: int) -> int:
        """The greater."""
        return a if self.signed(a) >= self.signed(b) else b

    def sqrt(self, a: int) -> int:
        """The square root; NaR of a negative number."""
        x = self.decode(a)
        if x is None or x < 0:
            return self.nar
        if x == 0:
            return 0
        # 2**-shift is finer than any midpoint at this size, so a root between two multiples of it rounds as their middle.
        shift = 2 * self.bits + ((self.bits - 2) << self.es)
        scaled = x * (1 << 2 * shift)
        root = math.isqrt(scaled.numerator // scaled.denominator)
        exact = root * root == scaled
        return self.encode(Fraction(root if exact else 2 * root + 1, 1 << (shift if exact else shift + 1)))

    def fabs(self, a: int) -> int:
        """The absolute value; NaR stays."""
        return -a & self.mask if a & self.nar else a

    def fma(self, a: int, b: int, c: int) -> int:
        """``a * b + c``, rounded once."""
        x, y, z = self.decode(a), self.decode(b), self.decode(c)
        return self.nar if x is None or y is None or z is None else self.encode(x * y + z)

    def by_float(self, fn: Callable[[float], float]) -> Callable[[int], int]:
        """A function computed in float64 and then rounded; NaR where it has no number."""

        def run(a: int) -> int:
            try:
                return self.from_float(fn(self.to_float(a)))
            except ValueError:
                return self.nar

        return run

    def exp(self, a: int) -> int:
        """The exponential, by way of float64; it neither overflows nor reaches zero."""
        x = self.to_float(a)
        if x > 700.0:
            return self.maximum
        return self.least if x < -700.0 else self.from_float(math.exp(x))

    # -- conversions -------------------------------------------------------------------------------------------------
    def from_float(self, value: float) -> int:
        """The nearest posit of a float; NaR of an infinity or a NaN."""
        return self.encode(Fraction(value)) if math.isfinite(value) else self.nar

    def to_float(self, a: int) -> float:
        """The number as a Python float (exact up to 32 bits); NaN of NaR."""
        value = self.decode(a)
        return math.nan if value is None else float(value)

    def from_int(self, value: int) -> int:
        """The nearest posit of an integer."""
        return self.encode(int(value))

    def to_int(self, a: int) -> int:
        """The number truncated toward zero; the least int64 of NaR."""
        value = self.decode(a)
        return -(1 << 63) if value is None else math.trunc(value)


def register_posit(name: str = "posit8", bits: int = 8, es: int = 2) -> CustomType:
    """Register posits as the custom type ``custom[name]bits``.

    With arithmetic, comparisons, minimum and maximum, casts from and to floats and integers (toward zero, as casts of
    floats are), constants, and ``sqrt``, ``fabs``, ``fma`` (rounded once), ``exp``, ``log``, ``sin``, ``cos``, ``tanh``
    (by way of float64) and ``isnan``.

    >>> from tirlower.ir import custom_datatype
    >>> register_posit("posit8").name
    'posit8'
    >>> custom_datatype.unregister("posit8")
    """
    made = Posit(bits, es)
    kind = register(name)
    for op_name, fn in (
        ("Add", made.add), ("Sub", made.sub), ("Mul", made.mul), ("Div", made.div), ("Mod", made.mod),
        ("FloorDiv", made.floordiv), ("FloorMod", made.floormod), ("Min", made.minimum), ("Max", made.maximum_of),
    ):  # fmt: skip
        kind.op(fn, op_name)
    order = made.signed
    kind.op(lambda a, b: a == b, "EQ")
    kind.op(lambda a, b: a != b, "NE")
    kind.op(lambda a, b: order(a) < order(b), "LT")
    kind.op(lambda a, b: order(a) <= order(b), "LE")
    kind.op(lambda a, b: order(a) > order(b), "GT")
    kind.op(lambda a, b: order(a) >= order(b), "GE")
    for source in ("float", "int", "uint", "bool"):
        register_op(made.from_float if source == "float" else made.from_int, "Cast", "llvm", source, name)
    register_op(made.to_float, "Cast", "llvm", name, "float")
    register_op(made.to_int, "Cast", "llvm", name, "int")
    register_op(made.to_int, "Cast", "llvm", name, "uint")
    register_op(lambda a: a != 0, "Cast", "llvm", name, "bool")
    kind.op(made.sqrt, "Call", "tir.sqrt")
    kind.op(made.fabs, "Call", "tir.fabs")
    kind.op(made.fma, "Call", "tir.fma")
    kind.op(lambda a: a == made.nar, "Call", "tir.isnan")
    kind.op(made.exp, "Call", "tir.exp")
    for function in ("log", "sin", "cos", "tanh"):
        kind.op(made.by_float(getattr(math, function)), "Call", f"tir.{function}")
    return kind
