"""Types of values: data types, pointers to them, and what they make of a number.

``DataType("float32x4")`` is the string ``"float32x4"`` with attributes, so that ``x.dtype == "float32x4"`` reads
naturally and dictionaries keyed by dtype work. Data types are interned: equal ones are the same object. A number that
a type does not hold as it is wraps (:func:`wrap_int`) or is rounded (:func:`round_float`).
"""

from __future__ import annotations

import math
import re
import struct
from typing import ClassVar, TypeAlias

import ml_dtypes
import numpy as np

from tirlower.ir.text import script

__all__ = [
    "BOOL", "FLOAT64", "FLOAT8_KINDS", "HANDLE", "INT32", "INT64", "MINIFLOATS", "VOID", "Array", "DataType",
    "DataTypeError", "PointerType", "WITHOUT_BITS", "NumpyDType", "round_float", "wrap_int",
]  # fmt: skip

Array: TypeAlias = "np.ndarray[tuple[int, ...], NumpyDType]"
"""A NumPy array of whatever shape and dtype."""
NumpyDType: TypeAlias = "np.dtype[np.generic[object]]"

# The OCP 8-bit floats, and their relatives that ml_dtypes knows by the same names.
FLOAT8_KINDS = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
MINIFLOATS = {**dict.fromkeys(FLOAT8_KINDS, 8), "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4}
"""The floats of at most 8 bits, with their bits; each takes a byte of an array. Those of 4 and 6 bits have neither
infinities nor NaN: what is beyond them is their greatest value, and so is what a NaN becomes."""

_LANES = r"(?:x(?P<lanes>\d+)|xvscalex(?P<vscale>\d+))?"
_NUMERIC = re.compile(r"(?P<code>int|uint|float|bfloat)(?P<bits>\d+)" + _LANES)
_NAMED = re.compile(r"(?P<name>bool|handle|" + "|".join(sorted(MINIFLOATS, key=len, reverse=True)) + ")" + _LANES)
_CUSTOM = re.compile(r"custom\[(?P<name>[A-Za-z_]\w*)\](?P<bits>\d+)" + _LANES)


class DataTypeError(ValueError, TypeError):
    """A text that names no data type, or an operation that a data type does not have."""


class DataType(str):
    """A data type by its name.

    ``code`` is one of ``bool int uint float bfloat handle void custom`` or one of :data:`MINIFLOATS`; ``bits`` the
    bits of one lane; ``lanes`` the number of lanes (of each vscale unit, when ``scalable``).

    >>> t = DataType("float16x8")
    >>> t.code, t.bits, t.lanes, t.element
    ('float', 16, 8, 'float16')
    >>> t.with_lanes(4) is DataType("float16x4")
    True

    Raises :class:`DataTypeError` for a text that is no data type.
    """

    __slots__ = (
        "bits", "code", "is_bool", "is_float", "is_float8", "is_int", "is_minifloat", "is_uint", "lanes", "scalable",
    )  # fmt: skip

    code: str
    bits: int
    lanes: int
    scalable: bool
    is_int: bool
    is_uint: bool
    is_float: bool
    is_float8: bool
    is_minifloat: bool
    is_bool: bool
    _known: ClassVar[dict[object, DataType]] = {}
    any_custom: ClassVar[bool] = False
    """Whether this process has ever named a custom type: without one nothing has to be searched for them."""

    def __new__(cls, name: object = "void") -> DataType:
        """The interned data type of that name (``uint1`` and ``int1`` spell ``bool``; ``""`` is ``void``; ``int``,
        ``uint`` and ``float`` have 32 bits)."""
        known = cls._known.get(name)
        if known is not None:
            return known
        if isinstance(name, DataType):
            return name
        if not isinstance(name, str):
            return cls.named(name)
        return cls._parse(name)

    @classmethod
    def named(cls, value: object) -> DataType:
        """The data type that a string, a NumPy dtype, or a Python or NumPy type (``float``, ``np.float32``) names.

        >>> DataType.named(float), DataType.named(np.dtype("uint8"))
        ('float64', 'uint8')
        """
        if isinstance(value, str):
            return cls(str(value))
        name = {float: "float64", int: "int64", bool: "bool"}.get(value) if isinstance(value, type) else None
        if name is not None:
            return cls(name)
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            try:
                return cls.from_numpy(value)
            except (TypeError, ValueError):
                pass
        raise DataTypeError(f"a data type is named by a string such as 'float32x4', got {value!r}")

    @classmethod
    def _parse(cls, name: str) -> DataType:
        if name in WITHOUT_BITS:
            found = cls(WITHOUT_BITS[name])
        elif name in ("void", ""):
            found = cls._known.get("void") or cls._make("void", 0, 0, False, "void")
        elif match := _NUMERIC.fullmatch(name):
            code, bits = match["code"], int(match["bits"])
            widths = {"float": (16, 32, 64), "bfloat": (16,)}.get(code, range(1, 65))
            if bits not in widths:
                raise DataTypeError(f"no data type {name!r}: {code} has the widths {_widths_text(widths)}")
            if bits == 1:
                code = "bool"
            found = cls._with(code, bits, match)
        elif match := _NAMED.fullmatch(name):
            code = match["name"]
            found = cls._with(code, {"bool": 1, "handle": 64, **MINIFLOATS}[code], match)
        elif match := _CUSTOM.fullmatch(name):
            found = cls._with(f"custom[{match['name']}]", int(match["bits"]), match)
            DataType.any_custom = True
        else:
            other = _OTHER_NAMES.get(name)
            way = f"write {other}" if other else "examples: 'int32', 'float32x4', 'bool', 'bfloat16', 'handle'"
            raise DataTypeError(f"no data type {name!r}; {way}")
        cls._known[name] = found
        return found

    @classmethod
    def _with(cls, code: str, bits: int, match: re.Match[str]) -> DataType:
        groups = match.groupdict()
        lanes = int(groups["lanes"] or groups["vscale"] or 1)
        if lanes < 1:
            raise DataTypeError(f"a vector has at least one lane, got {match[0]!r}")
        return cls._named(code, bits, lanes, groups["vscale"] is not None)

    @classmethod
    def _named(cls, code: str, bits: int, lanes: int, scalable: bool) -> DataType:
        base = code if code in ("bool", "handle", "void") or code in MINIFLOATS else f"{code}{bits}"
        if scalable:
            base += f"xvscalex{lanes}"
        elif lanes != 1 and code != "void":
            base += f"x{lanes}"
        known = cls._known.get(base)
        return known if known is not None else cls._make(code, bits, lanes, scalable, base)

    @classmethod
    def _make(cls, code: str, bits: int, lanes: int, scalable: bool, name: str) -> DataType:
        self = str.__new__(cls, name)
        self.code = code
        self.bits = bits
        self.lanes = lanes
        self.scalable = scalable
        self.is_int = code == "int"
        self.is_uint = code == "uint"
        self.is_bool = code == "bool"
        self.is_float8 = code.startswith("float8_")
        self.is_minifloat = code in MINIFLOATS
        self.is_float = code in ("float", "bfloat") or self.is_minifloat
        cls._known[name] = self
        return self

    @classmethod
    def of(cls, code: str, bits: int, lanes: int = 1, scalable: bool = False) -> DataType:
        """The data type with these parts, e.g. ``DataType.of("int", 32, 4)``."""
        return cls._named("bool" if code in ("int", "uint") and bits == 1 else code, bits, lanes, scalable)

    @property
    def is_integral(self) -> bool:
        """Whether arithmetic on it is integer arithmetic (int, uint or bool)."""
        return self.is_int or self.is_uint or self.is_bool

    @property
    def is_handle(self) -> bool:
        """Whether it is a pointer."""
        return self.code == "handle"

    @property
    def is_custom(self) -> bool:
        """Whether it is a registered custom type, ``custom[name]bits``."""
        return self.code.startswith("custom[")

    @property
    def is_float4(self) -> bool:
        """Whether its lanes are floats of 4 bits."""
        return self.code == "float4_e2m1fn"

    @property
    def is_float6(self) -> bool:
        """Whether its lanes are floats of 6 bits."""
        return self.is_minifloat and self.bits == 6

    @property
    def is_bfloat16(self) -> bool:
        """Whether its lanes are bfloat16."""
        return self.code == "bfloat"

    @property
    def is_scalar(self) -> bool:
        """Whether it has one lane."""
        return self.lanes == 1 and not self.scalable

    @property
    def is_vector(self) -> bool:
        """Whether it has more lanes than one (or scalable ones)."""
        return self.lanes > 1 or self.scalable

    @property
    def element(self) -> DataType:
        """The type of one lane."""
        return self if self.lanes == 1 and not self.scalable else self.of(self.code, self.bits)

    def with_lanes(self, lanes: int, scalable: bool = False) -> DataType:
        """The same element with that many lanes."""
        if lanes == self.lanes and scalable == self.scalable:
            return self
        return self.of(self.code, self.bits, lanes, scalable)

    def with_bits(self, bits: int) -> DataType:
        """The same code and lanes with another width."""
        return self.of(self.code, bits, self.lanes, self.scalable)

    @property
    def bytes(self) -> int:
        """Bytes of one lane in memory (bool takes one, sub-byte types round up)."""
        return (self.bits + 7) // 8

    @property
    def itemsize(self) -> int:
        """Bytes of all lanes, as NumPy's dtypes say it."""
        return self.bytes * self.lanes

    @property
    def min_value(self) -> int | float:
        """The least finite value of one lane."""
        if self.is_bool or self.is_uint:
            return 0
        if self.is_int:
            return -(1 << (self.bits - 1))
        return float(self._finfo().min)

    @property
    def max_value(self) -> int | float:
        """The greatest finite value of one lane."""
        if self.is_bool:
            return 1
        if self.is_uint:
            return (1 << self.bits) - 1
        if self.is_int:
            return (1 << (self.bits - 1)) - 1
        return float(self._finfo().max)

    def holds(self, value: float) -> bool:
        """Whether this float type has a value for a number: finite ones do not leave its range when they are rounded.

        Infinities and NaNs are held but by the types of 4 and 6 bits, which have neither.

        >>> DataType("float16").holds(65519.0), DataType("float16").holds(65520.0), DataType("float4_e2m1fn").holds(7.0)
        (True, False, False)
        """
        if self.is_minifloat and self.bits < 8:
            top = (1 << (self.bits - 1)) - 1
            below = float(np.array(top - 1, np.uint8).view(self.numpy))
            return abs(value) < (3 * self.max_value - below) / 2
        if not math.isfinite(value):
            return True
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.float64(value).astype(self.numpy)))

    def _finfo(self) -> ml_dtypes.finfo:
        if not self.is_float:
            raise DataTypeError(f"{self!s} has no least or greatest value")
        return ml_dtypes.finfo(self.numpy)  # type: ignore[no-untyped-call]

    @property
    def numpy(self) -> NumpyDType:
        """NumPy's (or ml_dtypes') dtype of one lane; integers of other widths sit in the next standard width.

        Raises :class:`DataTypeError` for void and custom types; a handle is ``uint64``.
        """
        if self.is_bool:
            return np.dtype(np.bool_)
        if self.is_int or self.is_uint:
            width = next(w for w in (8, 16, 32, 64) if w >= self.bits)
            return np.dtype(f"{self.code}{width}")
        if self.code == "float":
            return np.dtype(f"float{self.bits}")
        if self.is_float:
            made: NumpyDType = np.dtype(getattr(ml_dtypes, str(self.element)))
            return made
        if self.is_handle:
            return np.dtype(np.uint64)
        raise DataTypeError(f"{self!s} has no NumPy dtype")

    def script(self, **options: object) -> str:
        """The type as scripts write it.

        >>> DataType("float32x4").script()
        'T.float32x4'
        """
        return script(self, **options)

    @classmethod
    def from_numpy(cls, dtype: NumpyDType | type) -> DataType:
        """The data type of a NumPy (or ml_dtypes) dtype."""
        return cls(np.dtype(dtype).name)

    def __reduce__(self) -> tuple[type[DataType], tuple[str]]:
        return (DataType, (str(self),))


