"""The tensor maps of a kernel: what its tile copies say of the arrays in global memory, once for each that differs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from tirlower.diagnostics import CodegenError
from tirlower.gpu.artifact import TensorMapSpec
from tirlower.ir.cancel import expr_key
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op

__all__ = ["LOAD", "STORE", "TileCopy", "same_map", "tensor_maps_of", "tile_copy"]

LOAD: Final = Op.get("tir.ptx_cp_async_bulk_tensor")
STORE: Final = Op.get("tir.ptx_cp_async_bulk_tensor_store")


class TileCopy:
    """The arguments of a tile copy by name; positions count from the first argument."""

    def __init__(self, op: Call) -> None:
        is_load = op.op is LOAD
        args = op.args
        first = 5 if is_load else 4
        self.is_load = is_load
        self.shared = 0 if is_load else 1
        self.data = args[2] if is_load else args[0]
        self.swizzle = args[3]
        self.barrier = 4 if is_load else -1
        self.rank = _constant(op, args[first], "rank")
        rank, at = self.rank, first + 1
        if len(args) != at + 4 * rank - 1:
            raise _error(op, f"a copy of rank {rank} takes {at + 4 * rank - 1} arguments, got {len(args)}")
        self.coordinates = range(at, at + rank)
        self.box = args[at + rank : at + 2 * rank]
        self.extents = args[at + 2 * rank : at + 3 * rank]
        self.strides = args[at + 3 * rank :]


def _error(op: Call, message: str, help: str | None = None) -> CodegenError:
    return CodegenError(f"{getattr(op.op, 'name', 'call')}: {message}", origin="codegen", span=op.span, help=help)


def _constant(op: Call, value: Expr, what: str) -> int:
    if isinstance(value, IntImm):
        return value.value
    raise _error(op, f"the {what} is {value}, and a tensor map has a constant one")


def tile_copy(op: Call, params: tuple[Var, ...]) -> TensorMapSpec:
    """The tensor map of a tile copy.

    Raises:
        CodegenError: the array is no parameter, an extent is not computed from parameters, or a limit of tensor maps
            is broken: rank 1 to 5, box extents to 256, an inner box no longer than its swizzle, strides of 16 bytes.
    """
    copy = TileCopy(op)
    if not isinstance(copy.data, Var) or copy.data not in params:
        raise _error(op, f"{copy.data} is no parameter of the kernel", "copy tiles of the kernel's arrays")
    kind: DataType = copy.data.type.element
    box = tuple(_constant(op, extent, "box") for extent in copy.box)
    swizzle = _constant(op, copy.swizzle, "swizzle")
    if not 1 <= copy.rank <= 5 or any(not 1 <= extent <= 256 for extent in box):
        raise _error(
            op, f"a box of shape {box}", "a tensor map has 1 to 5 dimensions, and boxes of 1 to 256 elements in each"
        )
    row = box[-1] * kind.bits // 8
    if swizzle not in (0, 32, 64, 128) or (swizzle and row > swizzle) or row % 16:
        raise _error(
            op,
            f"rows of {row} bytes with a swizzle of {swizzle}",
            "use rows of a multiple of 16 bytes, and no more than the swizzle of 32, 64 or 128 bytes",
        )
    for value in (*copy.extents, *copy.strides):
        _need_parameters(op, value, params)
    for stride in copy.strides:
        if isinstance(stride, IntImm) and stride.value * kind.bits // 8 % 16:
            raise _error(op, f"a stride of {stride.value} elements", "rows of a tensor start at multiples of 16 bytes")
    return TensorMapSpec(
        params.index(copy.data), kind, copy.rank, box, tuple(copy.extents), tuple(copy.strides), swizzle
    )


def _need_parameters(op: Call, value: Expr, params: tuple[Var, ...]) -> None:
    def look(node: Expr) -> None:
        if isinstance(node, BufferLoad):
            raise _error(op, f"the extent or stride {value} is loaded from memory", "pass it as a parameter")
        if isinstance(node, Var) and node not in params:
            raise _error(
                op, f"the extent or stride {value} depends on {node.name!r}, which is no parameter of the kernel"
            )

    pre_order_visit(value, look)


def _key(spec: TensorMapSpec) -> Hashable:
    return spec.param, spec.dtype, spec.box, spec.swizzle, tuple(map(expr_key, (*spec.extents, *spec.strides)))


def tensor_maps_of(func: PrimFunc) -> tuple[TensorMapSpec, ...]:
    """The tensor maps of a kernel, in the order of their first use."""
    found: dict[Hashable, TensorMapSpec] = {}

    def look(op: Node) -> None:
        if op.__class__ is Call and op.op in (LOAD, STORE):
            spec = tile_copy(op, func.params)
            found.setdefault(_key(spec), spec)

    pre_order_visit(func.body, look)
    return tuple(found.values())


def same_map(specs: tuple[TensorMapSpec, ...], spec: TensorMapSpec) -> int:
    """The position of the map that is equal to one."""
    wanted = _key(spec)
    return next(i for i, each in enumerate(specs) if _key(each) == wanted)
