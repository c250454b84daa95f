"""What the calls of a GPU touch through their pointers: the elements that a thread names, or any of a buffer.

A pointer operand is a data variable and an offset in its elements. Operands in a thread's own memory are taken as
whole; of memory that threads share it matters which elements each thread touches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tirlower.ir import BufferLoad, Call, DataType, Expr, IntImm, Op, Var, build, const
from tirlower.ir.dtype import PointerType

__all__ = ["PointerUse", "pointer_uses"]

_ROW = 8
"""The elements of a matrix's row, which each thread of a ldmatrix or stmatrix points to."""


class PointerUse(NamedTuple):
    """Elements of a pointer's memory that a call reads or writes; ``extent`` None means any.

    ``of_warp`` says that each thread touches what all threads of its warp name. ``box`` has for each dimension of a tensor
    the first coordinate, how many there are, and the extent, outside of which nothing is touched; ``strides`` are the tensor's.
    """

    data: Var
    dtype: DataType
    offset: Expr
    extent: int | None
    is_write: bool
    of_warp: bool = False
    box: tuple[tuple[Expr, int, Expr], ...] = ()
    strides: tuple[Expr, ...] = ()


def _use(args: tuple[Expr, ...], at: int, count: int | None, is_write: bool) -> list[PointerUse]:
    """The operand at a position and its offset behind it; nothing if it is no pointer that is known here."""
    data = args[at]
    if isinstance(data, Call):
        if data.op is Op.find("tir.tvm_access_ptr") and isinstance(base := data.args[1], Var):
            return [PointerUse(base, data.args[0].dtype, build.add(data.args[2], args[at + 1]), count, is_write)]
        if _is_address(data) and isinstance(load := data.args[0], BufferLoad):
            return [PointerUse(load.buffer.data, load.buffer.dtype, args[at + 1], None, is_write)]
    if not isinstance(data, Var) or not isinstance(data.type, PointerType):
        return []
    return [PointerUse(data, data.type.element, args[at + 1], count, is_write)]


def _cp_async(args: tuple[Expr, ...]) -> list[PointerUse]:
    found = []
    for at, is_write in ((0, True), (2, False)):
        for use in _use(args, at, None, is_write):
            if isinstance(args[4], IntImm) and not _is_address(args[at]):
                bits = use.dtype.bits * use.dtype.lanes
                use = use._replace(extent=max(1, -(-args[4].value * 8 // bits)))
            found.append(use)
    return found


def _rows(args: tuple[Expr, ...], at: int, is_write: bool) -> list[PointerUse]:
    """The matrix rows that the threads of a warp name, each of which the whole warp reads or writes."""
    return [use._replace(of_warp=True) for use in _use(args, at, _ROW, is_write)]


def _is_address(data: Expr) -> bool:
    """Whether a pointer is an element's address, from which anything may be reached."""
    return isinstance(data, Call) and data.op is Op.find("tir.address_of")


def _mma(args: tuple[Expr, ...]) -> list[PointerUse]:
    sums = [use for is_write in (False, True) for use in _use(args, 10, None, is_write)]
    return [*_use(args, 6, None, False), *_use(args, 8, None, False), *sums]


def _fill(args: tuple[Expr, ...]) -> list[PointerUse]:
    count = args[0].value if isinstance(args[0], IntImm) and not _is_address(args[1]) else None
    return [use._replace(extent=count) for use in _use(args, 1, None, True)]


def _tile(args: tuple[Expr, ...], at: int, rank_at: int, is_write: bool) -> list[PointerUse]:
    """The box of a tensor that a tile copy moves; any element where its extents are not known."""
    found = _use((args[at], const(0, "int32")), 0, None, is_write)
    stated = args[rank_at]
    if not isinstance(stated, IntImm) or isinstance(args[at], Call):
        return found
    rank, first = stated.value, rank_at + 1
    coordinates, counts, extents = (args[first + k * rank : first + (k + 1) * rank] for k in range(3))
    strides = (*args[first + 3 * rank : first + 4 * rank - 1], const(1, "int32"))
    if len(strides) != rank or not all(isinstance(count, IntImm) for count in counts):
        return found
    if not all(each.dtype.is_integral for each in (*coordinates, *extents, *strides)):
        return found  # code generation says what is wrong with it
    sizes = [count.value for count in counts if isinstance(count, IntImm)]
    box = tuple(zip(coordinates, sizes, extents, strict=True))
    return [use._replace(box=box, strides=strides) for use in found]


_Uses = Callable[[tuple[Expr, ...]], list[PointerUse]]
_USES: dict[str, _Uses] = {
    "ptx_cp_async": _cp_async,
    "ptx_ldmatrix": lambda args: [*_use(args, 3, None, True), *_rows(args, 5, False)],
    "ptx_stmatrix": lambda args: [*_rows(args, 3, True), *_use(args, 5, None, False)],
    "ptx_mma": _mma,
    "mma_fill": _fill,
    "ptx_cp_async_bulk": lambda args: [*_use(args, 0, None, True), *_use(args, 2, None, False)],
    "ptx_cp_async_bulk_tensor": lambda args: [*_use(args, 0, None, True), *_tile(args, 2, 5, False)],
    "ptx_wgmma": lambda args: [
        *(use for is_write in (False, True) for use in _use(args, 3, None, is_write)),
        *_use(args, 5, None, False),
        *_use(args, 7, None, False),
    ],
    "ptx_cp_async_bulk_tensor_store": lambda args: [
        *_tile(args, 0, 4, True),
        *_use(args, 1, None, False),
    ],
}


def pointer_uses(call: Call) -> list[PointerUse] | None:
    """What a call of the device touches, or None for one about which nothing is known here.

    >>> from tirlower.ir import Buffer, build
    >>> s, a = Buffer("s", (64,), "float16", scope="shared"), Buffer("a", (64,), "float16")
    >>> copy = build.call("tir.ptx_cp_async", s.data, 8, a.data, 0, 16, dtype="float16")
    >>> [(use.data.name, use.extent, use.is_write) for use in pointer_uses(copy)]
    [('s', 8, True), ('a', 8, False)]
    """
    find = _USES.get(call.op.name.removeprefix("tir.")) if isinstance(call.op, Op) else None
    return None if find is None else find(call.args)
