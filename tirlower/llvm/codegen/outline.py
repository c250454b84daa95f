"""Parallel loops: the body becomes a task function, which the thread pool calls for ranges of iterations.

What the body uses of the values around it is captured in a structure on the launching function's stack. A failure in a
task claims the call's error record, and the launch's status ends the launching function, with its cleanups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tirlower.diagnostics import DeviceError
from tirlower.emit.emitter import Emitter
from tirlower.emit.llvm_text import I32, I64, PTR, Builder, Type, Value, zero
from tirlower.ir.annotations import number_of
from tirlower.ir.stmt import For
from tirlower.llvm.codegen.stack import NO_STACK, emit_guarded, no_stack
from tirlower.llvm.parallel import RESULT_ABANDONED, emit_launch, launch_flags

__all__ = ["Captures", "emit_parallel"]

_CLAIM: Final = "claim"


class Captures:
    """The values that an outlined function takes from its context, found as they are used."""

    def __init__(self, context: Value, entry: Builder) -> None:
        #: the captured values of the launching function, with their offsets in the context
        self.outer: list[tuple[Value, int]] = []
        #: the bytes of the context so far
        self.size = 0
        self._known: dict[str, Value] = {}
        self._context = context
        self._entry = entry

    def __call__(self, value: Value) -> Value:
        if value.is_constant:
            return value
        found = self._known.get(value.text)
        if found is None:
            place = self._entry.offset(self._context, self.size)
            found = self._entry.load(value.type, place, 8, "captured")
            self._known[value.text] = found
            self.outer.append((value, self.size))
            self.size += _slot_bytes(value.type)
        return found

    def hand_back(self, b: Builder, value: Value) -> int:
        """Store a value of the outlined function where its caller finds it; gives the offset in the context."""
        offset = self.size
        self.size += _slot_bytes(value.type)
        b.store(value, b.offset(self._context, offset), 8)
        return offset


def _slot_bytes(t: Type) -> int:
    size = 8 if t.is_ptr and not t.is_vector else max((t.bits + 7) // 8, 8 * t.lanes if t.is_ptr else 1)
    return -(-size // 8) * 8


def emit_parallel(em: Emitter, op: For, body: Callable[[Emitter, Value, Value], None]) -> None:
    """Emit a parallel loop; ``body(inner, begin, end)`` emits its iterations ``begin .. end - 1`` in the task function."""
    state, kernel, b = em.state, em.kernel, em.b
    begin = em.index(op.min)
    count = em.index(op.extent)
    kernel.outlined += 1
    name = em.module.unique_name(f"{kernel.name}.parallel.{kernel.outlined}")
    task = em.module.function(
        name,
        I32,
        [(PTR, "context", ["noalias", "readonly"]), (I64, "begin"), (I64, "end"), (I32, "thread")],
        linkage="internal",
        attrs=state.attrs,
    )
    inner = Emitter(state, kernel, task, em)
    entry = task.block("entry")
    captures = Captures(task.args[0], Builder(task, entry))
    inner.capture = captures
    task.separable = True
    inner.runs_parallel = False
    inner.err = captures(em.err)
    claim = em.state_slot(_CLAIM, I32, 4)
    inner.claim = captures(claim)
    start = task.block("start")
    inner.b.position_at_end(start)
    first = captures(begin)
    if first.text == "0":
        low, high = task.args[1], task.args[2]
    else:
        low = inner.b.binary("add nsw", task.args[1], first)
        high = inner.b.binary("add nsw", task.args[2], first)
    body(inner, low, high)
    if not inner.b.terminated:
        inner.b.ret(inner.b.i32(0))
    Builder(task, entry).br(start)

    b.store(zero(I32), claim, 4)
    context = em.context(captures.size)
    for value, offset in captures.outer:
        b.store(value, b.offset(context, offset), 8)
    flags = _flags(em, op)
    called = emit_guarded(state, task, inner.stack_used) if kernel.checks_stack else task
    status = emit_launch(b, called, context, count, flags)
    if called is not task:
        em.fail_if(b.icmp("eq", status, b.i32(NO_STACK)), no_stack(em))
    abandoned = state.errors.code(
        DeviceError,
        f"a parallel loop of `{kernel.name}` was abandoned: the process was forked while it ran",
    )
    em.fail_if(b.icmp("eq", status, b.i32(RESULT_ABANDONED)), abandoned)
    failed, good = em.new_block("failed"), em.new_block("joined")
    b.cond_br(b.icmp("ne", status, zero(I32)), failed, good, likely=False)
    em.enter(failed)
    em.leave(status)
    em.enter(good)


def _flags(em: Emitter, op: For) -> int:
    """How the iterations are handed out: ``tir.schedule`` "static" or "dynamic", ``tir.chunk``, ``tir.num_threads``."""
    notes = op.annotations
    schedule = notes.get("tir.schedule", "static")
    if schedule not in ("static", "dynamic"):
        raise em.error(f"the schedule {schedule!r} of a parallel loop", op, "use 'static' or 'dynamic'")
    threads = number_of(notes, "tir.num_threads", em.machine.num_threads)
    em.state.num_threads = max(em.state.num_threads, threads)
    return launch_flags(dynamic=schedule == "dynamic", chunk=number_of(notes, "tir.chunk", 0), threads=threads)
