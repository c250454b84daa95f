"""Scalar arithmetic on every data type, exact to the bit.

A value of an integer type is a Python int in the type's range, of bool an int or bool, of a float type a Python
float that the type represents exactly. A vector is a tuple of such scalars. Each operation computes the exact (or
float64) result and then brings it back into the type: integers wrap, floats round to nearest even. For +, -, *, / and
sqrt of types of at most 24 bits of precision, rounding first to float64 and then to the type gives the correctly
rounded result (Figueroa, "When is double rounding innocuous?", 1995: 53 >= 2 * 24 + 2).
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tirlower.ir.custom_datatype import storage_dtype
from tirlower.ir.dtype import DataType

__all__ = [
    "UNDEF",
    "Binary",
    "Datum",
    "Fault",
    "Function",
    "Unary",
    "bits_of",
    "caster",
    "coerce",
    "fused_multiply_add",
    "from_bits",
    "integer_wrapper",
    "lane_values",
    "operation",
    "rounder",
    "shift",
    "true_divide",
]

Datum: TypeAlias = Any
"""What a program computes at run time: a number, a tuple of them (a vector), a pointer, a structure, a text, None or
:data:`UNDEF`; also what an operation keeps for its threads. Data types of nodes say which, and no type checker reads
those: this is the one place that says Any.
"""
Unary: TypeAlias = Callable[[Datum], Datum]
Binary: TypeAlias = Callable[[Datum, Datum], Datum]
Function: TypeAlias = Callable[..., Datum]
"""A function of values, however many it takes."""


class Fault(Exception):
    """Something without meaning was computed; the statement that runs adds the place and raises the public error."""

    undefined = False


class UndefinedFault(Fault):
    """An undefined value was used."""

    undefined = True


class Undefined:
    """The value of ``T.undef()`` and of masked-off lanes: it may be moved and stored, any other use is a fault."""

    __slots__ = ()

    def _refuse(self, *_: Datum) -> NoReturn:
        raise UndefinedFault("an undefined value is used: T.undef(), or a lane that a predicate masked off")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __and__ = __rand__ = __or__ = __ror__ = _refuse
    __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __neg__ = __invert__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __eq__ = __ne__ = __bool__ = __int__ = __float__ = __index__ = __abs__ = _refuse
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "undef"


UNDEF = Undefined()


# ---------------------------------------------------------------- into the type


@functools.cache
def integer_wrapper(dtype: DataType) -> Unary:
    """The function that brings an int into an integer type modulo 2**bits (a bool keeps its lowest bit)."""
    low, high, span = int(dtype.min_value), int(dtype.max_value), 1 << dtype.bits

    def wrap(value: int) -> int:
        return value if low <= value <= high else (value - low) % span + low

    return wrap


def _round_float32(value: float) -> float:
    return ctypes.c_float(value).value


def _round_float16(value: float) -> float:
    try:
        return float(struct.unpack("<e", struct.pack("<e", value))[0])
    except OverflowError:  # struct refuses what rounds to infinity
        return math.copysign(math.inf, value)


def _float32_to_odd(value: float) -> float:
    """``value`` as a float32, inexact ones with the last bit set: rounding the result again rounds ``value``."""
    near = ctypes.c_float(value).value
    if near == value or near != near or math.isinf(near):
        return near
    bits = struct.unpack("<I", struct.pack("<f", near))[0]
    if bits & 1:
        return near
    # The odd neighbour on the other side of the value. Zero is even: its neighbours are the least subnormals.
    if near == 0.0:
        bits = 1 if value > 0 else 0x80000001
    else:
        bits += 1 if (abs(near) < abs(value)) else -1
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


@functools.cache
def rounder(dtype: DataType) -> Callable[[float], float]:
    """The function that rounds a float64 to a float type, to nearest even; beyond the range as ml_dtypes does."""
    if dtype.code == "float":
        by_bits: dict[int, Callable[[float], float]] = {64: float, 32: _round_float32, 16: _round_float16}
        return by_bits[dtype.bits]
    storage = dtype.element.numpy
    if dtype.is_minifloat and dtype.bits < 8:
        # Without a NaN: what is none becomes the greatest value, as on GPUs.
        most = float(dtype.max_value)
        return lambda value: most if value != value else float(np.float32(_float32_to_odd(value)).astype(storage))

    def narrow(value: float) -> float:
        # ml_dtypes converts by way of float32: an odd float32 keeps that from rounding twice.
        return float(np.float32(_float32_to_odd(value)).astype(storage))

    return narrow


def _odd_float64(value: Fraction) -> float:
    """An exact value as a float64 with the last bit set where it is inexact (infinite beyond the range)."""
    try:
        near = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    if Fraction(near) == value or struct.unpack("<Q", struct.pack("<d", near))[0] & 1:
        return near
    return math.nextafter(near, math.inf if Fraction(near) < value else -math.inf)


def round_exact(value: Fraction | int, dtype: DataType) -> float:
    """An exact number rounded once to a float type."""
    if dtype.bits == 64:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    return rounder(dtype.element)(_odd_float64(Fraction(value)))


def lane_values(value: Datum) -> tuple[Any, ...]:
    """The lanes of a value: itself when it is a vector, one lane when it is a scalar."""
    return value if value.__class__ is tuple else (value,)


# ---------------------------------------------------------------- arithmetic


def true_divide(a: float, b: float) -> float:
    """IEEE division: by zero it gives an infinity, or NaN for 0/0."""
    try:
        return a / b
    except ZeroDivisionError:
        if a == 0.0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _need_divisor(a: int, b: int) -> None:
    if b == 0:
        raise Fault(f"division by zero: {a} divided by 0")


def _div(a: int, b: int) -> int:
    _need_divisor(a, b)
    return _truncated(a, b)


def _mod(a: int, b: int) -> int:
    _need_divisor(a, b)
    return a - b * _truncated(a, b)


def _floordiv(a: int, b: int) -> int:
    _need_divisor(a, b)
    return a // b


def _floormod(a: int, b: int) -> int:
    _need_divisor(a, b)
    return a % b


def _floor(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) else value


def _floor_divide(a: float, b: float, step: Callable[[float], float]) -> tuple[float, float]:
    """``a // b`` and ``a % b`` as Python and NumPy compute them of floats: the remainder is exact but for the sum that brings
    it to the divisor's sign, and ``step`` rounds each operation."""
    rest = float(np.fmod(a, b))
    if b == 0:
        return true_divide(a, b), rest
    quotient = step(true_divide(step(a - rest), b))
    if rest == 0:
        rest = math.copysign(0.0, b)
    elif (rest < 0) != (b < 0) and rest == rest:
        rest, quotient = step(rest + b), step(quotient - 1)
    if quotient == 0:
        return math.copysign(0.0, a) * math.copysign(1.0, b), rest
    floored = _floor(quotient)
    return step(floored + 1) if quotient - floored > 0.5 else floored, rest


