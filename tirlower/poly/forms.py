"""Quasi-affine forms: integer sums of variables and of a few kinds of atoms, each with a meaning isl can be told.

An index expression becomes a :data:`Form`, ``sum of coefficient * dim + constant``: :class:`~tirlower.arith.affine.Affine`
over dims. A dim is a variable or an atom: a floor division by a number, a minimum or maximum, a choice by a condition,
a product or a division by a symbol, or an opaque value (a load, a call) of which only bounds are known.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from tirlower.arith.affine import Affine
from tirlower.arith.intervals import Bound
from tirlower.ir import FloorDiv, FloorMod, Max, Min, Mul, Select, Var
from tirlower.ir.integers import Compute, Value, exact

if TYPE_CHECKING:
    from tirlower.poly.conditions import Condition
    from tirlower.poly.evaluate import Valuation

__all__ = [
    "Atom", "Choice", "Computed", "Dim", "Div", "Extremum", "Form", "Opaque", "Piecewise", "Product",
    "SymbolicDiv", "constant", "single", "weight_of",
]  # fmt: skip


class Atom(abc.ABC):
    """A dim that is no variable. ``deps`` are the loop variables it is a function of, ``interval`` bounds its value,
    ``exact`` says whether isl can be told all of its meaning; ``weight`` is that of what it is made of, and 1."""

    __slots__ = ("deps", "exact", "interval", "weight")

    def __init__(self, weight: int, deps: frozenset[Var], interval: Bound, exact: bool) -> None:
        self.weight = weight + 1
        self.deps = deps
        self.interval = interval
        self.exact = exact

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Its text, made when asked for: it is as long as the atom is heavy."""

    @abc.abstractmethod
    def at(self, point: Valuation) -> Value:
        """Its value at a point, or its values at a vector of points; None where that is not known."""

    def __repr__(self) -> str:
        return self.name


Dim: TypeAlias = Var | Atom
Form: TypeAlias = Affine[Dim]


def weight_of(form: Form) -> int:
    """The dims and comparisons that a form is made of, counted as often as they occur: the work of walking it."""
    total = 0
    for dim in form.terms:
        total += 1 if isinstance(dim, Var) else dim.weight  # Atom is an abstract class, which is asked slowly
    return total


class Div(Atom):
    """``floor(of / divisor)`` for a number ``divisor > 0``."""

    __slots__ = ("divisor", "of")

    def __init__(self, of: Form, divisor: int, deps: frozenset[Var], interval: Bound, exact: bool) -> None:
        super().__init__(weight_of(of), deps, interval, exact)
        self.of = of
        self.divisor = divisor

    @property
    def name(self) -> str:
        """``(of // divisor)``."""
        return f"({self.of} // {self.divisor})"

    def at(self, point: Valuation) -> Value:
        """The quotient."""
        return exact(FloorDiv, point.value(self.of), self.divisor)


class SymbolicDiv(Atom):
    """``floor(of / divisor)``, or its remainder, for a divisor that is no number (but has one sign, and is not 0).

    ``by`` holds the quotient, or the remainder, for each value that the divisor may have, where these are few.
    """

    __slots__ = ("by", "divisor", "of", "remainder")

    def __init__(
        self,
        of: Form,
        divisor: Form,
        remainder: bool,
        deps: frozenset[Var],
        interval: Bound,
        by: Mapping[int, Form],
        exact: bool,
    ) -> None:
        super().__init__(weight_of(of) + weight_of(divisor), deps, interval, exact)
        self.of = of
        self.divisor = divisor
        self.remainder = remainder
        self.by = by

    @property
    def name(self) -> str:
        """``((of) // (divisor))``, or with ``%``."""
        return f"(({self.of}) {'%' if self.remainder else '//'} ({self.divisor}))"

    def at(self, point: Valuation) -> Value:
        """The quotient, or the remainder."""
        return exact(FloorMod if self.remainder else FloorDiv, point.value(self.of), point.value(self.divisor))


