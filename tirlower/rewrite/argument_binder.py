"""Arguments of the host ABI bound to a function's parameters, as ordinary statements.

A variable is bound at its first bare occurrence; whatever occurs again, and every expression, is checked by an assert
once all variables are bound.
"""

from __future__ import annotations

from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.expr import EQ, BufferLoad, Expr, IntImm, StringImm, Var, const
from tirlower.ir.query import each
from tirlower.ir.stmt import Assert, Bind, IfThenElse, Stmt
from tirlower.ir.struct_field import StructField, dlpack_bits, dlpack_code

__all__ = ["ArgumentBinder", "struct_field"]

_INDEX = DataType("int64")


def struct_field(handle: Expr, index: int, field: StructField, dtype: str) -> Expr:
    """A field of element ``index`` of an array of structures, as a value of a data type."""
    return build.call("tir.tvm_struct_get", handle, index, int(field), dtype=dtype)


class ArgumentBinder:
    """Collects the statements that bind arguments (``init``) and the checks that follow them (``asserts``)."""

    def __init__(self) -> None:
        self.init: list[Stmt] = []
        self.asserts: list[Stmt] = []
        self.defined: set[Var] = set()
        self.analyzer = Analyzer()  # in no pipeline; its checks are about sizes, which do not overflow

    def require(self, condition: Expr, message: str, early: bool = False) -> None:
        """A check; ``early`` ones stand before what is bound after them.

        Raises :class:`TransformError` for a condition that can never hold.
        """
        condition = self.analyzer.simplify(condition)
        if isinstance(condition, IntImm):
            if condition.value:
                return
            raise TransformError(f"no argument can satisfy: {message}", help="correct the declaration of the parameter")
        (self.init if early else self.asserts).append(Assert(condition, StringImm(message)))

    def bind(self, target: Expr, value: Expr, what: str) -> bool:
        """Bind a variable not bound yet to a value (of its dtype, or a wider integer); check anything else.

        Returns whether it was bound.
        """
        exact = value.dtype is target.dtype
        if isinstance(target, Var) and target not in self.defined:
            self.defined.add(target)
            self.init.append(Bind(target, value if exact else build.cast(target.dtype, value)))
            if not exact:
                text = f"Argument {what} does not fit in {target.dtype!s}"
                self.require(EQ(build.cast(value.dtype, target), value), text)
            return True
        wide = target if exact else build.cast(value.dtype, target)
        self.require(EQ(wide, value), f"Argument {what} has an unsatisfied constraint: expected {target}")
        return False

    def known(self, expr: Expr) -> bool:
        """Whether all variables of an expression are bound."""
        return all(var in self.defined for var in each(Var, expr))

    def bind_array(self, buffer: Buffer, handle: Var, device_type: int, device_id: Var, name: str) -> None:
        """Bind a buffer to the tensor descriptor behind a handle: rank, dtype, shape, strides, offset, device, data.

        A buffer of vectors takes an array of their elements with one more dimension.
        """
        lanes = buffer.dtype.lanes
        rank = len(buffer.shape) + (lanes > 1)
        null = build.call("tir.isnullptr", handle)
        self.require(build.logical_not(null), f"{name} is expected to have non-NULL DLTensor* pointer", early=True)
        ndim = struct_field(handle, 0, StructField.NDIM, "int32")
        self.require(EQ(const(rank, "int32"), ndim), f"{name}.ndim is expected to equal {rank}", early=True)
        self._dtype(buffer, handle, name)
        shape = self._numbers(handle, StructField.SHAPE, rank, f"{name}.shape")
        for axis, extent in enumerate(buffer.shape):
            self.bind(extent, shape[axis], f"{name}.shape[{axis}]")
        if lanes > 1:
            self.bind(const(lanes, _INDEX), shape[-1], f"{name}.shape[{rank - 1}]")
        self._strides(buffer, handle, shape, name)
        self._offset(buffer, handle, name)
        self.bind(const(device_type, "int32"), struct_field(handle, 0, StructField.DEVICE_TYPE, "int32"),
                  f"{name}.device_type")  # fmt: skip
        self.bind(device_id, struct_field(handle, 0, StructField.DEVICE_ID, "int32"), f"{name}.device_id")
        # Last: an array of no elements may have no memory.
        if self.bind(buffer.data, struct_field(handle, 0, StructField.DATA, "handle"), f"{name}.data"):
            count: Expr = const(1, _INDEX)
            for extent in buffer.shape:
                count = build.mul(count, build.cast(_INDEX, extent))
            empty = build.eq(count, const(0, _INDEX))
            present = build.logical_not(build.call("tir.isnullptr", buffer.data))
            self.require(
                build.logical_or(empty, present),
                f"{name} is expected to have non-NULL data pointer, but was passed NULL",
            )

    def _dtype(self, buffer: Buffer, handle: Var, name: str) -> None:
        kind = buffer.dtype

        def field(which: StructField, dtype: str, wanted: int) -> Expr:
            return EQ(struct_field(handle, 0, which, dtype), const(wanted, dtype))

        condition = build.all_of(
            field(StructField.TYPE_CODE, "uint8", dlpack_code(kind)),
            field(StructField.TYPE_BITS, "uint8", dlpack_bits(kind)),
            field(StructField.TYPE_LANES, "uint16", 1),
        )
        self.require(condition, f"{name}.dtype is expected to be {kind.element!s}", early=True)

    def _numbers(self, handle: Var, field: StructField, count: int, name: str) -> list[Expr]:
        """The numbers of a descriptor's array (shape or strides), read where they are used."""
        data = Var(name, PointerType(_INDEX))
        array = Buffer(name, (const(count, "int32"),), _INDEX, data)
        self.init.append(Bind(data, struct_field(handle, 0, field, "handle")))
        self.defined.add(data)
        return [BufferLoad(array, (const(axis, "int32"),)) for axis in range(count)]

    def _strides(self, buffer: Buffer, handle: Var, shape: list[Expr], name: str) -> None:
        strides = self._numbers(handle, StructField.STRIDES, len(shape), f"{name}.strides")
        if not shape:
            return
        table = strides[0]
        assert isinstance(table, BufferLoad)
        absent = build.call("tir.isnullptr", table.buffer.data)
        lanes = buffer.dtype.lanes
        if not buffer.strides:
            self._compact(shape, strides, absent, name)
            return
        step: Expr = const(1, _INDEX)
        for axis in reversed(range(len(buffer.strides))):
            target = buffer.strides[axis]
            given: Expr = strides[axis]
            if lanes > 1:
                text = f"{name}.strides[{axis}] is expected to be a multiple of {lanes}"
                self.require(
                    build.logical_or(absent, EQ(build.floormod(given, const(lanes, _INDEX)), const(0, _INDEX))), text
                )
                given = build.floordiv(given, const(lanes, _INDEX))
            value = build.if_then_else(absent, step, given)
            if buffer.buffer_type == "auto_broadcast":
                value = build.if_then_else(EQ(shape[axis], const(1, _INDEX)), const(0, _INDEX), value)
            self.bind(target, value, f"{name}.strides[{axis}]")
            step = build.mul(step, shape[axis])

    def _compact(self, shape: list[Expr], strides: list[Expr], absent: Expr, name: str) -> None:
        """Where strides are given, they are those of a row-major array; of a dimension of one element any will do."""
        conditions: list[Expr] = []
        step: Expr = const(1, _INDEX)
        for extent, stride in reversed(list(zip(shape, strides, strict=True))):
            conditions.append(build.logical_or(EQ(extent, const(1, _INDEX)), EQ(step, stride)))
            step = build.mul(step, extent)
        check = Assert(build.all_of(*conditions), StringImm(f"{name}.strides: expected to be compact array"))
        self.asserts.append(IfThenElse(build.logical_not(absent), check))

    def _offset(self, buffer: Buffer, handle: Var, name: str) -> None:
        size = dlpack_bits(buffer.dtype) // 8 * buffer.dtype.lanes
        offset = struct_field(handle, 0, StructField.BYTE_OFFSET, "uint64")
        target = buffer.elem_offset
        if isinstance(target, IntImm):
            self.bind(const(target.value * size, "uint64"), offset, f"{name}.byte_offset")
            return
        elements = build.floordiv(offset, const(size, "uint64"))
        bound = self.bind(target, build.cast(_INDEX, elements), f"{name}.elem_offset")
        if bound and buffer.offset_factor > 1:
            rest = build.truncmod(target, const(buffer.offset_factor, target.dtype))
            text = f"Argument {name}.elem_offset is expected to be a multiple of {buffer.offset_factor}"
            self.require(EQ(rest, const(0, target.dtype)), text)