WITHOUT_BITS = {"int": "int32", "uint": "uint32", "float": "float32"}
"""What types without a width stand for, as in TIR."""

_OTHER_NAMES = {
    "double": "'float64'", "single": "'float32'", "half": "'float16'",
    "f16": "'float16'", "f32": "'float32'", "f64": "'float64'", "bf16": "'bfloat16'", "long": "'int64'", "short": "'int16'", "char": "'int8'", "byte": "'uint8'",
    **{f"{c}{b}": f"'{k}{b}'" for c, k in (("i", "int"), ("u", "uint")) for b in (8, 16, 32, 64)},
    "float8": "'float8_e4m3fn' or 'float8_e5m2'", "float4": "'float4_e2m1fn'", "float6": "'float6_e2m3fn' or 'float6_e3m2fn'", "boolean": "'bool'", "size_t": "'int64'",
}  # fmt: skip
"""What other languages call the types."""


def _widths_text(widths: range | tuple[int, ...]) -> str:
    return f"{widths[0]} to {widths[-1]}" if isinstance(widths, range) else ", ".join(map(str, widths))


class PointerType:
    """The type of a buffer's data variable: a pointer to elements of a dtype in a storage scope."""

    __slots__ = ("element", "scope")

    def __init__(self, element: DataType | str, scope: str = "global") -> None:
        self.element = DataType(element)
        self.scope = scope or "global"

    @property
    def element_type(self) -> DataType:
        """The type of what it points to, in TIR's word."""
        return self.element

    @property
    def storage_scope(self) -> str:
        """The storage scope, in TIR's word."""
        return self.scope

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PointerType) and other.element == self.element and other.scope == self.scope

    def __hash__(self) -> int:
        return hash((self.element, self.scope))

    def script(self, **options: object) -> str:
        """The type as scripts write it.

        >>> PointerType("int8", "shared").script()
        'T.handle("int8", "shared")'
        """
        return script(self, **options)

    def __repr__(self) -> str:
        return f"PointerType({str(self.element)!r}, {self.scope!r})"


