"""Element and scalar types of a call: their names, sizes, and their NumPy and DLPack sides.

The names are those of ``tirlower`` and of NumPy: ``bool``, ``int8`` ... ``uint64``, ``float16/32/64``, and through
``ml_dtypes`` ``bfloat16``, ``int4``, ``float8_e4m3fn`` and its relatives (one element a byte). A scalar may also be an
integer of any width from 1 to 64 bits, or a ``handle``.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from tirlower.diagnostics import LoweringError
from tirlower.ir.dlpack import CODES
from tirlower.ir.dtype import MINIFLOATS, NumpyDType

__all__ = ["ElementType", "element_type", "numpy_dtype", "scalar_class"]

_FLOATS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
_SUB_BYTE = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4}
_INTEGER = re.compile(r"(u?)int([1-9][0-9]?)\Z")


@dataclass(frozen=True, slots=True)
class ElementType:
    """A dtype as a call sees it.

    ``kind`` is ``"bool"``, ``"int"``, ``"uint"``, ``"float"`` or ``"handle"``; ``bits`` counts the bits of the value;
    ``itemsize`` is the size in bytes of an array element, 0 where there are no arrays of it; ``dlpack`` is DLPack's
    ``code | bits << 8 | lanes << 16``, or -1.
    """

    name: str
    kind: str
    bits: int
    itemsize: int
    dlpack: int

    @property
    def signed(self) -> bool:
        """True for signed integers."""
        return self.kind == "int"

    def int_range(self) -> tuple[int, int]:
        """The least and the greatest value of an integer or bool type."""
        if self.kind == "int":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


@functools.lru_cache(maxsize=256)
def element_type(name: str) -> ElementType:
    """The :class:`ElementType` of a dtype name.

    >>> element_type("float32").itemsize, element_type("int4").itemsize, element_type("uint7").int_range()
    (4, 1, (0, 127))

    Raises:
        LoweringError: no call can pass a value of this dtype.
    """
    if name == "bool":
        return ElementType(name, "bool", 1, 1, _dlpack(CODES["bool"], 8))
    if name == "handle":
        return ElementType(name, "handle", 64, 0, -1)
    if name in _FLOATS:
        bits = _FLOATS[name]
        return ElementType(
            name, "float", bits, bits // 8, _dlpack(CODES["bfloat" if name == "bfloat16" else "float"], bits)
        )
    if name in MINIFLOATS:
        bits = MINIFLOATS[name]  # DLPack packs those of less than 8; here, as in NumPy, each takes a byte
        return ElementType(name, "float", bits, 1, _dlpack(CODES[name], 8) if bits == 8 else -1)
    found = _INTEGER.match(name)
    if found and int(found[2]) <= 64:
        bits = int(found[2])
        kind = "uint" if found[1] else "int"
        whole = bits in (8, 16, 32, 64)
        itemsize = bits // 8 if whole else int(name in _SUB_BYTE)
        code = _dlpack(CODES[kind], bits) if whole else -1
        return ElementType(name, kind, bits, itemsize, code)
    raise LoweringError(
        f"a call cannot pass values of dtype `{name}`",
        origin="call",
        help="use bool, intN or uintN up to 64 bits, float16/32/64, bfloat16, a float of 4, 6 or 8 bits (float8_e4m3fn) or handle",
    )


def _dlpack(code: int, bits: int) -> int:
    return code | bits << 8 | 1 << 16


@functools.lru_cache(maxsize=1)
def _extended() -> ModuleType:
    # The one place that imports ml_dtypes: 6 ms that a program without bfloat16 need not pay.
    import ml_dtypes

    module: ModuleType = ml_dtypes
    return module


def scalar_class(name: str) -> type:
    """NumPy's (or ml_dtypes') class of the scalars of a dtype that arrays can have."""
    if name == "bfloat16" or name in MINIFLOATS or name in _SUB_BYTE:
        cls: type = getattr(_extended(), name)
        return cls
    return np.dtype(name).type


@functools.lru_cache(maxsize=256)
def numpy_dtype(name: str) -> NumpyDType:
    """The NumPy dtype object of a dtype name: the singleton that arrays of it share.

    Raises:
        LoweringError: NumPy has no arrays of this dtype.
    """
    if not element_type(name).itemsize:
        raise LoweringError(
            f"NumPy has no arrays of dtype `{name}`", origin="call", help="store the elements in the next wider dtype"
        )
    return np.dtype(scalar_class(name))
