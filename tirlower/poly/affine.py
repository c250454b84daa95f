"""The space of a function's forms: it interns their atoms, knows bounds and dependences, and does their arithmetic.

Interning makes equal forms equal by identity of their dims. Forms are exact: what wraps is a remainder.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable

from tirlower.arith import intervals
from tirlower.arith.intervals import EVERYTHING, INF, Bound
from tirlower.ir import DataType, Var
from tirlower.poly.conditions import Condition, at_least
from tirlower.poly.few_values import few_values
from tirlower.poly.forms import (
    Atom,
    Choice,
    Compute,
    Computed,
    Dim,
    Div,
    Extremum,
    Form,
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

_LONGEST = 1 << 512
"""Bounds of products beyond it are infinite: what is computed of those below fits a float, as infinite ends are."""


class Space:
    """The dims of one function: their intervals and dependences, and the table that interns atoms.

    ``iterated`` holds the variables that take several values (loops, lanes); any other variable is a parameter.
    ``data`` holds the parameters that are data. ``is_digit(lin, divisor)`` says whether ``0 <= lin < divisor`` is known at the place at hand.
    """

    def __init__(self) -> None:
        self.iterated: set[Var] = set()
        self.ranges: dict[Var, Bound] = {}
        self.lanes: set[Var] = set()
        self.data: frozenset[Var] = frozenset()
        self._is_data: dict[Atom, bool] = {}
        self._atoms: dict[object, Atom] = {}
        self._order: dict[Dim, int] = {}
        self.nothing: frozenset[Var] = frozenset()
        self.is_digit: Callable[[Form, Form], bool] = lambda lin, divisor: False

    def interval_of_dim(self, dim: Dim) -> Bound:
        """The bounds of a dim."""
        if isinstance(dim, Atom):
            return dim.interval
        found = self.ranges.get(dim)
        return found if found is not None else ((0 if dim.nonneg else -INF), INF)

    def interval(self, lin: Form) -> Bound:
        """The bounds of a form, from those of its dims.

        >>> space = Space()
        >>> i = Var("i")
        >>> space.ranges[i] = (0, 7)
        >>> space.interval(single(i).scaled(-2).shifted(3))
        (-11, 3)
        """
        return lin.bound(self.interval_of_dim)

    def settled(self, lin: Form) -> Form:
        """A form within the budget: itself, or one opaque value with its bounds, the same for equal forms."""
        if weight_of(lin) <= MAX_WEIGHT and not any(abs(c) >= _WORD for c in (lin.const, *lin.terms.values())):
            return lin
        interval = _within(_WORD, self.interval(lin))
        limits = _within(_WORD, self.limits(lin)) if self.is_data(lin) else None
        return self.opaque(("form", lin.key), "a value too long to follow", self.deps(lin), interval, limits)

    def limits(self, lin: Form) -> Bound:
        """The bounds of a form, where nothing else is known those of the types of its variables and values."""
        return lin.bound(self._limits_of_dim)

    def _limits_of_dim(self, dim: Dim) -> Bound:
        of_type = EVERYTHING
        if isinstance(dim, Var):
            of_type = limits_of(dim.dtype)
        elif isinstance(dim, Opaque):
            of_type = dim.limits or EVERYTHING
        elif isinstance(dim, (Div, Piecewise, Product)):
            of_type = _combined(dim, self.limits)
        return intervals.intersection(self.interval_of_dim(dim), of_type)

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

    def _intern(self, key: object, make: Callable[[], Atom]) -> Form:
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
        low, high = intervals.floordiv(self.interval(rest), (divisor, divisor))
        if isinstance(low, int) and low == high:
            return whole.shifted(low)
        shared = math.gcd(divisor, *rest.terms.values())
        if shared > 1:
            return whole + self.floordiv(rest.divided(shared)[0], divisor // shared)
        if len(rest.terms) == 1:
            ((dim, c),) = rest.terms.items()
            if c == 1 and isinstance(dim, Div):
                # floor((floor(x / a) + c) / b) == floor((x + c * a) / (a * b))
                return whole + self.floordiv(dim.of.shifted(rest.const * dim.divisor), dim.divisor * divisor)
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
        if low >= 0:
            return self.floordiv(lin, divisor)
        if high <= 0:
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
        interval, divisors = EVERYTHING, self.interval(divisor)
        if divisors[0] >= 0:
            interval = (intervals.floormod if remainder else intervals.floordiv)(self.interval(lin), divisors)
        deps = self.deps(lin) | self.deps(divisor)
        # A divisor that may be 0 is left alone: what the quotient is then is not a question.
        values = few_values(divisor, self.interval) if divisors[0] > 0 else ()
        divide = self.floormod if remainder else self.floordiv
        if len(values) == 1:
            return divide(lin, values[0])
        exact = bool(values) and self._exact(lin) and self._exact(divisor)
        return self._intern(
            _symbolic_key(lin, divisor, remainder),
            lambda: SymbolicDiv(
                lin, divisor, remainder, deps, interval, {value: divide(lin, value) for value in values}, exact
            ),
        )

    def other_part(self, atom: SymbolicDiv) -> SymbolicDiv | None:
        """The remainder that belongs to a quotient by a symbol, or the quotient to a remainder, where some form has it."""
        found = self._atoms.get(_symbolic_key(atom.of, atom.divisor, not atom.remainder))
        return found if isinstance(found, SymbolicDiv) else None

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
            interval = _within(_WORD, intervals.multiply(self.interval(a), self.interval(b)))
            data = self.is_data(a) or self.is_data(b)
            limits = _within(_WORD, intervals.multiply(self.limits(a), self.limits(b))) if data else None
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
        product = functools.reduce(intervals.multiply, map(self.interval_of_dim, factors))
        interval = _within(_LONGEST, product)
        deps: frozenset[Var] = frozenset().union(*(self.deps(single(f)) for f in factors))
        return self._intern((Product, factors), lambda: Product(factors, deps, interval))

    # Pieces

    def extremum(self, options: Iterable[Form], is_max: bool) -> Form:
        """The least or greatest of forms."""
        kept: dict[object, Form] = {}
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
        interval = functools.reduce(intervals.maximum if is_max else intervals.minimum, map(self.interval, choices))
        exact = all(self._exact(c) for c in choices)
        return self._intern(key, lambda: Extremum(is_max, tuple(choices), deps, interval, exact))

    def _undominated(self, options: list[Form], is_max: bool) -> list[Form]:
        kept: list[Form] = []
        for option in options:
            dominated = False
            for other in list(kept):
                low, high = self.interval(other - option)
                if is_max:
                    low, high = -high, -low
                # Here `other` is certainly the better one where high <= 0, `option` where low >= 0.
                if high <= 0:
                    dominated = True
                    break
                if low >= 0:
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
        interval = intervals.union(self.interval(then), self.interval(other))
        deps = self.deps(then) | self.deps(other) | self.deps_of_condition(condition)
        exact = self._exact(then) and self._exact(other) and condition.is_exact
        return single(Choice(condition, (then, other), deps, interval, exact))

    def deps_of_condition(self, condition: Condition) -> frozenset[Var]:
        """The loop variables that a condition is a function of."""
        found: set[Var] = set()
        for lin in condition.forms():
            found |= self.deps(lin)
        return frozenset(found | condition.unknown_deps())

    def opaque(
        self,
        key: object,
        name: str,
        deps: frozenset[Var],
        interval: Bound,
        limits: Bound | None = EVERYTHING,
    ) -> Form:
        """An opaque value; the same one for the same key, a new one for the key None."""
        if key is None:
            return single(Opaque(name, deps, interval, limits))
        return self._intern((Opaque, key), lambda: Opaque(name, deps, interval, limits))

    def computed(
        self,
        key: object,
        name: str,
        deps: frozenset[Var],
        interval: Bound,
        operands: tuple[Form, ...],
        compute: Compute,
        limits: Bound | None,
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


def _symbolic_key(lin: Form, divisor: Form, remainder: bool) -> object:
    return (SymbolicDiv, lin.key, divisor.key, remainder)


def _within(limit: int, interval: Bound) -> Bound:
    """Bounds, without those beyond a limit: squared again and again they would have millions of digits."""
    low, high = interval
    return low if abs(low) < limit else -INF, high if abs(high) < limit else INF


def limits_of(dtype: DataType) -> Bound:
    """The values of an integer type."""
    return (int(dtype.element.min_value), int(dtype.element.max_value)) if dtype.is_integral else EVERYTHING


def _combined(dim: Div | Piecewise | Product, of: Callable[[Form], Bound]) -> Bound:
    """The bound of an atom from those of the forms that it is made of."""
    if isinstance(dim, Div):
        return intervals.floordiv(of(dim.of), (dim.divisor, dim.divisor))
    if isinstance(dim, Product):
        return functools.reduce(intervals.multiply, [of(single(factor)) for factor in dim.factors])
    pick = intervals.union
    if isinstance(dim, Extremum):
        pick = intervals.maximum if dim.is_max else intervals.minimum
    return functools.reduce(pick, map(of, dim.options))


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
