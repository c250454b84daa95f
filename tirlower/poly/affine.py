"""Quasi-affine forms: integer sums of variables and of a few kinds of atoms, each with a meaning isl can be told.

An index expression becomes a :class:`Lin`, ``sum of coefficient * dim + constant``. A dim is a variable or an atom: a
floor division by a number, a minimum or maximum, a choice by a condition, a product or a division by a symbol, or an
opaque value (a load, a call) of which only bounds are known. Atoms are interned by a :class:`Space`, so that equal
forms are equal by identity of their dims. Arithmetic on int32 and int64 is taken not to overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tirlower.ir import Var
from tirlower.poly.conditions import AtLeast, Condition, Equal, all_of, any_of, at_least, negate

__all__ = [
    "Atom",
    "Choice",
    "Dim",
    "Div",
    "Extremum",
    "Interval",
    "Lin",
    "Opaque",
    "Product",
    "Space",
    "SymbolicDiv",
    "constant",
    "single",
]

Interval = tuple[int | None, int | None]
"""Least and greatest value; None where there is no bound."""

UNBOUNDED: Interval = (None, None)


class Lin:
    """``sum(coefficient * dim) + const``; not changed once built."""

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[Dim, int], const: int = 0) -> None:
        self.terms = terms
        self.const = const

    @property
    def key(self) -> tuple[frozenset[tuple[Dim, int]], int]:
        """Equal for equal forms of one space."""
        return frozenset(self.terms.items()), self.const

    @property
    def is_constant(self) -> bool:
        """Whether it is a number."""
        return not self.terms

    def plus(self, other: Lin, factor: int = 1) -> Lin:
        """``self + factor * other``."""
        if not other.terms:
            return Lin(self.terms, self.const + factor * other.const)
        terms = dict(self.terms)
        for dim, coefficient in other.terms.items():
            total = terms.get(dim, 0) + factor * coefficient
            if total:
                terms[dim] = total
            else:
                terms.pop(dim, None)
        return Lin(terms, self.const + factor * other.const)

    def __add__(self, other: Lin) -> Lin:
        return self.plus(other)

    def __sub__(self, other: Lin) -> Lin:
        return self.plus(other, -1)

    def __neg__(self) -> Lin:
        return self.scaled(-1)

    def scaled(self, factor: int) -> Lin:
        """``factor * self``."""
        if factor == 1:
            return self
        if factor == 0:
            return Lin({}, 0)
        return Lin({dim: c * factor for dim, c in self.terms.items()}, self.const * factor)

    def shifted(self, by: int) -> Lin:
        """``self + by``."""
        return Lin(self.terms, self.const + by) if by else self

    def without(self, dim: Dim) -> Lin:
        """The form without one of its terms."""
        return Lin({d: c for d, c in self.terms.items() if d is not dim}, self.const)

    def __repr__(self) -> str:
        parts = [f"{c}*{dim.name}" if c != 1 else dim.name for dim, c in self.terms.items()]
        return " + ".join([*parts, str(self.const)] if self.const or not parts else parts)


class Atom:
    """A dim that is no variable. ``deps`` are the loop variables it is a function of, ``interval`` bounds its value,
    ``exact`` says whether isl can be told all of its meaning."""

    __slots__ = ("deps", "exact", "interval", "name")

    def __init__(self, name: str, deps: frozenset[Var], interval: Interval, exact: bool) -> None:
        self.name = name
        self.deps = deps
        self.interval = interval
        self.exact = exact

    def __repr__(self) -> str:
        return self.name


Dim = Var | Atom


class Div(Atom):
    """``floor(of / divisor)`` for a number ``divisor > 0``."""

    __slots__ = ("divisor", "of")
    floors = True

    def __init__(self, of: Lin, divisor: int, deps: frozenset[Var], interval: Interval, exact: bool) -> None:
        super().__init__(f"({of} // {divisor})", deps, interval, exact)
        self.of = of
        self.divisor = divisor


class SymbolicDiv(Atom):
    """``floor(of / divisor)``, or its remainder, for a divisor that is no number (but has one sign, and is not 0)."""

    __slots__ = ("divisor", "of", "remainder")

    def __init__(self, of: Lin, divisor: Lin, remainder: bool, deps: frozenset[Var], interval: Interval) -> None:
        super().__init__(f"(({of}) {'%' if remainder else '//'} ({divisor}))", deps, interval, False)
        self.of = of
        self.divisor = divisor
        self.remainder = remainder


class Extremum(Atom):
    """The least (or greatest) of some forms."""

    __slots__ = ("is_max", "options")

    def __init__(
        self, is_max: bool, options: tuple[Lin, ...], deps: frozenset[Var], interval: Interval, exact: bool
    ) -> None:
        super().__init__(f"{'max' if is_max else 'min'}({', '.join(map(repr, options))})", deps, interval, exact)
        self.is_max = is_max
        self.options = options

    def definition(self, value: Lin) -> Condition:
        """That ``value`` is this extremum."""
        sign = 1 if self.is_max else -1
        # Comparisons as they are: pushing minima out of them would turn them round in a circle.
        bounds = [AtLeast((value - option).scaled(sign)) for option in self.options]
        return all_of([*bounds, any_of([AtLeast((option - value).scaled(sign)) for option in self.options])])


class Choice(Atom):
    """``then`` where a condition holds, else ``other``."""

    __slots__ = ("condition", "other", "then")

    def __init__(
        self, condition: Condition, then: Lin, other: Lin, deps: frozenset[Var], interval: Interval, exact: bool
    ) -> None:
        super().__init__(f"select({condition!r}, {then}, {other})", deps, interval, exact)
        self.condition = condition
        self.then = then
        self.other = other

    def definition(self, value: Lin) -> Condition:
        """That ``value`` is what was chosen."""
        return any_of(
            [
                all_of([self.condition, Equal(value - self.then)]),
                all_of([negate(self.condition), Equal(value - self.other)]),
            ]
        )


class Product(Atom):
    """A product of two or more dims (repeated where squared)."""

    __slots__ = ("factors",)

    def __init__(self, factors: tuple[Dim, ...], deps: frozenset[Var], interval: Interval) -> None:
        super().__init__("*".join(f.name for f in factors), deps, interval, False)
        self.factors = factors


class Opaque(Atom):
    """A value known only by its bounds: what is loaded, called, or computed by an operation that is not affine."""

    __slots__ = ()

    def __init__(self, name: str, deps: frozenset[Var], interval: Interval) -> None:
        super().__init__(name, deps, interval, False)


def constant(value: int) -> Lin:
    """A number as a form."""
    return Lin({}, value)


def single(dim: Dim) -> Lin:
    """A dim as a form."""
    return Lin({dim: 1}, 0)


class Space:
    """The dims of one function: their intervals and dependences, and the table that interns atoms.

    ``iterated`` holds the variables that take several values (loops, lanes); any other variable is a parameter.
    """

    def __init__(self) -> None:
        self.iterated: set[Var] = set()
        self.ranges: dict[Var, Interval] = {}
        self.lanes: set[Var] = set()
        self._atoms: dict[Any, Atom] = {}
        self._order: dict[Dim, int] = {}
        self.nothing: frozenset[Var] = frozenset()

    def interval_of_dim(self, dim: Dim) -> Interval:
        """The bounds of a dim."""
        if isinstance(dim, Atom):
            return dim.interval
        found = self.ranges.get(dim)
        return found if found is not None else ((0 if dim.nonneg else None), None)

    def interval(self, lin: Lin) -> Interval:
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

    def deps(self, lin: Lin) -> frozenset[Var]:
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

    def _exact(self, lin: Lin) -> bool:
        return all(dim.exact for dim in lin.terms if isinstance(dim, Atom))

    def _intern(self, key: Any, make: Callable[[], Atom]) -> Lin:
        atom = self._atoms.get(key)
        if atom is None:
            atom = self._atoms[key] = make()
        return single(atom)

    # Division

    def floordiv(self, lin: Lin, divisor: int) -> Lin:
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
        outside: dict[Dim, int] = {}
        inside: dict[Dim, int] = {}
        for dim, c in lin.terms.items():
            if c % divisor == 0:
                outside[dim] = c // divisor
            else:
                inside[dim] = c
        whole = Lin(outside, lin.const // divisor)
        rest = Lin(inside, lin.const % divisor)
        if not inside:
            return whole
        low, high = self.interval(rest)
        if low is not None and high is not None and low // divisor == high // divisor:
            return whole.shifted(low // divisor)
        shared = math.gcd(divisor, *inside.values())
        if shared > 1:
            rest = Lin({dim: c // shared for dim, c in inside.items()}, rest.const // shared)
            return whole + self.floordiv(rest, divisor // shared)
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

    def floormod(self, lin: Lin, divisor: int) -> Lin:
        """``lin - divisor * floor(lin / divisor)``."""
        return lin.plus(self.floordiv(lin, divisor), -divisor)

    def truncdiv(self, lin: Lin, divisor: int) -> Lin:
        """Division that truncates toward zero."""
        if divisor < 0:
            return -self.truncdiv(lin, -divisor)
        low, high = self.interval(lin)
        if low is not None and low >= 0:
            return self.floordiv(lin, divisor)
        if high is not None and high <= 0:
            return -self.floordiv(-lin, divisor)
        return self.choice(at_least(lin), self.floordiv(lin, divisor), -self.floordiv(-lin, divisor))

    def symbolic_div(self, lin: Lin, divisor: Lin, remainder: bool) -> Lin:
        """``lin // divisor`` or ``lin % divisor`` (flooring) for a divisor that is not a number."""
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

    # Products

    def multiply(self, a: Lin, b: Lin) -> Lin:
        """``a * b``, distributed into products of dims."""
        if a.is_constant:
            return b.scaled(a.const)
        if b.is_constant:
            return a.scaled(b.const)
        result = a.scaled(b.const)
        for dim, c in b.terms.items():
            result = result.plus(single(dim), c * a.const)
            for other, d in a.terms.items():
                result = result.plus(self._product(dim, other), c * d)
        return result

    def _product(self, a: Dim, b: Dim) -> Lin:
        factors = [*(a.factors if isinstance(a, Product) else (a,)), *(b.factors if isinstance(b, Product) else (b,))]
        factors.sort(key=self._rank)
        return self.product_of(factors)

    def _rank(self, dim: Dim) -> int:
        return self._order.setdefault(dim, len(self._order))

    def product_of(self, factors: Iterable[Dim]) -> Lin:
        """The product of dims: 1 of none."""
        factors = tuple(sorted(factors, key=self._rank))
        if not factors:
            return constant(1)
        if len(factors) == 1:
            return single(factors[0])
        intervals = [self.interval_of_dim(f) for f in factors]
        interval: Interval = UNBOUNDED
        if all(low is not None and low >= 0 for low, _ in intervals):
            highs = [high for _, high in intervals if high is not None]
            interval = (0, math.prod(highs) if len(highs) == len(intervals) else None)
        deps: frozenset[Var] = frozenset().union(*(self.deps(single(f)) for f in factors))
        return self._intern((Product, factors), lambda: Product(factors, deps, interval))

    # Pieces

    def extremum(self, options: Iterable[Lin], is_max: bool) -> Lin:
        """The least or greatest of forms."""
        kept: dict[Any, Lin] = {}
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

    def _undominated(self, options: list[Lin], is_max: bool) -> list[Lin]:
        kept: list[Lin] = []
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

    def choice(self, condition: Condition, then: Lin, other: Lin) -> Lin:
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
        return single(Choice(condition, then, other, deps, (low, high), exact))

    def deps_of_condition(self, condition: Condition) -> frozenset[Var]:
        """The loop variables that a condition is a function of."""
        found: set[Var] = set()
        for lin in condition.forms():
            found |= self.deps(lin)
        return frozenset(found | condition.unknown_deps())

    def opaque(self, key: Any, name: str, deps: frozenset[Var], interval: Interval) -> Lin:
        """An opaque value; the same one for the same key, a new one for the key None."""
        if key is None:
            return single(Opaque(name, deps, interval))
        return self._intern((Opaque, key), lambda: Opaque(name, deps, interval))

    def lane(self, lanes: int) -> Var:
        """A variable for the lanes of a vector."""
        var = Var("lane")
        self.ranges[var] = (0, lanes - 1)
        self.iterated.add(var)
        self.lanes.add(var)
        return var
