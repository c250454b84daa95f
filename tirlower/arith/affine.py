"""Affine forms: sums of integer multiples of atoms, and a constant. The one form of the analyzer's proofs and of isl's questions.

:class:`Affine` does not care what its atoms are. Here they are expressions, the representatives of what is no sum,
difference or constant multiple; in :mod:`tirlower.poly.forms` variables and divisions, minima, products of them. Two
expressions whose forms agree are equal, and the bound of a difference is taken after its terms have cancelled. Long
chains and shared operands are walked once, in topological order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeAlias, TypeVar

from tirlower import ir
from tirlower.arith.interner import Interner
from tirlower.arith.intervals import EVERYTHING, Bound, num
from tirlower.ir import Expr, IntImm

__all__ = ["Affine", "affine_of", "collect_terms", "without_quotients"]

MAX_SCALE = 1 << 16
"""Quotients whose divisors' product is larger are not multiplied out."""

MAX_WEIGHT = 1 << 70
"""A coefficient beyond every type: the sum overflows, and has no useful form."""

Atom = TypeVar("Atom", bound=Hashable)

_Parts: TypeAlias = tuple[tuple[Expr, int], ...]
"""The operands of a node of a sum, each with its factor; none of a node that was not looked at."""

LINEAR: frozenset[type[ir.Add | ir.Sub | ir.Mul]] = frozenset((ir.Add, ir.Sub, ir.Mul))
"""The classes of the nodes of sums and products."""


