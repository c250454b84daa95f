"""What tells elements apart: subscripts where a buffer is always seen alike, addresses where it is not.

Accesses of one data variable through one layout compare their subscripts. Through different views they compare
addresses in elements, or in bytes where the element types differ in size. A flattened subscript with symbolic strides,
``(i * n + j) * m + k``, is taken apart again into ``(i, j, k)`` where ``0 <= j < n`` and ``0 <= k < m`` are certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tirlower.ir import Buffer, DataType, IntImm, Var
from tirlower.poly.delinearize import delinearize
from tirlower.poly.expressions import Converter, buffer_forms
from tirlower.poly.forms import Lin, Product, single
from tirlower.poly.scop import Access, Scop

__all__ = ["settle"]


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
    if any(isinstance(dim, Product) for access in group for lin in access.coordinates for dim in lin.terms):
        delinearize(scop, group)


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
