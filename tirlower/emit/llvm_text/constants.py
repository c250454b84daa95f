"""Values of LLVM IR, and the constants among them.

A :class:`Value` is a type and the text that names it: an SSA name (``%acc.3``), a global (``@table``), or a constant.
Floating-point constants are printed as their bits, so that every value, signed zeros, infinities and NaN payloads
included, reaches LLVM exactly.
"""

from __future__ import annotations

import math
import struct as _struct
from collections.abc import Sequence
from typing import Final

from tirlower.emit.llvm_text.types import I1, I8, I32, I64, PTR, Type, array, struct, vector

__all__ = [
    "FALSE",
    "TRUE",
    "Value",
    "const",
    "const_array",
    "const_bits",
    "const_bytes",
    "const_ptr",
    "const_struct",
    "const_vector",
    "float_bits",
    "i32",
    "i64",
    "null",
    "poison",
    "quote",
    "undef",
    "zero",
]

#: exponent bits and stored mantissa bits of the formats whose constants we print
_FLOAT_FORMATS: Final = {"half": (5, 10), "bfloat": (8, 7), "float": (8, 23), "double": (11, 52)}


class Value:
    """An operand: its type and its text. Immutable; compares by identity."""

    __slots__ = ("text", "type")

    type: Final[Type]
    text: Final[str]

    def __init__(self, type: Type, text: str) -> None:
        self.type = type
        self.text = text

    def __str__(self) -> str:
        return f"{self.type.text} {self.text}"

    def __repr__(self) -> str:
        return f"Value({self})"

    @property
    def is_constant(self) -> bool:
        """True unless the value is a parameter or the result of an instruction."""
        return self.text[0] != "%"


_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-$._")


def quote(name: str) -> str:
    r"""A name as LLVM reads it after ``@`` or ``%``: plain, or in quotes with escapes.

    >>> quote("f.1"), quote("a b"), quote("1st"), quote("\"")
    ('f.1', '"a b"', '"1st"', '"\\22"')
    """
    if name and _PLAIN.issuperset(name) and not name[0].isdigit():
        return name
    return f'"{escape(name.encode())}"'


