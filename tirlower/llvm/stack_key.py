"""Where generated code keeps what it found out about a thread's stack: one key of thread-local storage a process."""

from __future__ import annotations

import ctypes
import functools
from typing import Final

__all__ = ["STACK_KEY", "stack_key_address"]

STACK_KEY: Final = "tirlower_stack_key"
"""The symbol of the key, an ``i32`` (the memory of a ``pthread_key_t`` on Linux)."""


@functools.cache
def _key() -> ctypes.c_uint32:
    key = ctypes.c_uint32()
    create = ctypes.CDLL(None).pthread_key_create
    status = create(ctypes.byref(key), None)
    if status:
        raise OSError(status, "pthread_key_create failed: the process has no thread-local key left")
    return key


def stack_key_address() -> int:
    """The address of the key, made at the first call. Raises OSError where the process has no key left."""
    return ctypes.addressof(_key())