def _float_min(a: float, b: float) -> float:
    return a if b != b else b if a != a or b < a else a


def _float_max(a: float, b: float) -> float:
    return a if b != b else b if a != a or b > a else a


_COMPARE: dict[str, Binary] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}
_INTEGER: dict[str, Binary] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _div,
    "Mod": _mod,
    "FloorDiv": _floordiv,
    "FloorMod": _floormod,
    "Min": min,
    "Max": max,
}
_FLOAT: dict[str, Binary] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": true_divide,
    "Mod": lambda a, b: float(np.fmod(a, b)),
    "Min": _float_min,
    "Max": _float_max,
}


@functools.cache
def operation(name: str, dtype: DataType) -> Binary | None:
    """The scalar function of a binary node (``"Add"``, ``"LT"`` …) on a type; None where the type has none.

    Integer division by zero is a :class:`Fault`; a quotient beyond the type (the least integer by -1) wraps. The
    minimum and maximum of a NaN and a number is the number.

    >>> operation("Add", DataType("int8"))(100, 100)
    -56
    """
    if name in _COMPARE:
        return _COMPARE[name]
    if dtype.is_integral:
        exact = _INTEGER[name]
        if name in ("Min", "Max", "Mod", "FloorMod"):
            return exact
        wrap = integer_wrapper(dtype.element)
        return lambda a, b: wrap(exact(a, b))
    if not dtype.is_float:
        return None
    fix = rounder(dtype.element)
    if name in ("FloorDiv", "FloorMod"):
        # Of narrower types in float32, rounded once.
        divide = functools.partial(_floor_divide, step=float if dtype.bits == 64 else _round_float32)
        return lambda a, b: fix(divide(a, b)[name == "FloorMod"])
    compute = _FLOAT[name]
    if dtype.bits == 64 or name in ("Min", "Max"):
        return compute
    return lambda a, b: fix(compute(a, b))


