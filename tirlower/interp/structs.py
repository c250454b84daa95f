"""The structures of the host ABI, modelled as tables of fields.

``tvm_struct_get(handle, index, kind)`` reads field ``kind`` of element ``index`` of an array of structures: a tensor
descriptor (data, shape, strides …) or an argument value. Here such an array is a :class:`Struct`, a table from
(index, kind) to the value; nothing depends on how it would lie in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tirlower.interp.memory import Memory, Pointer, UnwrittenMemory
from tirlower.interp.values import Datum, Fault
from tirlower.ir.dtype import Array, DataType
from tirlower.ir.struct_field import ArgumentCode, StructField, dlpack_bits, dlpack_code

__all__ = ["ResultSlot", "Struct", "pack_arguments", "tensor_struct"]


class Struct:
    """An array of structures: a table of fields by (index, kind), seen from an element on."""

    __slots__ = ("base", "fields", "name")

    def __init__(self, name: str, fields: dict[tuple[int, int], Datum] | None = None, base: int = 0) -> None:
        self.name = name
        self.fields = {} if fields is None else fields
        self.base = base

    def get(self, index: int, kind: int) -> Datum:
        """A field. Raises Fault when it was never set."""
        if kind == StructField.ADDRESS:
            return Struct(self.name, self.fields, self.base + index)
        key = (self.base + index, kind)
        if key not in self.fields:
            raise Fault(f"field {kind} of element {index} of {self.name} was never set")
        return self.fields[key]

    def set(self, index: int, kind: int, value: Datum) -> None:
        """Set a field."""
        self.fields[self.base + index, kind] = value

    def __repr__(self) -> str:
        return f"Struct({self.name!r})"


class ResultSlot(Pointer):
    """Where a packed function leaves its result: 8 bytes that it writes, or a field that it sets."""

    __slots__ = ("field",)

    def __init__(self) -> None:
        super().__init__(Memory.allocate(8, "the result"))
        self.field: Datum = None

    def get(self, index: int, kind: int) -> Datum:
        """The field."""
        return self.field

    def set(self, index: int, kind: int, value: Datum) -> None:
        """Set the field."""
        self.field = value

    def value(self, code: Pointer) -> Datum:
        """The result, by its type code; None where there is none."""
        if self.field is not None:
            return self.field
        try:
            number = code.view("int32").get(0)
            return self.view("float64" if number == ArgumentCode.FLOAT else "int64").get(0)
        except UnwrittenMemory:
            return None


def int64_array(values: Sequence[int], name: str) -> Pointer:
    """A pointer to 64-bit integers."""
    return Pointer.of_array(np.array(values, np.int64), name)


def tensor_struct(array: Array, name: str, device_type: int = 1) -> Struct:
    """The descriptor of a NumPy array: its fields as DLPack has them (strides null when row-major)."""
    dtype = DataType.from_numpy(array.dtype)
    strides = None
    if not array.flags.c_contiguous:
        strides = int64_array([s // array.itemsize for s in array.strides], f"{name}.strides")
    fields = {
        StructField.DATA: Pointer.of_array(array, name),
        StructField.SHAPE: int64_array(array.shape, f"{name}.shape"),
        StructField.STRIDES: strides,
        StructField.NDIM: array.ndim,
        StructField.TYPE_CODE: dlpack_code(dtype),
        StructField.TYPE_BITS: dlpack_bits(dtype),
        StructField.TYPE_LANES: 1,
        StructField.BYTE_OFFSET: 0,
        StructField.DEVICE_ID: 0,
        StructField.DEVICE_TYPE: device_type,
    }
    return Struct(name, {(0, kind): value for kind, value in fields.items()})


def pack_arguments(args: Sequence[Datum], device_type: int = 1) -> tuple[Struct, Pointer, int]:
    """The packed form of arguments: their values, their type codes (int32), and how many they are.

    ``device_type`` is DLPack's number of the device that arrays are said to live on.
    """
    values, codes = Struct("the arguments"), []
    for index, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            value, code = tensor_struct(arg, f"argument {index}", device_type), ArgumentCode.TENSOR
        elif arg is None:
            value, code = None, ArgumentCode.NULL
        elif isinstance(arg, (bool, np.bool_)):
            value, code = int(arg), ArgumentCode.ARG_BOOL  # type: ignore[assignment]
        elif isinstance(arg, (int, np.integer)):
            value, code = int(arg), ArgumentCode.INT  # type: ignore[assignment]
        elif isinstance(arg, (float, np.floating)):
            value, code = float(arg), ArgumentCode.FLOAT  # type: ignore[assignment]
        else:
            value, code = arg, ArgumentCode.HANDLE
        values.set(index, StructField.VALUE, value)
        codes.append(int(code))
    return values, Pointer.of_array(np.array(codes, np.int32), "the type codes"), len(codes)


def stack_memory(kind: str, count: int) -> Struct | Pointer:
    """What ``tvm_stack_alloca`` gives: memory for shapes and type codes, structures for values and tensors."""
    if kind == "shape":
        return Pointer(Memory.allocate(8 * count, "a stack shape"))
    if kind in ("arg_tcode", "tcode"):
        return Pointer(Memory.allocate(4 * count, "stack type codes"))
    return Struct(f"a stack {kind}")
