"""Arithmetic on canonical sums: writing them as expressions, multiplying and dividing them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tirlower import ir
from tirlower.arith.intervals import Bound, mul_num, num, saturated
from tirlower.arith.sums import FLOOR, TRUNC, Split, Sum, add_up, writing_order
from tirlower.ir import DataType, Expr, IntImm

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["DIVISIONS", "DigitArithmetic", "is_idle"]

DIVISIONS: dict[type[ir.BinaryOp], int] = {ir.FloorDiv: FLOOR, ir.FloorMod: FLOOR, ir.Div: TRUNC, ir.Mod: TRUNC}
"""How each division rounds."""


_SUMS = (ir.Add, ir.Sub, ir.Mul)
MAX_FACTORS = 16
"""Products of up to so many factors are recognised in any order."""


def is_idle(split: Split, c: int) -> bool:
    """Whether the remainder in a split does not count modulo ``c``."""
    return split.upper is not None and split.lower == 1 and split.mode == FLOOR and split.upper * split.scale % c == 0


class DigitArithmetic:
    """Sums of digits under the facts of one analyzer: the operations, and the forms met so far."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._rewriter = analyzer.rewriter
        self.memo: dict[Expr, Expr] = {}
        self.forms: dict[Expr, Sum] = {}
        self._written: dict[tuple[Split, DataType], Expr] = {}
        self._products: dict[tuple[int, ...], Expr] = {}

    def form(self, expr: Expr) -> Sum:
        """The canonical sum of an index expression that :meth:`simplify` has seen."""
        found = self.forms.get(expr)
        if found is None:
            new = self.memo[expr]
            found = self.forms.get(new)
            if found is None:
                if new.__class__ is IntImm:
                    found = Sum((), new.value)
                else:
                    found = Sum.of(Split(self._analyzer.interner.representative(new)))
            self.forms[expr] = found
        return found

    def write(self, form: Sum, dtype: DataType) -> Expr | None:
        """A sum as an expression; None when a coefficient is outside the type."""
        most = (1 << (dtype.bits - 1)) - 1
        span = self._rewriter.span
        splits = form.splits if len(form.splits) < 2 else writing_order(form.splits)
        result: Expr | None = None
        for split in splits:
            if split.scale > most or split.scale < -most:
                return None
            if split.scale > 0:
                term = self._term(split, dtype)
                result = term if result is None else ir.Add(result, term, span=span)
        base = form.base
        if not -most - 1 <= base <= most:
            return None
        if base > 0 or base == -most - 1:
            constant = IntImm(dtype, base)
            result = constant if result is None else ir.Add(result, constant, span=span)
            base = 0
        for split in splits:
            if split.scale < 0:
                term = self._term(split.scaled(-1), dtype)
                result = ir.Sub(result if result is not None else IntImm(dtype, 0), term, span=span)
        if base < 0:
            return IntImm(dtype, base) if result is None else ir.Sub(result, IntImm(dtype, -base), span=span)
        return result if result is not None else IntImm(dtype, 0)

    def _term(self, split: Split, dtype: DataType) -> Expr:
        if split.scale == 1 and split.lower == 1 and split.upper is None:
            return split.atom
        key = (split, dtype)
        found = self._written.get(key)
        if found is None:
            found = split.atom
            floors = split.mode == FLOOR
            if split.upper is not None:
                found = (ir.FloorMod if floors else ir.Mod)(found, IntImm(dtype, split.upper))
            if split.lower != 1:
                found = (ir.FloorDiv if floors else ir.Div)(found, IntImm(dtype, split.lower))
            if split.scale != 1:
                found = ir.Mul(found, IntImm(dtype, split.scale))
            self._written[key] = found
        return found

    def _bounds(self, form: Sum, dtype: DataType) -> Bound:
        """Bounds of a sum: those of its terms, added."""
        low: num = form.base
        high: num = form.base
        bound = self._analyzer.bounds.of
        for split in form.splits:
            atom, lower, upper, scale, _ = split
            plain = lower == 1 and upper is None
            least, most = bound(atom if plain else self._term(split if scale == 1 else split.with_scale(1), dtype))
            if scale == 1:
                low, high = low + least, high + most
            elif scale > 0:
                low, high = low + mul_num(least, scale), high + mul_num(most, scale)
            else:
                low, high = low + mul_num(most, scale), high + mul_num(least, scale)
        if len(form.splits) > 1 and self._analyzer.facts.beyond_variables:
            # A fact may bound the sum as a whole.
            written = self.write(form, dtype)
            if written is not None:
                known = self._analyzer.bounds.of(written)
                low, high = max(low, known[0]), min(high, known[1])
        return saturated(low, high)

    # -- products, quotients and remainders --------------------------------------------------------------------------
    def _product(self, op: ir.Mul) -> Sum:
        a, b = self.form(op.a), self.form(op.b)
        if a.is_constant:
            return b.scaled(a.base)
        if b.is_constant:
            return a.scaled(b.base)
        (left, p), (right, q) = (self._factor(form, self.memo[x]) for form, x in ((a, op.a), (b, op.b)))
        factors: list[int] = []
        stack = [right, left]
        while stack and len(factors) + len(stack) <= MAX_FACTORS:
            part = stack.pop()
            if part.__class__ is ir.Mul:
                stack += (part.b, part.a)
            else:
                factors.append(id(self._analyzer.interner.representative(part)))
        # A longer product is taken as two factors: it is found again only when it is multiplied in the same steps.
        rep = self._analyzer.interner.representative
        key = tuple(sorted(factors if not stack else (id(rep(left)), id(rep(right)))))
        # x * y and y * x are one product, written as it was met first.
        index = self._products.get(key)
        if index is None:
            made = op if left is op.a and right is op.b else ir.Mul(left, right, span=op.span)
            index = self._products[key] = self._analyzer.interner.representative(made)
        return Sum.of(Split(index, scale=p * q))

    def _factor(self, form: Sum, expr: Expr) -> tuple[Expr, int]:
        """An operand of a product without its constant factor, and that factor."""
        if form.base == 0 and len(form.splits) == 1:
            split = form.splits[0]
            return self._term(split.with_scale(1), expr.dtype), split.scale
        return expr, 1

    def _division(self, op: ir.BinaryOp) -> Sum | None:
        """A quotient or remainder by a constant; None for a symbolic divisor."""
        divisor = self.form(op.b)
        if not divisor.is_constant or divisor.base == 0:
            return None
        kind, c, a = op.__class__, divisor.base, self.form(op.a)
        mode = DIVISIONS[kind]
        remainder = kind in (ir.FloorMod, ir.Mod)
        sign = 1
        if c < 0:
            # a // -c is -a // c; a % -c is -(-a % c). Truncation only changes the sign of the quotient.
            c = -c
            if mode == FLOOR:
                a = a.scaled(-1)
                sign = -1 if remainder else 1
            else:
                sign = 1 if remainder else -1
            if c > op.dtype.max_value:
                return None  # the least value has no opposite
        result = self._remainder(a, c, mode, op.dtype) if remainder else self._quotient(a, c, mode, op.dtype)
        return result.scaled(sign) if result is not None else None

    def _opaque(self, form: Sum, dtype: DataType) -> Expr | None:
        written = self.write(form, dtype)
        if written is None:
            return None
        index = self._analyzer.interner.representative(written)
        self.memo.setdefault(index, index)
        self.forms.setdefault(index, form)
        return index

    def _rounds_down(self, whole: Sum, rest: Sum, mode: int, dtype: DataType) -> bool:
        """Whether the parts of a division may be divided apart: always when flooring, else when none is negative."""
        return mode == FLOOR or (self._bounds(whole, dtype)[0] >= 0 and self._bounds(rest, dtype)[0] >= 0)

    def _quotient(self, a: Sum, c: int, mode: int, dtype: DataType) -> Sum | None:
        whole, rest = a.separate(c)
        if not rest.splits and rest.base == 0:
            return whole.divided(c)
        if len(a.splits) > 1:
            shared = abs(a.splits[0].scale)
            if shared > 1 and c % shared == a.base % shared == 0 and all(abs(s.scale) == shared for s in a.splits):
                # (x * 8 + y * 8) // 16 is (x + y) // 2, whatever the signs and the rounding
                return self._quotient(a.divided(shared), c // shared, mode, dtype)
        if not whole.splits and whole.base == 0 and len(rest.splits) == 1 and rest.base == 0 and mode == TRUNC:
            low, high = self._bounds(rest, dtype)
            if max(-low, high) < c:
                return Sum((), 0)
            return self._split_quotient(rest.splits[0], c, mode, dtype)
        if not self._rounds_down(whole, rest, mode, dtype):
            index = self._opaque(a, dtype)
            return None if index is None else Sum.of(Split(index, lower=c, mode=mode))
        low, high = self._bounds(rest, dtype)
        if math.isfinite(low) and math.isfinite(high) and low // c == high // c:
            return whole.divided(c).plus(int(low // c))
        reduced = self._reduced(rest, c, dtype)
        if reduced is not None:
            return add_up(((whole.divided(c), 1), (reduced[0], 1)))
        if len(rest.splits) == 1 and rest.base == 0:
            part = self._split_quotient(rest.splits[0], c, mode, dtype)
        else:
            digits = self._higher_digits(rest, c, dtype) if mode == FLOOR or 0 <= rest.base < c else None
            if digits is not None:
                g, top, _ = digits
                part = self._quotient(top, c // g, mode, dtype)
                part = None if part is None else part.plus(rest.base // c)
            else:
                index = self._opaque(rest, dtype)
                part = None if index is None else Sum.of(Split(index, lower=c, mode=mode))
        return None if part is None else add_up(((whole.divided(c), 1), (part, 1)))

    def _reduced(self, a: Sum, c: int, dtype: DataType) -> tuple[Sum, Sum] | None:
        """Quotient and remainder of a sum that stays in one block of ``c`` once the whole divisors in its factors are out.

        ``(x * 360 + y) // 16`` is ``x * 22`` for an ``x`` of 0 and 1 and a ``y`` below 8.
        """
        if not any(abs(split.scale) > c for split in a.splits):
            return None
        rest = Sum(tuple([s.with_scale(s.scale % c) for s in a.splits]), a.base)
        low, high = self._bounds(rest, dtype)
        if not (math.isfinite(low) and math.isfinite(high) and low // c == high // c):
            return None
        block = int(low // c)
        whole = Sum(tuple([s.with_scale(s.scale // c) for s in a.splits if s.scale // c]), block)
        return whole, rest.plus(-block * c)

    def _rejoined(self, form: Sum, dtype: DataType) -> Sum:
        """A sum in which quotients meet the remainders that belong to them, though they are written of other sums.

        ``(i % 4 * 3 + j) // 4 * 4 + (i * 3 + j) % 4`` is ``i % 4 * 3 + j``: both dividends leave the same remainder.
        """
        form = self._spread(form)
        if len(form.splits) < 2:
            return form
        for high in form.splits:
            lower = high.lower
            if lower == 1 or high.upper is not None or high.mode != FLOOR or high.scale % lower:
                continue
            dividend = self.forms.get(high.atom)
            if dividend is None or len(dividend.splits) < 2:
                continue
            for low in form.splits:
                if low.upper == lower and low.lower == 1 and low.mode == FLOOR and low.scale * lower == high.scale:
                    rest = self._remainder(dividend, lower, FLOOR, dtype)
                    if rest is None or rest.base or rest.splits != (low.with_scale(1),):
                        continue
                    others = tuple([s for s in form.splits if s is not high and s is not low])
                    joined = add_up(((Sum(others, form.base), 1), (dividend, low.scale)))
                    return self._rejoined(joined, dtype)
        return form

    def _spread(self, form: Sum) -> Sum:
        """A sum with the terms of what its digits have become where they met: ``n * 8 + 24`` for ``(n + 3) * 8``."""
        for split in form.splits:
            if split.lower == 1 and split.upper is None and split.atom.__class__ in _SUMS:
                known = self.forms.get(split.atom)
                if known is not None and not (len(known.splits) == 1 and known.splits[0].atom is split.atom):
                    others = Sum(tuple([s for s in form.splits if s is not split]), form.base)
                    return self._spread(add_up(((others, 1), (known, split.scale))))
        return form

    def _higher_digits(self, a: Sum, c: int, dtype: DataType) -> tuple[int, Sum, Sum] | None:
        """``a`` modulo ``c`` as ``g * high + low`` with ``0 <= low < g`` for a ``g`` that divides ``c``, if there is one.

        Then the quotient by ``c`` is that of ``high`` by ``c // g``, and the remainder ``g`` times its remainder, plus
        ``low``. The constant of ``a`` is reduced modulo ``c`` first.
        """
        base = a.base % c
        for g in sorted({abs(s.scale) for s in a.splits}, reverse=True):
            if g <= 1 or g >= c or c % g:
                continue
            high, low = Sum(a.splits, 0).separate(g)
            low = low.plus(base)
            if not high.splits or (not low.splits and low.base == 0):
                continue
            least, most = self._bounds(low, dtype)
            if base >= g and math.isfinite(least):
                # (n * 32 + 127) // 128 is (n + 3) // 4: what of the constant is a multiple of g is a higher digit.
                block = int(least // g) * g
                high, low, least, most = high.plus(block), low.plus(-block), least - block, most - block
            if least >= 0 and most < g:
                return g, high.divided(g), low
        return None

    def _split_quotient(self, split: Split, c: int, mode: int, dtype: DataType) -> Sum | None:
        if split.mode == mode or split.plain:
            if split.scale % c == 0:
                return Sum.of(split.with_scale(split.scale // c))
            if split.scale > 0 and c % split.scale == 0:
                lower = split.lower * (c // split.scale)
                if split.upper is not None and split.upper <= lower:
                    return Sum((), 0)
                if lower > dtype.max_value:
                    pass  # a divisor that no constant holds: the quotients stay two
                elif split.upper is None and split.lower != 1:
                    return self._digit(split.atom, lower, None, mode, dtype)
                elif split.upper is None or split.upper % lower == 0:
                    return Sum.of(Split(split.atom, lower, split.upper, 1, mode))
        index = self._opaque(Sum.of(split), dtype)
        return None if index is None else Sum.of(Split(index, lower=c, mode=mode))

    def _remainder(self, a: Sum, c: int, mode: int, dtype: DataType) -> Sum | None:
        whole, rest = a.separate(c)
        if not rest.splits and rest.base == 0:
            return Sum((), 0)
        if not whole.splits and whole.base == 0 and len(rest.splits) == 1 and rest.base == 0 and mode == TRUNC:
            low, high = self._bounds(rest, dtype)
            if max(-low, high) < c:
                return rest
            return self._split_remainder(rest.splits[0], c, mode, dtype)
        if not self._rounds_down(whole, rest, mode, dtype):
            index = self._opaque(a, dtype)
            return None if index is None else Sum.of(Split(index, upper=c, mode=mode))
        low, high = self._bounds(rest, dtype)
        if math.isfinite(low) and math.isfinite(high) and low // c == high // c:
            return rest.plus(-int(low // c) * c)
        reduced = self._reduced(rest, c, dtype)
        if reduced is not None:
            return reduced[1]
        if len(rest.splits) == 1 and rest.base == 0:
            return self._split_remainder(rest.splits[0], c, mode, dtype)
        digits = self._higher_digits(rest, c, dtype) if mode == FLOOR or 0 <= rest.base < c else None
        if digits is not None:
            g, top, bottom = digits
            inner = self._remainder(top, c // g, mode, dtype)
            return None if inner is None else add_up(((inner, g), (bottom, 1)))
        if mode == FLOOR:
            whole = self._without_remainders(rest, c)
            if whole is not rest:
                return self._remainder(whole, c, mode, dtype)
            rest = Sum(rest.splits, rest.base % c)
        index = self._opaque(rest, dtype)
        return None if index is None else Sum.of(Split(index, upper=c, mode=mode))

    def _without_remainders(self, a: Sum, c: int) -> Sum:
        """A sum modulo ``c`` without the remainders that differ from their dividends by multiples of ``c``; the same
        object where there are none."""
        if not any(is_idle(split, c) for split in a.splits):
            return a
        parts: list[tuple[Sum, int]] = []
        for split in a.splits:
            if is_idle(split, c):
                form = self.forms.get(split.atom) or Sum.of(Split(split.atom))
                parts.append((form, split.scale))
            else:
                parts.append((Sum.of(split), 1))
        return add_up(parts, a.base)

    def _digit(self, atom: Expr, lower: int, upper: int | None, mode: int, dtype: DataType) -> Sum | None:
        """``(atom % upper) // lower``; where the atom is a sum or a multiple, what could not divide it before may now."""
        form = self.forms.get(atom)
        if form is None or (not form.base and len(form.splits) == 1 and form.splits[0].atom is atom):
            return Sum.of(Split(atom, lower, upper, 1, mode))
        inner = form if upper is None else self._remainder(form, upper, mode, dtype)
        return inner if inner is None or lower == 1 else self._quotient(inner, lower, mode, dtype)

    def _split_remainder(self, split: Split, c: int, mode: int, dtype: DataType) -> Sum | None:
        if split.scale % c == 0:
            return Sum((), 0)
        if (split.mode == mode or split.plain) and split.scale > 0 and c % split.scale == 0:
            upper = split.lower * (c // split.scale)
            if upper > dtype.max_value:
                pass  # a modulus that no constant holds
            elif split.upper is None:
                digit = self._digit(split.atom, split.lower, upper, mode, dtype)
                return None if digit is None else digit.scaled(split.scale)
            elif upper % split.upper == 0:
                return Sum.of(split)
            elif split.upper % upper == 0:
                inner = self._remainder(self.forms.get(split.atom) or Sum.of(Split(split.atom)), upper, mode, dtype)
                outer = inner if inner is None or split.lower == 1 else self._quotient(inner, split.lower, mode, dtype)
                return None if outer is None else outer.scaled(split.scale)
        index = self._opaque(Sum.of(split), dtype)
        return None if index is None else Sum.of(Split(index, upper=c, mode=mode))
