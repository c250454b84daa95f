"""Conditions over quasi-affine forms: comparisons, conjunctions, disjunctions, and what is not known.

Minima, maxima and choices inside a comparison are pushed out of it: ``v < min(a, b)`` is two comparisons,
``v < max(a, b)`` a disjunction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tirlower.ir import Var
from tirlower.poly.forms import Atom, Choice, Div, Extremum, Form, Piecewise, weight_of

__all__ = [
    "FALSE",
    "TRUE",
    "AllOf",
    "AnyOf",
    "AtLeast",
    "Condition",
    "Equal",
    "Unknown",
    "all_of",
    "any_of",
    "at_least",
    "conjuncts",
    "definition_of",
    "either",
    "equal",
    "negate",
]


MAX_WEIGHT = 2_000
"""The weight of what a comparison is split into at its minima, maxima and choices; past that it keeps them, and the
system that asks defines each of them once."""


class Condition:
    """Base of the conditions. ``weight`` counts comparisons and the dims in them, as often as they occur."""

    __slots__ = ("weight",)
    weight: int

    @property
    def is_true(self) -> bool:
        """Whether it is the constant true."""
        return False

    @property
    def is_false(self) -> bool:
        """Whether it is the constant false."""
        return False

    @property
    def is_exact(self) -> bool:
        """Whether it says all there is to say."""
        return True

    def forms(self) -> Iterator[Form]:
        """The forms compared with zero."""
        yield from ()

    def unknown_deps(self) -> frozenset[Var]:
        """The loop variables that parts not known depend on."""
        return frozenset()

    def holds(self, value: Callable[[Form], int | None]) -> bool | None:
        """Whether it holds where the forms have given values; None where that is not known."""
        return None


class _OfOneForm(Condition):
    __slots__ = ("lin",)

    def __init__(self, lin: Form) -> None:
        self.lin = lin
        self.weight = weight_of(lin) + 1

    @property
    def is_exact(self) -> bool:
        """Whether its atoms are."""
        return _exact(self.lin)

    def forms(self) -> Iterator[Form]:
        """Its form."""
        yield self.lin


class AtLeast(_OfOneForm):
    """``lin >= 0``."""

    __slots__ = ()

    def holds(self, value: Callable[[Form], int | None]) -> bool | None:
        """Whether the value is at least 0."""
        found = value(self.lin)
        return None if found is None else found >= 0

    def __repr__(self) -> str:
        return f"{self.lin} >= 0"


class Equal(_OfOneForm):
    """``lin == 0``."""

    __slots__ = ()

    def holds(self, value: Callable[[Form], int | None]) -> bool | None:
        """Whether the value is 0."""
        found = value(self.lin)
        return None if found is None else found == 0

    def __repr__(self) -> str:
        return f"{self.lin} == 0"


class _Parts(Condition):
    __slots__ = ("parts",)

    def __init__(self, parts: tuple[Condition, ...]) -> None:
        self.parts = parts
        self.weight = sum([part.weight for part in parts])

    @property
    def is_exact(self) -> bool:
        """Whether all parts are."""
        return all(part.is_exact for part in self.parts)

    def forms(self) -> Iterator[Form]:
        """The forms of the parts."""
        for part in self.parts:
            yield from part.forms()

    def unknown_deps(self) -> frozenset[Var]:
        """Those of the parts."""
        return frozenset().union(*(part.unknown_deps() for part in self.parts))


class AllOf(_Parts):
    """A conjunction; true of nothing."""

    __slots__ = ()

    @property
    def is_true(self) -> bool:
        """Whether it has no parts."""
        return not self.parts

    def holds(self, value: Callable[[Form], int | None]) -> bool | None:
        """Whether all parts hold."""
        found = [part.holds(value) for part in self.parts]
        return False if False in found else None if None in found else True

    def __repr__(self) -> str:
        return " and ".join(map(repr, self.parts)) or "true"


class AnyOf(_Parts):
    """A disjunction; false of nothing."""

    __slots__ = ()

    @property
    def is_false(self) -> bool:
        """Whether it has no parts."""
        return not self.parts

    def holds(self, value: Callable[[Form], int | None]) -> bool | None:
        """Whether one part holds."""
        found = [part.holds(value) for part in self.parts]
        return True if True in found else None if None in found else False

    def __repr__(self) -> str:
        return "(" + (" or ".join(map(repr, self.parts)) or "false") + ")"


class Unknown(Condition):
    """A condition that is not affine: it may hold or not, by values at run time."""

    __slots__ = ("deps", "text")

    def __init__(self, text: str, deps: frozenset[Var]) -> None:
        self.text = text
        self.deps = deps
        self.weight = 1

    @property
    def is_exact(self) -> bool:
        """Never."""
        return False

    def unknown_deps(self) -> frozenset[Var]:
        """What it depends on."""
        return self.deps

    def __repr__(self) -> str:
        return f"unknown({self.text})"


TRUE = AllOf(())
FALSE = AnyOf(())


def _exact(lin: Form) -> bool:
    return all(dim.exact for dim in lin.terms if isinstance(dim, Atom))


def all_of(parts: Iterable[Condition]) -> Condition:
    """The conjunction."""
    kept: list[Condition] = []
    for part in parts:
        if part.is_false:
            return FALSE
        if isinstance(part, AllOf):
            kept += part.parts
        else:
            kept.append(part)
    return kept[0] if len(kept) == 1 else AllOf(tuple(kept)) if kept else TRUE


def any_of(parts: Iterable[Condition]) -> Condition:
    """The disjunction."""
    kept: list[Condition] = []
    for part in parts:
        if part.is_true:
            return TRUE
        if isinstance(part, AnyOf):
            kept += part.parts
        else:
            kept.append(part)
    return kept[0] if len(kept) == 1 else AnyOf(tuple(kept)) if kept else FALSE


def at_least(lin: Form) -> Condition:
    """``lin >= 0``, with minima, maxima and choices pushed out."""
    if not lin.terms:
        return TRUE if lin.const >= 0 else FALSE
    if _piece(lin) is None:
        return AtLeast(_without_floors(lin))
    return _split(lin, [MAX_WEIGHT]) or AtLeast(lin)


def _split(lin: Form, left: list[int]) -> Condition | None:
    """``lin >= 0`` as comparisons without minima, maxima and choices; None where they are heavier than ``left``."""
    left[0] -= weight_of(lin) + 1
    if left[0] < 0:
        return None
    found = _piece(lin)
    if found is None:
        return at_least(lin)
    atom, c = found
    rest = lin.without(atom)
    parts: list[Condition] = []
    for option in atom.options:
        part = _split(rest.plus(option, c), left)
        if part is None:
            return None
        parts.append(part)
    if isinstance(atom, Extremum):
        # A minimum is at least something where all its options are, a maximum where one is.
        return all_of(parts) if (c > 0) != atom.is_max else any_of(parts)
    assert isinstance(atom, Choice)
    left[0] -= 2 * atom.condition.weight
    return None if left[0] < 0 else either(atom.condition, *parts)


def either(condition: Condition, then: Condition, other: Condition) -> Condition:
    """``then`` where a condition holds, else ``other``."""
    return any_of([all_of([condition, then]), all_of([negate(condition), other])])


def definition_of(atom: Piecewise, value: Form) -> Condition:
    """That ``value`` is what a minimum, a maximum or a choice is."""
    if isinstance(atom, Choice):
        then, other = (Equal(value - option) for option in atom.options)
        return either(atom.condition, then, other)
    assert isinstance(atom, Extremum)
    sign = 1 if atom.is_max else -1
    # Comparisons as they are: pushing minima out of them would turn them round in a circle.
    bounds = [AtLeast((value - option).scaled(sign)) for option in atom.options]
    return all_of([*bounds, any_of([AtLeast((option - value).scaled(sign)) for option in atom.options])])


def _without_floors(lin: Form) -> Form:
    """The same inequality without its lone floor divisions: ``floor(x / d) >= y`` is ``x >= d * y``."""
    for dim, c in lin.terms.items():
        if c in (1, -1) and isinstance(dim, Div):
            rest = lin.without(dim).scaled(dim.divisor).plus(dim.of, c)
            return _without_floors(rest if c == 1 else rest.shifted(dim.divisor - 1))
    return lin


def equal(lin: Form) -> Condition:
    """``lin == 0``, with minima, maxima and choices pushed out."""
    if not lin.terms:
        return TRUE if lin.const == 0 else FALSE
    if _piece(lin) is None:
        return Equal(lin)
    return all_of([at_least(lin), at_least(-lin)])


def _piece(lin: Form) -> tuple[Piecewise, int] | None:
    for dim, c in lin.terms.items():
        if isinstance(dim, Piecewise):
            return dim, c
    return None


def negate(condition: Condition) -> Condition:
    """The negation; what is not known stays not known."""
    if isinstance(condition, AtLeast):
        return at_least((-condition.lin).shifted(-1))
    if isinstance(condition, Equal):
        return any_of([at_least(condition.lin.shifted(-1)), at_least((-condition.lin).shifted(-1))])
    if isinstance(condition, AllOf):
        return any_of([negate(part) for part in condition.parts])
    if isinstance(condition, AnyOf):
        return all_of([negate(part) for part in condition.parts])
    return condition


def conjuncts(conditions: Sequence[Condition]) -> Iterator[Condition]:
    """The parts of conditions that all hold."""
    for condition in conditions:
        if isinstance(condition, AllOf):
            yield from condition.parts
        else:
            yield condition
