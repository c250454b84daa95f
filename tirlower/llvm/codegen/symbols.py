"""External functions that programs call by name: those registered here, and those found in the process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Final

import llvmlite.binding as llvm

from tirlower.diagnostics import ArgumentTypeError, CodegenError, nearest_name
from tirlower.llvm import parallel

__all__ = ["RUNTIME_SYMBOLS", "find_symbol", "register_symbol", "resolve_imports", "unregister_symbol"]

#: what kernels with parallel loops import
RUNTIME_SYMBOLS: Final = (parallel.PARALLEL_LAUNCH, parallel.NUM_THREADS)

_registered: dict[str, int] = {}
# Machine code that was linked with a function may be called as long as the process runs: no owner is ever dropped.
_owners: list[object] = []


def register_symbol(name: str, function: Any) -> None:
    """Let programs call ``T.call_extern(dtype, name, ...)``.

    ``function`` is an address (an int) or a ctypes function, for example a ``CFUNCTYPE`` instance around a Python function
    (which then runs in whatever thread calls it, and takes the GIL itself); a ctypes function is kept alive for good. A name
    registered again means the new function in code generated from then on.

    >>> import ctypes
    >>> register_symbol("twice", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(lambda x: 2 * x))
    >>> unregister_symbol("twice")

    Raises:
        ArgumentTypeError: it is neither.
    """
    if isinstance(function, int) and not isinstance(function, bool) and function > 0:
        _registered[name] = function
        return
    address = None
    if hasattr(function, "restype") or isinstance(function, ctypes.c_void_p):
        address = ctypes.cast(function, ctypes.c_void_p).value
    if not address:
        raise ArgumentTypeError(
            f"the symbol {name!r} is registered with {function!r}",
            origin="register_symbol",
            help="give an address (int) or a ctypes function",
        )
    _registered[name] = address
    _owners.append(function)


def unregister_symbol(name: str) -> None:
    """Forget a registered symbol; code that was linked with it keeps its address. Unknown names are ignored."""
    _registered.pop(name, None)


def find_symbol(name: str) -> int | None:
    """The address of a registered symbol, or None for one that the linker finds in the process.

    Raises:
        CodegenError: there is no such symbol.
    """
    found = _registered.get(name)
    if found is not None:
        return found
    if llvm.address_of_symbol(name):
        return None
    near = nearest_name(name, _registered)
    raise CodegenError(
        f"unknown external function {name!r}",
        origin="call_extern",
        help=(f"did you mean {near!r}? Or " if near else "")
        + f"register it: tirlower.register_symbol({name!r}, address or ctypes function)",
    )


def resolve_imports(names: Iterable[str]) -> dict[str, int]:
    """The addresses of the symbols that generated code imports: registered functions, and those of the thread pool.

    Raises:
        CodegenError: a function is not registered (any more).
    """
    found: dict[str, int] = {}
    for name in names:
        if name in RUNTIME_SYMBOLS:
            found[name] = parallel.runtime().symbols[name]
        else:
            address = find_symbol(name)
            if address is not None:
                found[name] = address
    return found
