"""Arrays flush against an unreadable page, with canaries on their other side."""

from __future__ import annotations

import ctypes
import ctypes.util
import mmap
from typing import Any

import numpy as np

__all__ = ["Fenced"]

PAGE = mmap.PAGESIZE
PROT_NONE = 0
CANARY = 0xA5
_LIBC = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_size_t]
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Fenced:
    """A one-dimensional array whose first byte follows, or whose last precedes, a page that cannot be touched.

    The rest of its pages holds canaries; :meth:`intact` says whether they are. The memory lives until :meth:`free`.
    """

    def __init__(self, content: Any, at_end: bool) -> None:
        size = max(content.nbytes, 1)
        whole = -(-size // PAGE) * PAGE
        self.total = whole + PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        address = _LIBC.mmap(None, self.total, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            raise MemoryError("mmap")
        self.address = int(address)
        pages = self.address if at_end else self.address + PAGE
        fence = self.address + whole if at_end else self.address
        ctypes.memset(pages, CANARY, whole)
        if _LIBC.mprotect(fence, PAGE, PROT_NONE) != 0:
            raise MemoryError("mprotect")
        start = pages + (whole - content.nbytes if at_end else 0)
        self._rest = (pages, start - pages) if at_end else (start + content.nbytes, whole - content.nbytes)
        buffer = (ctypes.c_char * content.nbytes).from_address(start)
        self.array: Any = np.frombuffer(buffer, content.dtype)
        self.array[:] = content

    def intact(self) -> bool:
        """Whether nothing wrote beside the array, on the side that can be written."""
        start, size = self._rest
        return ctypes.string_at(start, size) == bytes([CANARY]) * size

    def free(self) -> None:
        """Give the memory back; the array must not be used any more."""
        self.array = None
        _LIBC.munmap(self.address, self.total)
