"""Where CPython and NumPy keep what the entry reads, and the self-test that must pass before it is believed.

The native entry reads array headers instead of asking for them: 35 ns for three arrays against 122 ns through the
buffer protocol. The offsets below hold for CPython 3.11 to 3.14, with and without the GIL, and for NumPy 1.x and 2.x:
the object header ends with the type, so its size (``object.__basicsize__``: 16, or 32 on free-threaded builds) is all
that differs. :func:`self_test` compares them with what Python says of a few objects; where they do not hold, or on
another Python, :data:`NATIVE` is false and calls go through ctypes with the same checks.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

import numpy as np

from tirlower.call.vectorcall import HEADER, TYPE, word
from tirlower.ir.dtype import Array

__all__ = ["NATIVE", "WHY_NOT", "array_api", "layout_key", "self_test"]

# PyArrayObject
DATA: Final = HEADER
NDIM: Final = HEADER + 8
DIMS: Final = HEADER + 16
STRIDES: Final = HEADER + 24
DESCR: Final = HEADER + 40
FLAGS: Final = HEADER + 48

#: bits of PyArrayObject.flags
C_CONTIGUOUS: Final = 0x001
ALIGNED: Final = 0x100
WRITEABLE: Final = 0x400

# DLTensor (DLPack 1.x): data, device {type i32, id i32}, ndim i32, dtype {u8, u8, u16}, shape, strides, byte_offset
DL_DATA: Final = 0
DL_DEVICE: Final = 8
DL_NDIM: Final = 16
DL_DTYPE: Final = 20
DL_SHAPE: Final = 24
DL_STRIDES: Final = 32
DL_OFFSET: Final = 40
DL_SIZE: Final = 48
DL_CPU: Final = 1

# The callable object (tirlower.llvm.entry.callable): behind its code pointer, its Python slots in alphabetical order
SELF_BOX: Final = HEADER + 8
SELF_KEEP: Final = HEADER + 16
SELF_REPORT: Final = HEADER + 24
SELF_SLOW: Final = HEADER + 32

#: positions in NumPy's C API table that do not move: the array type, NewFromDescr, SetBaseObject
API_ARRAY_TYPE: Final = 2
API_NEW_FROM_DESCR: Final = 94
API_SET_BASE: Final = 282


def layout_key() -> str:
    """What machine code of an entry depends on besides its signature: part of an object file's cache key."""
    return f"{sys.implementation.name}-header{HEADER}-pointer{ctypes.sizeof(ctypes.c_void_p)}-{sys.byteorder}"


def array_api() -> int:
    """The address of NumPy's table of C functions.

    Raises:
        AttributeError: this NumPy has no such table.
    """
    core = np._core if hasattr(np, "_core") else np.core
    capsule = core.multiarray._ARRAY_API
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ctypes.cast(pointer_of, ctypes.c_void_p).value or 0
    )
    return int(get(capsule, None))


def _int(address: int) -> int:
    return int(ctypes.c_int32.from_address(address).value)


def _facts(array: Array) -> list[tuple[str, object, object]]:
    """What the header says of an array, and what Python says: (name, read, expected)."""
    at = id(array)
    rank = array.ndim
    dims = [word(word(at + DIMS) + 8 * i) for i in range(rank)]
    strides = [ctypes.c_int64.from_address(word(at + STRIDES) + 8 * i).value for i in range(rank)]
    flags = _int(at + FLAGS)
    return [
        ("type", word(at + TYPE), id(np.ndarray)),
        ("ndim", _int(at + NDIM), rank),
        ("data", word(at + DATA), array.ctypes.data),
        ("shape", dims, list(array.shape)),
        ("strides", strides, list(array.strides)),
        ("dtype", word(at + DESCR), id(array.dtype)),
        ("C contiguous", bool(flags & C_CONTIGUOUS), array.flags.c_contiguous),
        ("aligned", bool(flags & ALIGNED), array.flags.aligned),
        ("writeable", bool(flags & WRITEABLE), array.flags.writeable),
    ]


def _scalar_facts() -> list[tuple[str, object, object]]:
    one, wide, exact = np.float32(1.5), np.int64(-(1 << 40)), -2.25
    return [
        ("float32 scalar", ctypes.c_float.from_address(id(one) + HEADER).value, 1.5),
        ("int64 scalar", ctypes.c_int64.from_address(id(wide) + HEADER).value, -(1 << 40)),
        ("float", ctypes.c_double.from_address(id(exact) + HEADER).value, -2.25),
        ("type of a float", word(id(exact) + TYPE), id(float)),
    ]


def self_test() -> str | None:
    """Why the offsets cannot be used in this process, or None when they hold."""
    if sys.implementation.name != "cpython":
        return f"the interpreter is {sys.implementation.name}, not cpython"
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "not a 64-bit little-endian machine"
    if HEADER not in (16, 32) or np.ndarray.__basicsize__ < FLAGS + 8:
        return f"unknown object sizes: object {HEADER}, ndarray {np.ndarray.__basicsize__}"
    frozen = np.arange(3, dtype=np.int64)
    frozen.flags.writeable = False
    raw = np.zeros(17, np.uint8)
    samples: list[Array] = [
        np.zeros((), np.float32),
        np.zeros((2, 3, 4))[:, ::-1, 1:],
        frozen,
        raw[1:].view(np.float64),
    ]
    for array in samples:
        for name, read, expected in _facts(array):
            if read != expected:
                return f"the array header keeps no {name} where it is expected"
    for name, read, expected in _scalar_facts():
        if read != expected:
            return f"unknown layout of {name}"
    return _api_test()


def _api_test() -> str | None:
    try:
        table = array_api()
    except AttributeError:
        return "this NumPy shows no table of C functions"
    if word(table + 8 * API_ARRAY_TYPE) != id(np.ndarray):
        return "unknown order of NumPy's table of C functions"
    return None


#: None where the native entry works; else the reason, in words
WHY_NOT: Final[str | None] = self_test()
#: True where calls go through machine code that reads the headers itself
NATIVE: Final[bool] = WHY_NOT is None
