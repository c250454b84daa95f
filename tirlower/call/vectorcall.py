"""Classes whose objects are called through machine code: a heap type with a pointer to it in each instance.

Python jumps from the call instruction to that code without building a tuple or a frame. Classes may inherit from such a
type (attributes and methods are plain Python then) and keep that speed.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

__all__ = [
    "CALLABLE",
    "HEADER",
    "TYPE",
    "call_through_pointer",
    "python_function",
    "set_word",
    "vectorcall_type",
    "word",
]

#: size of the object header, and the offset of the type in it
HEADER: Final = object.__basicsize__
TYPE: Final = HEADER - 8

#: where an instance has its code pointer; words of the class's own follow
CALLABLE: Final = HEADER

# CPython's type slots and flags (stable ABI)
_TP_CALL, _TP_DOC, _TP_MEMBERS = 50, 56, 72
_T_PYSSIZET, _READONLY = 19, 1
_BASETYPE, _HAVE_VECTORCALL, _DEFAULT = 1 << 10, 1 << 11, 1 << 18
# PyTypeObject.tp_flags stands behind the variable-size header and 18 pointer-sized fields
_TP_FLAGS: Final = HEADER + 8 + 18 * 8


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("pointer", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


#: the C structs behind the types; CPython copies most of them, but not in every version
_alive: list[object] = []


def python_function(name: str) -> int:
    """The address of a function of Python's C API.

    Raises:
        AttributeError: this Python does not export it.
    """
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)


def word(address: int) -> int:
    """The 64-bit word at an address."""
    return int(ctypes.c_uint64.from_address(address).value)


def set_word(address: int, value: int) -> None:
    """Set the 64-bit word at an address."""
    ctypes.c_uint64.from_address(address).value = value


def vectorcall_type(name: str, words: int = 0) -> type:
    """``object`` with a code pointer behind the header and so many words behind that, all 0.

    An instance cannot be called until its pointer is set.
    """
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _T_PYSSIZET, CALLABLE, _READONLY, None))
    doc = ctypes.c_char_p(b"Holds a pointer to a vectorcall function.")
    slots = (_Slot * 4)(
        _Slot(_TP_CALL, python_function("PyVectorcall_Call")),
        _Slot(_TP_MEMBERS, ctypes.addressof(members)),
        _Slot(_TP_DOC, ctypes.cast(doc, ctypes.c_void_p).value),
    )
    size = CALLABLE + 8 * (1 + words)
    spec = _Spec(name.encode(), size, 0, _DEFAULT | _BASETYPE | _HAVE_VECTORCALL, slots)
    _alive.extend([members, doc, slots, spec])
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Spec))(("PyType_FromSpec", ctypes.pythonapi))
    made = make(ctypes.byref(spec))
    assert isinstance(made, type)
    return made


def call_through_pointer(cls: type, base: type) -> None:
    """Let CPython 3.11 call instances of a Python subclass of ``base`` through the pointer too, as it does from 3.12 on.

    3.11 inherits the offset but not the flag, and then goes through a tuple and a dict: 64 ns instead of 26.
    """
    if sys.version_info >= (3, 12) or any("__call__" in vars(c) for c in cls.__mro__ if c is not base):
        return
    flags = ctypes.c_ulong.from_address(id(cls) + _TP_FLAGS)
    if flags.value == cls.__flags__:
        flags.value |= _HAVE_VECTORCALL
