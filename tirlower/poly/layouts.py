"""What tells elements apart: subscripts where a buffer is always seen alike, addresses where it is not.

Accesses of one memory through one layout compare their subscripts, if two subscripts never name one element and the layout
is the same in all iterations. Through different views they compare addresses in elements, or in bytes where the element
types differ in size or a pointer is not aligned to them. A flattened subscript with symbolic strides,
``(i * n + j) * m + k``, is taken apart again into ``(i, j, k)`` where ``0 <= j < n`` and ``0 <= k < m`` are certain.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.ir import Buffer, DataType, Var
from tirlower.poly.affine import Space
from tirlower.poly.delinearize import delinearize
from tirlower.poly.expressions import Converter, buffer_forms
from tirlower.poly.forms import Form, Opaque, Product, constant, single
from tirlower.poly.scop import Access, Scop

__all__ = ["Layout", "layout_of", "settle"]

_MAX_ORDERS = 24
"""The orders of dimensions in which strides are tried to be nested."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of a buffer lie: ``shift`` bytes and ``offset`` elements past the start of its memory, by
    ``strides`` in elements of ``size`` bytes.

    ``nested`` says that two subscripts inside the shape never name one element; ``moves`` that it differs between
    iterations; ``fixed`` that it may be kept for other accesses of the buffer.
    """

    buffer: Buffer
    strides: tuple[Form, ...]
    offset: Form
    shift: Form
    size: int
    key: object
    nested: bool
    moves: bool
    fixed: bool


def layout_of(conv: Converter, buffer: Buffer, shift: Form) -> Layout:
    """The layout of a buffer at the place at hand, its pointer ``shift`` bytes into the memory."""
    space = conv.space
    shape, strides, offset = buffer_forms(conv, buffer)
    # Extents of the last dimensions make the strides; the first one makes none.
    tail = shape if buffer.strides else shape[1:]
    forms = (*strides, *tail, offset, shift)
    size = _bytes(buffer.dtype)
    bits = buffer.dtype.bits * buffer.dtype.lanes
    key = (len(shape), bits, bool(buffer.strides), tuple(lin.key if lin.terms else lin.const for lin in forms))
    repeats = buffer.buffer_type == "auto_broadcast"  # strides that are 0 where the extent is 1
    nested = not repeats and (not buffer.strides or _nested(space, shape, strides))
    moves = any(lin.terms and space.deps(lin) for lin in forms)
    fixed = not moves and not any(isinstance(dim, Opaque) for lin in forms for dim in lin.terms)
    return Layout(buffer, strides, offset, shift, size, key, nested, moves, fixed)


def _nested(space: Space, shape: Sequence[Form], strides: Sequence[Form]) -> bool:
    """Whether the strides are certainly nested: in some order each is beyond all that the dimensions below it reach."""
    if any(extent.is_constant and extent.const <= 0 for extent in shape):
        return True
    dims = [
        (-stride if stride.is_constant and stride.const < 0 else stride, extent)
        for stride, extent in zip(strides, shape, strict=True)
        if not (extent.is_constant and extent.const == 1)
    ]
    dims.sort(key=lambda dim: dim[0].const if dim[0].is_constant else 0)
    # Row-major first, then by the size of the strides, then whatever else.
    orders = itertools.chain([tuple(reversed(dims))], itertools.islice(itertools.permutations(dims), _MAX_ORDERS))
    return any(_in_order(space, order) for order in orders)


def _in_order(space: Space, dims: Sequence[tuple[Form, Form]]) -> bool:
    reach = constant(1)
    for stride, extent in dims:
        if space.interval(stride - reach)[0] < 0:
            return False
        reach = reach + space.multiply(stride, extent.shifted(-1))
    return True


def settle(scop: Scop) -> None:
    """Give every access of a scop its coordinates."""
    groups: dict[Var, list[Access]] = {}
    for access in scop.accesses:
        if access.indices is not None:
            groups.setdefault(access.data, []).append(access)
    for group in groups.values():
        _settle_group(scop, group)


def _settle_group(scop: Scop, group: list[Access]) -> None:
    layouts = {access.layout.key: access.layout for access in group if access.layout is not None}
    only = next(iter(layouts.values()))
    stated = only.buffer in scop.stated_strides
    if len(layouts) == 1 and not only.moves and (only.nested or stated):
        if not only.nested and any(access.is_write for access in group):
            scop.nested_strides[only.buffer] = group
        for access in group:
            access.coordinates = access.site[1] if access.site is not None else access.indices or ()
    else:
        in_bytes = len({layout.size for layout in layouts.values()}) > 1 or any(
            number % layout.size
            for layout in layouts.values()
            for number in (layout.shift.const, *layout.shift.terms.values())
        )
        for access in group:
            access.coordinates = (_address(scop, access, in_bytes),)
    if any(isinstance(dim, Product) for access in group for lin in access.coordinates for dim in lin.terms):
        delinearize(scop, group)


def _address(scop: Scop, access: Access, in_bytes: bool) -> Form:
    layout = access.layout
    assert layout is not None  # the access has subscripts
    indices: Sequence[Form] = access.site[1] if access.site is not None else access.indices or ()
    address = layout.offset
    for index, stride in zip(indices, layout.strides, strict=True):
        address = address + scop.space.multiply(index, stride)
    size, shift = layout.size, layout.shift
    if in_bytes:
        # Each byte of the element: an access touches all of them.
        return address.scaled(size) + shift + single(scop.space.lane(size))
    return address + shift.divided(size)[0]


def _bytes(dtype: DataType) -> int:
    return -(-dtype.bits // 8) * dtype.lanes
