"""Where threads run: which CPU this one is on, and keeping a worker off the launcher's.

A worker that the system wakes on the launcher's CPU runs when the launcher stops, and until then the launcher works, or
waits, alone. Schedulers do that: those that keep a woken thread near its waker, and those that pack few threads on few
CPUs. So the CPU of the launcher is taken from the affinity mask of a worker that is about to be woken, or that was found
there; when the launcher is on another one the next time, that one is taken instead, and the first is given back. A mask
that somebody else set meanwhile is what is taken from then, and none is left empty.

Linux alone; elsewhere nothing is done, and a worker that does not come is done without (see ``region``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tirlower.emit.llvm_text import (
    FALSE,
    I1,
    I32,
    I64,
    PTR,
    TRUE,
    VOID,
    Builder,
    Function,
    FunctionRef,
    Module,
    Param,
    Value,
    vector,
    zero,
)
from tirlower.llvm.parallel import layout as at

__all__ = ["Placement"]


@dataclass(frozen=True)
class _Numbers:
    """System calls of an architecture."""

    thread_id: int
    set_affinity: int
    get_affinity: int


_GENERIC: Final = _Numbers(178, 122, 123)
_NUMBERS: Final = {
    "x86_64": _Numbers(186, 203, 204),
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
    "loongarch64": _GENERIC,
    "powerpc64le": _Numbers(207, 222, 223),
    "s390x": _Numbers(236, 239, 240),
}
#: An affinity mask as the kernel takes it; on a machine of more CPUs the system calls fail, and nothing is moved.
_MASK: Final = vector(I64, at.MASK_BYTES // 8)


class Placement:
    """What a module may ask and tell the system about threads and CPUs."""

    def __init__(self, module: Module) -> None:
        architecture = module.triple.split("-", 1)[0]
        self._numbers = _NUMBERS.get(architecture) if "linux" in module.triple else None
        self._module = module
        self._keep_apart = self._define(self._numbers) if self._numbers is not None else None

    def current(self, b: Builder) -> Value:
        """1 + the CPU that this thread is on, as an i32; 0 where the system does not say."""
        if self._numbers is None:
            return b.i32(0)
        return b.add(b.call(self._module.get_or_declare("sched_getcpu", I32), [], "on"), b.i32(1), "cpu")

    def thread_id(self, b: Builder) -> Value:
        """What the system calls this thread, as an i32; 0 where threads cannot be moved."""
        if self._numbers is None:
            return b.i32(0)
        return b.trunc(b.call(self._syscall(), [b.i64(self._numbers.thread_id)]), I32, "thread_id")

    def keep_apart(self, b: Builder, slot: Value, cpu: Value, *, seen_there: bool) -> None:
        """Keep the worker of a slot off a CPU (1 + its number, as :meth:`current` says) until another one is named.

        Where it was ``seen_there``, its mask is looked at even if that CPU was taken from it already.
        """
        if self._keep_apart is not None:
            b.call(self._keep_apart, [slot, cpu, TRUE if seen_there else FALSE])

    def _syscall(self) -> FunctionRef:
        return self._module.get_or_declare("syscall", I64, [I64], vararg=True)

    def _define(self, numbers: _Numbers) -> Function:
        """``void (ptr slot, i32 cpu, i1 seen_there)``; one comparison where nothing changes."""
        params: list[Param] = [(PTR, "slot"), (I32, "cpu"), (I1, "seen_there")]
        f = self._module.function(
            "keep_apart", VOID, params, attrs=("nounwind", "noinline", "cold"), linkage="internal"
        )
        slot, cpu, seen_there = f.args
        entry, known, ask, change, leave = (f.block(n) for n in ("entry", "known", "ask", "change", "leave"))
        b = Builder(f, entry)
        mask = b.alloca(_MASK, align=16, name="mask")
        avoided = b.offset(slot, at.SLOT_AVOIDED)
        base, last = b.offset(slot, at.SLOT_MASK), b.offset(slot, at.SLOT_MASK_SET)
        old = b.load(I32, avoided, 4, "old", ordering="monotonic")
        inside = b.icmp("ult", b.sub(cpu, b.i32(1)), b.i32(8 * at.MASK_BYTES))
        b.cond_br(b.and_(b.or_(b.icmp("ne", old, cpu), seen_there), inside), known, leave)
        b.position_at_end(known)
        thread = b.load(I32, b.offset(slot, at.SLOT_THREAD), 4, "thread", ordering="monotonic")
        b.cond_br(b.icmp("sgt", thread, b.i32(0)), ask, leave)

        b.position_at_end(ask)
        b.store(zero(_MASK), mask, 16)
        whose, size = b.sext(thread, I64), b.i64(at.MASK_BYTES)
        got = b.call(self._syscall(), [b.i64(numbers.get_affinity), whose, size, mask], "got")
        current = b.load(_MASK, mask, 16, "current")
        # Where the mask is still what was set here, what it was before counts.
        ours = b.and_(b.icmp("ne", old, b.i32(0)), _same(b, current, b.load(_MASK, last, 16)))
        whole = b.select(ours, b.load(_MASK, base, 16), current, "whole")
        wanted = b.and_(whole, b.xor(_bit(b, cpu), b.splat(b.i64(-1), _MASK.lanes)), "wanted")
        some = b.xor(_same(b, wanted, zero(_MASK)), TRUE)
        b.cond_br(b.and_(b.icmp("sgt", got, b.i64(0)), some), change, leave)
        b.position_at_end(change)
        b.store(whole, base, 16)
        b.store(wanted, last, 16)
        b.store(cpu, avoided, 4, ordering="monotonic")
        b.call(self._syscall(), [b.i64(numbers.set_affinity), whose, size, last])
        b.br(leave)
        Builder(f, leave).ret()
        return f


def _same(b: Builder, x: Value, y: Value) -> Value:
    return b.icmp("eq", b.intrinsic("llvm.vector.reduce.or", I64, [b.xor(x, y)], [_MASK]), b.i64(0))


def _bit(b: Builder, cpu: Value) -> Value:
    """The mask of one CPU, given as 1 + its number."""
    number = b.sub(cpu, b.i32(1))
    bit = b.shl(b.i64(1), b.zext(b.and_(number, b.i32(63)), I64))
    return b.insert_element(zero(_MASK), bit, b.lshr(number, b.i32(6)))