class Piecewise(Atom):
    """The value of one of some forms."""

    __slots__ = ("options",)

    def __init__(
        self, weight: int, options: tuple[Form, ...], deps: frozenset[Var], interval: Bound, exact: bool
    ) -> None:
        super().__init__(weight + sum(map(weight_of, options)), deps, interval, exact)
        self.options = options


class Extremum(Piecewise):
    """The least (or greatest) of some forms."""

    __slots__ = ("is_max",)

    def __init__(
        self, is_max: bool, options: tuple[Form, ...], deps: frozenset[Var], interval: Bound, exact: bool
    ) -> None:
        super().__init__(0, options, deps, interval, exact)
        self.is_max = is_max

    @property
    def name(self) -> str:
        """``min(options)`` or ``max(options)``."""
        return f"{'max' if self.is_max else 'min'}({', '.join(map(repr, self.options))})"

    def at(self, point: Valuation) -> Value:
        """The least value, or the greatest."""
        return functools.reduce(partial(exact, Max if self.is_max else Min), map(point.value, self.options))


class Choice(Piecewise):
    """The first option where a condition holds, else the second."""

    __slots__ = ("condition",)

    def __init__(
        self, condition: Condition, options: tuple[Form, Form], deps: frozenset[Var], interval: Bound, exact: bool
    ) -> None:
        super().__init__(condition.weight, options, deps, interval, exact)
        self.condition = condition

    @property
    def name(self) -> str:
        """``select(condition, then, other)``."""
        return f"select({self.condition!r}, {', '.join(map(repr, self.options))})"

    def at(self, point: Valuation) -> Value:
        """The value of the option that the condition chooses; the other one may be unknown."""
        holds = point.holds(self.condition)
        if isinstance(holds, bool):
            return point.value(self.options[0 if holds else 1])
        return None if holds is None else exact(Select, holds, *map(point.value, self.options))


class Product(Atom):
    """A product of two or more dims (repeated where squared)."""

    __slots__ = ("factors",)

    def __init__(self, factors: tuple[Dim, ...], deps: frozenset[Var], interval: Bound) -> None:
        super().__init__(sum(f.weight if isinstance(f, Atom) else 1 for f in factors), deps, interval, False)
        self.factors = factors

    @property
    def name(self) -> str:
        """The factors with ``*`` between them."""
        return "*".join(f.name for f in self.factors)

    def at(self, point: Valuation) -> Value:
        """The product."""
        return functools.reduce(partial(exact, Mul), map(point.of, self.factors))


class Opaque(Atom):
    """A value known only by its bounds: what is loaded, called, or computed by an operation that is not affine.

    ``limits`` are the ends of its type; None says that it is no data.
    """

    __slots__ = ("limits", "text")

    def __init__(self, text: str, deps: frozenset[Var], interval: Bound, limits: Bound | None) -> None:
        super().__init__(0, deps, interval, False)
        self.text = text
        self.limits = limits

    @property
    def name(self) -> str:
        """What it was made from."""
        return self.text

    def at(self, point: Valuation) -> Value:
        """Not known."""
        return None


class Computed(Opaque):
    """A value computed from forms by an operation that is not affine: ``compute`` gives it for values of the operands
    (numbers or vectors of int64), or None where it has none."""

    __slots__ = ("compute", "operands")

    def __init__(
        self,
        name: str,
        deps: frozenset[Var],
        interval: Bound,
        operands: tuple[Form, ...],
        compute: Compute,
        limits: Bound | None,
    ) -> None:
        super().__init__(name, deps, interval, limits)
        self.weight += sum(map(weight_of, operands))
        self.operands = operands
        self.compute = compute

    def at(self, point: Valuation) -> Value:
        """What is computed of the operands' values."""
        values = [point.value(lin) for lin in self.operands]
        return None if any(value is None for value in values) else self.compute(*values)


def constant(value: int) -> Form:
    """A number as a form."""
    return Affine({}, value)


def single(dim: Dim) -> Form:
    """A dim as a form."""
    return Affine({dim: 1})
