"""The canonical simplifier: index arithmetic as sums of digits.

Sums, constant multiples, and divisions and remainders by constants are collected into :class:`~.sums.Sum`, where equal
terms meet however far apart they were written, and written back in one order. Everything else is an atom of such sums,
with its own operands made canonical. A sum of any length is collected at once, so chains cost linear time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from tirlower import ir
from tirlower.arith.affine import collect_terms, is_additive
from tirlower.arith.bounds import is_index_type
from tirlower.arith.choices import choice, is_choice
from tirlower.arith.interner import is_impure_call
from tirlower.arith.mixed_radix import DIVISIONS, DigitArithmetic, is_idle
from tirlower.arith.sums import FLOOR, Split, Sum, _new_tuple, add_up, digits_apart, writing_key
from tirlower.ir import DataType, Expr, IntImm
from tirlower.ir.expr import Binary

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["Canonicalizer"]

_SCALED = frozenset((ir.Mul, *DIVISIONS))
_ORDER = frozenset((ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE))
_RULED: frozenset[type[Binary]] = frozenset((ir.Min, ir.Max, ir.And, ir.Or, *_ORDER))
_MAX_RULE_ROUNDS = 3
_MAX_LT_FACTORS = 4


Scope: TypeAlias = tuple[dict[Expr, Expr], dict[Expr, Sum]]
"""What was computed under some facts."""


class Canonicalizer(DigitArithmetic):
    """Canonical forms under the facts of one analyzer."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self._tainted = False
        self._depth = 0

    # -- the walk ----------------------------------------------------------------------------------------------------
    def simplify(self, root: Expr) -> Expr:
        """The canonical form, as an expression; the same object when it is written so already.

        An expression with effects comes back as it is: its calls may be neither merged nor dropped.
        """
        found = self.memo.get(root)
        if found is not None:
            return found
        self._depth += 1
        try:
            new = self._walk(root)
        finally:
            self._depth -= 1
        if self._tainted and self._depth == 0:
            # What was computed may have merged or dropped a call with effects.
            self._tainted = False
            self.memo, self.forms = {}, {}
            return root
        return new

    def _walk(self, root: Expr) -> Expr:
        memo = self.memo
        links: dict[Expr, Expr] = {}
        rounds: dict[Expr, int] = {}
        outer_span = self._rewriter.span
        stack = [root]
        waiting: list[Expr] | None
        while stack:
            op = stack[-1]
            if op in memo:
                stack.pop()
                continue
            if links:
                link = links.get(op)
                if link is not None:
                    if link in memo:
                        memo[op] = memo[link]
                        stack.pop()
                    else:
                        stack.append(link)
                    continue
            if op.is_leaf:
                value = self._rewriter.substitution.get(op, op)
                if value is not op and value not in memo:
                    stack.append(value)  # what takes a variable's place is canonical itself
                    continue
                memo[op] = memo.get(value, value)
                stack.pop()
                continue
            if op.__class__ is ir.Let:
                own = self._analyzer.lets.own(op)
                if own is not op:
                    links[op] = own
                    continue
                waiting = self._let(op)
                if waiting:
                    stack += waiting
                else:
                    stack.pop()
                continue
            if is_index_type(op.dtype):
                waiting = self._arithmetic(op)
                if waiting is None:
                    stack.pop()
                    continue
            elif is_choice(op, self._rewriter):
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
        return memo[root]

    def _arithmetic(self, op: Expr) -> list[Expr] | None:
        """Handle a node of index type: the operands it waits for, or None when it is done."""
        memo = self.memo
        kind = op.__class__
        if is_additive(op):
            pending: list[Expr] | None | Literal[False] = self._written_already(op)
            if pending is not False:
                return pending
            collected = collect_terms(op)
            if collected is None:
                memo[op] = op
                return None
            leaves, constant = collected
            # Terms that cancel are looked at too: they may have effects.
            waiting = [leaf for leaf, _ in leaves if leaf not in memo]
            if waiting:
                return waiting
            form = add_up([(self.form(leaf), factor) for leaf, factor in leaves if factor], constant)
            self._finish(op, self._rejoined(form, op.dtype))
            return None
        if (kind in DIVISIONS or kind is ir.Mul) and isinstance(op, ir.BinaryOp):
            waiting = [c for c in (op.a, op.b) if c not in memo and not self._settle(c)]
            if waiting:
                return waiting
            if op.b.__class__ is IntImm:
                if self._digit_already(op, op.b.value):
                    return None
            elif kind is ir.Mul and op.a.__class__ is ir.Var and op.b.__class__ is ir.Var and self._product_already(op):
                return None
            found = self._product(op) if op.__class__ is ir.Mul else self._division(op)
            if found is not None:
                self._finish(op, found)
                return None
            return []
        if op.__class__ is ir.Cast:
            if op.value not in memo:
                return [op.value]
            if is_index_type(op.value.dtype):
                pushed = self._push_cast(op)
                if pushed is not None:
                    self._finish(op, pushed)
                    return None
            return []
        if is_choice(op, self._rewriter):
            return []
        return [c for c in op.children() if c not in memo]

    def _settle(self, op: Expr) -> bool:
        """Note that a constant, or a variable for which nothing is substituted, is canonical; whether it is one."""
        kind = op.__class__
        if kind is IntImm or (kind is ir.Var and op not in self._rewriter.substitution):
            self.memo[op] = op
            return True
        return False

    def _digit_already(self, op: ir.BinaryOp, c: int) -> bool:
        """Whether ``x % c`` or ``x // c`` stands in its canonical form; notes the form if it does.

        As for sums: the common case, told without building the digit anew. ``x`` is a plain index, or for the quotient
        ``y % (c * n)``; what the bounds decide is left to the full computation.
        """
        kind, index = op.__class__, op.a
        if (kind is not ir.FloorDiv and kind is not ir.FloorMod) or c < 2 or self.memo[index] is not index:
            return False
        form = self.form(index)
        if form.base or len(form.splits) != 1:
            return self._opaque_already(op, form, c)
        atom, lower, upper, scale, mode = form.splits[0]
        if scale != 1 or lower != 1:
            return False
        low, high = self._analyzer.bounds.of(index)
        if low // c == high // c:  # never of infinite ends: their quotient is not a number
            return False
        if kind is ir.FloorMod:
            known = self.forms.get(atom)
            if upper is not None or (known is not None and (len(known.splits) > 1 or known.base)):
                return False
            split = Split(atom, 1, c)
        elif upper is None:
            split = Split(atom, c)
        elif mode == FLOOR and upper > c and upper % c == 0:
            split = Split(atom, c, upper)
        else:
            return False
        self.forms[op] = Sum((split,), 0)
        self.memo[op] = op
        return True

    def _product_already(self, op: ir.BinaryOp) -> bool:
        """Whether a product of two variables stands as it was met first; notes its form if it does."""
        a, b = op.a, op.b
        if self.memo[a] is not a or self.memo[b] is not b:
            return False
        key = (id(a), id(b)) if id(a) <= id(b) else (id(b), id(a))
        index = self._products.get(key)
        if index is None:
            index = self._products[key] = self._analyzer.interner.representative(op)
        if index is not op:
            return False
        self.forms[op] = Sum((Split(op),), 0)
        self.memo[op] = op
        return True

    def _opaque_already(self, op: ir.BinaryOp, form: Sum, c: int) -> bool:
        """The same for a sum of which no term is a multiple of ``c``, or of a divisor of ``c``."""
        base = form.base
        if not form.splits or (base and base % c == 0) or (op.__class__ is ir.FloorMod and not 0 <= base < c):
            return False
        for split in form.splits:
            scale = abs(split.scale)
            if scale > c or scale % c == 0 or (scale > 1 and c % scale == 0):
                return False
            if op.__class__ is ir.FloorMod and is_idle(split, c):
                return False
        low, high = self._bounds(form, op.dtype)
        if low // c == high // c:
            return False
        index = self._analyzer.interner.representative(op.a)
        self.memo.setdefault(index, index)
        self.forms.setdefault(index, form)
        split = Split(index, 1, c) if op.__class__ is ir.FloorMod else Split(index, c)
        self.forms[op] = Sum((split,), 0)
        self.memo[op] = op
        return True

    def _written_already(self, root: Expr) -> list[Expr] | Literal[False] | None:
        """None if a sum stands in its canonical form, read off its spine, which is noted then; False if it may not.

        This is the common case, and avoids building the sum anew only to find it unchanged. Nested sums, and digits
        that merge, leave the question to the full collection. A list are leaves that are to be made canonical first.
        """
        memo, forms = self.memo, self.forms
        op = root
        rest: Expr | None
        splits: list[Split] = []
        seen: set[Expr] = set()
        digits = False  # whether several are of one index
        base = 0
        # From the last term to the first; the stages only go backwards: constant taken away (0), terms taken away
        # (1), constant added (2), terms added (3).
        stage = 0
        last: Split | None = None
        while True:
            if op.__class__ is ir.Add:
                sign, term, rest = 1, op.b, op.a
            elif op.__class__ is ir.Sub:
                sign, term, rest = -1, op.b, op.a
            else:
                sign, term, rest = 1, op, None
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
            is_canonical = memo.get(term)
            if is_canonical is not term:
                if is_canonical is not None or is_additive(term):
                    return False
                if not self._settle(term):
                    return self._pending(root)
            if term.__class__ is ir.Var:
                split = _new_tuple(Split, (term, 1, None, scale, FLOOR))
            else:
                known = forms.get(term) or self.form(term)
                if known.base or len(known.splits) != 1:
                    return False
                split = known.splits[0]
                if split.scale != 1:
                    return False
                if scale != 1:
                    split = split.with_scale(scale)
            if split.atom in seen:
                digits = True
            seen.add(split.atom)
            if last is not None and scale <= last.scale:
                if scale < last.scale or writing_key(split) > writing_key(last):
                    return False
            last = split
            splits.append(split)
            if rest is None:
                break
            op = rest
        splits.reverse()
        if digits and not digits_apart(splits):
            return False
        forms[root] = Sum(tuple(splits), base)
        memo[root] = root
        return None

    def _pending(self, root: Expr) -> list[Expr]:
        """The leaves of a sum that are not canonical yet, in order of appearance; variables are settled at once."""
        found: list[Expr] = []
        seen: set[Expr] = set()
        stack = [root]
        while stack:
            op = stack.pop()
            if op.__class__ is IntImm or op in seen:
                continue
            if op.__class__ is ir.Add or op.__class__ is ir.Sub:
                stack.append(op.b)
                stack.append(op.a)
                seen.add(op)
            elif op.__class__ is ir.Mul and (op.b.__class__ is IntImm or op.a.__class__ is IntImm):
                stack.append(op.a if op.b.__class__ is IntImm else op.b)
                seen.add(op)
            elif op not in self.memo and not self._settle(op):
                found.append(op)
                seen.add(op)
        return found

    def _finish(self, op: Expr, form: Sum) -> None:
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
            self.forms[op] = Sum.of(Split(self._analyzer.interner.representative(op)))
            return
        if new is not op and self._analyzer.interner.same(new, op):
            new = op
        self.forms[op] = form
        self.memo[op] = new
        if new is not op:
            self.memo.setdefault(new, new)
            self.forms.setdefault(new, form)

    def _let(self, op: ir.Let) -> list[Expr]:
        """Handle a let: its value, then its body under what is known of the value; what it waits for, if anything."""
        memo = self.memo
        if op.value not in memo:
            return [op.value]
        if op.body not in memo:
            self._rewriter.enter_let(op.var, memo[op.value])
            return [op.body]
        memo[op] = new = self._rewriter.make_let(op, memo[op.value], memo[op.body])
        memo.setdefault(new, new)
        return []

    def _node(self, op: Expr) -> Expr:
        """A node that is no sum, its operands canonical, after the rules of its class."""
        memo = self.memo
        kind = op.__class__
        rewriter = self._rewriter
        if is_choice(op, rewriter):
            return choice(op, rewriter, self.simplify)
        if is_impure_call(op):
            self._tainted = True
        if op.__class__ in _RULED:
            a, b = memo[op.a], memo[op.b]
            shorter = self._compare(op.__class__, a, b) if kind in _ORDER and is_index_type(a.dtype) else None
            if shorter is not None:
                return shorter
            return rewriter.binary(op.__class__, a, b, op if a is op.a and b is op.b else None)
        new = op.map_children(memo.__getitem__)
        return new if is_index_type(op.dtype) and kind in DIVISIONS else rewriter.rules_of(new)

    # -- casts and comparisons ----------------------------------------------------------------------------------------
    def _push_cast(self, op: ir.Cast) -> Sum | None:
        """A cast of a sum as a sum of casts: to a wider type always, to a narrower one where all parts fit."""
        form = self.form(op.value)
        source, target = op.value.dtype, op.dtype
        if len(form.splits) == 1 and form.base == 0 and form.splits[0].plain and form.splits[0].scale == 1:
            return None
        if target.bits < source.bits:
            least, most = target.min_value, target.max_value
            # In whatever order the parts are added.
            lowest: float = min(form.base, 0)
            highest: float = max(form.base, 0)
            for split in form.splits:
                for part in (Sum.of(Split(split.atom)), Sum.of(split)):
                    low, high = self._bounds(part, source)
                    if low < least or high > most:
                        return None
                lowest, highest = lowest + min(low, 0), highest + max(high, 0)
            if lowest < least or highest > most:
                return None
            if not least <= form.base <= most or any((s.upper or s.lower) > most for s in form.splits):
                return None
        splits = []
        for split in form.splits:
            inner = self._rewriter.rules_of(ir.Cast(target, split.atom, span=op.span))
            splits.append(split._replace(atom=self._analyzer.interner.representative(inner)))
        return add_up(((Sum(tuple(splits), form.base), 1),))

    def _compare(self, kind: type[Binary], a: Expr, b: Expr) -> Expr | None:
        """A comparison with what both sides share taken away and a common factor divided out; None if nothing is."""
        left, right = self.form(a), self.form(b)
        if len(left.splits) + len(right.splits) == 1:
            ((_, _, _, scale, _),) = left.splits or right.splits
            if abs(scale) == 1 and (left.base if left.splits else right.base) == 0:
                return None  # an index against a constant: nothing to cancel or to divide by
        dtype = a.dtype
        if kind is ir.GT or kind is ir.GE:
            left, right = right, left
            kind = ir.LT if kind is ir.GT else ir.LE
        if right.splits and left.splits:
            form = add_up(((left, 1), (right, -1)))
        else:
            form = Sum(left.splits or tuple([s.scaled(-1) for s in right.splits]), left.base - right.base)
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
            # g * X + E < 0 (or <= 0) with E between low and high: X stays below one threshold for all E.
            rest = tuple([s for s in form.splits if s.scale % g])
            low, high = self._bounds(Sum(rest, form.base), dtype)
            if not (math.isfinite(low) and math.isfinite(high)):
                continue
            limit = (-int(low) - strict) // g
            if limit == (-int(high) - strict) // g:
                whole = tuple([s.with_scale(s.scale // g) for s in form.splits if s.scale % g == 0])
                return self._sides(kind, Sum(whole, -limit - strict), dtype)
        return self._sides(kind, form, dtype) if cancelled else None

    def _sides(self, kind: type[Binary], form: Sum, dtype: DataType) -> Expr | None:
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

    def enter(self) -> Scope:
        """Start a scope of more facts; returns what :meth:`leave` needs."""
        outer = (self.memo, self.forms)
        self.memo, self.forms = {}, {}
        return outer

    def leave(self, outer: Scope) -> None:
        """Back to the facts before."""
        self.memo, self.forms = outer


_DECIDE: dict[object, Callable[[int], bool]] = {
    ir.LT: lambda v: v < 0,
    ir.LE: lambda v: v <= 0,
    ir.EQ: lambda v: v == 0,
    ir.NE: lambda v: v != 0,
}
