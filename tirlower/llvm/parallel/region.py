"""A parallel region, from the launch to the join.

The tasks are divided into shares, one for each thread, and the shares into chunks. A thread takes its own share chunk by
chunk. Behind its own the launcher *revokes* the jobs that no worker has taken, and runs their shares itself; then it
waits for the others, and when that takes :data:`~tirlower.llvm.parallel.parts.HASTE` looks it takes what is left of
theirs, as they do with the launcher's: not at once, since a share's data are in its thread's cache, from the last region
on. With dynamic scheduling all tasks are the launcher's share, from which everybody takes. So a worker that sleeps on,
has no CPU, or shares one with another process keeps nobody waiting for more than the chunk that it is in.
"""

from __future__ import annotations

from typing import Final

from tirlower.emit.llvm_text import I32, I64, PTR, VOID, Builder, Function, Param, Value, null
from tirlower.llvm.parallel import layout as at
from tirlower.llvm.parallel.parts import HASTE, Parts
from tirlower.llvm.parallel.waiting import emit_pause

__all__ = ["define_launch"]

#: After so many revoked jobs in a row the launcher asks whether their worker is on its own CPU; a power of two.
_MISSES: Final = 8
#: What helping needs.
_HELP: Final[list[Param]] = [(I32, "workers"), (PTR, "fn"), (PTR, "ctx"), (I64, "chunk")]


def define_launch(parts: Parts, name: str) -> None:
    """Define ``i32 name(ptr fn, ptr ctx, i64 tasks, i32 flags)``."""
    _Launch(parts, name)


