"""How a thread waits for a 32-bit word to change: a pause between looks, then sleep in the operating system.

Each :class:`WaitKind` gives the pool two functions, ``wait(ptr word, i32 seen)`` and ``wake(ptr word)``. ``wait``
returns at once where the word is not ``seen`` any more, and may return for no reason at all; the comparison and the
falling asleep are one step to a ``wake``. So a thread that changes the word and then wakes cannot slip in between.

Only Linux is tested (and polling, there); the others follow the documentation of their systems.
"""

from __future__ import annotations

import ctypes
import enum
import sys

from tirlower.emit.llvm_text import I32, I64, PTR, VOID, Builder, Function, Module, Value, null

__all__ = ["WaitKind", "define_wait_and_wake", "emit_pause", "system_symbols", "wait_kind"]


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


def define_wait_and_wake(module: Module, kind: WaitKind) -> tuple[Function, Function]:
    """Define ``void wait(ptr, i32)`` and ``void wake(ptr)`` in a module, both internal."""
    attrs = ("nounwind", "noinline", "cold")
    wait = module.function("wait", VOID, [(PTR, "word"), (I32, "seen")], attrs=attrs, linkage="internal")
    wake = module.function("wake", VOID, [(PTR, "word")], attrs=attrs, linkage="internal")
    on_wait, on_wake = Builder(wait, wait.block("entry")), Builder(wake, wake.block("entry"))
    word, seen = wait.args
    (woken,) = wake.args
    match kind:
        case WaitKind.FUTEX:
            syscall = module.declare("syscall", I64, [I64], vararg=True)
            number = on_wait.i64(_FUTEX_NUMBER[_architecture(module.triple)])
            on_wait.call(syscall, [number, word, _i32(_FUTEX_WAIT_PRIVATE), seen, null()])
            on_wake.call(syscall, [number, woken, _i32(_FUTEX_WAKE_PRIVATE), _i32(1)])
        case WaitKind.ULOCK:
            ulock_wait = module.declare("__ulock_wait", I32, [I32, PTR, I64, I32])
            ulock_wake = module.declare("__ulock_wake", I32, [I32, PTR, I64])
            zero64 = on_wait.i64(0)
            on_wait.call(ulock_wait, [_i32(_ULOCK_OPERATION), word, on_wait.zext(seen, I64), _i32(0)])
            on_wake.call(ulock_wake, [_i32(_ULOCK_OPERATION), woken, zero64])
        case WaitKind.ADDRESS:
            wait_on_address = module.declare("WaitOnAddress", I32, [PTR, PTR, I64, I32])
            wake_by_address = module.declare("WakeByAddressSingle", VOID, [PTR])
            compare = on_wait.alloca(I32)
            on_wait.store(seen, compare)
            on_wait.call(wait_on_address, [word, compare, on_wait.i64(4), on_wait.const(I32, _FOREVER)])
            on_wake.call(wake_by_address, [woken])
        case WaitKind.POLL:
            usleep = module.declare("usleep", I32, [I32])
            on_wait.call(usleep, [_i32(_POLL_MICROSECONDS)])
    on_wait.ret()
    on_wake.ret()
    return wait, wake


def _i32(value: int) -> Value:
    return Value(I32, str(value))
