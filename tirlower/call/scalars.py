"""Scalar arguments and return values in Python: checked conversion to the bits of a kernel's parameter, and back."""

from __future__ import annotations

import math
import operator
import struct
from typing import SupportsFloat, SupportsIndex, cast

import numpy as np

from tirlower.call.dtypes import ElementType, element_type, numpy_dtype
from tirlower.ir.dtype import DataType

__all__ = ["BadScalar", "converted", "returned_value", "scalar_bits"]


class BadScalar(Exception):
    """A value that a scalar parameter cannot take; ``out_of_range`` tells a wrong value from a wrong type."""

    def __init__(self, expected: str, got: str, remedy: str, *, out_of_range: bool = False) -> None:
        super().__init__(got)
        self.expected = expected
        self.got = got
        self.remedy = remedy
        self.out_of_range = out_of_range


def _shown(value: object) -> str:
    text = f"{value!r:.60}"
    return f"{type(value).__name__} {text}" if type(value).__name__ not in text else text


def scalar_bits(dtype: str, value: object) -> tuple[int, int | None]:
    """The bits of an argument as a parameter of ``dtype``, and its value where it is an integer.

    >>> scalar_bits("int8", -1), hex(scalar_bits("float32", 1.0)[0])
    ((255, -1), '0x3f800000')

    Raises :class:`BadScalar` as :func:`converted` does.
    """
    bits, number = converted(dtype, value)
    return bits, None if element_type(dtype).kind in ("float", "handle") else int(number)


def converted(dtype: str, value: object) -> tuple[int, int | float]:
    """The bits of an argument as a parameter of ``dtype``, and its value: an int, a bool, or a float of that precision.

    Python and NumPy numbers, 0-d arrays and 0-d tensors are taken. Integers and bools must be in range; a float is
    rounded to the dtype and may not overflow (infinities and NaNs pass).

    >>> converted("int8", -1), converted("float16", 0.1)[1]
    ((255, -1), 0.0999755859375)

    Raises:
        BadScalar: the value has no such conversion.
    """
    kind = element_type(dtype)
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        # The number in a 0-d array or tensor, or a NumPy scalar. The extended floats' scalars stay: item() may be itself.
        inside = value.item()
        value = float(inside) if getattr(inside, "dtype", None) is not None and not isinstance(inside, int) else inside
    if kind.kind == "float":
        return _float_bits(kind, value)
    if kind.kind == "handle":
        address = 0 if value is None else _index(kind, value, "None or an address as an int")
        if not 0 <= address < 1 << 64:
            raise BadScalar("an address", _shown(value), "pass None or an address as an int", out_of_range=True)
        return address, address
    if kind.kind == "bool":
        number = int(value) if isinstance(value, np.bool_) else _index(kind, value, "True or False")
        if number not in (0, 1):
            raise BadScalar("bool", _shown(value), "pass True or False", out_of_range=True)
        return number, bool(number)
    number = _index(kind, value, "int(x)")
    low, high = kind.int_range()
    if not low <= number <= high:
        raise BadScalar(
            f"{dtype} from {low} to {high}", _shown(value), f"pass a value that fits {dtype}", out_of_range=True
        )
    return number & ((1 << kind.bits) - 1), number


def _index(kind: ElementType, value: object, remedy: str) -> int:
    try:
        return operator.index(cast("SupportsIndex", value))
    except TypeError:
        raise BadScalar(kind.name, _shown(value), f"pass {remedy}") from None


def _float_bits(kind: ElementType, value: object) -> tuple[int, float]:
    if isinstance(value, float):
        number = value
    else:
        # Text has no __float__ and neither have complex numbers and lists; arrays with dimensions do, for a while yet.
        if isinstance(value, np.ndarray) or not (hasattr(value, "__float__") or hasattr(value, "__index__")):
            raise BadScalar(kind.name, _shown(value), "pass float(x)")
        try:
            number = float(cast("SupportsFloat", value))
        except (TypeError, ValueError):
            raise BadScalar(kind.name, _shown(value), "pass float(x)") from None
        except OverflowError:
            number = math.inf
            value = f"{value!r:.40}"
    if kind.bits < 8 and not (dtype := DataType(kind.name)).holds(number):
        # Without infinity and NaN: what is beyond the greatest value would silently become it.
        raise BadScalar(
            f"a number in the range of {kind.name}",
            _shown(value),
            f"its greatest value is {dtype.max_value:g}",
            out_of_range=True,
        )
    bits, rounded = _round_to(kind, number)
    if not math.isfinite(rounded) and (math.isfinite(number) or isinstance(value, str)):
        raise BadScalar(
            f"a number in the range of {kind.name}", _shown(value), "pass math.inf for infinity", out_of_range=True
        )
    return bits, rounded


def _round_to(kind: ElementType, number: float) -> tuple[int, float]:
    if kind.name == "float64":
        return int(struct.unpack("<Q", struct.pack("<d", number))[0]), number
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        stored = np.asarray(number, np.float64).astype(numpy_dtype(kind.name))
    return int.from_bytes(stored.tobytes(), "little"), float(stored)


def returned_value(dtype: str, bits: int) -> int | float | bool:
    """The Python value of a kernel's return value, from the low bits of its 8 bytes of storage."""
    kind = element_type(dtype)
    if kind.kind == "float":
        stored = np.frombuffer(bits.to_bytes(8, "little"), numpy_dtype(dtype), 1)
        return float(stored[0])
    if kind.kind == "bool":
        return bool(bits & 1)
    bits &= (1 << kind.bits) - 1
    return bits - (1 << kind.bits) if kind.signed and bits >> (kind.bits - 1) else bits
