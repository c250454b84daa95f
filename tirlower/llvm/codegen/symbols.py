"""External functions that programs call by name: those registered here, and those found in the process."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import sys
from _ctypes import CFuncPtr
from collections.abc import Iterable
from typing import Final

import llvmlite.binding as llvm

from tirlower.diagnostics import ArgumentTypeError, CodegenError, nearest_name
from tirlower.ir.custom_datatype import PythonFunction, llvm_definition, resolve
from tirlower.ir.dtype import DataType
from tirlower.llvm import parallel, scratch
from tirlower.llvm.jit import engine
from tirlower.llvm.stack_key import STACK_KEY, stack_key_address

__all__ = [
    "ERROR_BASE",
    "PARALLEL_SYMBOLS",
    "PROFILE_SYMBOLS",
    "RUNTIME_SYMBOLS",
    "find_symbol",
    "register_symbol",
    "registered_symbols",
    "resolve_imports",
    "unregister_symbol",
]

#: what kernels with parallel loops import
PARALLEL_SYMBOLS: Final = (parallel.PARALLEL_LAUNCH, parallel.NUM_THREADS)
#: what kernels import of this library's own machine code
RUNTIME_SYMBOLS: Final = (*PARALLEL_SYMBOLS, scratch.TAKE, scratch.GIVE)

#: what kernels with marks of a profile import
PROFILE_SYMBOLS: Final = ("tirlower_profile_start", "tirlower_profile_end")

ERROR_BASE: Final = "tirlower_error_base"
"""The symbol whose address is a number: that of the first error of an object among those of all that it is linked with."""

_registered: dict[str, int] = {}
# Machine code that was linked with a function may be called as long as the process runs: no owner is ever dropped.
_owners: list[object] = []
# Functions of custom types: what they were made of (a Python function, or LLVM text), and their address.
_custom: dict[str, tuple[object, int]] = {}


def register_symbol(name: str, function: object) -> None:
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
    if isinstance(function, (CFuncPtr, ctypes.c_void_p)):
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


def registered_symbols() -> tuple[str, ...]:
    """The names that are registered."""
    return tuple(_registered)


def find_symbol(name: str) -> int | None:
    """The address of a registered symbol, or None for one that the linker finds in the process.

    Raises:
        CodegenError: there is no such symbol.
    """
    if name in PROFILE_SYMBOLS:
        return _mark(name)
    found = _registered.get(name) or _custom_function(name)
    if found is not None:
        return found
    if llvm.address_of_symbol(name):
        return None
    found = _in_c_library(name)
    if found is not None:
        return found
    near = nearest_name(name, _registered)
    raise CodegenError(
        f"unknown external function {name!r}",
        origin="call_extern",
        help=(f"did you mean {near!r}? Or " if near else "")
        + f"register it: tirlower.register_symbol({name!r}, address or ctypes function)",
    )


@functools.cache
def _c_libraries() -> tuple[ctypes.CDLL, ...]:
    """C's own libraries. Python need not be linked with the mathematical one: then the process does not have its symbols
    until something loads it for all to see.
    """
    names = {"win32": ("ucrtbase",), "darwin": ("libSystem.dylib",)}.get(sys.platform, ("libm.so.6", "libm.so"))
    found = []
    for name in names:
        with contextlib.suppress(OSError):  # musl has no libm of its own: its functions are in the process
            found.append(ctypes.CDLL(name))
    return tuple(found)


def _in_c_library(name: str) -> int | None:
    for library in _c_libraries():
        with contextlib.suppress(AttributeError):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    return None


def _custom_function(name: str) -> int | None:
    """The address of a function of a custom data type: around a Python function, or in the LLVM module that came with it."""
    resolved = resolve(name)
    source: object = llvm_definition(name) if resolved is None else resolved.function
    if source is None:
        return None
    known = _custom.get(name)
    if known is not None and known[0] is source:
        return known[1]
    if resolved is not None:
        kinds = [_ctype(name, kind) for kind in (resolved.result, *resolved.arguments)]
        owner: object = ctypes.CFUNCTYPE(*kinds)(_in_range(resolved.function, resolved.result))
        address = ctypes.cast(owner, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
    else:
        code = engine().compile_object(str(source))
        owner = engine().link(code.object, [name])
        address = owner[name]
    _owners.append(owner)
    _custom[name] = (source, address)
    return address


def _ctype(
    symbol: str, kind: DataType
) -> type[ctypes._SimpleCData[bool]] | type[ctypes._SimpleCData[int]] | type[ctypes._SimpleCData[float]]:
    if kind.is_bool:
        return ctypes.c_bool
    if kind.is_integral and kind.is_scalar:
        found: type[ctypes._SimpleCData[int]] = getattr(ctypes, f"c_{kind.numpy.name}")
        return found
    if kind.code == "float" and kind.is_scalar and kind.bits >= 32:
        return ctypes.c_float if kind.bits == 32 else ctypes.c_double
    raise CodegenError(
        f"the Python function {symbol!r} of a custom type has a value of {kind!s}, which C does not have",
        origin="call_extern",
        help="register an ExternFunction for it",
    )


def _in_range(function: PythonFunction, result: DataType) -> PythonFunction:
    """A Python function whose result fits: ctypes wraps integers, but knows no odd widths."""
    if not result.is_integral or result.is_bool:
        return function
    low, span = int(result.min_value), 1 << result.bits
    return lambda *values: (int(function(*values)) - low) % span + low


def resolve_imports(names: Iterable[str]) -> dict[str, int]:
    """The addresses of the symbols that generated code imports: registered functions, and this library's own.

    Raises:
        CodegenError: a function is not registered (any more).
    """
    found: dict[str, int] = {}
    for name in names:
        if name in PARALLEL_SYMBOLS:
            found[name] = parallel.runtime().symbols[name]
        elif name in RUNTIME_SYMBOLS:
            found[name] = scratch.scratch_symbols()[name]
        elif name == STACK_KEY:
            found[name] = stack_key_address()
        elif name == ERROR_BASE:
            found[name] = 0
        else:
            address = find_symbol(name)
            if address is not None:
                found[name] = address
    return found


def _mark(name: str) -> int:
    """The address of what takes the time at a mark; code with marks may come from the disk cache, without its generator."""
    profile = importlib.import_module("tirlower.llvm.profile")
    callback = profile.start_callback if name == PROFILE_SYMBOLS[0] else profile.end_callback
    return ctypes.cast(callback, ctypes.c_void_p).value or 0
