"""Proofs of the conditions of rules: from bounds, modular sets, affine forms and the facts in scope."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from tirlower import ir
from tirlower.arith.affine import Affine, affine_of
from tirlower.arith.bounds import is_index_type
from tirlower.arith.intervals import INF, num
from tirlower.ir import Expr, IntImm, Var
from tirlower.ir.expr import Binary

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["Prover"]

MAX_PROOF_DEPTH = 4
"""How deep a rule's condition may itself call for rules."""

MAX_PROOF_TERMS = 64
"""Sums longer than this are compared by their bounds alone."""

_DEEP = frozenset((ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max, ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod))


class Prover:
    """What the compiled conditions of rules call: ``bound(x)[1] < 4``, ``prove_le(x, y)``, ``divides(4, x)`` …"""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.same = analyzer.interner.same
        self.bound = analyzer.bounds.of
        self.proof_depth = 0
        self._differences: dict[tuple[Expr, Expr], tuple[num, num]] = {}

    def binary(self, kind: type[Binary], a: Expr, b: Expr, original: Expr | None = None) -> Expr:
        """``kind(a, b)``, simplified by the rules (see the rewriter)."""
        raise TypeError(f"{type(self).__name__} applies no rules")

    def is_index(self, x: Expr) -> bool:
        """Whether a value is of a type whose arithmetic is taken not to overflow."""
        return is_index_type(x.dtype)

    def integral(self, x: Expr) -> bool:
        """Whether a value is no float."""
        return x.dtype.is_integral

    def divides(self, c: int, x: Expr) -> bool:
        """Whether ``x`` is a multiple of ``c``."""
        coeff, base = self.analyzer.modular.of(x)
        return coeff % c == 0 and base % c == 0

    def in_block(self, x: Expr, stride: int, size: int | Expr, lanes: int | Expr) -> bool:
        """Whether ``x + stride * lane`` has one quotient by ``size`` in all lanes."""
        most = lanes if isinstance(lanes, int) else self.analyzer.bounds.of(lanes)[1]
        if math.isinf(most):
            return False
        reach = stride * (int(most) - 1)
        if self._lanes_wrap(x, reach):
            return False
        if not isinstance(size, int):
            return self._in_symbolic_block(x, stride, size, lanes)
        found = self.analyzer.modular.of(x)
        # Blocks of a divisor of the size lie in one block of the size.
        part = math.gcd(found.coeff, size)
        first = found.base % part
        if first + min(reach, 0) >= 0 and first + max(reach, 0) < part:
            return True
        low, high = self.analyzer.bounds.of(x)
        low, high = low + min(reach, 0), high + max(reach, 0)
        return math.isfinite(low) and math.isfinite(high) and low // size == high // size

    def _lanes_wrap(self, x: Expr, reach: int) -> bool:
        """Whether the lanes of a ramp from ``x``, which go as far as ``reach``, may wrap around: those of data do."""
        if not self.analyzer.wraps_around(x):
            return False
        (low, high), dtype = self.bound(x), x.dtype.element
        return low + min(reach, 0) < dtype.min_value or high + max(reach, 0) > dtype.max_value

    def _in_symbolic_block(self, x: Expr, stride: int, size: Expr, lanes: int | Expr) -> bool:
        """The same for a size that is no number: what ``x`` leaves by it, and the last lane, stay below it."""
        if stride < 0 or self.proof_depth >= MAX_PROOF_DEPTH or not (x.dtype.is_scalar and self.is_index(x)):
            return False
        count = IntImm(x.dtype, lanes) if isinstance(lanes, int) else lanes
        if count.dtype is not x.dtype:
            return False
        self.proof_depth += 1
        try:
            rest = self.binary(ir.FloorMod, x, size)
            reach = self.binary(ir.Mul, self.binary(ir.Sub, count, IntImm(x.dtype, 1)), IntImm(x.dtype, stride))
            last = self.binary(ir.Add, rest, reach)
        finally:
            self.proof_depth -= 1
        return self.bound(rest)[0] >= 0 and self.prove_lt(last, size)

    def lane_difference(self, x: Expr, y: Expr) -> tuple[num, num]:
        """Bounds of ``x - y`` in all lanes of two vectors of an index type."""
        p, q = self.bound(x), self.bound(y)
        low, high = p[0] - q[1], p[1] - q[0]
        if low > 0 or high < 0 or self.proof_depth >= MAX_PROOF_DEPTH:
            return (low, high)
        self.proof_depth += 1
        try:
            ends, others = self._lane_ends(x), self._lane_ends(y)
        finally:
            self.proof_depth -= 1
        if ends is not None and others is not None:
            low = max(low, self.difference(ends[0], others[1])[0])
            high = min(high, self.difference(ends[1], others[0])[1])
        return (low, high)

    def _lane_ends(self, x: Expr) -> tuple[Expr, Expr] | None:
        """The least and the greatest lane of a broadcast, or of a ramp with a constant step; None for others."""
        if x.__class__ is ir.Broadcast and x.value.dtype.is_scalar:
            return (x.value, x.value)
        if x.__class__ is not ir.Ramp or x.stride.__class__ is not IntImm or not x.base.dtype.is_scalar:
            return None
        kind, base, lanes = x.base.dtype, x.base, x.lanes
        count = IntImm(kind, lanes) if isinstance(lanes, int) else lanes
        most = self.bound(count)[1]
        if count.dtype is not kind or math.isinf(most) or self._lanes_wrap(base, x.stride.value * (int(most) - 1)):
            return None
        reach = self.binary(ir.Mul, self.binary(ir.Sub, count, IntImm(kind, 1)), x.stride)
        last = self.binary(ir.Add, base, reach)
        return (base, last) if x.stride.value >= 0 else (last, base)

    def same_lanes(self, a: int | Expr, b: int | Expr) -> bool:
        """Whether two numbers of lanes are equal."""
        if isinstance(a, int) or isinstance(b, int):
            return isinstance(a, int) and isinstance(b, int) and a == b
        return self.same(a, b)

    def bound_ne(self, x: Expr, c: int) -> bool:
        """``x != c`` from bounds and modular sets."""
        low, high = self.analyzer.bounds.of(x)
        if c < low or c > high:
            return True
        found = self.analyzer.modular.of(x)
        return (c - found.base) % found.coeff != 0 if found.coeff else found.base != c

    def bound_eq(self, x: Expr, c: int) -> bool:
        """``x == c`` from bounds."""
        return self.analyzer.bounds.of(x) == (c, c)

    def prove_lt(self, x: Expr, y: Expr) -> bool:
        """``x < y``."""
        return self.difference(x, y)[1] < 0

    def prove_le(self, x: Expr, y: Expr) -> bool:
        """``x <= y``."""
        return self.difference(x, y)[1] <= 0

    def prove_gt(self, x: Expr, y: Expr) -> bool:
        """``x > y``."""
        return self.difference(x, y)[0] > 0

    def prove_ge(self, x: Expr, y: Expr) -> bool:
        """``x >= y``."""
        return self.difference(x, y)[0] >= 0

    def prove_eq(self, x: Expr, y: Expr) -> bool:
        """``x == y``."""
        return self.difference(x, y) == (0, 0)

    def prove_ne(self, x: Expr, y: Expr) -> bool:
        """``x != y``."""
        low, high = self.difference(x, y)
        if low > 0 or high < 0:
            return True
        p, q = self.analyzer.modular.of(x), self.analyzer.modular.of(y)
        shared = math.gcd(p.coeff, q.coeff)
        if shared > 1 and (p.base - q.base) % shared != 0:
            return True
        facts = self.analyzer.facts
        if not facts.different or not is_index_type(x.dtype):
            return False
        left, right = (affine_of(self.analyzer.interner, e, MAX_PROOF_TERMS) for e in (x, y))
        # From i == j and j != k follows i != k.
        return left is not None and right is not None and facts.is_never(left - right, 0, self.analyzer.proof_steps)

    def difference(self, x: Expr, y: Expr) -> tuple[num, num]:
        """Bounds of ``x - y``: from the bounds of both, from their affine forms and the facts, then from the rules."""
        bounds = self.analyzer.bounds
        p, q = bounds.of(x), bounds.of(y)
        low, high = p[0] - q[1], p[1] - q[0]
        if x.__class__ is IntImm or y.__class__ is IntImm:
            if not self.analyzer.facts.linear:
                return (low, high)
            if (x.__class__ is Var or y.__class__ is Var) and self.analyzer.proof_steps == 1:
                return (low, high)
        if low > 0 or high < 0 or x.dtype.is_vector or not x.dtype.is_int:
            return (low, high)
        if not is_index_type(x.dtype):
            return (low, high)
        key = (x, y)
        found = self._differences.get(key)
        if found is not None:
            return found
        better = self._difference(x, y)
        result = (max(low, better[0]), min(high, better[1]))
        if self.proof_depth == 0:
            self._differences[key] = result
        return result

    def _product_bound(self, form: Affine[Expr]) -> num:
        """An upper bound of ``p * a + q * b + d * (a * b) + rest`` for positive a and b.

        With ``a0 <= a <= a1`` and ``b0 <= b <= b1`` the first two terms are at most ``(p / b0 + q / a0) * (a * b)``
        where p and q are positive, and ``(p / b1 + q / a1) * (a * b)`` where they are negative.
        """
        bounds, rep = self.analyzer.bounds.of, self.analyzer.interner.representative
        best: num = INF
        for product, factor in form.terms.items():
            if product.__class__ is not ir.Mul:
                continue
            a, b = rep(product.a), rep(product.b)
            (least_a, most_a), (least_b, most_b) = bounds(a), bounds(b)
            if least_a < 1 or least_b < 1 or math.isinf(least_a) or math.isinf(least_b):
                continue
            ends = (least_b, least_a) if factor < 0 else (most_b, most_a)
            weights = [(e, form.terms.get(e, 0), end) for e, end in zip((a, b), ends, strict=True) if end < INF]
            # Terms of the sign of the product add to it, and are bounded by themselves.
            weights = [weight for weight in weights if weight[1] * factor < 0]
            ratio = sum((Fraction(p, int(end)) for _, p, end in weights), Fraction(factor))
            if ratio > 0:
                continue
            taken = {product, *(e for e, _, _ in weights)}
            rest = Affine({atom: c for atom, c in form.terms.items() if atom not in taken}, form.const)
            high = rest.bound(bounds)[1]
            best = min(best, high + math.floor(ratio * int(least_a) * int(least_b)))
        return best

    def _difference(self, x: Expr, y: Expr) -> tuple[num, num]:
        analyzer = self.analyzer
        left, right = (affine_of(analyzer.interner, e, MAX_PROOF_TERMS) for e in (x, y))
        low: num = -INF
        high: num = INF
        if left is not None and right is not None:
            form = left - right
            depth = analyzer.proof_steps
            high = analyzer.facts.upper_bound(form, depth)
            opposite = -form
            low = -analyzer.facts.upper_bound(opposite, depth)
            if analyzer.compares_products:
                high = min(high, self._product_bound(form))
                low = max(low, -self._product_bound(opposite))
            if low > 0 or high < 0 or not form.terms:
                return (low, high)
        if self.proof_depth < MAX_PROOF_DEPTH and (x.__class__ in _DEEP or y.__class__ in _DEEP):
            # Rules see what the affine form does not: min and max, quotients and remainders.
            self.proof_depth += 1
            try:
                least, most = analyzer.bounds.of(self.binary(ir.Sub, x, y))
            finally:
                self.proof_depth -= 1
            low, high = max(low, least), min(high, most)
        return (low, high)
