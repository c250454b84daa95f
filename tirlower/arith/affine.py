"""Affine forms: an index expression as ``sum of coefficient * atom + constant``.

Atoms are the representatives of what is no sum, difference or constant multiple. Two expressions whose forms agree are
equal, and the bound of a difference is taken after its terms have cancelled. Long chains and shared operands are
walked once, in topological order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tirlower import ir
from tirlower.arith.bounds import Bound, mul_num
from tirlower.arith.interner import Interner
from tirlower.ir import Expr, IntImm

__all__ = ["Affine", "affine_of", "bound_of_terms", "collect_terms", "without_quotients"]

Terms = dict[Expr, int]

MAX_SCALE = 1 << 16
"""Quotients whose divisors' product is larger are not multiplied out."""

MAX_WEIGHT = 1 << 70
"""A coefficient beyond every type: the sum overflows, and has no useful form."""


class Affine:
    """``sum(coefficient * atom) + constant``, the atoms in order of appearance."""

    __slots__ = ("constant", "terms")

    def __init__(self, terms: Terms, constant: int) -> None:
        self.terms = terms
        self.constant = constant

    def __sub__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            left = terms.get(atom, 0) - coefficient
            if left:
                terms[atom] = left
            else:
                terms.pop(atom, None)
        return Affine(terms, self.constant - other.constant)

    def plus(self, other: Affine, factor: int) -> Affine:
        """``self + factor * other``."""
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            left = terms.get(atom, 0) + coefficient * factor
            if left:
                terms[atom] = left
            else:
                terms.pop(atom, None)
        return Affine(terms, self.constant + factor * other.constant)

    def __repr__(self) -> str:
        return " + ".join([f"{c}*{atom}" for atom, c in self.terms.items()] + [str(self.constant)])


def is_additive(op: Any) -> bool:
    """Whether a node adds, subtracts, or multiplies by a constant."""
    kind = op.__class__
    return (
        kind is ir.Add or kind is ir.Sub or (kind is ir.Mul and (op.b.__class__ is IntImm or op.a.__class__ is IntImm))
    )


def collect_terms(root: Any, limit: int | None = None) -> tuple[list[tuple[Any, int]], int] | None:
    """The leaves of a sum with their coefficients, in order of first appearance, and its constant.

    A shared subexpression is expanded once, its coefficient summed over its uses. None when the sum has more than
    ``limit`` inner nodes, or a coefficient beyond every type.
    """
    if not is_additive(root):
        if root.__class__ is IntImm:
            return [], root.value
        return [(root, 1)], 0
    # Depth-first: `order` lists inner nodes after their operands, `leaves` in order of appearance.
    order: list[Any] = []
    leaves: dict[Any, int] = {}
    seen: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        op, done = stack.pop()
        if done:
            order.append(op)
            continue
        if op in seen:
            continue
        seen.add(op)
        kind = op.__class__
        if kind is ir.Add or kind is ir.Sub:
            stack.append((op, True))
            stack.append((op.b, False))
            stack.append((op.a, False))
        elif kind is ir.Mul and (op.b.__class__ is IntImm or op.a.__class__ is IntImm):
            stack.append((op, True))
            stack.append((op.a if op.b.__class__ is IntImm else op.b, False))
        elif kind is not IntImm:
            leaves[op] = 0
        if limit is not None and len(seen) > limit:
            return None
    weight: dict[Any, int] = dict.fromkeys(order, 0)
    weight[root] = 1
    constant = 0
    for op in reversed(order):
        w = weight[op]
        if not -MAX_WEIGHT < w < MAX_WEIGHT:
            return None
        kind = op.__class__
        if kind is ir.Mul:
            c, operand = (op.b.value, op.a) if op.b.__class__ is IntImm else (op.a.value, op.b)
            parts: tuple[tuple[Any, int], ...] = ((operand, w * c),)
        else:
            parts = ((op.a, w), (op.b, w if kind is ir.Add else -w))
        for operand, factor in parts:
            if operand in weight:
                weight[operand] += factor
            elif operand in leaves:
                leaves[operand] += factor
            else:
                constant += operand.value * factor
    return list(leaves.items()), constant


def affine_of(interner: Interner, expr: Expr, limit: int = 256) -> Affine | None:
    """The affine form of an index expression, or None when it has more than ``limit`` terms."""
    found = collect_terms(expr, limit)
    if found is None:
        return None
    leaves, constant = found
    terms: Terms = {}
    for leaf, coefficient in leaves:
        atom = interner.representative(leaf)
        total = terms.get(atom, 0) + coefficient
        if total:
            terms[atom] = total
        else:
            terms.pop(atom, None)
    return Affine(terms, constant)


def bound_of_terms(terms: Iterable[tuple[Expr, int]], constant: int, bound: Callable[[Expr], Bound]) -> Bound:
    """The bound of a sum from those of its atoms."""
    low: Any = constant
    high: Any = constant
    for atom, coefficient in terms:
        least, most = bound(atom)
        if coefficient > 0:
            low += mul_num(least, coefficient)
            high += mul_num(most, coefficient)
        else:
            low += mul_num(most, coefficient)
            high += mul_num(least, coefficient)
    return (low, high)


def without_quotients(interner: Interner, form: Affine) -> tuple[Affine, int] | None:
    """``(upper, scale)`` with ``scale * form <= upper``, where no term of ``upper`` is a quotient of the form.

    ``c * (x // c)`` lies between ``x - c + 1`` and ``x``. None when no term is a flooring quotient by a positive number.
    """
    quotients: list[tuple[Any, int]] = []
    scale = 1
    for atom, coefficient in form.terms.items():
        op: Any = atom
        if op.__class__ is ir.FloorDiv and op.b.__class__ is IntImm and op.b.value > 0:
            quotients.append((op, coefficient))
            scale = math.lcm(scale, op.b.value)
    if not quotients or scale > MAX_SCALE:
        return None
    upper = form.plus(form, scale - 1)
    for op, coefficient in quotients:
        dividend = affine_of(interner, op.a, 64)
        if dividend is None:
            return None
        weight = coefficient * (scale // op.b.value)
        upper = upper.plus(Affine({op: 1}, 0), -scale * coefficient).plus(dividend, weight)
        if weight < 0:
            upper = Affine(upper.terms, upper.constant - weight * (op.b.value - 1))
    return upper, scale