class Affine(Generic[Atom]):
    """``sum(coefficient * atom) + const`` over the integers, the atoms in order of appearance; not changed once built.

    No coefficient is 0. Arithmetic is exact: whether a type holds the values is asked elsewhere.

    >>> form = Affine({"i": 4, "j": 1}, 3)
    >>> form - Affine({"j": 1}, 5), form.scaled(-2), form.plus(form, -1)
    (4*i + -2, -8*i + -2*j + -6, 0)
    """

    __slots__ = ("const", "terms")

    def __init__(self, terms: dict[Atom, int], const: int = 0) -> None:
        self.terms = terms
        self.const = const

    @property
    def key(self) -> tuple[frozenset[tuple[Atom, int]], int]:
        """Equal for equal forms of the same atoms."""
        return frozenset(self.terms.items()), self.const

    @property
    def is_constant(self) -> bool:
        """Whether it is a number."""
        return not self.terms

    def plus(self, other: Affine[Atom], factor: int = 1) -> Affine[Atom]:
        """``self + factor * other``."""
        if not other.terms:
            return Affine(self.terms, self.const + factor * other.const)
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + factor * coefficient
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Affine(terms, self.const + factor * other.const)

    def __add__(self, other: Affine[Atom]) -> Affine[Atom]:
        return self.plus(other)

    def __sub__(self, other: Affine[Atom]) -> Affine[Atom]:
        return self.plus(other, -1)

    def __neg__(self) -> Affine[Atom]:
        return self.scaled(-1)

    def scaled(self, factor: int) -> Affine[Atom]:
        """``factor * self``."""
        if factor == 1:
            return self
        if factor == 0:
            return Affine({})
        return Affine({atom: c * factor for atom, c in self.terms.items()}, self.const * factor)

    def shifted(self, by: int) -> Affine[Atom]:
        """``self + by``."""
        return Affine(self.terms, self.const + by) if by else self

    def without(self, atom: Atom) -> Affine[Atom]:
        """The form without one of its terms."""
        terms = dict(self.terms)
        terms.pop(atom, None)
        return Affine(terms, self.const)

    def divided(self, divisor: int) -> tuple[Affine[Atom], Affine[Atom]]:
        """``(whole, rest)`` with ``self == divisor * whole + rest``: no coefficient of the rest is a multiple of the divisor,
        and its constant is ``const % divisor``.

        >>> Affine({"i": 8, "j": 3}, 9).divided(4)
        (2*i + 2, 3*j + 1)
        """
        whole: dict[Atom, int] = {}
        rest: dict[Atom, int] = {}
        for atom, c in self.terms.items():
            if c % divisor == 0:
                whole[atom] = c // divisor
            else:
                rest[atom] = c
        return Affine(whole, self.const // divisor), Affine(rest, self.const % divisor)

    def bound(self, of: Callable[[Atom], Bound]) -> Bound:
        """The bound of the sum from those of its atoms.

        >>> Affine({"i": -2}, 3).bound({"i": (0, 7)}.__getitem__)
        (-11, 3)
        """
        low: num = self.const
        high: num = self.const
        try:
            for atom, c in self.terms.items():
                least, most = of(atom)
                if c > 0:
                    low += c * least
                    high += c * most
                else:
                    low += c * most
                    high += c * least
        except OverflowError:  # beside an infinite end, a number that is longer than any float
            return EVERYTHING
        return low, high

    def __repr__(self) -> str:
        names = [(getattr(atom, "name", None) or str(atom), c) for atom, c in self.terms.items()]
        parts = [name if c == 1 else f"{c}*{name}" for name, c in names]
        return " + ".join([*parts, str(self.const)] if self.const or not parts else parts)


def is_additive(op: Expr) -> bool:
    """Whether a node adds, subtracts, or multiplies by a constant."""
    return op.__class__ in LINEAR and (
        op.__class__ is not ir.Mul or op.b.__class__ is IntImm or op.a.__class__ is IntImm
    )


def collect_terms(root: Expr, limit: int | None = None) -> tuple[list[tuple[Expr, int]], int] | None:
    """The leaves of a sum with their coefficients, in order of first appearance, and its constant.

    A shared subexpression is expanded once, its coefficient summed over its uses. None when the sum has more than
    ``limit`` inner nodes, or a coefficient beyond every type.
    """
    if not is_additive(root):
        if root.__class__ is IntImm:
            return [], root.value
        return [(root, 1)], 0
    # Depth-first: `order` lists inner nodes after their operands, each with them; `leaves` in order of appearance.
    order: list[tuple[Expr, _Parts]] = []
    leaves: dict[Expr, int] = {}
    seen: set[Expr] = set()
    stack: list[tuple[Expr, _Parts]] = [(root, ())]
    while stack:
        op, parts = entry = stack.pop()
        if parts:
            order.append(entry)
            continue
        if op in seen:
            continue
        seen.add(op)
        if op.__class__ in LINEAR:
            a, b = op.a, op.b
            if op.__class__ is not ir.Mul:
                stack.append((op, ((a, 1), (b, 1 if op.__class__ is ir.Add else -1))))
                stack.append((b, ()))
                stack.append((a, ()))
            elif b.__class__ is IntImm:
                stack.append((op, ((a, b.value),)))
                stack.append((a, ()))
            elif a.__class__ is IntImm:
                stack.append((op, ((b, a.value),)))
                stack.append((b, ()))
            else:
                leaves[op] = 0
        elif op.__class__ is not IntImm:
            leaves[op] = 0
        if limit is not None and len(seen) > limit:
            return None
    weight: dict[Expr, int] = {op: 0 for op, _ in order}
    weight[root] = 1
    constant = 0
    for op, parts in reversed(order):
        w = weight[op]
        if not -MAX_WEIGHT < w < MAX_WEIGHT:
            return None
        for operand, factor in parts:
            if operand in weight:
                weight[operand] += w * factor
            elif operand in leaves:
                leaves[operand] += w * factor
            elif operand.__class__ is IntImm:
                constant += operand.value * w * factor
    return list(leaves.items()), constant


def affine_of(interner: Interner, expr: Expr, limit: int = 256) -> Affine[Expr] | None:
    """The affine form of an index expression, or None when it has more than ``limit`` terms."""
    found = collect_terms(expr, limit)
    if found is None:
        return None
    leaves, constant = found
    terms: dict[Expr, int] = {}
    for leaf, coefficient in leaves:
        atom = interner.representative(leaf)
        total = terms.get(atom, 0) + coefficient
        if total:
            terms[atom] = total
        else:
            terms.pop(atom, None)
    return Affine(terms, constant)


def without_quotients(interner: Interner, form: Affine[Expr]) -> tuple[Affine[Expr], int] | None:
    """``(upper, scale)`` with ``scale * form <= upper``, where no term of ``upper`` is a quotient of the form.

    ``c * (x // c)`` lies between ``x - c + 1`` and ``x``. None when no term is a flooring quotient by a positive number.
    """
    quotients: list[tuple[ir.FloorDiv, int, int]] = []
    scale = 1
    for op, coefficient in form.terms.items():
        if op.__class__ is ir.FloorDiv and op.b.__class__ is IntImm and op.b.value > 0:
            quotients.append((op, op.b.value, coefficient))
            scale = math.lcm(scale, op.b.value)
    if not quotients or scale > MAX_SCALE:
        return None
    upper = form.scaled(scale)
    for quotient, divisor, coefficient in quotients:
        dividend = affine_of(interner, quotient.a, 64)
        if dividend is None:
            return None
        weight = coefficient * (scale // divisor)
        upper = upper.plus(Affine({quotient: 1}), -scale * coefficient).plus(dividend, weight)
        if weight < 0:
            upper = upper.shifted(-weight * (divisor - 1))
    return upper, scale
