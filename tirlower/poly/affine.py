"""The space of a function's forms: it interns their atoms, knows bounds and dependences, and does their arithmetic.

Interning makes equal forms equal by identity of their dims. Forms are exact: what wraps is a remainder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tirlower.ir import Var
from tirlower.poly.conditions import Condition, at_least
from tirlower.poly.forms import (
    UNBOUNDED,
    Atom,
    Choice,
    Compute,
    Computed,
    Dim,
    Div,
    Extremum,
    Form,
    Interval,
    Opaque,
    Piecewise,
    Product,
    SymbolicDiv,
    constant,
    single,
    weight_of,
)  # fmt: skip

__all__ = ["MAX_WEIGHT", "Space"]

MAX_WEIGHT = 400
"""What a form may weigh (the kernels in tests/kernels have at most a tenth of it): a heavier one becomes opaque. Values
bound to names are substituted, so that each of a chain of bindings may weigh twice the one before."""

_WORD = 1 << 63
"""No index is that large: bounds beyond it say nothing, and isl is not asked about such coefficients."""


class Space:
    """The dims of one function: their intervals and dependences, and the table that interns atoms.

    ``iterated`` holds the variables that take several values (loops, lanes); any other variable is a parameter.
    ``data`` holds the parameters that are data. ``is_digit(lin, divisor)`` says whether ``0 <= lin < divisor`` is known at the place at hand.
    """

    def __init__(self) -> None:
        self.iterated: set[Var] = set()
        self.ranges: dict[Var, Interval] = {}
        self.lanes: set[Var] = set()
        self.data: frozenset[Var] = frozenset()
        self._is_data: dict[Atom, bool] = {}
        self._atoms: dict[Any, Atom] = {}
        self._order: dict[Dim, int] = {}
        self.nothing: frozenset[Var] = frozenset()
        self.is_digit: Callable[[Form, Form], bool] = lambda lin, divisor: False

    def interval_of_dim(self, dim: Dim) -> Interval:
        """The bounds of a dim."""
        if isinstance(dim, Atom):
            return dim.interval
        found = self.ranges.get(dim)
        return found if found is not None else ((0 if dim.nonneg else None), None)

    def interval(self, lin: Form) -> Interval:
        """The bounds of a form, from those of its dims.

        >>> space = Space()
        >>> i = Var("i")
        >>> space.ranges[i] = (0, 7)
        >>> space.interval(single(i).scaled(-2).shifted(3))
        (-11, 3)
        """
        low: int | None = lin.const
        high: int | None = lin.const
        for dim, c in lin.terms.items():
            least, most = self.interval_of_dim(dim)
            if c < 0:
                least, most = most, least
            low = None if low is None or least is None else low + c * least
            high = None if high is None or most is None else high + c * most
            if low is None and high is None:
                break
        return low, high

    def settled(self, lin: Form) -> Form:
        """A form within the budget: itself, or one opaque value with its bounds, the same for equal forms."""
        if weight_of(lin) <= MAX_WEIGHT and not any(abs(c) >= _WORD for c in (lin.const, *lin.terms.values())):
            return lin
        interval = _within_words(self.interval(lin))
        limits = _within_words(self.limits(lin)) if self.is_data(lin) else None
        return self.opaque(("form", lin.key), "a value too long to follow", self.deps(lin), interval, limits)

    def limits(self, lin: Form) -> Interval:
        """The bounds of a form, where nothing else is known those of the types of its variables and values."""
        low: int | None = lin.const
        high: int | None = lin.const
        for dim, c in lin.terms.items():
            least, most = self._limits_of_dim(dim)
            if c < 0:
                least, most = most, least
            low = None if low is None or least is None else low + c * least
            high = None if high is None or most is None else high + c * most
        return low, high

    def _limits_of_dim(self, dim: Dim) -> Interval:
        least, most = self.interval_of_dim(dim)
        if isinstance(dim, Var):
            low, high = (int(dim.dtype.min_value), int(dim.dtype.max_value)) if dim.dtype.is_integral else UNBOUNDED
        elif isinstance(dim, Opaque) and dim.limits is not None:
            low, high = dim.limits
        elif isinstance(dim, Product):
            low, high = _product_interval([self._limits_of_dim(factor) for factor in dim.factors])
        elif isinstance(dim, Div):
            low, high = self.limits(dim.of)
            low, high = None if low is None else low // dim.divisor, None if high is None else high // dim.divisor
        elif isinstance(dim, Piecewise):
            ends = [self.limits(option) for option in dim.options]
            lows, highs = [a for a, _ in ends if a is not None], [b for _, b in ends if b is not None]
            low = min(lows) if len(lows) == len(ends) else None
            high = max(highs) if len(highs) == len(ends) else None
        else:
            low, high = UNBOUNDED
        if least is None or (low is not None and low > least):
            least = low
        if most is None or (high is not None and high < most):
            most = high
        return least, most

    def is_data(self, lin: Form) -> bool:
        """Whether a form depends on data: its arithmetic wraps."""
        return any(dim in self.data if isinstance(dim, Var) else self._atom_is_data(dim) for dim in lin.terms)

    def _atom_is_data(self, atom: Atom) -> bool:
        found = self._is_data.get(atom)
        if found is None:
            if isinstance(atom, Computed):
                # Of constants alone it may be any number of its type, as data may.
                operands = atom.operands
                found = any(map(self.is_data, operands)) or all(operand.is_constant for operand in operands)
            else:
                found = isinstance(atom, Opaque) and atom.limits is not None
            found = self._is_data[atom] = (
                found
                or (isinstance(atom, Div) and self.is_data(atom.of))
                or (isinstance(atom, SymbolicDiv) and (self.is_data(atom.of) or self.is_data(atom.divisor)))
                or (isinstance(atom, Piecewise) and any(map(self.is_data, atom.options)))
                or (isinstance(atom, Product) and any(self.is_data(single(factor)) for factor in atom.factors))
            )
        return found

    def deps(self, lin: Form) -> frozenset[Var]:
        """The loop variables that a form is a function of."""
        terms = lin.terms
        if not terms:
            return self.nothing
        found: set[Var] = set()
        for dim in terms:
            if isinstance(dim, Atom):
                found |= dim.deps
            elif dim in self.iterated:
                found.add(dim)
        return frozenset(found)

    def _exact(self, lin: Form) -> bool:
        return all(dim.exact for dim in lin.terms if isinstance(dim, Atom))

    def _intern(self, key: Any, make: Callable[[], Atom]) -> Form:
        atom = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = make()
        return single(atom)

    # Division

    def floordiv(self, lin: Form, divisor: int) -> Form:
        """``floor(lin / divisor)`` for a number other than 0.

        >>> space, i = Space(), Var("i")
        >>> space.ranges[i] = (0, 3)
        >>> space.floordiv(single(Var("n")).scaled(8) + single(i).shifted(4), 4)
        2*n + 1
        """
        if divisor < 0:
            return self.floordiv(-lin, -divisor)
        if divisor == 1:
            return lin
        whole, rest = lin.divided(divisor)
        if not rest.terms:
            return whole
        low, high = self.interval(rest)
        if low is not None and high is not None and low // divisor == high // divisor:
            return whole.shifted(low // divisor)
        shared = math.gcd(divisor, *rest.terms.values())
        if shared > 1:
            return whole + self.floordiv(rest.divided(shared)[0], divisor // shared)
        if len(rest.terms) == 1:
            ((dim, c),) = rest.terms.items()
            if c == 1 and isinstance(dim, Div):
                # floor((floor(x / a) + c) / b) == floor((x + c * a) / (a * b))
                return whole + self.floordiv(dim.of.shifted(rest.const * dim.divisor), dim.divisor * divisor)
        low = None if low is None else low // divisor
        high = None if high is None else high // divisor
        return whole + self._intern(
            (Div, rest.key, divisor), lambda: Div(rest, divisor, self.deps(rest), (low, high), self._exact(rest))
        )

    def floormod(self, lin: Form, divisor: int) -> Form:
        """``lin - divisor * floor(lin / divisor)``."""
        return lin.plus(self.floordiv(lin, divisor), -divisor)

    def truncdiv(self, lin: Form, divisor: int) -> Form:
        """Division that truncates toward zero."""
        if divisor < 0:
            return -self.truncdiv(lin, -divisor)
        low, high = self.interval(lin)
        if low is not None and low >= 0:
            return self.floordiv(lin, divisor)
        if high is not None and high <= 0:
            return -self.floordiv(-lin, divisor)
        return self.choice(at_least(lin), self.floordiv(lin, divisor), -self.floordiv(-lin, divisor))

    def symbolic_div(self, lin: Form, divisor: Form, remainder: bool) -> Form:
        """``lin // divisor`` or ``lin % divisor`` (flooring) for a divisor that is not a number."""
        whole, lin = self.divide(lin, divisor)
        if whole.terms or whole.const or self.is_digit(lin, divisor):
            # floor((q * n + r) / n) == q + floor(r / n)
            if self.is_digit(lin, divisor):
                return lin if remainder else whole
            rest = self.symbolic_div(lin, divisor, remainder)
            return rest if remainder else whole + rest
        low, high = self.interval(divisor)
        least, most = self.interval(lin)
        interval: Interval = UNBOUNDED
        if low is not None and low >= 0:
            if remainder:
                interval = (0, None if high is None else high - 1)
            elif least is not None and least >= 0:
                interval = (0, most)
        deps = self.deps(lin) | self.deps(divisor)
        return self._intern(
            (SymbolicDiv, lin.key, divisor.key, remainder), lambda: SymbolicDiv(lin, divisor, remainder, deps, interval)
        )

    def divide(self, lin: Form, divisor: Form) -> tuple[Form, Form]:
        """``lin`` as ``quotient * divisor + rest``, by division of polynomials in the dims.

        >>> space, i, m = Space(), Var("i"), Var("m")
        >>> stride = single(m).shifted(1)
        >>> space.divide(space.multiply(single(i), stride).shifted(5), stride)
        (i, 5)
        """
        if divisor.is_constant:
            return lin.divided(divisor.const)
        lead, number = max(divisor.terms.items(), key=lambda term: _order_of(self, term[0]))
        factors = _factors(lead)
        whole, rest = constant(0), lin
        for _ in range(len(lin.terms) + len(divisor.terms)):
            for term, c in rest.terms.items():
                left = _left_of(_factors(term), factors)
                if left is not None and c % number == 0:
                    part = self.product_of(left).scaled(c // number)
                    whole, rest = whole + part, rest - self.multiply(part, divisor)
                    break
            else:
                break
        return whole, rest

    # Products

    def multiply(self, a: Form, b: Form) -> Form:
        """``a * b``, distributed into products of dims."""
        if a.is_constant:
            return b.scaled(a.const)
        if b.is_constant:
            return a.scaled(b.const)
        if weight_of(a) * weight_of(b) > MAX_WEIGHT:
            interval = _within_words(_product_interval([self.interval(a), self.interval(b)]))
            data = self.is_data(a) or self.is_data(b)
            limits = _within_words(_product_interval([self.limits(a), self.limits(b)])) if data else None
            key = ("product", frozenset((a.key, b.key)))
            return self.opaque(key, "a product too long to follow", self.deps(a) | self.deps(b), interval, limits)
        result = a.scaled(b.const)
        for dim, c in b.terms.items():
            result = result.plus(single(dim), c * a.const)
            for other, d in a.terms.items():
                result = result.plus(self._product(dim, other), c * d)
        return result

    def _product(self, a: Dim, b: Dim) -> Form:
        factors = [*(a.factors if isinstance(a, Product) else (a,)), *(b.factors if isinstance(b, Product) else (b,))]
        factors.sort(key=self.rank)
        return self.product_of(factors)

    def rank(self, dim: Dim) -> int:
        """The place of a dim in the order of first use in products."""
        return self._order.setdefault(dim, len(self._order))

    def product_of(self, factors: Iterable[Dim]) -> Form:
        """The product of dims: 1 of none."""
        factors = tuple(sorted(factors, key=self.rank))
        if not factors:
            return constant(1)
        if len(factors) == 1:
            return single(factors[0])
        intervals = [self.interval_of_dim(f) for f in factors]
        interval: Interval = UNBOUNDED
        if all(low is not None and low >= 0 for low, _ in intervals):
            highs = [high for _, high in intervals if high is not None]
            interval = (0, math.prod(highs) if len(highs) == len(intervals) else None)
        else:
            interval = _product_interval(intervals)
        deps: frozenset[Var] = frozenset().union(*(self.deps(single(f)) for f in factors))
        return self._intern((Product, factors), lambda: Product(factors, deps, interval))

    # Pieces

    def extremum(self, options: Iterable[Form], is_max: bool) -> Form:
        """The least or greatest of forms."""
        kept: dict[Any, Form] = {}
        for option in options:
            parts = [option]
            if len(option.terms) == 1 and option.const == 0:
                ((dim, c),) = option.terms.items()
                if c == 1 and isinstance(dim, Extremum) and dim.is_max == is_max:
                    parts = list(dim.options)
            for part in parts:
                kept[part.key] = part
        choices = self._undominated(list(kept.values()), is_max)
        if len(choices) == 1:
            return choices[0]
        key = (Extremum, is_max, frozenset(c.key for c in choices))
        deps: frozenset[Var] = frozenset().union(*(self.deps(c) for c in choices))
        ends = [self.interval(c) for c in choices]
        pick = max if is_max else min
        lows = [low for low, _ in ends if low is not None]
        highs = [high for _, high in ends if high is not None]
        # The greatest of several is at least any known lower bound; its upper bound needs all of them.
        low = pick(lows) if lows and (is_max or len(lows) == len(ends)) else None
        high = pick(highs) if highs and (not is_max or len(highs) == len(ends)) else None
        exact = all(self._exact(c) for c in choices)
        return self._intern(key, lambda: Extremum(is_max, tuple(choices), deps, (low, high), exact))

    def _undominated(self, options: list[Form], is_max: bool) -> list[Form]:
        kept: list[Form] = []
        for option in options:
            dominated = False
            for other in list(kept):
                low, high = self.interval(other - option)
                if is_max:
                    low, high = (None if high is None else -high), (None if low is None else -low)
                # Here `other` is certainly the better one where high <= 0, `option` where low >= 0.
                if high is not None and high <= 0:
                    dominated = True
                    break
                if low is not None and low >= 0:
                    kept.remove(other)
            if not dominated:
                kept.append(option)
        return kept

    def choice(self, condition: Condition, then: Form, other: Form) -> Form:
        """``then`` where the condition holds, else ``other``."""
        if condition.is_true:
            return then
        if condition.is_false:
            return other
        if then.key == other.key:
            return then
        (a, b), (c, d) = self.interval(then), self.interval(other)
        low = None if a is None or c is None else min(a, c)
        high = None if b is None or d is None else max(b, d)
        deps = self.deps(then) | self.deps(other) | self.deps_of_condition(condition)
        exact = self._exact(then) and self._exact(other) and condition.is_exact
        return single(Choice(condition, (then, other), deps, (low, high), exact))

    def deps_of_condition(self, condition: Condition) -> frozenset[Var]:
        """The loop variables that a condition is a function of."""
        found: set[Var] = set()
        for lin in condition.forms():
            found |= self.deps(lin)
        return frozenset(found | condition.unknown_deps())

    def opaque(
        self,
        key: Any,
        name: str,
        deps: frozenset[Var],
        interval: Interval,
        limits: Interval | None = UNBOUNDED,
    ) -> Form:
        """An opaque value; the same one for the same key, a new one for the key None."""
        if key is None:
            return single(Opaque(name, deps, interval, limits))
        return self._intern((Opaque, key), lambda: Opaque(name, deps, interval, limits))

    def computed(
        self,
        key: Any,
        name: str,
        deps: frozenset[Var],
        interval: Interval,
        operands: tuple[Form, ...],
        compute: Compute,
        limits: Interval | None,
    ) -> Form:
        """A value of an operation that is not affine: one for the same key."""
        return self._intern((Opaque, key), lambda: Computed(name, deps, interval, operands, compute, limits))

    def lane(self, lanes: int) -> Var:
        """A variable for the lanes of a vector."""
        var = Var("lane")
        self.ranges[var] = (0, lanes - 1)
        self.iterated.add(var)
        self.lanes.add(var)
        return var


def _within_words(interval: Interval) -> Interval:
    """Bounds, without those beyond any index: squared again and again they would have millions of digits."""
    low, high = interval
    return None if low is None or abs(low) >= _WORD else low, None if high is None or abs(high) >= _WORD else high


def _product_interval(intervals: list[Interval]) -> Interval:
    low, high = 1, 1
    for least, most in intervals:
        if least is None or most is None:
            return UNBOUNDED
        ends = (low * least, low * most, high * least, high * most)
        low, high = min(ends), max(ends)
    return low, high


def _factors(dim: Dim) -> tuple[Dim, ...]:
    return dim.factors if isinstance(dim, Product) else (dim,)


def _left_of(factors: tuple[Dim, ...], divisor: tuple[Dim, ...]) -> list[Dim] | None:
    """What is left of some factors without those of a divisor; None where it does not divide them."""
    left = list(factors)
    for factor in divisor:
        at = next((n for n, one in enumerate(left) if one is factor), None)
        if at is None:
            return None
        del left[at]
    return left


def _order_of(space: Space, dim: Dim) -> tuple[int, list[int]]:
    """The order of monomials: by degree, then by the rank of their factors."""
    factors = _factors(dim)
    return len(factors), sorted((space.rank(f) for f in factors), reverse=True)
