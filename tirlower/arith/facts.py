"""What is known where an expression stands: conditions of enclosing ifs, ranges of loops, assumptions.

A fact is kept in every form in which a later question may meet it: the condition itself (and its negation) as a
literal, bounds of its atoms and operands, remainders, and a linear inequality for proofs by combination. Conditions
that read memory are not kept: what they say may change before they are asked again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tirlower import ir
from tirlower.arith.affine import Affine, affine_of, without_quotients
from tirlower.arith.bounds import is_index_type
from tirlower.arith.conditions import conjuncts, is_pure, negated
from tirlower.arith.intervals import INF, Bound, floordiv_num
from tirlower.arith.modular import ModularSet, intersect
from tirlower.ir import Expr, IntImm

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["Facts"]

MAX_LINEAR_ATOMS = 8
MAX_PROOF_FACTS = 64
MAX_REPEATED = 16

Key = TypeVar("Key")
Known = TypeVar("Known")
Terms: TypeAlias = frozenset[tuple[Expr, int]]
"""The atoms of a linear inequality with their coefficients."""


class Facts:
    """The facts of one analyzer, in a stack of scopes."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self.bounds: dict[Expr, Bound] = {}
        self.moduli: dict[Expr, ModularSet] = {}
        self.literals: dict[Expr, bool] = {}
        self.linear: dict[Terms, tuple[Affine[Expr], int]] = {}
        """Inequalities ``form <= limit`` by the form's terms; the forms have no constant and no common factor."""
        self.different: dict[Terms, tuple[Affine[Expr], frozenset[int]]] = {}
        """Values that forms do not take, by the form's terms; the forms have no constant."""
        self.conditions: list[Expr] = []
        self.by_atom: dict[Expr, tuple[Terms, ...]] = {}
        self.beyond_variables = False
        """Whether bounds or remainders of anything but variables have been stated: else no expression is looked up."""
        self._undo: list[Callable[[], object]] = []
        """What takes each fact back, the oldest first."""

    def mark(self) -> tuple[int, int]:
        """A point to :meth:`rollback` to."""
        return len(self._undo), len(self.conditions)

    def rollback(self, mark: tuple[int, int]) -> None:
        """Forget what was added after ``mark``."""
        undo = self._undo
        while len(undo) > mark[0]:
            undo.pop()()
        del self.conditions[mark[1] :]

    def _set(self, table: dict[Key, Known], key: Key, value: Known) -> None:
        self._undo.append(
            partial(table.__setitem__, key, table[key]) if key in table else partial(table.pop, key, None)
        )
        table[key] = value
        if table is self.bounds or table is self.moduli:
            if key.__class__ is not ir.Var:
                self.beyond_variables = True
            # What was computed without this fact is weaker than it need be.
            self._analyzer.bounds.memo = {}
            self._analyzer.modular.memo = {}

    def add(self, condition: Expr) -> None:
        """Take a condition as true."""
        self._analyzer.rewriter.stats.constraints_entered += 1
        parts = [part for part in conjuncts(condition) if is_pure(part)]
        for part in parts:
            self.conditions.append(part)
            self._add_literal(part)
            self._add_comparison(part)
        if 1 < len(parts) <= MAX_REPEATED:
            # Each may say more once the others are known: j >= 0 makes i < 4 of i * 4 + j < 16.
            for part in parts:
                self._add_comparison(part)

    def deny(self, condition: Expr) -> None:
        """Note in the scope just entered that a condition fails, in the form in which it may be met again.

        Its negation, which the scope states, may have been simplified to something else.
        """
        if is_pure(condition):
            self._set(self.literals, self._analyzer.interner.representative(condition), False)

    def _add_literal(self, part: Expr) -> None:
        interner = self._analyzer.interner
        self._set(self.literals, interner.representative(part), True)
        self._set(self.literals, interner.representative(negated(part)), False)

    def _add_comparison(self, part: Expr) -> None:
        if part.__class__ is ir.Not:
            part = negated(part.a)
        if not isinstance(part, ir.CompareOp) or not part.a.dtype.is_integral or part.a.dtype.is_vector:
            return
        a, b, kind = part.a, part.b, part.__class__
        if kind is ir.GT or kind is ir.GE:
            a, b = b, a
            kind = ir.LT if kind is ir.GT else ir.LE
        if kind is ir.NE:
            self._add_different(a, b)
            return
        if kind is ir.EQ:
            self._add_equal(a, b)
        self._add_at_most(a, b, 1 if kind is ir.LT else 0)
        if kind is ir.EQ:
            self._add_at_most(b, a, 0)

    def _add_equal(self, a: Expr, b: Expr) -> None:
        interner = self._analyzer.interner
        for left, right in ((a, b), (b, a)):
            found = self._analyzer.modular.of(right)
            if found.coeff != 1:
                self.restrict_modulus(left, found)
        if a.__class__ is ir.FloorMod or a.__class__ is ir.Mod:
            divisor, rest = a.b, b
            if divisor.__class__ is IntImm and rest.__class__ is IntImm and divisor.value > 0:
                # Truncated or not, what is left over differs from the dividend by a multiple of the divisor.
                self.restrict_modulus(
                    interner.representative(a.a), ModularSet(divisor.value, rest.value % divisor.value)
                )
        elif a.__class__ is ir.FloorDiv and a.b.__class__ is IntImm and b.__class__ is IntImm and a.b.value > 0:
            # i // 8 == 3 says 24 <= i <= 31.
            first = b.value * a.b.value
            last = first + a.b.value - 1
            if a.dtype.min_value <= first and last <= a.dtype.max_value:
                self._add_at_most(IntImm(a.dtype, first), a.a, 0)
                self._add_at_most(a.a, IntImm(a.dtype, last), 0)

    def restrict_modulus(self, expr: Expr, known: ModularSet) -> None:
        """Note that an expression lies in a modular set."""
        if expr.__class__ is IntImm:
            return
        rep = self._analyzer.interner.representative(expr)
        have = self.moduli.get(rep)
        both = known if have is None else intersect(have, known)
        if both is not None:
            self._set(self.moduli, rep, both)

    def _add_different(self, a: Expr, b: Expr) -> None:
        if is_index_type(a.dtype):
            left, right = affine_of(self._analyzer.interner, a), affine_of(self._analyzer.interner, b)
            if left is not None and right is not None and 1 < len((form := left - right).terms) <= MAX_LINEAR_ATOMS:
                key = frozenset(form.terms.items())
                known = self.different.get(key)
                values = (known[1] if known else frozenset()) | {-form.const}
                self._set(self.different, key, (Affine(form.terms), values))
        for x, y in ((a, b), (b, a)):
            low, high = self._analyzer.bounds.of(y)
            if low == high:
                least, most = self._analyzer.bounds.of(x)
                if least == low:
                    self.restrict(x, (least + 1, INF))
                elif most == high:
                    self.restrict(x, (-INF, most - 1))

    def restrict(self, expr: Expr, bound: Bound) -> None:
        """Note a bound of an expression."""
        if expr.__class__ is IntImm:
            return
        rep = self._analyzer.interner.representative(expr)
        have = self.bounds.get(rep, (-INF, INF))
        both = (max(have[0], bound[0]), min(have[1], bound[1]))
        if both != have:
            self._set(self.bounds, rep, both)

    def _add_at_most(self, a: Expr, b: Expr, strict: int) -> None:
        """``a + strict <= b``."""
        bounds = self._analyzer.bounds
        low_a, high_b = bounds.of(a)[0], bounds.of(b)[1]
        self.restrict(a, (-INF, high_b - strict))
        self.restrict(b, (low_a + strict, INF))
        if not is_index_type(a.dtype):
            return
        interner = self._analyzer.interner
        left, right = affine_of(interner, a), affine_of(interner, b)
        if left is None or right is None:
            return
        form = left - right
        limit = -form.const - strict
        self.add_linear(form, limit)
        # What the inequality says of each atom, given the bounds of the others.
        if 0 < len(form.terms) <= MAX_LINEAR_ATOMS:
            for atom, coefficient in form.terms.items():
                room = -strict - form.without(atom).bound(bounds.of)[0]
                if coefficient > 0:
                    self.restrict(atom, (-INF, floordiv_num(room, coefficient)))
                else:
                    self.restrict(atom, (-floordiv_num(room, -coefficient), INF))

    def add_linear(self, form: Affine[Expr], limit: int) -> None:
        """Note ``form - its constant <= limit``."""
        if not form.terms or len(form.terms) > MAX_LINEAR_ATOMS:
            return
        self._note_linear(form, limit)
        expanded = without_quotients(self._analyzer.interner, Affine(form.terms).scaled(-1))
        if expanded is not None and 0 < len(expanded[0].terms) <= MAX_LINEAR_ATOMS:
            # io < n // 4 says io * 4 + 4 <= n.
            lower, scale = expanded
            self._note_linear(-lower, scale * limit + lower.const)

    def _note_linear(self, form: Affine[Expr], limit: int) -> None:
        shared = math.gcd(*form.terms.values())
        reduced = Affine(form.terms).divided(shared)[0]
        limit = limit // shared
        key = frozenset(reduced.terms.items())
        have = self.linear.get(key)
        if have is None or limit < have[1]:
            self._set(self.linear, key, (reduced, limit))
            if have is None:
                for atom in reduced.terms:
                    self._set(self.by_atom, atom, (*self.by_atom.get(atom, ()), key))

    def upper_bound(self, form: Affine[Expr], depth: int) -> int | float:
        """An upper bound of an affine form: from its atoms' bounds, and from adding up to ``depth`` known facts.

        A fact is used with the multiple that cancels one atom of the form, which is how transitivity
        (``a < b`` and ``b < c``) and ``i < n`` for ``4*i + j < 4*n`` come out.
        """
        bounds = self._analyzer.bounds
        best = form.bound(bounds.of)[1]
        if not form.terms or not self.linear:
            return best
        budget = [MAX_PROOF_FACTS]
        best = min(best, self._search(form, depth, best, budget))
        expanded = without_quotients(self._analyzer.interner, form)
        if expanded is not None and expanded[0].terms:
            # io - n // 4 is at most (io * 4 - n + 3) / 4.
            upper, scale = expanded
            high = upper.bound(bounds.of)[1]
            best = min(best, floordiv_num(self._search(upper, depth, high, budget), scale))
        return best

    def is_never(self, form: Affine[Expr], value: int, depth: int) -> bool:
        """Whether a form certainly differs from a value: it is what is known to, plus what is known to be a constant."""
        for other, values in self.different.values():
            for sign in (1, -1):
                rest = form.plus(other, -sign)
                high = self.upper_bound(rest, depth)
                if high == -self.upper_bound(-rest, depth) and sign * (value - high) in values:
                    return True
        return False

    def _search(self, form: Affine[Expr], depth: int, best: int | float, budget: list[int]) -> int | float:
        tried: set[Terms] = set()
        for atom, coefficient in form.terms.items():
            for key in self.by_atom.get(atom, ()):
                found = self.linear.get(key)
                if found is None or key in tried or budget[0] <= 0:
                    continue
                fact, limit = found
                factor, rest = divmod(coefficient, fact.terms[atom])
                if rest or factor <= 0:
                    continue
                tried.add(key)
                budget[0] -= 1
                left = form.plus(fact, -factor)
                extra = factor * limit
                high = left.bound(self._analyzer.bounds.of)[1] + extra
                if high < best:
                    best = high
                if depth > 1 and left.terms:
                    best = min(best, self._search(left, depth - 1, best - extra, budget) + extra)
        return best
