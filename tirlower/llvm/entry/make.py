"""From a kernel to the object that Python calls.

With a module under construction: :func:`add_entry`, compile and link it with :func:`entry_imports`, then
:func:`make_entry`. One object file then holds the kernel and its entry, and can be cached. For a kernel that is machine
code already: :func:`entry_for_address`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tirlower.call.errors import ErrorSite
from tirlower.call.gil import GilPolicy
from tirlower.call.signature import Signature
from tirlower.call.slowpath import FallbackEntry, PackedKernel, SlowPath
from tirlower.emit.llvm_text import I32, FunctionRef, Module
from tirlower.llvm.entry.abi import ABI_VERSION, entry_symbol, packed_symbol
from tirlower.llvm.entry.callable import NATIVE_CALLS, NativeEntry
from tirlower.llvm.entry.exchange import register_exchange
from tirlower.llvm.entry.helpers import require_helper
from tirlower.llvm.entry.layout import layout_key
from tirlower.llvm.entry.native import emit_entry, emit_packed, kernel_types
from tirlower.llvm.entry.process_table import TABLE_SYMBOL, table

__all__ = [
    "EntryParts",
    "add_entry",
    "entry_cache_key",
    "entry_for_address",
    "entry_imports",
    "entry_parts",
    "make_entry",
    "packed_kernel",
]

_DEFAULT_GIL = GilPolicy()


class Addresses(Protocol):
    """Linked code, by symbol (:class:`tirlower.llvm.jit.Linked`); alive as long as the value is."""

    def __getitem__(self, name: str, /) -> int: ...


class Code(Protocol):
    """Machine code not yet linked (:class:`tirlower.emit.compile.CompiledObject`)."""

    @property
    def object(self) -> bytes: ...


class Linker(Protocol):
    """What :func:`entry_for_address` needs of :class:`tirlower.llvm.jit.Engine`."""

    def compile_object(self, text: str) -> Code: ...

    def link(
        self, data: bytes, exports: Sequence[str], imports: Mapping[str, int] | None = None, *, keep: object = None
    ) -> Addresses: ...


class EntryParts(NamedTuple):
    """The arguments of :class:`NativeEntry` and :class:`FallbackEntry`, for a class that inherits from one of them."""

    slow: SlowPath
    code: int
    keep: object


def add_entry(
    module: Module,
    signature: Signature,
    kernel: FunctionRef,
    *,
    name: str | None = None,
    gil: GilPolicy = _DEFAULT_GIL,
    native: bool = True,
) -> tuple[str, ...]:
    """Define the entry functions of a kernel in its module; gives the symbols to export when linking.

    ``name`` (that of the kernel's symbol) is where their names come from. ``native=False`` leaves out the function that
    CPython calls.

    Raises:
        TypeError: the kernel has not the LLVM signature that :mod:`tirlower.llvm.entry.abi` demands.
    """
    expected = kernel_types(signature)
    if kernel.ret != I32 or list(kernel.params) != expected:
        wanted = FunctionRef("", I32, expected).signature
        raise TypeError(f"kernel {kernel.text} is {kernel.signature}; for {signature.name} it must be {wanted}")
    stem = name or kernel.text.lstrip("@").strip('"')
    emit_packed(module, signature, kernel, stem)
    symbols = [packed_symbol(stem)]
    if native and NATIVE_CALLS:
        emit_entry(module, signature, kernel, stem, gil)
        symbols.append(entry_symbol(stem))
    return tuple(symbols)


def entry_imports() -> dict[str, int]:
    """The symbols that entry code imports, with their addresses in this process."""
    return {TABLE_SYMBOL: table.address}


def entry_cache_key() -> str:
    """What entry code depends on besides the signature: a component of the key of a cached object file."""
    return f"entry{ABI_VERSION}-{layout_key()}-{'native' if NATIVE_CALLS else 'ctypes'}"


def packed_kernel(linked: Addresses, name: str, errors: Sequence[ErrorSite]) -> PackedKernel:
    """The function of a linked kernel that takes its arguments in slots; ``name`` is the kernel's symbol."""
    return PackedKernel(linked[packed_symbol(name)], errors, linked)


def entry_parts(
    signature: Signature,
    linked: Addresses,
    errors: Sequence[ErrorSite] = (),
    *,
    name: str | None = None,
    gil: GilPolicy = _DEFAULT_GIL,
    overlap: Callable[[], PackedKernel] | None = None,
) -> EntryParts:
    """Make ready to call linked code: in this process, for the first time, or from a cached object file.

    ``overlap`` gives the kernel for arrays that the linked one does not take (``Signature.apart``).
    """
    stem = name or signature.name
    for param in signature.params:
        table.require(param.dtype)
    if signature.outputs and NATIVE_CALLS:
        table.require("uint8")
        require_helper("helper:allocate")
    table.require("int64")
    table.require("float64")
    slow = SlowPath(signature, packed_kernel(linked, stem, errors), gil, overlap, register_exchange)
    return EntryParts(slow, linked[entry_symbol(stem)] if NATIVE_CALLS else 0, linked)


def make_entry(
    signature: Signature,
    linked: Addresses,
    errors: Sequence[ErrorSite] = (),
    *,
    name: str | None = None,
    gil: GilPolicy = _DEFAULT_GIL,
    native: bool = True,
) -> NativeEntry | FallbackEntry:
    """The callable of a linked kernel; ``name`` is the kernel's symbol (the signature's name where left out).

    ``gil`` must be the policy that :func:`add_entry` was given. ``native=False`` makes every call through Python and
    ctypes, as on interpreters whose object layouts are unknown. ``linked`` lives as long as the callable.
    """
    parts = entry_parts(signature, linked, errors, name=name, gil=gil)
    return NativeEntry(*parts) if native and NATIVE_CALLS else FallbackEntry(*parts)


def entry_for_address(
    signature: Signature,
    kernel: int,
    linker: Linker,
    errors: Sequence[ErrorSite] = (),
    *,
    gil: GilPolicy = _DEFAULT_GIL,
    native: bool = True,
    keep: object = None,
) -> NativeEntry | FallbackEntry:
    """The callable of a kernel that is machine code already, at the address ``kernel``; ``keep`` keeps it alive."""
    module = Module(f"{signature.name}.call")
    symbol = f"{signature.name}.kernel"
    declared = module.declare(symbol, I32, kernel_types(signature), attrs=["nounwind"])
    exports = add_entry(module, signature, declared, name=signature.name, gil=gil)
    code = linker.compile_object(module.text())
    linked = linker.link(code.object, exports, {symbol: kernel, **entry_imports()}, keep=keep)
    return make_entry(signature, linked, errors, gil=gil, native=native)
