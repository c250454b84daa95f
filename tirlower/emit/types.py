"""Data types in LLVM: as values in registers, and as elements in memory.

In registers integers have their exact width (so that arithmetic wraps by itself), bool is ``i1``, bfloat16 and the
floats of at most 8 bits are their bits (``i16``, ``i8``): conversions are our own code, as LLVM's would flush subnormals of bfloat16
on processors with AVX512-BF16, call a library without it, and has no such floats. In memory bool is a byte 0 or 1, and
integers of other widths sit, extended by their sign, in the next standard width.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from tirlower.diagnostics import CodegenError
from tirlower.emit.llvm_text import DOUBLE, FLOAT, HALF, I1, I8, I16, I32, I64, PTR, VOID, Type, int_type, vector
from tirlower.ir.dtype import DataType

__all__ = [
    "FLOAT_FORMATS",
    "FloatFormat",
    "compute_type",
    "is_bits_float",
    "memory_bytes",
    "memory_type",
    "register_type",
]


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A float of at most 16 bits that is kept as its bits.

    ``exponent`` and ``mantissa`` count bits, the bits above which and the sign are not looked at; ``infinity`` and
    ``nan`` are bit patterns without the sign (None: there is none, and the greatest value takes its place); ``unsigned_zero`` says that the pattern of minus zero is the NaN (the "fnuz" kinds); ``largest`` is the
    pattern of the greatest finite value.
    """

    exponent: int
    mantissa: int
    bias: int
    infinity: int | None
    nan: int | None
    largest: int
    unsigned_zero: bool = False


#: e8m0fnu, an exponent without sign, has a code path of its own.
FLOAT_FORMATS: Final[dict[str, FloatFormat]] = {
    "bfloat16": FloatFormat(8, 7, 127, 0x7F80, 0x7FC0, 0x7F7F),
    "float8_e3m4": FloatFormat(3, 4, 3, 0x70, 0x78, 0x6F),
    "float8_e4m3": FloatFormat(4, 3, 7, 0x78, 0x7C, 0x77),
    "float8_e4m3b11fnuz": FloatFormat(4, 3, 11, None, 0x80, 0x7F, True),
    "float8_e4m3fn": FloatFormat(4, 3, 7, None, 0x7F, 0x7E),
    "float8_e4m3fnuz": FloatFormat(4, 3, 8, None, 0x80, 0x7F, True),
    "float8_e5m2": FloatFormat(5, 2, 15, 0x7C, 0x7E, 0x7B),
    "float8_e5m2fnuz": FloatFormat(5, 2, 16, None, 0x80, 0x7F, True),
    "float6_e2m3fn": FloatFormat(2, 3, 1, None, None, 0x1F),
    "float6_e3m2fn": FloatFormat(3, 2, 3, None, None, 0x1F),
    "float4_e2m1fn": FloatFormat(2, 1, 1, None, None, 0x07),
}


MOST_LANES: Final = 2048
"""LLVM ends the process at vectors of some 60,000 lanes, and takes minutes for shorter ones."""


def is_bits_float(dtype: DataType) -> bool:
    """Whether values of the type are kept as bits and computed with in float32."""
    return dtype.is_bfloat16 or dtype.is_minifloat


#: one object for each type that code asks for by identity
_STANDARD: Final = {1: I1, 8: I8, 16: I16, 32: I32, 64: I64}


@functools.cache
def _integer(bits: int) -> Type:
    return _STANDARD.get(bits) or int_type(bits)


@functools.cache
def _element(name: DataType) -> Type:
    kind = name
    if kind.is_integral:
        return _integer(kind.bits)
    if kind.is_bfloat16:
        return I16
    if kind.is_minifloat:
        return I8
    if kind.is_float:
        return {16: HALF, 32: FLOAT, 64: DOUBLE}[kind.bits]
    if kind.is_handle:
        return PTR
    if kind.code == "void":
        return VOID
    raise CodegenError(
        f"the host has no values of the custom type {name!s}",
        origin="codegen",
        help="run LowerCustomDatatypes, which turns them into integers and calls",
    )


@functools.cache
def register_type(dtype: DataType) -> Type:
    """The LLVM type of values of a data type.

    Raises:
        CodegenError: a custom type, a vector of thousands of lanes, or scalable ones, which this processor family does
            not have.
    """
    if dtype.scalable:
        raise CodegenError(
            f"the host has no scalable vectors, such as {dtype!s}",
            origin="codegen",
            help="use a fixed number of lanes",
        )
    if dtype.lanes > MOST_LANES:
        raise CodegenError(
            f"a vector of {dtype.lanes} lanes ({dtype!s}), which LLVM cannot compile",
            origin="codegen",
            help=f"use a loop, or vectors of at most {MOST_LANES} lanes",
        )
    element = _element(dtype.element)
    return element if dtype.lanes == 1 or element is VOID else vector(element, dtype.lanes)


@functools.cache
def memory_type(dtype: DataType) -> Type:
    """The LLVM type of one lane of a data type in memory.

    >>> from tirlower.ir.dtype import DataType
    >>> str(memory_type(DataType("bool"))), str(memory_type(DataType("int5x4"))), str(memory_type(DataType("float16")))
    ('i8', 'i8', 'half')
    """
    kind = dtype.element
    if kind.is_integral:
        return _integer(next(width for width in (8, 16, 32, 64) if width >= kind.bits))
    return _element(kind)


def memory_bytes(dtype: DataType) -> int:
    """The bytes of one lane in memory."""
    kind = memory_type(dtype)
    return 8 if kind is PTR else kind.bits // 8


@functools.cache
def compute_type(dtype: DataType, native_half: bool) -> DataType:
    """The float type in which arithmetic on a float type is done (and then rounded), with its lanes."""
    if dtype.is_float and (is_bits_float(dtype) or (dtype.bits == 16 and not native_half)):
        return DataType.of("float", 32, dtype.lanes)
    return dtype