def escape(data: bytes) -> str:
    """The bytes as they stand inside an LLVM string."""
    return "".join([chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:02X}" for c in data])


def float_bits(type: Type, value: float) -> int:
    """The bits of ``value`` rounded to the nearest (ties to even) number of a float type.

    Overflow gives an infinity; a NaN keeps its sign and the leading bits of its payload, and stays a NaN.

    >>> from tirlower.emit.llvm_text.types import BFLOAT, HALF
    >>> hex(float_bits(HALF, 1.0)), hex(float_bits(BFLOAT, -0.0)), hex(float_bits(HALF, 65520.0))
    ('0x3c00', '0x8000', '0x7c00')

    Raises:
        ValueError: the type is not half, bfloat, float or double.
    """
    if type.text not in _FLOAT_FORMATS:
        raise ValueError(f"cannot print a constant of type {type}; use half, bfloat, float or double")
    exponent_bits, mantissa_bits = _FLOAT_FORMATS[type.text]
    (bits,) = _struct.unpack("<Q", _struct.pack("<d", value))
    if mantissa_bits == 52:
        return int(bits)
    sign = (bits >> 63) << (exponent_bits + mantissa_bits)
    top = (1 << exponent_bits) - 1
    infinity = sign | top << mantissa_bits
    exponent = (bits >> 52 & 0x7FF) - 1023
    mantissa = bits & ((1 << 52) - 1)
    if exponent == 1024:
        payload = mantissa >> (52 - mantissa_bits)
        return int(infinity | (payload or (1 << (mantissa_bits - 1) if mantissa else 0)))
    bias = top >> 1
    # A double below its own normal range is far below half the least subnormal of the three narrow formats.
    if exponent < -bias - mantissa_bits - 1:
        return int(sign)
    mantissa |= 1 << 52
    biased = exponent + bias
    drop = 52 - mantissa_bits + (1 - biased if biased < 1 else 0)
    kept, rest = mantissa >> drop, mantissa & ((1 << drop) - 1)
    half = 1 << (drop - 1)
    if rest > half or (rest == half and kept & 1):
        kept += 1
    # The hidden bit of `kept` adds one to the exponent field, and so does a carry out of the mantissa: both are right.
    field = kept if biased < 1 else kept + ((biased - 1) << mantissa_bits)
    return int(sign | min(field, top << mantissa_bits))


def const_bits(type: Type, bits: int) -> Value:
    """The float constant with exactly these bits (a NaN with its payload, say).

    Raises:
        ValueError: the bits do not fit the type, or it is not half, bfloat, float or double.
    """
    if type.text not in _FLOAT_FORMATS or not 0 <= bits < 1 << type.bits:
        raise ValueError(f"0x{bits:X} is not a bit pattern of {type}")
    if type.bits == 16:
        return Value(type, f"0x{'H' if type.text == 'half' else 'R'}{bits:04X}")
    if type.bits == 64:
        return Value(type, f"0x{bits:016X}")
    # LLVM writes a float as the double of the same value; NaNs keep their payload in the leading bits.
    exponent, mantissa = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:
        wide = (bits >> 31) << 63 | 0x7FF << 52 | mantissa << 29
    else:
        (wide,) = _struct.unpack("<Q", _struct.pack("<d", *_struct.unpack("<f", _struct.pack("<I", bits))))
    return Value(type, f"0x{wide:016X}")


def const(type: Type, value: int | float) -> Value:
    """A constant of an integer, float, pointer or vector type; a scalar given for a vector fills all lanes.

    Floats are rounded to the type (see :func:`float_bits`); an integer may be given signed or unsigned.

    >>> from tirlower.emit.llvm_text.types import FLOAT, I1, I8, vector
    >>> str(const(I1, True)), str(const(I8, 255)), str(const(vector(FLOAT, 4), 0.5))
    ('i1 true', 'i8 -1', '<4 x float> splat (float 0x3FE0000000000000)')

    Raises:
        ValueError: the number does not fit the integer type, or the type has no such constants.
    """
    kind = type.kind
    if kind == "int":
        number = int(value)
        bits = type.bits
        if number != value or not -(1 << (bits - 1)) <= number < 1 << bits:
            raise ValueError(f"{value!r} does not fit {type}; wrap it to {bits} bits first")
        if bits == 1:
            return Value(type, "true" if number else "false")
        return Value(type, str(number - (1 << bits) if number >> (bits - 1) > 0 else number))
    if kind == "float":
        return const_bits(type, float_bits(type, _to_double(value)))
    if kind == "vector" and type.elem is not None:
        return Value(type, f"splat ({const(type.elem, value)})")
    if kind == "ptr":
        return null(type) if value == 0 else const_ptr(int(value), type)
    raise ValueError(f"{type} has no constant {value!r}")


def _to_double(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def const_vector(values: Sequence[Value]) -> Value:
    """A vector constant of the given lanes, all of one type.

    Raises:
        ValueError: no lanes, lanes of different types, or lanes that are not constants.
    """
    _check_elements("vector", values)
    return Value(vector(values[0].type, len(values)), f"<{', '.join([str(v) for v in values])}>")


def const_array(values: Sequence[Value]) -> Value:
    """An array constant of the given elements, all of one type.

    Raises:
        ValueError: no elements, elements of different types, or elements that are not constants.
    """
    _check_elements("array", values)
    return Value(array(len(values), values[0].type), f"[{', '.join([str(v) for v in values])}]")


def _check_elements(what: str, values: Sequence[Value]) -> None:
    if not values:
        raise ValueError(f"a constant {what} needs at least one element")
    for i, v in enumerate(values):
        if v.type != values[0].type or not v.is_constant:
            raise ValueError(f"element {i} of a constant {what} of {values[0].type} is `{v}`")


def const_struct(*values: Value, packed: bool = False) -> Value:
    """A struct constant."""
    inside = ", ".join([str(v) for v in values])
    text = f"{{ {inside} }}" if values else "{}"
    return Value(struct(*[v.type for v in values], packed=packed), f"<{text}>" if packed else text)


def const_bytes(data: bytes) -> Value:
    r"""An array of ``i8`` with these bytes; append ``\0`` yourself where C expects it."""
    return Value(array(len(data), I8), f'c"{escape(data)}"')


def const_ptr(address: int, type: Type = PTR) -> Value:
    """A pointer to a fixed address of this process."""
    return Value(type, f"inttoptr (i64 {address} to {type.text})")


def zero(type: Type) -> Value:
    """The all-zero value of any type (``+0.0``, a null pointer, an aggregate of zeros)."""
    if type.kind in ("int", "float", "ptr"):
        return const(type, 0)
    return Value(type, "zeroinitializer")


def null(type: Type = PTR) -> Value:
    """The null pointer."""
    return Value(type, "null")


def undef(type: Type) -> Value:
    """An unspecified value, which may differ from use to use; prefer :func:`poison`."""
    return Value(type, "undef")


def poison(type: Type) -> Value:
    """The value that nobody may depend on."""
    return Value(type, "poison")


def i32(value: int) -> Value:
    """The constant ``i32 value``."""
    return const(I32, value)


def i64(value: int) -> Value:
    """The constant ``i64 value``."""
    return const(I64, value)


TRUE: Final = Value(I1, "true")
FALSE: Final = Value(I1, "false")
