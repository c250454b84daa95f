"""Values as C text: what the text is in C's own arithmetic, and the range that it is known to lie in.

A value of an integer type lies in the type's range, in the C type that is wide enough; of ``float16``, ``bfloat16`` and
the float8 kinds it is a ``float`` that the type represents; ``bool`` is 0 or 1. In memory bool is a byte, and the narrow
floats are their bits. C computes with what integers are promoted to (``Kind``): ranges say whether its result is the
exact one, or unsigned arithmetic and a conversion must wrap it. A conversion to a signed type that cannot hold the value
is the compiler's to define: all that are in use take it modulo 2^n, as GCC, Clang and MSVC document.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace

import numpy as np

from tirlower.ir.dtype import DataType

__all__ = [
    "ATOM",
    "BIT",
    "CHOICE",
    "COMPARE",
    "EQUAL",
    "LOGIC_AND",
    "LOGIC_OR",
    "PRODUCT",
    "SUM",
    "UNARY",
    "Kind",
    "Value",
    "float_literal",
    "in_range",
    "int_literal",
    "is_narrow_float",
    "kind_of",
    "memory_bits",
    "memory_type",
    "type_range",
    "value_type",
]

# How tightly C's operators bind, loosest first. Bitwise ones stand below comparisons: their operands get parentheses.
CHOICE, LOGIC_OR, LOGIC_AND, BIT, EQUAL, COMPARE, SUM, PRODUCT, UNARY, ATOM = range(10)


class Kind(enum.Enum):
    """The type in which C computes with a value, after its promotions (``int`` has 32 bits or more)."""

    I32 = "int32_t"
    I64 = "int64_t"
    U32 = "uint32_t"
    U64 = "uint64_t"
    F32 = "float"
    F64 = "double"
    POINTER = "void *"

    @property
    def signed(self) -> bool:
        """Whether it is a signed integer."""
        return self in (Kind.I32, Kind.I64)


@dataclass(frozen=True, slots=True)
class Value:
    """C text without effects: its kind, how tightly it binds, and the range of an integer.

    ``depth`` is its nesting; ``modular`` the same number modulo 2^n in an unsigned kind, where that is shorter; ``raw``
    the text of its bits in memory, where it was just loaded: a copy keeps those of a NaN.
    """

    text: str
    kind: Kind
    rank: int = ATOM
    low: int = 0
    high: int = 0
    depth: int = 0
    modular: Value | None = None
    raw: str = ""

    def inside(self, rank: int) -> str:
        """The text as an operand of an operator that binds as tightly as ``rank``."""
        return self.text if self.rank >= rank else f"({self.text})"

    @property
    def is_name(self) -> bool:
        """Whether the text is a name or a number, which may stand in many places."""
        return self.depth == 0

    @property
    def constant(self) -> int | None:
        """The value, where there is but one."""
        return self.low if self.low == self.high and not self.kind.name.startswith(("F", "P")) else None

    def cast(self, kind: Kind) -> Value:
        """The same number in another kind that holds it."""
        if self.kind is kind:
            return self
        if self.modular is not None and self.modular.kind is kind:
            return self.modular
        if self.constant is not None and kind is Kind.I64:
            return int_literal(self.constant, kind)
        if self.constant is not None and kind in (Kind.U32, Kind.U64):
            return int_literal(self.constant % (1 << (32 if kind is Kind.U32 else 64)), kind)
        text, depth = f"({kind.value}){self.inside(UNARY)}", self.depth + 1
        return replace(self, text=text, kind=kind, rank=UNARY, depth=depth, modular=None, raw="")


def in_range(low: int, high: int, kind: Kind) -> bool:
    """Whether a range lies in that of an integer kind."""
    bits = 32 if kind in (Kind.I32, Kind.U32) else 64
    if kind.signed:
        return -(1 << (bits - 1)) <= low and high < 1 << (bits - 1)
    return low >= 0 and high < 1 << bits


def type_range(dtype: DataType) -> tuple[int, int]:
    """The least and the greatest value of an integer type, (0, 0) for others."""
    return (int(dtype.min_value), int(dtype.max_value)) if dtype.is_integral else (0, 0)


def is_narrow_float(dtype: DataType) -> bool:
    """Whether values of a type are computed in ``float`` and rounded to it."""
    return dtype.is_float and (dtype.bits < 32 or dtype.is_bfloat16)


def memory_bits(dtype: DataType) -> int:
    """The bits of one lane in memory."""
    if dtype.is_handle:
        return 64
    return next(width for width in (8, 16, 32, 64) if width >= dtype.bits)


def value_type(dtype: DataType) -> str:
    """The C type of variables that hold a lane of a type."""
    if dtype.is_bool:
        return "bool"
    if dtype.is_handle:
        return "void *"
    if dtype.is_float:
        return "double" if dtype.bits == 64 else "float"
    return f"{'' if dtype.is_int else 'u'}int{memory_bits(dtype)}_t"


def memory_type(dtype: DataType) -> str:
    """The C type of a lane in memory."""
    if dtype.is_bool:
        return "int8_t"  # as FlattenBuffer has it
    if is_narrow_float(dtype):
        return f"uint{memory_bits(dtype)}_t"
    return value_type(dtype)


def kind_of(dtype: DataType) -> Kind:
    """What C computes in with variables of a type."""
    if dtype.is_handle:
        return Kind.POINTER
    if dtype.is_float:
        return Kind.F64 if dtype.bits == 64 else Kind.F32
    if dtype.is_int:
        return Kind.I32 if dtype.bits <= 32 else Kind.I64
    return Kind.I32 if dtype.bits <= 16 else Kind.U32 if dtype.bits <= 32 else Kind.U64


def int_literal(value: int, kind: Kind) -> Value:
    """A number of an integer kind. Signed ones that fit ``int`` are plain: what they meet decides the type."""
    if kind is Kind.U32:
        return Value(f"{value}u", kind, low=value, high=value)
    if kind is Kind.U64:
        return Value(f"UINT64_C({value})", kind, low=value, high=value)
    if in_range(value, value, Kind.I32):
        if value == -(1 << 31):
            return Value("INT32_MIN", Kind.I32, low=value, high=value)
        return Value(str(value), Kind.I32, ATOM if value >= 0 else UNARY, value, value)
    text = "INT64_MIN" if value == -(1 << 63) else f"INT64_C({value})"
    return Value(text, Kind.I64, low=value, high=value)


def float_literal(value: float, dtype: DataType) -> Value:
    """A float constant, rounded to its type."""
    double = dtype.bits == 64
    if not double:
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(dtype.element.numpy.type(value))
    kind = kind_of(dtype)
    negative = math.copysign(1.0, value) < 0
    rank = UNARY if negative else ATOM
    if math.isnan(value):
        return Value("NAN", kind, ATOM)
    if math.isinf(value):
        return Value("-INFINITY" if negative else "INFINITY", kind, rank)
    text = repr(value) if double else str(np.float32(value))
    if not any(ch in text for ch in ".e"):
        text += ".0"
    return Value(text if double else f"{text}f", kind, rank)
