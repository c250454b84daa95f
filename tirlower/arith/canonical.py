"""The canonical simplifier: index arithmetic as sums of digits.

Sums, constant multiples, and divisions and remainders by constants are collected into :class:`~.sums.Sum`, where equal
terms meet however far apart they were written, and written back in one order. Everything else is an atom of such sums,
with its own operands made canonical. A sum of any length is collected at once, so chains cost linear time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tirlower import ir
from tirlower.arith.affine import collect_terms, is_additive
from tirlower.arith.bounds import Bound, is_index_type, mul_num
from tirlower.arith.keys import is_impure_call
from tirlower.arith.rewrite import MAX_SCOPES
from tirlower.arith.sums import FLOOR, TRUNC, Split, Sum, add_up, writing_key, writing_order
from tirlower.ir import DataType, Expr, IntImm

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["Canonicalizer"]

_DIVISIONS = {ir.FloorDiv: FLOOR, ir.FloorMod: FLOOR, ir.Div: TRUNC, ir.Mod: TRUNC}
_SCALED = frozenset((ir.Mul, *_DIVISIONS))
_ORDER = frozenset((ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE))
_RULED = frozenset((ir.Min, ir.Max, ir.And, ir.Or, *_ORDER))
_MAX_RULE_ROUNDS = 3
_MAX_LT_FACTORS = 4


class Canonicalizer:
    """Canonical forms under the facts of one analyzer."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._rewriter = analyzer.rewriter
        self.memo: dict[Expr, Expr] = {}
        self.forms: dict[Expr, Sum] = {}
        self._written: dict[tuple[Split, DataType], Expr] = {}
        self._products: dict[tuple[int, ...], Expr] = {}
        self._tainted = False

    # -- the walk ----------------------------------------------------------------------------------------------------
    def simplify(self, root: Expr) -> Expr:
        """The canonical form, as an expression; the same object when it is written so already.

        An expression with effects comes back as it is: its calls may be neither merged nor dropped.
        """
        memo = self.memo
        found = memo.get(root)
        if found is not None:
            return found
        links: dict[Expr, Expr] = {}
        rounds: dict[Expr, int] = {}
        outer_span = self._rewriter.span
        stack: list[Any] = [root]
        while stack:
            op = stack[-1]
            if op in memo:
                stack.pop()
                continue
            link = links.get(op)
            if link is not None:
                if link in memo:
                    memo[op] = memo[link]
                    stack.pop()
                else:
                    stack.append(link)
                continue
            if op.is_leaf:
                memo[op] = self._rewriter.substitution.get(op, op)
                stack.pop()
                continue
            if is_index_type(op.dtype):
                waiting = self._arithmetic(op)
                if waiting is None:
                    stack.pop()
                    continue
            elif self._rewriter.scopes < MAX_SCOPES and self._rewriter.is_choice(op):
                waiting = []
            else:
                waiting = [c for c in op.children() if c not in memo]
            if waiting:
                stack += reversed(waiting)
                continue
            if op.span is not None:
                self._rewriter.span = op.span
            new = self._node(op)
            if new is op or new in memo or new in links or rounds.get(op, 0) >= _MAX_RULE_ROUNDS:
                memo[op] = new = memo.get(new, new)
                memo.setdefault(new, new)
                stack.pop()
            else:
                # Rules made something else of it, whose sums may not be canonical.
                rounds[new] = rounds.get(op, 0) + 1
                links[op] = new
        self._rewriter.span = outer_span
        new = memo[root]
        if self._tainted and self._rewriter.scopes == 0:
            self._tainted = False
            self.memo, self.forms = {}, {}
            return root
        return new

    def form(self, expr: Any) -> Sum:
        """The canonical sum of an index expression that :meth:`simplify` has seen."""
        found = self.forms.get(expr)
        if found is None:
            new: Any = self.memo[expr]
            found = self.forms.get(new)
            if found is None:
                if new.__class__ is IntImm:
                    found = Sum((), new.value)
                else:
                    found = Sum.of(Split(self._analyzer.keys.rep(new)))
            self.forms[expr] = found
        return found

    def _arithmetic(self, op: Any) -> list[Any] | None:
        """Handle a node of index type: the operands it waits for, or None when it is done."""
        memo = self.memo
        kind = op.__class__
        if is_additive(op):
            if self._written_already(op):
                return None
            collected = collect_terms(op)
            assert collected is not None
            leaves, constant = collected
            waiting = [leaf for leaf, factor in leaves if factor and leaf not in memo]
            if waiting:
                return waiting
            self._finish(op, add_up([(self.form(leaf), factor) for leaf, factor in leaves if factor], constant))
            return None
        if kind in _DIVISIONS or kind is ir.Mul:
            waiting = [c for c in (op.a, op.b) if c not in memo]
            if waiting:
                return waiting
            found = self._product(op) if kind is ir.Mul else self._division(op)
            if found is not None:
                self._finish(op, found)
                return None
            return []
        if kind is ir.Cast:
            if op.value not in memo:
                return [op.value]
            if is_index_type(op.value.dtype):
                pushed = self._push_cast(op)
                if pushed is not None:
                    self._finish(op, pushed)
                    return None
            return []
        if self._rewriter.scopes < MAX_SCOPES and self._rewriter.is_choice(op):
            return []
        return [c for c in op.children() if c not in memo]

    def _written_already(self, root: Any) -> bool:
        """Whether a sum stands in its canonical form, read off its spine; notes the form if it does.

        This is the common case, and avoids building the sum anew only to find it unchanged. Leaves that are not
        canonical yet, nested sums, and digits of one index leave the question to the full collection.
        """
        memo, forms = self.memo, self.forms
        op = root
        splits: list[Split] = []
        seen: set[Expr] = set()
        base = 0
        # From the last term to the first; the stages only go backwards: constant taken away (0), terms taken away
        # (1), constant added (2), terms added (3).
        stage = 0
        last: tuple[float, ...] | None = None
        while True:
            kind = op.__class__
            if kind is ir.Add:
                term, sign, rest = op.b, 1, op.a
            elif kind is ir.Sub:
                term, sign, rest = op.b, -1, op.a
            else:
                term, sign, rest = op, 1, None
            if term.__class__ is IntImm:
                value = term.value
                # One constant at most: taken away at the very end, or added between the positive and negative terms.
                # As the first term it is what `c - x` starts with, be it zero.
                if base or value < 0 or stage > 1 or (sign < 0 and stage) or (value == 0 and rest is not None):
                    return False
                base = sign * value
                stage = 1 if sign < 0 else 2
                last = None
                if rest is None:
                    if not splits:
                        return False
                    break
                op = rest
                continue
            scale = sign
            if term.__class__ is ir.Mul and term.b.__class__ is IntImm:
                if term.b.value <= 1:
                    return False
                scale = sign * term.b.value
                term = term.a
            wanted = 1 if sign < 0 else 3
            if stage > wanted:
                return False
            if stage < wanted:
                stage, last = wanted, None
            if memo.get(term) is not term:
                return False
            form = forms.get(term)
            if form is None:
                form = self.form(term)
            if form.base or len(form.splits) != 1:
                return False
            split = form.splits[0]
            if split.scale != 1 or split.index in seen:
                return False
            seen.add(split.index)
            split = split.with_scale(scale)
            key = writing_key(split)
            if last is not None and key > last:
                return False
            last = key
            splits.append(split)
            if rest is None:
                break
            op = rest
        splits.reverse()
        form = Sum(tuple(splits), base)
        forms[root] = form
        memo[root] = root
        return True

    def _finish(self, op: Any, form: Sum) -> None:
        """Note the form of a node, and what it is written as."""
        new: Expr | None
        if op.span is not None:
            self._rewriter.span = op.span
        if op.__class__ in _SCALED and form.base == 0 and len(form.splits) == 1 and form.splits[0].scale < 0:
            # A product keeps its sign in the factor, where a sum would start with a zero: x * -2, not 0 - x * 2.
            split = form.splits[0]
            factor = self._rewriter.imm(split.scale, op.dtype)
            new = None if factor is None else ir.Mul(self._term(split.with_scale(1), op.dtype), factor, span=op.span)
        else:
            new = self.write(form, op.dtype)
        if new is None:
            # A coefficient left the type: the expression stands as it is.
            self.memo[op] = op
            self.forms[op] = Sum.of(Split(self._analyzer.keys.rep(op)))
            return
        if new is not op and self._analyzer.keys.same(new, op):
            new = op
        self.forms[op] = form
        self.memo[op] = new
        if new is not op:
            self.memo.setdefault(new, new)
            self.forms.setdefault(new, form)

    def _node(self, op: Any) -> Expr:
        """A node that is no sum, its operands canonical, after the rules of its class."""
        memo = self.memo
        kind = op.__class__
        rewriter = self._rewriter
        if rewriter.scopes < MAX_SCOPES and rewriter.is_choice(op):
            return rewriter.choice(op, self.simplify)
        if is_impure_call(op):
            self._tainted = True
        if kind in _RULED:
            a, b = memo[op.a], memo[op.b]
            shorter = self._compare(kind, a, b) if kind in _ORDER and is_index_type(a.dtype) else None
            if shorter is not None:
                return shorter
            return rewriter.binary(kind, a, b, op if a is op.a and b is op.b else None)
        new = op.map_children(memo.__getitem__)
        return new if is_index_type(op.dtype) and kind in _DIVISIONS else rewriter.rules_of(new)

    # -- sums --------------------------------------------------------------------------------------------------------
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
            return split.index
        key = (split, dtype)
        found = self._written.get(key)
        if found is None:
            found = split.index
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
        low: Any = form.base
        high: Any = form.base
        for split in form.splits:
            least, most = self._analyzer.bounds.of(self._term(split.with_scale(1), dtype))
            if split.scale > 0:
                low, high = low + mul_num(least, split.scale), high + mul_num(most, split.scale)
            else:
                low, high = low + mul_num(most, split.scale), high + mul_num(least, split.scale)
        if len(form.splits) > 1 and self._analyzer.facts.bounds:
            # A fact may bound the sum as a whole.
            written = self.write(form, dtype)
            if written is not None:
                known = self._analyzer.bounds.of(written)
                return (max(low, known[0]), min(high, known[1]))
        return (low, high)

    # -- products, quotients and remainders --------------------------------------------------------------------------
    def _product(self, op: Any) -> Sum:
        a, b = self.form(op.a), self.form(op.b)
        if a.is_constant:
            return b.scaled(a.base)
        if b.is_constant:
            return a.scaled(b.base)
        (left, p), (right, q) = (self._factor(form, self.memo[x]) for form, x in ((a, op.a), (b, op.b)))
        factors: list[int] = []
        stack: list[Any] = [right, left]
        while stack:
            part = stack.pop()
            if part.__class__ is ir.Mul:
                stack += (part.b, part.a)
            else:
                factors.append(id(self._analyzer.keys.rep(part)))
        key = tuple(sorted(factors))
        # x * y and y * x are one product, written as it was met first.
        index = self._products.get(key)
        if index is None:
            made = op if left is op.a and right is op.b else ir.Mul(left, right, span=op.span)
            index = self._products[key] = self._analyzer.keys.rep(made)
        return Sum.of(Split(index, scale=p * q))

    def _factor(self, form: Sum, expr: Expr) -> tuple[Expr, int]:
        """An operand of a product without its constant factor, and that factor."""
        if form.base == 0 and len(form.splits) == 1:
            split = form.splits[0]
            return self._term(split.with_scale(1), expr.dtype), split.scale
        return expr, 1

    def _division(self, op: Any) -> Sum | None:
        """A quotient or remainder by a constant; None for a symbolic divisor."""
        divisor = self.form(op.b)
        if not divisor.is_constant or divisor.base == 0:
            return None
        kind, c, a = op.__class__, divisor.base, self.form(op.a)
        mode = _DIVISIONS[kind]
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
        result = self._remainder(a, c, mode, op.dtype) if remainder else self._quotient(a, c, mode, op.dtype)
        return result.scaled(sign) if result is not None else None

    def _opaque(self, form: Sum, dtype: DataType) -> Expr | None:
        written = self.write(form, dtype)
        if written is None:
            return None
        index = self._analyzer.keys.rep(written)
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
        if not whole.splits and whole.base == 0 and len(rest.splits) == 1 and rest.base == 0 and mode == TRUNC:
            return self._split_quotient(rest.splits[0], c, mode, dtype)
        if not self._rounds_down(whole, rest, mode, dtype):
            index = self._opaque(a, dtype)
            return None if index is None else Sum.of(Split(index, lower=c, mode=mode))
        low, high = self._bounds(rest, dtype)
        if math.isfinite(low) and math.isfinite(high) and low // c == high // c:
            return whole.divided(c).plus(int(low // c))
        if len(rest.splits) == 1 and rest.base == 0:
            part = self._split_quotient(rest.splits[0], c, mode, dtype)
        else:
            digits = self._higher_digits(rest, c, dtype)
            if digits is not None:
                g, high, _ = digits
                part = self._quotient(high, c // g, mode, dtype)
                part = None if part is None else part.plus(rest.base // c)
            else:
                index = self._opaque(rest, dtype)
                part = None if index is None else Sum.of(Split(index, lower=c, mode=mode))
        return None if part is None else add_up(((whole.divided(c), 1), (part, 1)))

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
            if 0 <= least and most < g:
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
                if split.upper is None or split.upper % lower == 0:
                    return Sum.of(Split(split.index, lower, split.upper, 1, mode))
        index = self._opaque(Sum.of(split), dtype)
        return None if index is None else Sum.of(Split(index, lower=c, mode=mode))

    def _remainder(self, a: Sum, c: int, mode: int, dtype: DataType) -> Sum | None:
        whole, rest = a.separate(c)
        if not rest.splits and rest.base == 0:
            return Sum((), 0)
        if not whole.splits and whole.base == 0 and len(rest.splits) == 1 and rest.base == 0 and mode == TRUNC:
            low, high = self._bounds(rest, dtype)
            if -c < low and high < c:
                return rest
            return self._split_remainder(rest.splits[0], c, mode, dtype)
        if not self._rounds_down(whole, rest, mode, dtype):
            index = self._opaque(a, dtype)
            return None if index is None else Sum.of(Split(index, upper=c, mode=mode))
        low, high = self._bounds(rest, dtype)
        if math.isfinite(low) and math.isfinite(high) and low // c == high // c:
            return rest.plus(-int(low // c) * c)
        if len(rest.splits) == 1 and rest.base == 0:
            return self._split_remainder(rest.splits[0], c, mode, dtype)
        digits = self._higher_digits(rest, c, dtype)
        if digits is not None and (mode == FLOOR or rest.base < c):
            g, top, bottom = digits
            inner = self._remainder(top, c // g, mode, dtype)
            return None if inner is None else add_up(((inner, g), (bottom, 1)))
        if mode == FLOOR:
            rest = Sum(rest.splits, rest.base % c)
        index = self._opaque(rest, dtype)
        return None if index is None else Sum.of(Split(index, upper=c, mode=mode))

    def _split_remainder(self, split: Split, c: int, mode: int, dtype: DataType) -> Sum | None:
        if split.scale % c == 0:
            return Sum((), 0)
        if (split.mode == mode or split.plain) and split.scale > 0 and c % split.scale == 0:
            upper = split.lower * (c // split.scale)
            if split.upper is None:
                return Sum.of(Split(split.index, split.lower, upper, split.scale, mode))
            if upper % split.upper == 0:
                return Sum.of(split)
            if split.upper % upper == 0:
                inner = self._remainder(self.forms.get(split.index) or Sum.of(Split(split.index)), upper, mode, dtype)
                outer = inner if inner is None or split.lower == 1 else self._quotient(inner, split.lower, mode, dtype)
                return None if outer is None else outer.scaled(split.scale)
        index = self._opaque(Sum.of(split), dtype)
        return None if index is None else Sum.of(Split(index, upper=c, mode=mode))

    def _push_cast(self, op: Any) -> Sum | None:
        """A cast of a sum as a sum of casts: to a wider type always, to a narrower one where all parts fit."""
        form = self.form(op.value)
        source, target = op.value.dtype, op.dtype
        if len(form.splits) == 1 and form.base == 0 and form.splits[0].plain and form.splits[0].scale == 1:
            return None
        if target.bits < source.bits:
            least, most = target.min_value, target.max_value
            running = Sum((), form.base)
            for split in form.splits:
                for part in (Sum.of(Split(split.index)), Sum.of(split)):
                    low, high = self._bounds(part, source)
                    if low < least or high > most:
                        return None
                running = Sum((*running.splits, split), form.base)
                low, high = self._bounds(running, source)
                if low < least or high > most:
                    return None
            if not least <= form.base <= most or any((s.upper or s.lower) > most for s in form.splits):
                return None
        splits = []
        for split in form.splits:
            inner = self._rewriter.rules_of(ir.Cast(target, split.index, span=op.span))
            splits.append(split._replace(index=self._analyzer.keys.rep(inner)))
        return add_up(((Sum(tuple(splits), form.base), 1),))

    # -- comparisons -------------------------------------------------------------------------------------------------
    def _compare(self, kind: Any, a: Any, b: Any) -> Expr | None:
        """A comparison with what both sides share taken away and a common factor divided out; None if nothing is."""
        left, right = self.form(a), self.form(b)
        dtype = a.dtype
        if kind is ir.GT or kind is ir.GE:
            left, right = right, left
            kind = ir.LT if kind is ir.GT else ir.LE
        form = add_up(((left, 1), (right, -1)))
        if form.is_constant:
            value = _DECIDE[kind](form.base)
            return self._rewriter.true if value else self._rewriter.false
        cancelled = len(form.splits) < len(left.splits) + len(right.splits)
        if kind is ir.EQ or kind is ir.NE:
            shared = math.gcd(*[s.scale for s in form.splits])
            if form.base % shared:
                return self._rewriter.false if kind is ir.EQ else self._rewriter.true
            if cancelled or shared > 1:
                return self._sides(kind, form.divided(shared), dtype)
            return None
        strict = 1 if kind is ir.LT else 0
        scales = {abs(s.scale) for s in form.splits}
        factors = {math.gcd(*scales), *scales} - {1}
        for g in sorted(factors, reverse=True)[:_MAX_LT_FACTORS]:
            whole, rest = Sum(form.splits, 0).separate(g)
            # g * X + E < 0 (or <= 0) with E between low and high: X stays below one threshold for all E.
            low, high = self._bounds(rest.plus(form.base), dtype)
            if not (math.isfinite(low) and math.isfinite(high)):
                continue
            limit = (-int(low) - strict) // g
            if limit == (-int(high) - strict) // g:
                return self._sides(kind, Sum(whole.divided(g).splits, -limit - strict), dtype)
        return self._sides(kind, form, dtype) if cancelled else None

    def _sides(self, kind: Any, form: Sum, dtype: DataType) -> Expr | None:
        """``form kind 0`` with the positive terms on the left, and the constant where it is positive or alone."""
        left = Sum(tuple([s for s in form.splits if s.scale > 0]), 0)
        right = Sum(tuple([s.scaled(-1) for s in form.splits if s.scale < 0]), 0)
        if not right.splits or (left.splits and form.base < 0):
            right = right.plus(-form.base)
        else:
            left = left.plus(form.base)
        if not left.splits and kind in (ir.EQ, ir.NE):
            left, right = right, left
        p, q = self.write(left, dtype), self.write(right, dtype)
        if p is None or q is None:
            return None
        return self._rewriter.binary(kind, p, q)

    def enter(self) -> Any:
        """Start a scope of more facts; returns what :meth:`leave` needs."""
        outer = (self.memo, self.forms)
        self.memo, self.forms = {}, {}
        return outer

    def leave(self, outer: Any) -> None:
        """Back to the facts before."""
        self.memo, self.forms = outer


_DECIDE: dict[Any, Any] = {
    ir.LT: lambda v: v < 0,
    ir.LE: lambda v: v <= 0,
    ir.EQ: lambda v: v == 0,
    ir.NE: lambda v: v != 0,
}