class _Launch:
    def __init__(self, parts: Parts, name: str) -> None:
        self.parts = parts
        self.revoke = self._revoke()
        self.assist = self._assist()
        self._launch(name)

    def _launch(self, name: str) -> None:
        params: list[Param] = [(PTR, "fn"), (PTR, "ctx"), (I64, "tasks"), (I32, "flags")]
        f = self.parts.function(name, I32, params)
        fn, ctx, tasks, flags = f.args
        entry, some, grab, held, cold = (f.block(n) for n in ("entry", "some", "grab", "held", "cold"))
        start, call_hook, live, region = (f.block(n) for n in ("start", "call_hook", "live", "region"))
        alone, inline, nothing = (f.block(n) for n in ("alone", "inline", "nothing"))

        b = Builder(f, entry)
        b.cond_br(b.icmp("sgt", tasks, b.i64(0)), some, nothing, likely=True)
        b.position_at_end(some)
        asked = b.and_(b.lshr(flags, b.i32(at.THREADS_SHIFT)), b.i32((1 << at.THREADS_BITS) - 1), "asked")
        default = self.parts.load(b, at.TEAM, "monotonic", "default")
        team = b.select(b.icmp("eq", asked, b.i32(0)), default, asked, "team")
        several = b.and_(b.icmp("sgt", team, b.i32(1)), b.icmp("sgt", tasks, b.i64(1)))
        b.cond_br(several, grab, inline, likely=True)

        b.position_at_end(grab)
        b.cond_br(self.parts.try_lock(b), held, inline, likely=True)
        b.position_at_end(held)
        phase = self.parts.load(b, at.PHASE, "monotonic", "phase")
        b.cond_br(b.icmp("eq", phase, b.i32(at.PHASE_STARTED)), live, cold, likely=True)
        b.position_at_end(cold)
        b.cond_br(b.icmp("eq", phase, b.i32(at.PHASE_COLD)), start, alone)
        b.position_at_end(start)
        self.parts.store(b, b.i32(at.PHASE_STARTED), at.PHASE, "monotonic")
        hook = b.load(PTR, b.offset(self.parts.state, at.HOOK), 8, "hook")
        b.cond_br(b.icmp("eq", hook, null()), alone, call_hook, likely=False)
        b.position_at_end(call_hook)
        b.call_pointer(hook, VOID, [b.trunc(b.lshr(self.parts.roster(b), b.i64(32)), I32)])
        b.br(live)

        # The roster may still grow (a thread that is slow to start); those in it are parked, and need nothing of us.
        b.position_at_end(live)
        with_workers = b.add(b.trunc(self.parts.roster(b), I32), b.i32(1))
        wanted = b.intrinsic("llvm.umin", I32, [team, with_workers], [I32])
        wanted64 = b.intrinsic("llvm.umin", I64, [b.zext(wanted, I64), tasks], [I64], "threads")
        b.cond_br(b.icmp("ugt", wanted64, b.i64(1)), region, alone, likely=True)

        b.position_at_end(region)
        self._region(b, fn, ctx, tasks, flags, wanted64)

        b.position_at_end(alone)
        self.parts.store(b, b.i32(0), at.LOCK, "release")
        b.br(inline)
        b.position_at_end(inline)
        b.ret(b.call_pointer(fn, I32, [ctx, b.i64(0), tasks, b.i32(0)], "result"))
        Builder(f, nothing).ret(b.i32(0))

    def _region(self, b: Builder, fn: Value, ctx: Value, tasks: Value, flags: Value, threads: Value) -> None:
        """A region of at least two threads, the lock being held; returns from the function."""
        parts = self.parts
        workers = b.trunc(b.sub(threads, b.i64(1)), I32, "workers")
        parts.store(b, workers, at.PENDING, "monotonic")
        # Seldom set, and read by every worker: not written (which would take the line away from them) unless it is.
        with b.if_then(b.icmp("ne", parts.load(b, at.FAILED, "monotonic"), b.i32(0)), likely=False):
            parts.store(b, b.i32(0), at.FAILED, "monotonic")

        # Static: thread t gets `each` tasks, and one more where t < extra. Dynamic: all are the launcher's.
        dynamic = b.icmp("ne", b.and_(flags, b.i32(at.FLAG_DYNAMIC)), b.i32(0), "dynamic")
        all_each = b.udiv(tasks, threads, "all_each")
        each = b.select(dynamic, b.i64(0), all_each, "each")
        extra = b.select(dynamic, b.i64(0), b.sub(tasks, b.mul(all_each, threads)), "extra")
        chunk = self._chunk(b, flags, dynamic, all_each)
        static_end = b.add(each, b.zext(b.icmp("ugt", extra, b.i64(0)), I64))
        first_end = b.select(dynamic, tasks, static_end, "first_end")
        own = b.offset(parts.state, at.NEXT, "own")
        b.store(b.i64(0), own, 8, ordering="monotonic")
        before = b.block
        with b.for_range(b.i32(0), workers, name="worker", nonempty=True) as worker:
            begin = b.phi(I64, "begin", [(first_end, before)])
            thread = b.zext(b.add(worker, b.i32(1)), I64, nneg=True)
            end = b.add(b.add(begin, each), b.zext(b.icmp("ult", thread, extra), I64), "end")
            slot = parts.slot(b, worker)
            b.store(fn, b.offset(slot, at.SLOT_FN), 8)
            b.store(ctx, b.offset(slot, at.SLOT_CTX), 8)
            b.store(begin, b.offset(slot, at.SLOT_NEXT), 8, ordering="monotonic")
            b.store(end, b.offset(slot, at.SLOT_END), 8)
            b.store(first_end, b.offset(slot, at.SLOT_FIRST_END), 8)
            b.store(chunk, b.offset(slot, at.SLOT_CHUNK), 8)
            parts.post(b, slot)
            begin.add(end, b.block)
        parts.wake_posted(b, workers)

        b.call(parts.run_chunks, [fn, ctx, own, first_end, chunk, b.i32(0)])
        b.call(self.revoke, [workers, fn, ctx, chunk])
        self._join(b, [workers, fn, ctx, chunk])

    def _chunk(self, b: Builder, flags: Value, dynamic: Value, each: Value) -> Value:
        """How many tasks are taken at a time."""
        given = b.zext(b.lshr(flags, b.i32(at.CHUNK_SHIFT)), I64)
        given = b.and_(given, b.i64((1 << at.CHUNK_BITS) - 1), "given")
        automatic = b.udiv(each, b.i64(at.CHUNKS_PER_THREAD))
        automatic = b.intrinsic("llvm.umax", I64, [automatic, b.i64(1)], [I64])
        part = b.udiv(b.add(each, b.i64(at.CHUNKS_PER_SHARE)), b.i64(at.CHUNKS_PER_SHARE), "part")
        multiple = b.and_(b.add(part, b.i64(at.CHUNK_MULTIPLE - 1)), b.i64(-at.CHUNK_MULTIPLE))
        static = b.select(b.icmp("ult", part, b.i64(at.CHUNK_MULTIPLE)), part, multiple)
        return b.select(dynamic, b.select(b.icmp("eq", given, b.i64(0)), automatic, given), static, "chunk")

    def _revoke(self) -> Function:
        """``void (workers, fn, ctx, chunk)``: do the jobs that the first ``workers`` have not taken."""
        parts = self.parts
        f = parts.function("revoke", VOID, _HELP, "noinline")
        workers, fn, ctx, chunk = f.args
        b = Builder(f, f.block("entry"))
        with b.for_range(b.i32(0), workers, name="worker", nonempty=True) as worker:
            slot = parts.slot(b, worker)
            word, missed = b.offset(slot, at.SLOT_POST), b.offset(slot, at.SLOT_MISSED)
            post = b.load(I32, word, 4, "post", ordering="monotonic")
            check, free, taken, after = (f.block(n) for n in ("check", "free", "taken", "after"))
            b.cond_br(parts.is_posted(b, post), check, taken)
            b.position_at_end(check)
            b.cond_br(parts.take(b, slot, post, "monotonic"), free, taken)
            b.position_at_end(free)
            # Counted before the share is run: a task may fork the process, and the child waits for nobody.
            b.atomicrmw("sub", b.offset(parts.state, at.PENDING), b.i32(1), "monotonic")
            count = b.add(b.load(I32, missed, 4), b.i32(1), "count")
            b.store(count, missed, 4)
            with b.if_then(b.icmp("eq", b.and_(count, b.i32(_MISSES - 1)), b.i32(0)), likely=False):
                self._off_my_cpu(b, slot, parts.placement.current(b))
            self._run_share(b, slot, fn, ctx, chunk)
            b.br(after)
            b.position_at_end(taken)
            with b.if_then(b.icmp("ne", b.load(I32, missed, 4), b.i32(0)), likely=False):
                b.store(b.i32(0), missed, 4)
            b.br(after)
            b.position_at_end(after)
        b.ret()
        return f

    def _assist(self) -> Function:
        """``void (workers, fn, ctx, chunk)``: the first ``workers`` are late.

        Those on this thread's CPU shall leave it; what is left of their shares is run here.
        """
        parts = self.parts
        f = parts.function("assist", VOID, _HELP, "noinline")
        workers, fn, ctx, chunk = f.args
        b = Builder(f, f.block("entry"))
        cpu = parts.placement.current(b)
        with b.for_range(b.i32(0), workers, name="moved", nonempty=True) as worker:
            self._off_my_cpu(b, parts.slot(b, worker), cpu)
        with b.for_range(b.i32(0), workers, name="helped", nonempty=True) as worker:
            self._run_share(b, parts.slot(b, worker), fn, ctx, chunk)
        b.ret()
        return f

    def _run_share(self, b: Builder, slot: Value, fn: Value, ctx: Value, chunk: Value) -> None:
        end = b.load(I64, b.offset(slot, at.SLOT_END), 8, "end")
        b.call(self.parts.run_chunks, [fn, ctx, b.offset(slot, at.SLOT_NEXT), end, chunk, b.i32(0)])

    def _off_my_cpu(self, b: Builder, slot: Value, cpu: Value) -> None:
        theirs = b.load(I32, b.offset(slot, at.SLOT_CPU), 4, "theirs", ordering="monotonic")
        with b.if_then(b.icmp("eq", theirs, cpu), likely=False):
            self.parts.placement.keep_apart(b, slot, cpu, seen_there=True)

    def _join(self, b: Builder, help: list[Value]) -> None:
        """Wait until PENDING is 0, unlock, and return the region's result."""
        parts = self.parts
        f, pending = b.function, b.offset(parts.state, at.PENDING, "pending")
        limit = parts.load(b, at.SPIN, "monotonic", "limit")
        haste = b.intrinsic("llvm.smax", I32, [b.sub(limit, b.i32(HASTE)), b.i32(0)], [I32], "haste")
        before = b.block
        look, spin, pause, sleepy = (f.block(n) for n in ("look", "spin", "pause", "sleepy"))
        check, sleep, awake, done = (f.block(n) for n in ("check", "sleep", "awake", "done"))
        b.br(look)
        b.position_at_end(look)
        left = b.phi(I32, "left", [(limit, before)])
        b.cond_br(b.icmp("eq", b.load(I32, pending, 4, ordering="acquire"), b.i32(0)), done, spin)
        b.position_at_end(spin)
        left.add(b.sub(left, b.i32(1)), pause)
        with b.if_then(b.icmp("eq", left, haste), likely=False, name="late"):
            b.call(self.assist, help)
        b.cond_br(b.icmp("sgt", left, b.i32(0)), pause, sleepy)
        b.position_at_end(pause)
        emit_pause(b, parts.module.triple)
        b.br(look)

        b.position_at_end(sleepy)
        parts.store(b, b.i32(1), at.CALLER_ASLEEP, "seq_cst")
        b.br(check)
        b.position_at_end(check)
        now = b.load(I32, pending, 4, ordering="seq_cst")
        b.cond_br(b.icmp("eq", now, b.i32(0)), awake, sleep)
        b.position_at_end(sleep)
        b.call(parts.waiting.wait, [pending, now])
        b.br(check)
        b.position_at_end(awake)
        parts.store(b, b.i32(0), at.CALLER_ASLEEP, "monotonic")
        b.br(done)

        b.position_at_end(done)
        result = parts.load(b, at.FAILED, "monotonic", "result")
        parts.store(b, b.i32(0), at.LOCK, "release")
        b.ret(result)