def fused_multiply_add(a: float, b: float, c: float, dtype: DataType) -> float:
    """``a * b + c`` of finite or special floats, rounded once."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return rounder(dtype.element)(a * b + c)
    if not math.isfinite(c):
        return c  # the product is finite, though float64 may not hold it
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    # The sign of an exact zero is that of the float operations.
    return round_exact(exact, dtype) if exact else a * b + c if a * b + c == 0.0 else 0.0


def shift(name: str, dtype: DataType, bits: int = 0) -> Binary:
    """``shift_left`` or ``shift_right`` (arithmetic on signed types) on an integer type.

    An amount outside ``0 … bits - 1`` is a :class:`Fault`; ``bits`` are those of the type where none are given.
    """
    wrap, bits, left = integer_wrapper(dtype.element), bits or dtype.bits, name.endswith("left")
    kind = f"{dtype.code}{bits}"

    def run(a: int, b: int) -> int:
        if not 0 <= b < bits:
            raise Fault(f"a shift of {kind} is by 0 to {bits - 1} bits, got {b}")
        return int(wrap(a << b)) if left else a >> b

    return run


# ---------------------------------------------------------------- conversions


def _float_to_integer(dtype: DataType) -> Unary:
    low, high = int(dtype.min_value), int(dtype.max_value)

    def convert(value: float) -> int:
        if not math.isfinite(value) or not low <= (whole := math.trunc(value)) <= high:
            raise Fault(f"the conversion of {value!r} to {dtype!s} is out of range ({low} to {high})")
        return whole

    return convert


@functools.cache
def caster(source: DataType, target: DataType) -> Unary:
    """The conversion of a scalar between two types (their elements, for vectors).

    Integers wrap, floats round to nearest even or truncate toward zero to integers, anything nonzero is true. A float
    whose truncation is outside the integer type (or is NaN) has no meaning in C or LLVM: it is a :class:`Fault`.

    >>> caster(DataType("int32"), DataType("uint8"))(-1)
    255
    """
    source, target = source.element, target.element
    if target.is_bool:
        return lambda value: value != 0
    if target.is_integral:
        if source.is_float:
            return _float_to_integer(target)
        wrap = integer_wrapper(target)
        return lambda value: wrap(int(value))
    if target.is_float:
        fix = rounder(target)
        if source.is_float:
            return fix
        return lambda value: fix(float(value)) if -(2**53) <= value <= 2**53 else round_exact(value, target)
    return lambda value: value


def coerce(value: Any, dtype: DataType) -> Datum:
    """A Python value (of a foreign function) as a value of a type: wrapped, rounded, lanes converted."""
    dtype = storage_dtype(dtype)
    if dtype.is_vector:
        return tuple(coerce(lane, dtype.element) for lane in value)
    if dtype.is_bool:
        return bool(value)
    if dtype.is_integral:
        return integer_wrapper(dtype)(int(value))
    if dtype.is_float:
        return rounder(dtype)(float(value))
    return value


@functools.cache
def _float_codes(dtype: DataType) -> tuple[tuple[float, ...], dict[bytes, int]]:
    """The values of a float of at most 8 bits by code, and the codes by the bits of the value as a float64."""
    table = tuple(float(v) for v in np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy))
    codes: dict[bytes, int] = {}
    for code, value in enumerate(table):
        codes.setdefault(struct.pack("<d", value if value == value else math.nan), code)
    return table, codes


@functools.cache
def encoder(dtype: DataType) -> Unary:
    """The function from a scalar to its bits, as a non-negative int."""
    if dtype.is_integral or dtype.is_custom:
        mask = (1 << dtype.bits) - 1
        return lambda value: int(value) & mask
    if dtype.is_minifloat:
        codes = _float_codes(dtype)[1]
        nan = codes.get(struct.pack("<d", math.nan), 0)
        return lambda value: nan if value != value else codes[struct.pack("<d", value)]
    if dtype.is_bfloat16:
        return lambda value: struct.unpack("<I", struct.pack("<f", value))[0] >> 16
    form, code = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}[dtype.bits]
    return lambda value: struct.unpack(code, struct.pack(form, value))[0]


@functools.cache
def decoder(dtype: DataType) -> Unary:
    """The function from bits (a non-negative int) to the scalar they mean."""
    dtype = storage_dtype(dtype)
    if dtype.is_bool:
        return lambda bits: bool(bits & 1)
    if dtype.is_integral:
        return integer_wrapper(dtype)
    if dtype.is_minifloat:
        return _float_codes(dtype)[0].__getitem__
    if dtype.is_bfloat16:
        return lambda bits: struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    form, code = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}[dtype.bits]
    return lambda bits: struct.unpack(form, struct.pack(code, bits))[0]


def bits_of(value: Any, dtype: DataType) -> int:
    """The bits of a value, lane 0 lowest. A NaN's payload is the canonical one of Python's conversions."""
    encode = encoder(dtype.element)
    total = 0
    for position, lane in enumerate(lane_values(value)):
        if lane is UNDEF:
            lane + 0  # raises the fault
        total |= encode(lane) << (position * dtype.bits)
    return total


def from_bits(bits: int, dtype: DataType, lanes: int) -> Datum:
    """The value of a type (with that many lanes) which has these bits."""
    decode, mask = decoder(dtype.element), (1 << dtype.bits) - 1
    if dtype.is_scalar:
        return decode(bits & mask)
    return tuple([decode((bits >> (lane * dtype.bits)) & mask) for lane in range(lanes)])
