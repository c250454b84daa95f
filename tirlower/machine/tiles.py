"""Tile registers of x86 processors (AMX): eight registers of 16 rows of 64 bytes, which a process asks its system for.

Code that uses them in a process without the permission ends in an illegal instruction: the system keeps the 8 KB of their
state for those alone that asked (Linux since 5.16, ``arch_prctl(ARCH_REQ_XCOMP_PERM)``).
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from typing import Final

__all__ = ["SIDE", "TILES", "TILE_FEATURES", "permitted"]

SIDE: Final = 16
"""Rows of a tile register, and elements of 32 bits in one of its rows."""

TILES: Final = 8
"""The registers of a thread."""

TILE_FEATURES: Final = frozenset(
    ["amx-tile", "amx-int8", "amx-bf16", "amx-fp16", "amx-complex", "amx-fp8", "amx-tf32", "amx-avx512", "amx-movrs"]
)
"""Features of processors that are of no use without the permission."""

_ARCH_PRCTL: Final = 158
_REQUEST: Final = 0x1023
_GRANTED: Final = 0x1022
_TILE_DATA: Final = 18
"""The number of the tiles' data among the states that the processor saves."""


@functools.cache
def permitted() -> bool:
    """Whether this process may use tiles: asks the system once, which grants it to all threads, and to forks.

    >>> permitted() in (True, False)
    True
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
    except (OSError, AttributeError):
        return False
    call.restype = ctypes.c_long
    granted = ctypes.c_uint64(0)
    number = ctypes.c_long(_ARCH_PRCTL)
    if call(number, ctypes.c_long(_REQUEST), ctypes.c_ulong(_TILE_DATA)) != 0:
        return False
    if call(number, ctypes.c_long(_GRANTED), ctypes.byref(granted)) != 0:
        return False
    return bool(granted.value >> _TILE_DATA & 1)
