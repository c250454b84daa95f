"""The pool's memory as IR sees it, and what worker, region and the pool's own functions share."""

from __future__ import annotations

from typing import Final

from tirlower.emit.llvm_text import (
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Builder,
    Function,
    Module,
    Param,
    Type,
    Value,
    array,
    zero,
)
from tirlower.llvm.parallel import layout as at
from tirlower.llvm.parallel.placement import Placement
from tirlower.llvm.parallel.waiting import Waiting, WaitKind

__all__ = ["HASTE", "Parts"]

#: Looks after which a thread that waits for another one's share takes what is left of it: 2 to 6 us.
HASTE: Final = 128


class Parts:
    """The module under construction: its state, and small functions."""

    def __init__(self, module: Module, kind: WaitKind, exports: tuple[str, ...]) -> None:
        self.module: Final = module
        self._exports = exports
        self.state: Final = module.global_variable("state", *_zeros(at.STATE_BYTES), align=at.LINE, linkage="internal")
        slots_bytes = at.SLOT_BYTES * (at.MAX_THREADS - 1)
        self.slots: Final = module.global_variable("slots", *_zeros(slots_bytes), align=at.LINE, linkage="internal")
        self.waiting: Final = Waiting(module, kind)
        self.placement: Final = Placement(module)
        self.run_chunks: Final = self._run_chunks()
        self._wake_sleepers = self._define_wake_sleepers()

    def function(self, name: str, ret: Type = VOID, params: list[Param] | None = None, *attrs: str) -> Function:
        """A function of the pool, visible outside where it is exported."""
        linkage = "" if name in self._exports else "internal"
        return self.module.function(name, ret, params or [], attrs=("nounwind", *attrs), linkage=linkage)

    # -- words of the state --------------------------------------------------------------------------------------------

    def load(self, b: Builder, offset: int, ordering: str, name: str = "") -> Value:
        """An i32 of the state."""
        return b.load(I32, b.offset(self.state, offset), 4, name, ordering=ordering)

    def store(self, b: Builder, value: Value, offset: int, ordering: str) -> None:
        """Set an i32 of the state."""
        b.store(value, b.offset(self.state, offset), 4, ordering=ordering)

    def roster(self, b: Builder) -> Value:
        """The generation, and how many of its workers are parked."""
        return b.load(I64, b.offset(self.state, at.ROSTER), 8, "roster", ordering="acquire")

    def next_generation(self, b: Builder, roster: Value) -> Value:
        """The roster of the generation behind that of ``roster``, with nobody in it yet."""
        return b.shl(b.add(b.lshr(roster, b.i64(32)), b.i64(1)), b.i64(32))

    def try_lock(self, b: Builder) -> Value:
        """Whether the region lock is now the caller's."""
        swapped = b.cmpxchg(b.offset(self.state, at.LOCK), b.i32(0), b.i32(1), "acquire", "monotonic")
        return b.extract_value(swapped, 1)

    def record_failure(self, b: Builder, result: Value) -> None:
        """Keep the first nonzero result of the region."""
        b.cmpxchg(b.offset(self.state, at.FAILED), b.i32(0), result, "acq_rel", "monotonic")

    # -- mailboxes -----------------------------------------------------------------------------------------------------

    def slot(self, b: Builder, worker: Value) -> Value:
        """The address of a worker's slot."""
        return b.gep(array(at.SLOT_BYTES, I8), self.slots, b.zext(worker, I64, nneg=True), name="slot")

    def is_posted(self, b: Builder, post: Value) -> Value:
        """Whether a POST word says that a job waits for its taker."""
        return b.icmp("ne", b.and_(post, b.i32(1)), b.i32(0))

    def take(self, b: Builder, slot: Value, post: Value, ordering: str) -> Value:
        """Take (or revoke) the job that stands in a slot since its POST word became ``post``; whether that succeeded."""
        word = b.offset(slot, at.SLOT_POST)
        return b.extract_value(b.cmpxchg(word, post, b.add(post, b.i32(1)), ordering, "monotonic"), 1)

    def post(self, b: Builder, slot: Value) -> None:
        """Post what stands in the slot, whose last job was taken: nobody else writes POST, so adding is not atomic."""
        word = b.offset(slot, at.SLOT_POST)
        b.store(b.add(b.load(I32, word, 4, ordering="monotonic"), b.i32(1)), word, 4, ordering="release")

    def wake_posted(self, b: Builder, workers: Value) -> None:
        """Wake those of the first ``workers`` that sleep, behind the posts."""
        b.fence("seq_cst")
        some_sleep = b.icmp("ne", self.load(b, at.SLEEPERS, "monotonic"), b.i32(0))
        with b.if_then(some_sleep, name="wake"):
            b.call(self._wake_sleepers, [workers])

    def _define_wake_sleepers(self) -> Function:
        """``void (i32 count)``: wake those of the first ``count`` workers that sleep; their POSTs are stored."""
        f = self.function("wake_sleepers", VOID, [(I32, "count")], "noinline")
        b = Builder(f, f.block("entry"))
        cpu = self.placement.current(b)
        with b.for_range(b.i32(0), f.args[0], name="worker", nonempty=True) as worker:
            slot = self.slot(b, worker)
            asleep = b.load(I32, b.offset(slot, at.SLOT_ASLEEP), 4, "asleep", ordering="monotonic")
            with b.if_then(b.icmp("ne", asleep, b.i32(0))):
                self.placement.keep_apart(b, slot, cpu, seen_there=False)
                b.call(self.waiting.wake, [b.offset(slot, at.SLOT_POST)])
        b.ret()
        return f

    # -- work ----------------------------------------------------------------------------------------------------------

    def _run_chunks(self) -> Function:
        """``void (fn, ctx, next, end, chunk, thread)``: take chunks of a share until none is left, or a thread failed.

        ``next`` needs no ordering: it only divides the tasks. It does not wrap: each thread overshoots a share once, so
        that it stays below ``end + threads * chunk``, where ``chunk`` has 20 bits, or ``threads * chunk`` is at most
        ``end / 4 + 64 * threads``.
        """
        params: list[Param] = [
            (PTR, "fn"), (PTR, "ctx"), (PTR, "next"), (I64, "end"), (I64, "chunk"), (I32, "thread")
        ]  # fmt: skip
        f = self.function("run_chunks", VOID, params, "noinline")
        fn, ctx, following, end, chunk, thread = f.args
        entry, look, take, run, fail, leave = (f.block(n) for n in ("entry", "look", "take", "run", "fail", "leave"))
        Builder(f, entry).br(look)
        b = Builder(f, look)
        # A share that is done is only looked at: its line stays where it is.
        left = b.icmp("ult", b.load(I64, following, 8, ordering="monotonic"), end)
        sound = b.icmp("eq", self.load(b, at.FAILED, "monotonic"), b.i32(0))
        b.cond_br(b.and_(left, sound), take, leave)
        b.position_at_end(take)
        begin = b.atomicrmw("add", following, chunk, "monotonic", "begin")
        b.cond_br(b.icmp("ult", begin, end), run, leave)
        b.position_at_end(run)
        upto = b.intrinsic("llvm.umin", I64, [b.add(begin, chunk), end], [I64])
        result = b.call_pointer(fn, I32, [ctx, begin, upto, thread], "result")
        b.cond_br(b.icmp("eq", result, b.i32(0)), look, fail, likely=True)
        b.position_at_end(fail)
        self.record_failure(b, result)
        b.br(leave)
        Builder(f, leave).ret()
        return f


def _zeros(nbytes: int) -> tuple[Type, Value]:
    return array(nbytes, I8), zero(array(nbytes, I8))
