"""How a thread waits for a 32-bit word to change: a pause between looks, then sleep in the operating system.

Each :class:`WaitKind` gives the pool three functions, ``wait(ptr word, i32 seen)``, ``nap``, which is ``wait`` for
:data:`NAP_MICROSECONDS` at most, and ``wake(ptr word)``. ``wait`` returns at once where the word is not ``seen`` any
more, and may return for no reason at all; the comparison and the falling asleep are one step to a ``wake``. So a thread
that changes the word and then wakes cannot slip in between.

Only Linux is tested (and polling, there); the others follow the documentation of their systems.
"""

from __future__ import annotations

import ctypes
import enum
import sys
from typing import Final

from tirlower.emit.llvm_text import I32, I64, PTR, VOID, Builder, Function, FunctionRef, Module, Param, Value, null

__all__ = ["NAP_MICROSECONDS", "WaitKind", "Waiting", "emit_pause", "system_symbols", "wait_kind"]

#: The longest nap: a tick of the system or so.
NAP_MICROSECONDS: Final = 5000


class WaitKind(enum.Enum):
    """What the operating system offers to wait on an address."""

    FUTEX = "Linux: futex(2), through libc's syscall()"
    ULOCK = "macOS: __ulock_wait and __ulock_wake of libSystem, on which its libc++ is built too"
    ADDRESS = "Windows 8 and later: WaitOnAddress and WakeByAddressSingle"
    POLL = "any other: usleep() and look again; nothing to wake"


#: number of the system call futex; 98 in the generic table that all newer architectures share
_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "loongarch64": 98, "powerpc64le": 221, "s390x": 238}
_FUTEX_WAIT_PRIVATE = 128
_FUTEX_WAKE_PRIVATE = 129
#: compare-and-wait on 32 bits; errors come as return values, which we do not look at
_ULOCK_OPERATION = 0x01000001
_FOREVER = 0xFFFFFFFF
_POLL_MICROSECONDS = 50


def _architecture(triple: str) -> str:
    return triple.split("-", 1)[0]


def wait_kind(triple: str) -> WaitKind:
    """The kind for the system of a target triple.

    >>> wait_kind("aarch64-unknown-linux-gnu").name, wait_kind("arm64-apple-darwin23").name
    ('FUTEX', 'ULOCK')
    """
    if "linux" in triple and _architecture(triple) in _FUTEX_NUMBER:
        return WaitKind.FUTEX
    if "darwin" in triple or "macos" in triple:
        return WaitKind.ULOCK
    if "windows" in triple or "win32" in triple:
        return WaitKind.ADDRESS
    return WaitKind.POLL


def system_symbols(kind: WaitKind) -> dict[str, int]:
    """Addresses of the system functions of this process that a plain search of its symbols does not find."""
    if kind is WaitKind.ADDRESS and sys.platform == "win32":
        library = ctypes.WinDLL("kernelbase")
        names = ("WaitOnAddress", "WakeByAddressSingle")
        return {name: ctypes.cast(library[name], ctypes.c_void_p).value or 0 for name in names}
    return {}


def emit_pause(b: Builder, triple: str) -> None:
    """One breath between two looks at a word: leaves the core to its other thread, and saves power.

    15 to 45 ns on x86; ``isb`` on AArch64, where ``yield`` is a no-op on most cores; nothing elsewhere.
    """
    match _architecture(triple):
        case "x86_64" | "i686" | "i386":
            b.intrinsic("llvm.x86.sse2.pause", VOID)
        case "aarch64" | "arm64":
            b.intrinsic("llvm.aarch64.isb", VOID, [_i32(15)])


class Waiting:
    """Defines ``wait``, ``nap`` and ``wake`` in a module, all internal."""

    def __init__(self, module: Module, kind: WaitKind) -> None:
        self._module, self._kind = module, kind
        self.wait = self._define_wait("wait", None)
        self.nap = self._define_wait("nap", NAP_MICROSECONDS)
        self.wake = self._define_wake()

    def _function(self, name: str, params: list[Param]) -> Function:
        return self._module.function(name, VOID, params, attrs=("nounwind", "noinline", "cold"), linkage="internal")

    def _syscall(self) -> tuple[FunctionRef, Value]:
        number = _FUTEX_NUMBER[_architecture(self._module.triple)]
        return self._module.get_or_declare("syscall", I64, [I64], vararg=True), Value(I64, str(number))

    def _define_wait(self, name: str, microseconds: int | None) -> Function:
        f = self._function(name, [(PTR, "word"), (I32, "seen")])
        word, seen = f.args
        b = Builder(f, f.block("entry"))
        declare = self._module.get_or_declare
        match self._kind:
            case WaitKind.FUTEX:
                syscall, number = self._syscall()
                timeout = null()
                if microseconds is not None:  # struct timespec, relative
                    timeout = b.alloca(I64, 2, 8, "timeout")
                    b.store(b.i64(0), timeout, 8)
                    b.store(b.i64(1000 * microseconds), b.offset(timeout, 8), 8)
                b.call(syscall, [number, word, _i32(_FUTEX_WAIT_PRIVATE), seen, timeout])
            case WaitKind.ULOCK:
                wait = declare("__ulock_wait", I32, [I32, PTR, I64, I32])
                b.call(wait, [_i32(_ULOCK_OPERATION), word, b.zext(seen, I64), _i32(microseconds or 0)])
            case WaitKind.ADDRESS:
                wait = declare("WaitOnAddress", I32, [PTR, PTR, I64, I32])
                compare = b.alloca(I32)
                b.store(seen, compare)
                milliseconds = _FOREVER if microseconds is None else -(-microseconds // 1000)
                b.call(wait, [word, compare, b.i64(4), b.const(I32, milliseconds)])
            case WaitKind.POLL:
                b.call(declare("usleep", I32, [I32]), [_i32(_POLL_MICROSECONDS)])
        b.ret()
        return f

    def _define_wake(self) -> Function:
        f = self._function("wake", [(PTR, "word")])
        (word,) = f.args
        b = Builder(f, f.block("entry"))
        declare = self._module.get_or_declare
        match self._kind:
            case WaitKind.FUTEX:
                syscall, number = self._syscall()
                b.call(syscall, [number, word, _i32(_FUTEX_WAKE_PRIVATE), _i32(1)])
            case WaitKind.ULOCK:
                b.call(declare("__ulock_wake", I32, [I32, PTR, I64]), [_i32(_ULOCK_OPERATION), word, b.i64(0)])
            case WaitKind.ADDRESS:
                b.call(declare("WakeByAddressSingle", VOID, [PTR]), [word])
            case WaitKind.POLL:
                pass
        b.ret()
        return f


def _i32(value: int) -> Value:
    return Value(I32, str(value))
