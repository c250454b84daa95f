"""Bitwise operations as quasi-affine forms: of numbers of few bits, bit by bit."""

from __future__ import annotations

from tirlower.arith.intervals import Bound
from tirlower.poly.affine import Space
from tirlower.poly.forms import Div, Form, constant, single

__all__ = ["BITWISE", "bitwise"]

BITWISE = ("tir.bitwise_xor", "tir.bitwise_and", "tir.bitwise_or")
"""The operations, by their names."""

_MAX_BITS = 4
"""The bits of a bitwise operation that are written out; each costs three divisions."""


def bitwise(space: Space, name: str, a: Form, b: Form) -> Form | None:
    """An operation of numbers that are not negative, one of them small, bit by bit: what swizzled layouts are made of."""
    bounds = [_residue(space, x) or space.interval(x) for x in (a, b)]
    small = min(high for _, high in bounds)
    if any(low < 0 for low, _ in bounds) or small >= 1 << _MAX_BITS:
        return None
    bits = int(small).bit_length()
    result = constant(0)
    for bit in range(bits):
        found = _bit_and_constant(space, name, a, b, bit)
        if found is not None:
            result = result + found.scaled(1 << bit)
            continue
        both = space.floormod(space.floordiv(a, 1 << bit), 2) + space.floormod(space.floordiv(b, 1 << bit), 2)
        if name == "tir.bitwise_xor":
            found = space.floormod(both, 2)
        else:
            found = space.floordiv(both if name == "tir.bitwise_and" else both.shifted(1), 2)
        result = result + found.scaled(1 << bit)
    if name == "tir.bitwise_and":
        return result
    # The larger operand's further bits stay.
    large = a if bounds[0][1] > bounds[1][1] else b
    return result + large - space.floormod(large, 1 << bits)


def _residue(space: Space, lin: Form) -> Bound | None:
    """The bounds of a remainder: ``x // k - m * (x // (k * m))`` is 0 to ``m - 1``."""
    for dim, c in lin.terms.items():
        if isinstance(dim, Div) and c < 0 and dim.divisor % -c == 0:
            rest = lin.plus(single(dim), -c) - space.floordiv(dim.of, dim.divisor // -c)
            if rest.is_constant:
                return rest.const, rest.const - c - 1
    return None


def _bit_and_constant(space: Space, name: str, a: Form, b: Form, bit: int) -> Form | None:
    """A bit of an operation with a number that is known: a bit of the other one as it is, turned round, or no matter."""
    known, other = (a, b) if a.is_constant else (b, a)
    if not known.is_constant:
        return None
    digit = space.floormod(space.floordiv(other, 1 << bit), 2)
    if known.const >> bit & 1:
        turned = constant(1) - digit
        return {"tir.bitwise_xor": turned, "tir.bitwise_and": digit, "tir.bitwise_or": constant(1)}[name]
    return constant(0) if name == "tir.bitwise_and" else digit
