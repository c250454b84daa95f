"""The object that Python calls: a heap type with a vectorcall pointer in each instance, which JIT code fills.

Python jumps from the call instruction to the kernel's entry without building a tuple or a frame. Classes may inherit
from :class:`NativeEntry` (attributes and methods are plain Python then) and keep that speed.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Final

from tirlower.call.slowpath import FallbackEntry, SlowPath
from tirlower.call.views import Result
from tirlower.llvm.entry import layout

__all__ = ["EntryBase", "FallbackEntry", "NativeEntry"]

# CPython's type slots and flags (stable ABI)
_TP_CALL, _TP_DOC, _TP_MEMBERS = 50, 56, 72
_T_PYSSIZET, _READONLY = 19, 1
_BASETYPE, _HAVE_VECTORCALL, _DEFAULT = 1 << 10, 1 << 11, 1 << 18
# PyTypeObject.tp_flags stands behind the variable-size header and 18 pointer-sized fields
_TP_FLAGS: Final = layout.HEADER + 8 + 18 * 8


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


#: the C structs behind the type; CPython copies most of them, but not in every version
_alive: list[object] = []


def _vectorcall_type() -> type:
    """``object`` with a code pointer behind the header; an instance cannot be called until the pointer is set."""
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _T_PYSSIZET, layout.SELF_VECTORCALL, _READONLY, None))
    doc = ctypes.c_char_p(b"Holds a pointer to a vectorcall function.")
    slots = (_Slot * 4)(
        _Slot(_TP_CALL, layout.python_function("PyVectorcall_Call")),
        _Slot(_TP_MEMBERS, ctypes.addressof(members)),
        _Slot(_TP_DOC, ctypes.cast(doc, ctypes.c_void_p).value),
    )
    spec = _Spec(
        b"tirlower.llvm.entry.callable.Vectorcallable",
        layout.SELF_VECTORCALL + 8,
        0,
        _DEFAULT | _BASETYPE | _HAVE_VECTORCALL,
        slots,
    )
    _alive.extend([members, doc, slots, spec])
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Spec))(("PyType_FromSpec", ctypes.pythonapi))
    made = make(ctypes.byref(spec))
    assert isinstance(made, type)
    return made


def _call_through_pointer(cls: type) -> None:
    """Let CPython 3.11 call instances of a Python subclass through the pointer too, as it does from 3.12 on.

    3.11 inherits the offset but not the flag, and then goes through a tuple and a dict: 64 ns instead of 26.
    """
    if sys.version_info >= (3, 12) or any("__call__" in vars(c) for c in cls.__mro__ if c is not _Vectorcallable):
        return
    flags = ctypes.c_ulong.from_address(id(cls) + _TP_FLAGS)
    if flags.value == cls.__flags__:
        flags.value |= _HAVE_VECTORCALL


if TYPE_CHECKING:

    class _Vectorcallable:
        def __call__(self, /, *args: object, **kwargs: object) -> Result: ...

elif layout.NATIVE:
    _Vectorcallable = _vectorcall_type()
else:
    _Vectorcallable = object


class NativeEntry(_Vectorcallable):
    """A compiled kernel that calls reach through machine code; ``code`` is the address of its ``@kernel.entry``.

    ``keep`` holds what the code lives in: it is released with the object, and never during a call.
    """

    # The machine code reads the first three and the fourth by their offsets, which follow from this (sorted) order.
    __slots__ = ("__weakref__", "_box", "_keep", "_report", "_slow")

    def __init__(self, slow: SlowPath, code: int, keep: object) -> None:
        self._slow = slow
        self._report = slow.report
        self._box = slow.box
        self._keep = keep
        ctypes.c_void_p.from_address(id(self) + layout.SELF_VECTORCALL).value = code

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        _call_through_pointer(cls)

    @property
    def slow_path(self) -> SlowPath:
        """The same call in Python."""
        return self._slow


def _offsets_hold() -> bool:
    """True when an instance keeps what the machine code reads where :mod:`layout` says."""
    slow = SlowPath.__new__(SlowPath)
    probe = NativeEntry(slow, 0, None)
    at = id(probe)
    expected = {
        layout.SELF_BOX: probe._box,
        layout.SELF_KEEP: probe._keep,
        layout.SELF_REPORT: probe._report,
        layout.SELF_SLOW: probe._slow,
    }
    return all(layout.word(at + offset) == id(value) for offset, value in expected.items())


if layout.NATIVE:
    _call_through_pointer(NativeEntry)

#: True where :class:`NativeEntry` works in this process
NATIVE_CALLS: Final = layout.NATIVE and _offsets_hold()

#: what a class of kernels inherits from: the native entry where it works, else the ctypes one
if TYPE_CHECKING:
    EntryBase = NativeEntry
else:
    EntryBase = NativeEntry if NATIVE_CALLS else FallbackEntry
