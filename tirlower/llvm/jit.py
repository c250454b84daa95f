"""The JIT: one LLVM linker per process, into which objects are loaded and from which addresses come.

A loaded object is a :class:`Linked`; its code lives exactly as long as that value, so whoever keeps an address keeps
the ``Linked`` too.
"""

from __future__ import annotations

import itertools
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import llvmlite.binding as llvm

from tirlower.diagnostics import CodegenError
from tirlower.emit import compile as llvm_compile
from tirlower.emit.compile import CompiledObject, CompileOptions, parts_of
from tirlower.machine import cpu as host

__all__ = ["Engine", "Linked", "engine", "undefined_symbols"]

#: libraries with what generated code calls: C's math, and the compiler's own helpers (128-bit division, half floats)
_RUNTIME_LIBRARIES: Final = {
    "linux": ("libm.so.6", "libgcc_s.so.1"),
    "darwin": ("/usr/lib/libSystem.B.dylib",),
    "win32": ("ucrtbase.dll", "msvcrt.dll"),
}


class Linked:
    """Loaded code: ``linked["f"]`` is the address of an exported function. Dropping the value unloads the code."""

    __slots__ = ("_keep", "_tracker", "symbols")

    def __init__(self, tracker: llvm.ResourceTracker, symbols: Mapping[str, int], keep: object) -> None:
        self._tracker = tracker
        self._keep = keep
        #: the exported symbols and their addresses
        self.symbols: Final = symbols

    def __getitem__(self, name: str) -> int:
        try:
            return self.symbols[name]
        except KeyError:
            raise KeyError(f"{name!r} was not exported; exported are {', '.join(self.symbols) or 'none'}") from None

    def __repr__(self) -> str:
        return f"Linked({', '.join(self.symbols)})"


_PER_LINKER: Final = 64
"""The objects that one LLVM linker loads before the next one is made.

A linker keeps 6 KB of every object that it ever loaded, also of those that are gone; it goes when all of its objects
have. Making one costs 9 ms.
"""


class Engine:
    """Compiles and links. There is one in a process, :func:`engine`; making it costs about 9 ms, a link 0.1 ms."""

    def __init__(self) -> None:
        host.initialize_native()
        for library in _RUNTIME_LIBRARIES.get(sys.platform, ()):
            try:
                llvm.load_library_permanently(library)
            except RuntimeError:
                # Not on this system (musl has its mathematics in libc, say); a symbol that is then missing is
                # reported by name when code needs it.
                continue
        self._lock = threading.Lock()
        self._names = itertools.count()
        self._jit = _new_linker()
        self._room = _PER_LINKER

    def _linker(self) -> llvm.LLJIT:
        """The linker that takes the next object."""
        with self._lock:
            if self._room == 0:
                self._jit, self._room = _new_linker(), _PER_LINKER
            self._room -= 1
            return self._jit

    def compile_object(
        self, text: str, options: CompileOptions | None = None, *, want_ir: bool = False
    ) -> CompiledObject:
        """See :func:`tirlower.emit.compile.compile_object`; the default options are those of the host."""
        return llvm_compile.compile_object(text, options or CompileOptions.for_host(), want_ir=want_ir)

    def compile_parts(
        self, parts: Sequence[str], options: CompileOptions, told: Callable[[str], None] = lambda phase: None
    ) -> CompiledObject:
        """Compile the modules that one was cut into, a call into LLVM for each; ``told`` learns which one begins."""
        made = []
        for number, text in enumerate(parts, 1):
            told(f"LLVM, part {number} of {len(parts)}" if len(parts) > 1 else "LLVM")
            made.append(self.compile_object(text, options))
        timings = {step: sum(one.timings[step] for one in made) for step in made[0].timings}
        return CompiledObject(llvm_compile.join_parts([one.object for one in made]), parts[0], options, timings)

    def link(
        self,
        data: bytes,
        exports: Iterable[str],
        imports: Mapping[str, int] | None = None,
        *,
        keep: object = None,
    ) -> Linked:
        """Load an object file. ``imports`` are addresses of symbols it needs besides those of the process.

        ``keep`` is held as long as the code is (owners of the imported addresses, objects whose address is in it).

        Raises:
            CodegenError: it is no object file, a symbol it needs is not defined, or it lacks an exported one.
        """
        names = list(exports)
        given = imports or {}
        library = llvm.JITLibraryBuilder().add_current_process()
        for part in parts_of(data):
            library.add_object_img(part)
        for name, address in given.items():
            library.import_symbol(name, address)
        for name in names:
            library.export_symbol(name)
        linker = self._linker()
        try:
            tracker = library.link(linker, f"tirlower.{next(self._names)}")
        except RuntimeError as error:
            raise _link_error(data, names, given, str(error).strip()) from error
        tracker.linker = linker  # outlives what it loaded
        return Linked(tracker, {name: int(tracker[name]) for name in names}, keep)


def _new_linker() -> llvm.LLJIT:
    cpu = host.host_cpu()
    machine = llvm.Target.from_triple(host.triple()).create_target_machine(
        cpu=cpu.name, features=cpu.features, opt=3, reloc="pic", codemodel="small", jit=True
    )
    # JITLink rather than RuntimeDyld: it places code and data of an object together, which AArch64 needs.
    return llvm.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)


_lock: Final = threading.Lock()
_engine: Engine | None = None


def engine() -> Engine:
    """The process's engine, made at the first call."""
    global _engine
    if _engine is None:
        with _lock:
            if _engine is None:
                _engine = Engine()
    return _engine


def _link_error(data: bytes, exports: list[str], imports: Mapping[str, int], reason: str) -> CodegenError:
    undefined = dict.fromkeys(name for part in parts_of(data) for name in undefined_symbols(part))
    defined = {name for part in parts_of(data) for name in defined_symbols(part)}
    missing = [
        name
        for name in undefined
        if name not in defined
        and name not in imports
        and not llvm.address_of_symbol(name)
        and name != "_GLOBAL_OFFSET_TABLE_"
    ]
    if missing:
        return CodegenError(
            f"undefined symbol{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}",
            origin="link",
            help="register the external function under this name, or load the shared library that defines it "
            "before the first call",
        )
    return CodegenError(
        f"cannot link the machine code of {', '.join(exports) or 'a module'}: {reason}",
        origin="link",
        help="if it came from the disk cache, the entry is damaged: remove it",
    )


def undefined_symbols(data: bytes) -> list[str]:
    """The names that a 64-bit ELF object leaves to others to define; nothing for other formats.

    LLVM's linker tells that a symbol was missing but not which, so this is read from the symbol table.
    """
    try:
        return _elf_symbols(data, defined=False)
    except (struct.error, IndexError, ValueError):
        return []


def defined_symbols(data: bytes) -> list[str]:
    """The names that a 64-bit ELF object defines; nothing for other formats."""
    try:
        return _elf_symbols(data, defined=True)
    except (struct.error, IndexError, ValueError):
        return []


def _elf_symbols(data: bytes, *, defined: bool) -> list[str]:
    if data[:6] != b"\x7fELF\x02\x01":
        return []
    (section_offset,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, section_offset + i * entry_size) for i in range(count)]
    found: list[str] = []
    for _name, kind, _flags, _addr, offset, size, link, _info, _align, step in sections:
        if kind != 2 or step == 0:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, step):
            name, _info8, _other, section = struct.unpack_from("<IBBH", data, at)
            if (section != 0) is defined and name:
                start = strings + name
                found.append(data[start : data.index(b"\0", start)].decode())
    return found
