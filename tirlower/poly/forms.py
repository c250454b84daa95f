"""Quasi-affine forms: integer sums of variables and of a few kinds of atoms, each with a meaning isl can be told.

An index expression becomes a :class:`Lin`, ``sum of coefficient * dim + constant``. A dim is a variable or an atom: a
floor division by a number, a minimum or maximum, a choice by a condition, a product or a division by a symbol, or an
opaque value (a load, a call) of which only bounds are known.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from tirlower.ir import Var
from tirlower.poly.conditions import AtLeast, Condition, Equal, all_of, any_of, negate

__all__ = [
    "UNBOUNDED", "Atom", "Choice", "Computed", "Dim", "Div", "Extremum", "Interval", "Lin", "Opaque", "Product", "SymbolicDiv",
    "constant", "single",
]  # fmt: skip

Interval = tuple[int | None, int | None]
"""Least and greatest value; None where there is no bound."""

UNBOUNDED: Interval = (None, None)
Compute = Callable[..., Any]


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

    @property
    def weight(self) -> int:
        """The dims and comparisons that it is made of, counted as often as they occur: the work of walking it."""
        total = 0
        for dim in self.terms:
            total += dim.weight if isinstance(dim, Atom) else 1
        return total

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


class Atom(abc.ABC):
    """A dim that is no variable. ``deps`` are the loop variables it is a function of, ``interval`` bounds its value,
    ``exact`` says whether isl can be told all of its meaning; ``weight`` is that of what it is made of, and 1."""

    __slots__ = ("deps", "exact", "interval", "weight")

    def __init__(self, weight: int, deps: frozenset[Var], interval: Interval, exact: bool) -> None:
        self.weight = weight + 1
        self.deps = deps
        self.interval = interval
        self.exact = exact

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Its text, made when asked for: it is as long as the atom is heavy."""

    def __repr__(self) -> str:
        return self.name


Dim = Var | Atom


class Div(Atom):
    """``floor(of / divisor)`` for a number ``divisor > 0``."""

    __slots__ = ("divisor", "of")
    floors = True

    def __init__(self, of: Lin, divisor: int, deps: frozenset[Var], interval: Interval, exact: bool) -> None:
        super().__init__(of.weight, deps, interval, exact)
        self.of = of
        self.divisor = divisor

    @property
    def name(self) -> str:
        """``(of // divisor)``."""
        return f"({self.of} // {self.divisor})"


class SymbolicDiv(Atom):
    """``floor(of / divisor)``, or its remainder, for a divisor that is no number (but has one sign, and is not 0)."""

    __slots__ = ("divisor", "of", "remainder")

    def __init__(self, of: Lin, divisor: Lin, remainder: bool, deps: frozenset[Var], interval: Interval) -> None:
        super().__init__(of.weight + divisor.weight, deps, interval, False)
        self.of = of
        self.divisor = divisor
        self.remainder = remainder

    @property
    def name(self) -> str:
        """``((of) // (divisor))``, or with ``%``."""
        return f"(({self.of}) {'%' if self.remainder else '//'} ({self.divisor}))"


class Extremum(Atom):
    """The least (or greatest) of some forms."""

    __slots__ = ("is_max", "options")

    def __init__(
        self, is_max: bool, options: tuple[Lin, ...], deps: frozenset[Var], interval: Interval, exact: bool
    ) -> None:
        super().__init__(sum(option.weight for option in options), deps, interval, exact)
        self.is_max = is_max
        self.options = options

    @property
    def name(self) -> str:
        """``min(options)`` or ``max(options)``."""
        return f"{'max' if self.is_max else 'min'}({', '.join(map(repr, self.options))})"

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
        super().__init__(condition.weight + then.weight + other.weight, deps, interval, exact)
        self.condition = condition
        self.then = then
        self.other = other

    @property
    def name(self) -> str:
        """``select(condition, then, other)``."""
        return f"select({self.condition!r}, {self.then}, {self.other})"

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
        super().__init__(sum(f.weight if isinstance(f, Atom) else 1 for f in factors), deps, interval, False)
        self.factors = factors

    @property
    def name(self) -> str:
        """The factors with ``*`` between them."""
        return "*".join(f.name for f in self.factors)


class Opaque(Atom):
    """A value known only by its bounds: what is loaded, called, or computed by an operation that is not affine.

    ``limits`` are the ends of its type; None says that it is no data.
    """

    __slots__ = ("limits", "text")

    def __init__(self, text: str, deps: frozenset[Var], interval: Interval, limits: Interval | None) -> None:
        super().__init__(0, deps, interval, False)
        self.text = text
        self.limits = limits

    @property
    def name(self) -> str:
        """What it was made from."""
        return self.text


class Computed(Opaque):
    """A value computed from forms by an operation that is not affine: ``compute`` gives it for values of the operands
    (numbers or vectors of int64), or None where it has none."""

    __slots__ = ("compute", "operands")

    def __init__(
        self,
        name: str,
        deps: frozenset[Var],
        interval: Interval,
        operands: tuple[Lin, ...],
        compute: Compute,
        limits: Interval | None,
    ) -> None:
        super().__init__(name, deps, interval, limits)
        self.weight += sum(operand.weight for operand in operands)
        self.operands = operands
        self.compute = compute


def constant(value: int) -> Lin:
    """A number as a form."""
    return Lin({}, value)


def single(dim: Dim) -> Lin:
    """A dim as a form."""
    return Lin({dim: 1}, 0)
