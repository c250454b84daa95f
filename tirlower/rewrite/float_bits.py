"""Conversions between bit patterns of narrow floats and wide floats, as expressions on integers.

bfloat16 to float32 is a shift. The float8 kinds are taken apart: normal numbers move their exponent and mantissa,
subnormals are counted in units of the least one. The way back rounds to nearest, halves to even; what rounds beyond the
greatest finite value becomes the infinity of the type, or its NaN where it has none; a NaN stays one, with its sign.
All of it agrees to the bit with ml_dtypes (from float32), and rounds once from float64 and from integers too.
float8_e8m0fnu, an exponent without sign or mantissa, rounds halves up, as ml_dtypes does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tirlower.ir import build
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Cast, Expr, Let, Select, Var, const

__all__ = ["FloatBits", "bits_constant", "float_bits", "narrow_to_bits", "storage_dtype", "widen_bits"]

_F32, _F64 = DataType("float32"), DataType("float64")


@dataclass(frozen=True)
class FloatBits:
    """The form of a narrow float with a sign: the bits of its mantissa, its exponent bias, and three bit patterns:
    of the greatest finite value, of what lies beyond it, and of a NaN. ``signed_zero`` is false where the pattern of
    minus zero is the only NaN.
    """

    width: int
    mantissa: int
    bias: int
    largest: int
    beyond: int
    nan: int
    signed_zero: bool


@functools.cache
def float_bits(kind: DataType) -> FloatBits:
    """The form of bfloat16 or of a float8 kind, read off ml_dtypes.

    >>> float_bits(DataType("float8_e4m3fn"))
    FloatBits(width=8, mantissa=3, bias=7, largest=126, beyond=127, nan=127, signed_zero=True)
    """
    dtype = kind.element.numpy
    info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    width = kind.bits

    def pattern(value: float) -> int:
        return int(np.array(value, dtype).view(f"uint{width}")) & ((1 << width) - 1)

    top = 1 << (width - 1)
    with np.errstate(all="ignore"):
        nan, beyond = pattern(np.nan), pattern(np.inf)
    signed_zero = pattern(-0.0) == top
    mask = top - 1 if signed_zero else (1 << width) - 1
    return FloatBits(
        width, int(info.nmant), 1 - int(info.minexp), pattern(float(info.max)), beyond & mask, nan & mask, signed_zero
    )


def storage_dtype(kind: DataType) -> DataType:
    """The unsigned integers that hold the bits of a type, with its lanes."""
    return DataType.of("uint", kind.bits, kind.lanes, kind.scalable)


def bits_constant(value: float, kind: DataType) -> Expr:
    """The bits of a constant of a narrow float type."""
    with np.errstate(all="ignore"):
        number = int(np.array(value, kind.element.numpy).view(f"uint{kind.bits}"))
    return const(number, storage_dtype(kind))


def _shared(value: Expr, name: str, use: Callable[[Expr], Expr]) -> Expr:
    """An expression that mentions a value several times, which is computed once."""
    if value.is_leaf:
        return use(value)
    var = Var(name, value.dtype)
    return Let(var, value, use(var))


def _like(kind: DataType, other: Expr) -> DataType:
    return kind.with_lanes(other.dtype.lanes, other.dtype.scalable)


def widen_bits(bits: Expr, kind: DataType) -> Expr:
    """The float32 that bit patterns of a narrow float mean; exact."""
    word, result = _like(DataType("uint32"), bits), _like(_F32, bits)
    wide = Cast(word, bits)
    if kind.is_bfloat16:
        return build.reinterpret(result, build.shift_left(wide, const(16, word)))
    if kind.element == "float8_e8m0fnu":
        return _shared(wide, "code", lambda code: _widen_exponent(code, word, result))
    return _shared(wide, "code", lambda code: _widen_float8(code, float_bits(kind.element), word, result))


def _widen_exponent(code: Expr, word: DataType, result: DataType) -> Expr:
    """2**(code - 127); code 0 is the subnormal 2**-127, 255 the NaN."""
    normal = build.shift_left(code, const(23, word))
    small = Select(build.eq(code, const(0, word)), const(0x00400000, word), normal)
    return build.reinterpret(result, Select(build.eq(code, const(255, word)), const(0x7FC00000, word), small))


def _widen_float8(code: Expr, form: FloatBits, word: DataType, result: DataType) -> Expr:
    sign = build.shift_left(build.bitwise_and(code, const(0x80, word)), const(24, word))
    rest = build.bitwise_and(code, const(0x7F, word))
    moved = build.shift_left(rest, const(23 - form.mantissa, word))
    normal = build.add(moved, const((127 - form.bias) << 23, word))
    # A subnormal is its code times the least subnormal: both factors and the product are exact.
    unit = const(2.0 ** (1 - form.bias - form.mantissa), result)
    small = build.reinterpret(word, build.mul(Cast(result, rest), unit))
    magnitude = Select(build.lt(rest, const(1 << form.mantissa, word)), small, normal)
    nan, infinity = const(0x7FC00000, word), const(0x7F800000, word)
    if not form.signed_zero:
        whole = build.bitwise_or(magnitude, sign)
        return build.reinterpret(result, Select(build.eq(code, const(0x80, word)), nan, whole))
    if form.beyond != form.nan:
        magnitude = Select(build.eq(rest, const(form.beyond, word)), infinity, magnitude)
    # Codes after that of the infinity, or of the greatest finite value where there is none, are NaNs.
    last = max(form.largest, form.beyond if form.beyond != form.nan else 0)
    magnitude = Select(build.gt(rest, const(last, word)), nan, magnitude)
    return build.reinterpret(result, build.bitwise_or(magnitude, sign))


def narrow_to_bits(value: Expr, kind: DataType) -> Expr:
    """The bit patterns of a narrow float that a value of any numeric type rounds to, as unsigned integers."""
    have = value.dtype
    if have.is_integral:
        value = _integer_as_float(value, kind)
    elif have.bits < 32:
        value = Cast(_like(_F32, value), value)
    wide = 64 if value.dtype.bits == 64 else 32
    word = _like(DataType.of("uint", wide), value)
    result = storage_dtype(kind).with_lanes(have.lanes, have.scalable)
    bits = build.reinterpret(word, value)
    if kind.is_bfloat16 and wide == 32:
        return Cast(result, _shared(bits, "bits", lambda b: _narrow_bfloat16(b, word)))
    if kind.element == "float8_e8m0fnu":
        return Cast(result, _shared(bits, "bits", lambda b: _narrow_exponent(b, word, wide)))
    return Cast(result, _shared(bits, "bits", lambda b: _narrow(b, float_bits(kind.element), word, wide)))


def _integer_as_float(value: Expr, kind: DataType) -> Expr:
    """An integer as a float of which the narrow type is a rounding: exact, or with a sticky bit below what matters."""
    have = value.dtype
    if have.bits <= 24:
        return Cast(_like(_F32, value), value)
    if have.bits <= 53:
        return Cast(_like(_F64, value), value)

    def sticky(x: Expr) -> Expr:
        low = build.bitwise_and(x, const(2047, have))
        kept = build.sub(x, low)
        marked = build.bitwise_or(kept, const(2048, have))
        inexact = Select(build.ne(low, const(0, have)), marked, kept)
        limit = const(1 << 53, have)
        big = build.gt(x, limit)
        if have.is_int:
            big = build.logical_or(big, build.lt(x, const(-(1 << 53), have)))
        return Cast(_like(_F64, value), Select(big, inexact, x))

    return _shared(value, "number", sticky)


def _narrow_bfloat16(bits: Expr, word: DataType) -> Expr:
    high = build.shift_right(bits, const(16, word))
    odd = build.bitwise_and(high, const(1, word))
    rounded = build.shift_right(build.add(bits, build.add(odd, const(0x7FFF, word))), const(16, word))
    nan = build.bitwise_or(build.bitwise_and(high, const(0x8000, word)), const(0x7FC0, word))
    magnitude = build.bitwise_and(bits, const(0x7FFFFFFF, word))
    return Select(build.gt(magnitude, const(0x7F800000, word)), nan, rounded)


def _narrow_exponent(bits: Expr, word: DataType, wide: int) -> Expr:
    """The exponent, rounded half up in the mantissa; zero, negative numbers, infinities and NaN have none but 255."""
    if wide == 64:
        # As from float32, where 2**-127 is subnormal: what lies above it, and below 2**-126, rounds up.
        half, least, normal = const(1 << 51, word), const((1023 - 127) << 52, word), const((1023 - 126) << 52, word)
        rounded = build.shift_right(build.add(bits, half), const(52, word))
        small = Select(build.gt(bits, least), const(1, word), const(0, word))
        code = Select(build.lt(bits, normal), small, build.sub(rounded, const(1023 - 127, word)))
        valid = build.lt(build.sub(bits, const(1, word)), const((0x7FF << 52) - 1, word))
        return Select(build.logical_and(valid, build.lt(code, const(255, word))), code, const(255, word))
    half = const(0x00400000, word)
    rounded = build.shift_right(build.add(bits, half), const(23, word))
    small = Select(build.gt(bits, half), const(1, word), const(0, word))
    code = Select(build.lt(bits, const(0x00800000, word)), small, rounded)
    valid = build.lt(build.sub(bits, const(1, word)), const(0x7F800000 - 1, word))
    return Select(valid, code, const(255, word))


def _narrow(bits: Expr, form: FloatBits, word: DataType, wide: int) -> Expr:
    """A float32 or float64 by its bits, rounded to the code of a narrow float with a smaller or equal exponent range."""
    fraction, bias = (52, 1023) if wide == 64 else (23, 127)
    top = 1 << (wide - 1)
    infinity = ((2 * bias + 1) << fraction) & (top - 1)
    sign = build.bitwise_and(
        build.shift_right(bits, const(wide - form.width, word)), const(1 << (form.width - 1), word)
    )
    magnitude = build.bitwise_and(bits, const(top - 1, word))

    def code_of(size: Expr) -> Expr:
        shift = fraction - form.mantissa
        odd = build.bitwise_and(build.shift_right(size, const(shift, word)), const(1, word))
        bumped = build.add(build.add(size, odd), const((1 << (shift - 1)) - 1, word))
        normal = build.sub(
            build.shift_right(bumped, const(shift, word)), const((bias - form.bias) << form.mantissa, word)
        )
        small = _subnormal(size, form, word, fraction, bias)
        code: Expr = Select(build.lt(size, const((bias + 1 - form.bias) << fraction, word)), small, normal)
        # In every one of these formats the code of what lies beyond follows that of the greatest finite value.
        code = build.min_(code, const(form.beyond, word))
        return Select(build.gt(size, const(infinity, word)), const(form.nan, word), code)

    whole = _shared(magnitude, "size", code_of)
    if form.signed_zero:
        return build.bitwise_or(whole, sign)

    def unsigned(plain: Expr) -> Expr:
        bare = build.logical_or(build.eq(plain, const(0, word)), build.eq(plain, const(form.nan, word)))
        return Select(bare, plain, build.bitwise_or(plain, sign))

    return _shared(whole, "plain", unsigned)


def _subnormal(size: Expr, form: FloatBits, word: DataType, fraction: int, bias: int) -> Expr:
    """A magnitude below the least normal number, in units of the least subnormal, rounded to nearest even."""
    exponent = build.shift_right(size, const(fraction, word))
    implicit = build.bitwise_or(build.bitwise_and(size, const((1 << fraction) - 1, word)), const(1 << fraction, word))
    # Numbers that are subnormal in the wide type are far below half a unit, with the implicit bit or without.
    amount = const(bias + fraction + 1 - form.bias - form.mantissa, word)
    # A larger shift leaves nothing, a smaller one is of a normal number, which is not taken from here.
    most = const(fraction + 2, word)
    distance = build.min_(build.sub(amount, build.min_(exponent, build.sub(amount, const(1, word)))), most)

    def rounded(shift: Expr) -> Expr:
        half = build.shift_left(const(1, word), build.sub(shift, const(1, word)))
        odd = build.bitwise_and(build.shift_right(implicit, shift), const(1, word))
        bumped = build.add(build.add(implicit, odd), build.sub(half, const(1, word)))
        return build.shift_right(bumped, shift)

    return _shared(distance, "shift", rounded)
