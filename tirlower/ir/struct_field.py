"""The fields of the host ABI's structures, by the numbers that ``T.tvm_struct_get`` and ``T.tvm_struct_set`` take.

A packed argument is a value with a type code; an array argument's value is a DLPack tensor descriptor.
"""

from __future__ import annotations

import enum

from tirlower.ir.dtype import MINIFLOATS, DataType, DataTypeError

__all__ = ["ArgumentCode", "CallingConvention", "StructField", "dlpack_bits", "dlpack_code"]


class StructField(enum.IntEnum):
    """A field of element ``index`` of an array of structures: of a tensor descriptor, or (VALUE) of the arguments."""

    ADDRESS = 0
    DATA = 1
    SHAPE = 2
    STRIDES = 3
    NDIM = 4
    TYPE_CODE = 5
    TYPE_BITS = 6
    TYPE_LANES = 7
    BYTE_OFFSET = 8
    DEVICE_ID = 9
    DEVICE_TYPE = 10
    VALUE = 12


class ArgumentCode(enum.IntEnum):
    """The type codes of packed arguments and results."""

    INT = 0
    FLOAT = 2
    HANDLE = 3
    NULL = 4
    TENSOR = 7
    ARG_BOOL = 15


class CallingConvention(enum.IntEnum):
    """The values of a function's attribute ``calling_conv``."""

    DEFAULT = 0
    PACKED = 1
    DEVICE_KERNEL_LAUNCH = 2


def dlpack_code(dtype: DataType) -> int:
    """DLPack's type code of a data type. Raises :class:`DataTypeError` where DLPack has none.

    >>> dlpack_code(DataType("float32x4")), dlpack_code(DataType("bool"))
    (2, 6)
    """
    kind = dtype.element
    if kind.is_minifloat:
        return 7 + list(MINIFLOATS).index(kind.code)
    codes = {"int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat": 4, "bool": 6}
    if kind.code not in codes:
        raise DataTypeError(f"{dtype!s} has no type code in DLPack")
    return codes[kind.code]


def dlpack_bits(dtype: DataType) -> int:
    """The bits that one lane of a data type takes in an array: integers of odd widths and bool fill whole bytes."""
    return dtype.element.numpy.itemsize * 8 if dtype.is_integral else dtype.bits
