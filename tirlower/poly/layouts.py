"""What tells elements apart: subscripts where a buffer is always seen alike, addresses where it is not.

Accesses of one data variable through one layout compare their subscripts. Through different views they compare
addresses in elements, or in bytes where the element types differ in size. A flattened subscript with symbolic strides,
``(i * n + j) * m + k``, is taken apart again into ``(i, j, k)`` where ``0 <= j < n`` and ``0 <= k < m`` are certain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from tirlower.ir import Buffer, DataType, IntImm, Var
from tirlower.poly.affine import Lin, Product, Space, constant, single
from tirlower.poly.conditions import AtLeast, at_least, conjuncts
from tirlower.poly.expressions import Converter, buffer_forms
from tirlower.poly.scop import Access, Scop
from tirlower.poly.system import BOTH, System

__all__ = ["infeasible_at", "settle"]


def settle(scop: Scop, conv: Converter) -> None:
    """Give every access of a scop its coordinates."""
    groups: dict[Var, list[Access]] = {}
    for access in scop.accesses:
        groups.setdefault(access.data, []).append(access)
    for group in groups.values():
        known = [access for access in group if access.indices is not None]
        if known:
            _settle_group(scop, conv, known)


def _settle_group(scop: Scop, conv: Converter, group: list[Access]) -> None:
    layouts = {_layout_key(conv, access) for access in group}
    if len(layouts) > 1:
        sizes = {_bits(access) for access in group}
        for access in group:
            access.coordinates = (_address(scop, conv, access, len(sizes) > 1),)
    else:
        for access in group:
            access.coordinates = access.site[1] if access.site is not None else access.indices or ()
    if any(_symbolic(lin) for access in group for lin in access.coordinates):
        _delinearize(scop, group)


def _bits(access: Access) -> int:
    dtype = _buffer(access).dtype
    return dtype.bits * dtype.lanes


def _buffer(access: Access) -> Buffer:
    buffer = access.site[0] if access.site is not None else access.buffer
    assert buffer is not None  # accesses without one are not compared by subscripts
    return buffer


def _layout_key(conv: Converter, access: Access) -> Any:
    """Equal for accesses whose subscripts name elements alike."""
    buffer = _buffer(access)
    shift = access.layout.key if isinstance(access.layout, Lin) else None
    # Extents of the last dimensions make the strides; the first one makes none.
    tail = () if buffer.strides else tuple(conv.lin(extent).key for extent in buffer.shape[1:])
    strides = tuple(conv.lin(stride).key for stride in buffer.strides)
    return (
        len(buffer.shape),
        buffer.dtype.bits * buffer.dtype.lanes,
        tail,
        strides,
        conv.lin(buffer.elem_offset).key,
        shift,
        id(access) if _overlaps(buffer) else None,
    )


def _overlaps(buffer: Buffer) -> bool:
    """Whether constant strides let two subscripts name one element (so that addresses are compared)."""
    strides = [stride.value for stride in buffer.strides if isinstance(stride, IntImm)]
    extents = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
    if len(strides) < len(buffer.strides) or len(extents) < len(buffer.shape):
        return 0 in strides
    reach = 1
    for stride, extent in sorted(zip(strides, extents, strict=False)):
        if extent > 1 and stride < reach:
            return True
        reach += stride * max(extent - 1, 0)
    return False


def _address(scop: Scop, conv: Converter, access: Access, in_bytes: bool) -> Lin:
    buffer = _buffer(access)
    _, strides, offset = buffer_forms(conv, buffer)
    indices: Sequence[Lin] = access.site[1] if access.site is not None else access.indices or ()
    address = offset
    for index, stride in zip(indices, strides, strict=True):
        address = address + scop.space.multiply(index, stride)
    if isinstance(access.layout, Lin):
        address = address + access.layout
    if not in_bytes:
        return address
    size = _bytes(buffer.dtype)
    # Each byte of the element: an access touches all of them.
    return address.scaled(size) + single(scop.space.lane(size))


def _bytes(dtype: DataType) -> int:
    return -(-dtype.bits // 8) * dtype.lanes


# Delinearization


def _symbolic(lin: Lin) -> bool:
    return any(isinstance(dim, Product) for dim in lin.terms)


def _delinearize(scop: Scop, group: list[Access]) -> None:
    """Take the coordinates of a group apart by the symbolic strides that they have in common."""
    arity = {len(access.coordinates) for access in group}
    if len(arity) != 1:
        return
    plans = []
    bases = []
    for axis in range(arity.pop()):
        forms = [access.coordinates[axis] for access in group]
        plans.append(_strides(scop.space, forms))
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
        if digits is not None and plan:
            access.stride = scop.space.product_of(plan[0][0]).scaled(plan[0][1])
            access.base = tries[best][0]


def _taken_apart(
    scop: Scop, access: Access, plans: Sequence[list[Stride] | None], offsets: Sequence[int]
) -> tuple[Lin, ...] | None:
    digits: list[Lin] = []
    for lin, plan, offset in zip(access.coordinates, plans, offsets, strict=True):
        found = [lin] if plan is None else _digits(scop, access, lin.shifted(-offset), plan)
        if found is None:
            return None
        digits += found
    return tuple(digits)


Stride = tuple[tuple[Any, ...], int]
"""Factors that do not change with the loops, and a number."""


def _split(space: Space, dim: Any) -> tuple[tuple[Any, ...], Any] | None:
    """A dim as (its factors that do not change, the one that does); None where two change."""
    factors = dim.factors if isinstance(dim, Product) else (dim,)
    fixed = tuple(f for f in factors if not space.deps(single(f)))
    moving = [f for f in factors if space.deps(single(f))]
    if len(moving) > 1:
        return None
    return fixed, (moving[0] if moving else None)


def _strides(space: Space, forms: list[Lin]) -> list[Stride] | None:
    """The strides of some subscripts, greatest first, each a multiple of the next; None where they have none."""
    content: dict[tuple[Any, ...], int] = {}
    for lin in forms:
        for dim, c in lin.terms.items():
            if isinstance(dim, Product):
                parts = _split(space, dim)
                if parts is None:
                    return None
                if parts[1] is not None:
                    content[parts[0]] = math.gcd(content.get(parts[0], 0), c)
    if not content:
        return None
    # A stride that itself is a plain parameter shows as the product with its digit; order by divisibility.
    strides: list[Stride] = sorted(content.items(), key=lambda item: -len(item[0]))
    strides.append(((), 1))
    for upper, lower in itertools.pairwise(strides):
        if _quotient(space, upper, lower) is None:
            return None
    return strides


def _quotient(space: Space, upper: Stride, lower: Stride) -> Lin | None:
    """``upper / lower`` as a form, where it divides."""
    rest = list(upper[0])
    for factor in lower[0]:
        if not any(factor is r for r in rest):
            return None
        rest = _without(rest, factor)
    if upper[1] % lower[1]:
        return None
    return space.product_of(rest).scaled(upper[1] // lower[1])


def _without(items: list[Any], one: Any) -> list[Any]:
    at = next(n for n, item in enumerate(items) if item is one)
    return items[:at] + items[at + 1 :]


def _digits(scop: Scop, access: Access, lin: Lin, strides: list[Stride]) -> list[Lin] | None:
    """The digits of a subscript, each certainly within its range; None where that is not certain."""
    space = scop.space
    table: dict[Any, int] = {stride[0]: n for n, stride in enumerate(strides)}
    digits = [constant(0)] * len(strides)
    for dim, c in lin.terms.items():
        parts = _split(space, dim)
        if parts is None:
            return None
        fixed, moving = parts
        at = table.get(fixed)
        if at is None:
            if moving is not None:
                return None
            digits[-1] = digits[-1].plus(single(dim), c)  # a plain offset
            continue
        if c % strides[at][1]:
            return None
        own = single(moving) if moving is not None else constant(1)
        digits[at] = digits[at].plus(own, c // strides[at][1])
    digits[-1] = digits[-1].shifted(lin.const)
    for at in range(1, len(strides)):
        limit = _quotient(space, strides[at - 1], strides[at])
        if limit is None:
            return None
        if not infeasible_at(scop, access, (-digits[at]).shifted(-1)):
            return None
        if not infeasible_at(scop, access, digits[at] - limit):
            return None
    return digits


def infeasible_at(scop: Scop, access: Access, violation: Lin) -> bool:
    """Whether ``violation >= 0`` certainly holds in no instance of an access."""
    high = scop.space.interval(violation)[1]
    if high is not None and high < 0:
        return True
    if _implied(access, violation):
        return True
    system = System(scop.space, frozenset(scop.space.iterated))
    for condition in (*scop.context, *access.conditions):
        system.add(condition, BOTH)
    for loop in access.loops:
        for condition in loop.conditions:
            system.add(condition, BOTH)
    system.add(at_least(violation), BOTH)
    return system.is_empty()


def _implied(access: Access, violation: Lin) -> bool:
    """Whether one of the access's conditions says at once that ``violation < 0``: ``j < n`` for ``j - n >= 0``."""
    wanted = (-violation).shifted(-1)
    for condition in conjuncts([*access.conditions, *(c for loop in access.loops for c in loop.conditions)]):
        if isinstance(condition, AtLeast):
            lin = condition.lin
            if lin.const <= wanted.const and lin.terms == wanted.terms:
                return True
    return False
