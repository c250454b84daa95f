"""The object that Python calls, through the pointer to a kernel's entry in it (:mod:`tirlower.call.vectorcall`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tirlower.call.slowpath import FallbackEntry, SlowPath
from tirlower.call.vectorcall import CALLABLE, call_through_pointer, set_word, vectorcall_type, word
from tirlower.call.views import Result
from tirlower.llvm.entry import layout

__all__ = ["EntryBase", "FallbackEntry", "NativeEntry"]

if TYPE_CHECKING:

    class _Vectorcallable:
        def __call__(self, /, *args: object, **kwargs: object) -> Result: ...

elif layout.NATIVE:
    _Vectorcallable = vectorcall_type("tirlower.llvm.entry.callable.Vectorcallable")
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
        set_word(id(self) + CALLABLE, code)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        call_through_pointer(cls, _Vectorcallable)

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
    return all(word(at + offset) == id(value) for offset, value in expected.items())


if layout.NATIVE:
    call_through_pointer(NativeEntry, _Vectorcallable)

#: True where :class:`NativeEntry` works in this process
NATIVE_CALLS: Final = layout.NATIVE and _offsets_hold()

#: what a class of kernels inherits from: the native entry where it works, else the ctypes one
if TYPE_CHECKING:
    EntryBase = NativeEntry
else:
    EntryBase = NativeEntry if NATIVE_CALLS else FallbackEntry
