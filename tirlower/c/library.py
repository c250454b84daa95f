"""Loading a shared object, and the callables of its kernels."""

from __future__ import annotations

import _ctypes
import ctypes
import weakref
from collections.abc import Mapping

from tirlower.c.codegen.module import CKernel, CModule
from tirlower.c.compile import Compiled
from tirlower.call.slowpath import PackedKernel
from tirlower.diagnostics import CodegenError

__all__ = ["Library", "packed"]


def _close(handle: int) -> None:
    close = getattr(_ctypes, "dlclose", None)  # there is none on Windows
    if close is not None:
        close(handle)


class Library:
    """A loaded shared object; it is closed when nothing that came from it is left."""

    def __init__(self, compiled: Compiled) -> None:
        try:
            self._loaded = ctypes.CDLL(str(compiled.path))
        except OSError as error:
            raise CodegenError(
                f"what the C compiler made cannot be loaded: {error}",
                origin="c",
                help="check that every T.call_extern names a function of the C library or one that is registered",
            ) from error
        finally:
            compiled.discard()
        weakref.finalize(self, _close, self._loaded._handle).atexit = False

    def address(self, symbol: str) -> int:
        """Where a function or a table stands."""
        found = ctypes.cast(getattr(self._loaded, symbol), ctypes.c_void_p).value
        assert found is not None
        return found

    def fill(self, module: CModule, addresses: Mapping[str, int]) -> None:
        """Give a module the addresses of the external functions that it calls through its table."""
        if module.imports:
            table = (ctypes.c_void_p * len(module.imports)).in_dll(self._loaded, module.imports_symbol)
            table[:] = [addresses[name] for name in module.imports]


def packed(library: Library, module: CModule, kernel: CKernel) -> PackedKernel:
    """A kernel as the slow path of calls takes it: a function that has its arguments in 64-bit slots."""
    return PackedKernel(library.address(kernel.symbol), module.errors, library)
