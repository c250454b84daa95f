"""Flattened subscripts taken apart: ``(i * n + j) * m + k`` back into ``(i, j, k)``.

A stride is a polynomial in the sizes that multiplies a loop variable, ``m + 1`` in ``i * (m + 1) + j``. Where the strides
of a buffer's subscripts divide each other and every digit but the first is certainly within its range, two subscripts are
equal just where their digits are (Grosser et al., "Optimistic delinearization of parametrically sized arrays", ICS 2015;
here nothing is optimistic: the ranges are proved). A digit that is certainly one range too low or too high is carried.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.poly.affine import Space
from tirlower.poly.forms import Dim, Form, Product, constant, single
from tirlower.poly.implied import infeasible_at
from tirlower.poly.scop import Access, Scop

__all__ = ["delinearize"]

ONE = constant(1)


@dataclass
class _Plan:
    """The strides of some subscripts, greatest first, each divided by the next; which of them a moving dim has."""

    strides: list[Form]
    ratios: list[Form]


def delinearize(scop: Scop, group: Sequence[Access]) -> None:
    """Give the accesses of a buffer their digits, by the symbolic strides that they have in common."""
    arity = {len(access.coordinates) for access in group}
    if len(arity) != 1:
        return
    plans = []
    bases = []
    for axis in range(arity.pop()):
        forms = [access.coordinates[axis] for access in group]
        plans.append(_plan(scop.space, forms))
        # An offset that all of them have changes nothing about which are equal.
        bases.append(min(lin.const for lin in forms))
    if not any(plans):
        return
    # The offset belongs to the last digit (A[i * n + j + 1]) or stands before all of them: one way for the whole group.
    tries = [[0] * len(plans)] + ([bases] if any(bases) else [])
    outcomes = [[_taken_apart(scop, access, plans, offsets) for access in group] for offsets in tries]
    best = next((n for n, outcome in enumerate(outcomes) if None not in outcome), 0)
    for access, digits in zip(group, outcomes[best], strict=True):
        access.digits = digits
        plan = plans[0]
        if digits is not None and plan is not None:
            access.stride = plan.strides[0]
            access.base = tries[best][0]


def _taken_apart(
    scop: Scop, access: Access, plans: Sequence[_Plan | None], offsets: Sequence[int]
) -> tuple[Form, ...] | None:
    digits: list[Form] = []
    for lin, plan, offset in zip(access.coordinates, plans, offsets, strict=True):
        found = [lin] if plan is None else _digits(scop, access, lin.shifted(-offset), plan)
        if found is None:
            return None
        digits += found
    return tuple(digits)


def _by_moving(space: Space, lin: Form) -> tuple[dict[Dim, Form], Form] | None:
    """A form as ``sum of polynomial * moving dim``, and the polynomial that stands alone; None where two moving dims
    multiply each other."""
    found: dict[Dim, Form] = {}
    alone = constant(lin.const)
    for dim, c in lin.terms.items():
        factors: tuple[Dim, ...] = dim.factors if isinstance(dim, Product) else (dim,)
        moving = [f for f in factors if space.deps(single(f))]
        if len(moving) > 1:
            return None
        part = space.product_of(f for f in factors if f not in moving).scaled(c)
        if moving:
            found[moving[0]] = found.get(moving[0], constant(0)) + part
        else:
            alone = alone + part
    return found, alone


def _primitive(lin: Form) -> tuple[Form, int]:
    """A polynomial as its content (with the sign of its first term) times what is left."""
    content = math.gcd(lin.const, *lin.terms.values())
    first = next(iter(lin.terms.values()), lin.const)
    if first < 0:
        content = -content
    return lin.divided(content)[0], content


def _plan(space: Space, forms: Sequence[Form]) -> _Plan | None:
    """The strides that some subscripts have in common; None where there are none."""
    contents: dict[object, tuple[Form, int]] = {}
    symbolic = False
    for lin in forms:
        parts = _by_moving(space, lin)
        if parts is None:
            return None
        for coefficient in parts[0].values():
            if coefficient.is_constant:
                continue
            symbolic = True
            primitive, content = _primitive(coefficient)
            known = contents.get(primitive.key)
            contents[primitive.key] = (primitive, math.gcd(content, known[1]) if known else abs(content))
    if not symbolic:
        return None
    strides = [primitive.scaled(content) for primitive, content in contents.values()]
    strides.sort(key=lambda lin: (-_degree(lin), -max(map(abs, lin.terms.values()))))
    strides.append(ONE)
    # A diagonal's step n + 1 is one of n and one of 1.
    for stride in sorted(strides[:-1], key=lambda lin: -len(lin.terms) - bool(lin.const)):
        others = [other for other in strides if other is not stride]
        if len(others) > 1 and _multiples(space, stride, others) is not None:
            strides = others
    ratios = []
    for upper, lower in itertools.pairwise(strides):
        quotient, rest = space.divide(upper, lower)
        if rest.terms or rest.const or not (quotient.terms or quotient.const > 1):
            return None
        ratios.append(quotient)
    return _Plan(strides, ratios)


def _multiples(space: Space, coefficient: Form, strides: Sequence[Form]) -> list[int] | None:
    """A coefficient as a sum of strides, so many times each; None where that takes more than numbers."""
    found = []
    for stride in strides:
        quotient, coefficient = space.divide(coefficient, stride)
        if not quotient.is_constant:
            return None
        found.append(quotient.const)
    return None if coefficient.terms or coefficient.const else found


def _degree(lin: Form) -> int:
    return max((len(dim.factors) if isinstance(dim, Product) else 1 for dim in lin.terms), default=0)


def _digits(scop: Scop, access: Access, lin: Form, plan: _Plan) -> list[Form] | None:
    """The digits of a subscript, each certainly within its range; None where that is not certain."""
    space = scop.space
    parts = _by_moving(space, lin)
    if parts is None:
        return None
    digits = [constant(0)] * len(plan.strides)
    for dim, coefficient in parts[0].items():
        multiples = _multiples(space, coefficient, plan.strides)
        if multiples is None:
            return None
        for at, multiple in enumerate(multiples):
            digits[at] = digits[at].plus(single(dim), multiple) if multiple else digits[at]
    alone = parts[1]
    for at, stride in enumerate(plan.strides):
        quotient, alone = space.divide(alone, stride)
        digits[at] = digits[at] + quotient
    for at in range(len(digits) - 1, 0, -1):
        if not _carried(scop, access, digits, at, plan.ratios[at - 1]):
            return None
    return digits


def _carried(scop: Scop, access: Access, digits: list[Form], at: int, limit: Form) -> bool:
    """Whether a digit is certainly in its range; one that is certainly a range below or above is carried over."""
    low, high = (-digits[at]).shifted(-1), digits[at] - limit
    if infeasible_at(scop, access, low):
        if infeasible_at(scop, access, high):
            return True
        carry = 1
        if not infeasible_at(scop, access, (limit - digits[at]).shifted(-1)):
            return False
    else:
        carry = -1
        if not infeasible_at(scop, access, digits[at]):
            return False
    digits[at] = digits[at].plus(limit, -carry)
    digits[at - 1] = digits[at - 1].shifted(carry)
    low, high = (-digits[at]).shifted(-1), digits[at] - limit
    return infeasible_at(scop, access, low) and infeasible_at(scop, access, high)