def wrap_int(value: int, dtype: DataType) -> int:
    """``value`` modulo 2**bits, in the range of an integer dtype.

    >>> wrap_int(130, DataType("int8"))
    -126
    """
    bits = dtype.bits
    value &= (1 << bits) - 1
    if dtype.is_int and value >> (bits - 1):
        value -= 1 << bits
    return value


_FLOAT32 = struct.Struct("<f")


def round_float(value: float, dtype: DataType) -> float:
    """``value`` rounded to the nearest value of a float dtype, as a Python float.

    >>> round_float(0.1, DataType("float32"))
    0.10000000149011612
    """
    if dtype.bits == 64:
        return float(value)
    if value != value:
        # The floats of 4 and 6 bits have no NaN: their greatest value takes its place.
        return float(dtype.max_value) if dtype.is_minifloat and dtype.bits < 8 else float(value)
    if dtype.bits == 32:
        # By far the most frequent; ten times as fast as through NumPy.
        try:
            return float(_FLOAT32.unpack(_FLOAT32.pack(value))[0])
        except OverflowError:
            return math.copysign(math.inf, value)
    with np.errstate(over="ignore", invalid="ignore"):
        # An infinity becomes what the type has for it: float8_e4m3fn has NaN only.
        return float(np.float64(value).astype(dtype.element.numpy))


BOOL = DataType("bool")
INT32 = DataType("int32")
INT64 = DataType("int64")
FLOAT64 = DataType("float64")
HANDLE = DataType("handle")
VOID = DataType("void")
