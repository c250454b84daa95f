"""The pool in LLVM IR: launching a region, the workers' loop, and what Python needs to start and stop them.

One thread at a time holds the region lock: a kernel that runs a region, or Python while it changes the pool. Whoever
does not get the lock runs its region inline, so nobody ever waits for it in a kernel, and nested regions need no case
of their own.

**Handing out.** Each worker has a mailbox: one cache line that only the lock's holder writes, with the whole job in it.
The caller fills the lines of the workers that it wants and bumps their POST words with *release* stores; a worker that
reads its new POST with *acquire* sees the job. One transfer of one line per worker is all that a region costs, and
workers that a small region does not want are not disturbed. A worker is posted to again only after it finished the last
job, so a POST word never runs ahead of its reader by more than one, and cannot be mistaken when it wraps.

**Joining.** Workers count PENDING down, *seq_cst* (hence release: their writes, the error struct and FAILED included,
are visible to the caller, whose load of the zero is an acquire).

**Sleeping** needs two handshakes of the store-then-look kind (Dekker), each with both sides sequentially consistent:

* A worker announces itself (its ASLEEP flag, then SLEEPERS), fences, and looks at POST a last time before it sleeps.
  The caller stores all POSTs, fences, and looks at SLEEPERS, then at the ASLEEP flags. If the worker's fence comes
  first in the total order of fences, the caller sees the announcement and wakes; if the caller's comes first, the
  worker sees the new POST and does not sleep. One fence covers all workers of a region.
* The caller sets CALLER_ASLEEP and then looks at PENDING; the last worker counts PENDING down and then looks at
  CALLER_ASLEEP. All four are seq_cst operations, so one of the two sees the other.

A wake that finds nobody, and one that comes late and disturbs a later wait, do no harm: every wait is in a loop.

**Arriving and leaving.** A worker belongs to the generation for which it was started. It enters the roster by a
compare-and-exchange of (generation, count): the count is its slot, and a worker that comes too late, when its
generation has been dismissed, leaves at once and was never counted. To stop, the lock's holder starts a new generation,
posts a null function to those that were in the old one, and waits until they have left. All of that is one call of
:data:`STOP`, so that no Python signal handler can get between its steps.
"""

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
    null,
    zero,
)
from tirlower.llvm.parallel import layout as at
from tirlower.llvm.parallel.waiting import WaitKind, define_wait_and_wake, emit_pause, wait_kind

__all__ = ["EXPORTS", "IMPORTS", "NUM_THREADS", "PARALLEL_LAUNCH", "pool_module"]

#: i32 (ptr fn, ptr ctx, i64 num_tasks, i32 flags)
PARALLEL_LAUNCH: Final = "tirlower_parallel_launch"
#: i32 ()
NUM_THREADS: Final = "tirlower_num_threads"
#: void (i32 generation): a worker's whole life
WORKER: Final = "tirlower_pool_worker"
#: i32 (): workers parked
READY: Final = "tirlower_pool_ready"
#: i32 (i32 team, i32 spin, i32 phase, ptr hook): 1 when all workers are gone and the pool has its new values, 0 when
#: the lock was taken
STOP: Final = "tirlower_pool_stop"
#: void (i32 phase): makes the pool usable in a forked child
FORKED: Final = "tirlower_pool_forked"
#: what kernels import
IMPORTS: Final = (PARALLEL_LAUNCH, NUM_THREADS)
EXPORTS: Final = (*IMPORTS, WORKER, READY, STOP, FORKED)

_ATTRS: Final = ("nounwind",)


def pool_module(triple: str, data_layout: str = "", *, kind: WaitKind | None = None) -> Module:
    """The pool as an LLVM module for a target triple; ``kind`` overrides how that system's threads sleep.

    Its state is the module's own memory: every module that is linked is one more pool.
    """
    return _Pool(Module("tirlower_parallel", triple, data_layout), kind or wait_kind(triple)).module


class _Pool:
    """The module under construction."""

    def __init__(self, module: Module, kind: WaitKind) -> None:
        self.module = module
        self.state = module.global_variable("state", *_zeros(at.STATE_BYTES), align=at.LINE, linkage="internal")
        slots_bytes = at.SLOT_BYTES * (at.MAX_THREADS - 1)
        self.slots = module.global_variable("slots", *_zeros(slots_bytes), align=at.LINE, linkage="internal")
        self.wait, self.wake = define_wait_and_wake(module, kind)
        self.run_chunks = self._run_chunks()
        self.wake_sleepers = self._wake_sleepers()
        self._worker()
        self._launch()
        self._num_threads()
        self._stop()
        self._forked()

    # -- small parts -------------------------------------------------------------------------------------------------

    def _function(self, name: str, ret: Type = VOID, params: list[Param] | None = None, *attrs: str) -> Function:
        linkage = "" if name in EXPORTS else "internal"
        return self.module.function(name, ret, params or [], attrs=(*_ATTRS, *attrs), linkage=linkage)

    def _load(self, b: Builder, offset: int, ordering: str, name: str = "") -> Value:
        return b.load(I32, b.offset(self.state, offset), 4, name, ordering=ordering)

    def _store(self, b: Builder, value: Value, offset: int, ordering: str) -> None:
        b.store(value, b.offset(self.state, offset), 4, ordering=ordering)

    def _roster(self, b: Builder) -> Value:
        return b.load(I64, b.offset(self.state, at.ROSTER), 8, "roster", ordering="acquire")

    def _next_generation(self, b: Builder, roster: Value) -> Value:
        """The roster of the generation behind that of ``roster``, with nobody in it yet."""
        return b.shl(b.add(b.lshr(roster, b.i64(32)), b.i64(1)), b.i64(32))

    def _try_lock(self, b: Builder) -> Value:
        swapped = b.cmpxchg(b.offset(self.state, at.LOCK), b.i32(0), b.i32(1), "acquire", "monotonic")
        return b.extract_value(swapped, 1)

    def _slot(self, b: Builder, worker: Value) -> Value:
        return b.gep(array(at.SLOT_BYTES, I8), self.slots, b.zext(worker, I64, nneg=True), name="slot")

    def _record_failure(self, b: Builder, result: Value) -> None:
        """Keep the first nonzero result of the region."""
        b.cmpxchg(b.offset(self.state, at.FAILED), b.i32(0), result, "acq_rel", "monotonic")

    def _run_chunks(self) -> Function:
        """``void (fn, ctx, end, chunk, thread)``: take chunks below ``end`` until none is left or a thread failed.

        NEXT needs no ordering: it only divides the tasks. It does not wrap: it stays below ``end + threads * chunk``,
        where ``chunk`` has 20 bits, or ``threads * chunk`` is at most ``end / 8 + threads``.
        """
        params: list[Param] = [(PTR, "fn"), (PTR, "ctx"), (I64, "end"), (I64, "chunk"), (I32, "thread")]
        f = self._function("run_chunks", VOID, params, "noinline")
        fn, ctx, end, chunk, thread = f.args
        entry, take, run, look = (f.block(name) for name in ("entry", "take", "run", "look"))
        fail, leave = f.block("fail"), f.block("leave")
        Builder(f, entry).br(take)
        b = Builder(f, take)
        begin = b.atomicrmw("add", b.offset(self.state, at.NEXT), chunk, "monotonic", "begin")
        b.cond_br(b.icmp("ult", begin, end), run, leave)
        b.position_at_end(run)
        upto = b.intrinsic("llvm.umin", I64, [b.add(begin, chunk), end], [I64])
        result = b.call_pointer(fn, I32, [ctx, begin, upto, thread], "result")
        b.cond_br(b.icmp("eq", result, b.i32(0)), look, fail, likely=True)
        b.position_at_end(look)
        b.cond_br(b.icmp("eq", self._load(b, at.FAILED, "monotonic"), b.i32(0)), take, leave, likely=True)
        b.position_at_end(fail)
        self._record_failure(b, result)
        b.br(leave)
        Builder(f, leave).ret()
        return f

    def _wake_sleepers(self) -> Function:
        """``void (i32 count)``: wake those of the first ``count`` workers that sleep; their POSTs are stored."""
        f = self._function("wake_sleepers", VOID, [(I32, "count")], "noinline")
        b = Builder(f, f.block("entry"))
        with b.for_range(b.i32(0), f.args[0], name="worker", nonempty=True) as worker:
            slot = self._slot(b, worker)
            asleep = b.load(I32, b.offset(slot, at.SLOT_ASLEEP), 4, "asleep", ordering="monotonic")
            with b.if_then(b.icmp("ne", asleep, b.i32(0))):
                b.call(self.wake, [b.offset(slot, at.SLOT_POST)])
        b.ret()
        return f

    # -- the worker --------------------------------------------------------------------------------------------------

    def _worker(self) -> None:
        f = self._function(WORKER, VOID, [(I32, "generation")])
        entry, arrive, enter, late, idle = (f.block(n) for n in ("entry", "arrive", "enter", "late", "idle"))
        look, spin, pause = (f.block(n) for n in ("look", "spin", "pause"))
        announce, sleep, awake, posted = (f.block(n) for n in ("announce", "sleep", "awake", "posted"))
        run, static, chunks = (f.block(n) for n in ("run", "static", "chunks"))
        failed, finish, last, rouse = (f.block(n) for n in ("failed", "finish", "last", "rouse"))
        leave, gone = f.block("leave"), f.block("gone")

        b = Builder(f, entry)
        sleepers = b.offset(self.state, at.SLEEPERS, "sleepers")
        roster = b.offset(self.state, at.ROSTER, "roster")
        limit = self._load(b, at.SPIN, "monotonic", "limit")
        b.br(arrive)
        b.position_at_end(arrive)
        old = b.load(I64, roster, 8, "old", ordering="acquire")
        current = b.trunc(b.lshr(old, b.i64(32)), I32)
        worker = b.trunc(old, I32, "worker")
        mine = b.icmp("eq", current, f.args[0])
        b.cond_br(b.and_(mine, b.icmp("ult", worker, b.i32(at.MAX_THREADS - 1))), enter, late, likely=True)
        b.position_at_end(enter)
        slot = self._slot(b, worker)
        post = b.offset(slot, at.SLOT_POST, "post")
        asleep = b.offset(slot, at.SLOT_ASLEEP, "asleep")
        # Nobody posts to a slot before its worker is in the roster; so the POST read here is the one before the first.
        first = b.load(I32, post, 4, "first", ordering="monotonic")
        b.store(b.i32(0), asleep, 4, ordering="monotonic")
        swapped = b.cmpxchg(roster, old, b.add(old, b.i64(1)), "acq_rel", "monotonic")
        thread = b.add(worker, b.i32(1), "thread")
        b.cond_br(b.extract_value(swapped, 1), idle, arrive)

        b.position_at_end(idle)
        seen = b.phi(I32, "seen", [(first, enter)])
        b.br(look)

        b.position_at_end(look)
        left = b.phi(I32, "left", [(limit, idle), (limit, awake)])
        now = b.load(I32, post, 4, "now", ordering="acquire")
        b.cond_br(b.icmp("ne", now, seen), posted, spin)
        b.position_at_end(spin)
        fewer = b.sub(left, b.i32(1), "fewer")
        left.add(fewer, pause)
        b.cond_br(b.icmp("sgt", left, b.i32(0)), pause, announce)
        b.position_at_end(pause)
        emit_pause(b, self.module.triple)
        b.br(look)

        b.position_at_end(announce)
        b.store(b.i32(1), asleep, 4, ordering="monotonic")
        b.atomicrmw("add", sleepers, b.i32(1), "seq_cst")
        b.fence("seq_cst")
        again = b.load(I32, post, 4, "again", ordering="monotonic")
        b.cond_br(b.icmp("ne", again, seen), awake, sleep)
        b.position_at_end(sleep)
        b.call(self.wait, [post, seen])
        b.br(awake)
        b.position_at_end(awake)
        b.atomicrmw("sub", sleepers, b.i32(1), "monotonic")
        b.store(b.i32(0), asleep, 4, ordering="monotonic")
        b.br(look)

        b.position_at_end(posted)
        fn = b.load(PTR, b.offset(slot, at.SLOT_FN), 8, "fn")
        b.cond_br(b.icmp("eq", fn, null()), leave, run, likely=False)
        b.position_at_end(run)
        ctx = b.load(PTR, b.offset(slot, at.SLOT_CTX), 8, "ctx")
        begin = b.load(I64, b.offset(slot, at.SLOT_BEGIN), 8, "begin")
        end = b.load(I64, b.offset(slot, at.SLOT_END), 8, "end")
        chunk = b.load(I64, b.offset(slot, at.SLOT_CHUNK), 8, "chunk")
        mode = b.load(I32, b.offset(slot, at.SLOT_CHUNK_MODE), 4, "mode")
        # A region that has failed already (this worker was asleep, say) is not worth a share.
        broken = b.icmp("ne", self._load(b, at.FAILED, "monotonic"), b.i32(0))
        ready = f.block("ready")
        b.cond_br(broken, finish, ready, likely=False)
        b.position_at_end(ready)
        b.cond_br(b.icmp("ne", mode, b.i32(0)), chunks, static)
        b.position_at_end(chunks)
        b.call(self.run_chunks, [fn, ctx, end, chunk, thread])
        b.br(finish)
        b.position_at_end(static)
        result = b.call_pointer(fn, I32, [ctx, begin, end, thread], "result")
        b.cond_br(b.icmp("eq", result, b.i32(0)), finish, failed, likely=True)
        b.position_at_end(failed)
        self._record_failure(b, result)
        b.br(finish)

        # After the count the caller may be gone and the next job posted: nothing of this one is touched any more.
        b.position_at_end(finish)
        before = b.atomicrmw("sub", b.offset(self.state, at.PENDING), b.i32(1), "seq_cst", "before")
        b.cond_br(b.icmp("eq", before, b.i32(1)), last, idle)
        seen.add(now, finish)
        b.position_at_end(last)
        b.cond_br(b.icmp("ne", self._load(b, at.CALLER_ASLEEP, "seq_cst"), b.i32(0)), rouse, idle)
        seen.add(now, last)
        b.position_at_end(rouse)
        b.call(self.wake, [b.offset(self.state, at.PENDING)])
        b.br(idle)
        seen.add(now, rouse)

        b.position_at_end(leave)
        leaving = b.offset(self.state, at.LEAVING)
        others = b.atomicrmw("sub", leaving, b.i32(1), "seq_cst", "others")
        b.cond_br(b.icmp("eq", others, b.i32(1)), gone, late)
        b.position_at_end(gone)
        b.call(self.wake, [leaving])
        b.br(late)
        Builder(f, late).ret()

    # -- the caller --------------------------------------------------------------------------------------------------

    def _launch(self) -> None:
        params: list[Param] = [(PTR, "fn"), (PTR, "ctx"), (I64, "tasks"), (I32, "flags")]
        f = self._function(PARALLEL_LAUNCH, I32, params)
        fn, ctx, tasks, flags = f.args
        entry, some, grab, held, cold = (f.block(n) for n in ("entry", "some", "grab", "held", "cold"))
        start, call_hook, live, region = (f.block(n) for n in ("start", "call_hook", "live", "region"))
        alone, inline, nothing = (f.block(n) for n in ("alone", "inline", "nothing"))

        b = Builder(f, entry)
        b.cond_br(b.icmp("sgt", tasks, b.i64(0)), some, nothing, likely=True)
        b.position_at_end(some)
        asked = b.and_(b.lshr(flags, b.i32(at.THREADS_SHIFT)), b.i32((1 << at.THREADS_BITS) - 1), "asked")
        default = self._load(b, at.TEAM, "monotonic", "default")
        team = b.select(b.icmp("eq", asked, b.i32(0)), default, asked, "team")
        several = b.and_(b.icmp("sgt", team, b.i32(1)), b.icmp("sgt", tasks, b.i64(1)))
        b.cond_br(several, grab, inline, likely=True)

        b.position_at_end(grab)
        b.cond_br(self._try_lock(b), held, inline, likely=True)
        b.position_at_end(held)
        phase = self._load(b, at.PHASE, "monotonic", "phase")
        b.cond_br(b.icmp("eq", phase, b.i32(at.PHASE_STARTED)), live, cold, likely=True)
        b.position_at_end(cold)
        b.cond_br(b.icmp("eq", phase, b.i32(at.PHASE_COLD)), start, alone)
        b.position_at_end(start)
        self._store(b, b.i32(at.PHASE_STARTED), at.PHASE, "monotonic")
        hook = b.load(PTR, b.offset(self.state, at.HOOK), 8, "hook")
        b.cond_br(b.icmp("eq", hook, null()), alone, call_hook, likely=False)
        b.position_at_end(call_hook)
        b.call_pointer(hook, VOID, [b.trunc(b.lshr(self._roster(b), b.i64(32)), I32)])
        b.br(live)

        # The roster may still grow (a thread that is slow to start); those in it are parked, and need nothing of us.
        b.position_at_end(live)
        with_workers = b.add(b.trunc(self._roster(b), I32), b.i32(1))
        wanted = b.intrinsic("llvm.umin", I32, [team, with_workers], [I32])
        wanted64 = b.intrinsic("llvm.umin", I64, [b.zext(wanted, I64), tasks], [I64], "threads")
        b.cond_br(b.icmp("ugt", wanted64, b.i64(1)), region, alone, likely=True)

        b.position_at_end(region)
        self._region(b, fn, ctx, tasks, flags, wanted64)

        b.position_at_end(alone)
        self._store(b, b.i32(0), at.LOCK, "release")
        b.br(inline)
        b.position_at_end(inline)
        b.ret(b.call_pointer(fn, I32, [ctx, b.i64(0), tasks, b.i32(0)], "result"))
        Builder(f, nothing).ret(b.i32(0))

    def _region(self, b: Builder, fn: Value, ctx: Value, tasks: Value, flags: Value, threads: Value) -> None:
        """A region of at least two threads, the lock being held; returns from the function."""
        workers = b.trunc(b.sub(threads, b.i64(1)), I32, "workers")
        self._store(b, workers, at.PENDING, "monotonic")
        # Seldom set, and read by every worker: not written (which would take the line away from them) unless it is.
        with b.if_then(b.icmp("ne", self._load(b, at.FAILED, "monotonic"), b.i32(0)), likely=False):
            self._store(b, b.i32(0), at.FAILED, "monotonic")

        # Static: thread t gets `each` tasks, and one more where t < extra.
        each = b.udiv(tasks, threads, "each")
        extra = b.sub(tasks, b.mul(each, threads), "extra")
        dynamic = b.icmp("ne", b.and_(flags, b.i32(at.FLAG_DYNAMIC)), b.i32(0), "dynamic")
        mode = b.zext(dynamic, I32, "mode")
        given = b.zext(b.lshr(flags, b.i32(at.CHUNK_SHIFT)), I64)
        given = b.and_(given, b.i64((1 << at.CHUNK_BITS) - 1), "given")
        automatic = b.udiv(each, b.i64(at.CHUNKS_PER_THREAD))
        automatic = b.intrinsic("llvm.umax", I64, [automatic, b.i64(1)], [I64])
        chunk = b.select(b.icmp("eq", given, b.i64(0)), automatic, given, "chunk")
        with b.if_then(dynamic):
            b.store(b.i64(0), b.offset(self.state, at.NEXT), 8, ordering="monotonic")

        first_end = b.add(each, b.zext(b.icmp("ugt", extra, b.i64(0)), I64), "first_end")
        before = b.block
        with b.for_range(b.i32(0), workers, name="worker", nonempty=True) as worker:
            begin = b.phi(I64, "begin", [(first_end, before)])
            thread = b.zext(b.add(worker, b.i32(1)), I64, nneg=True)
            end = b.add(b.add(begin, each), b.zext(b.icmp("ult", thread, extra), I64), "end")
            slot = self._slot(b, worker)
            b.store(fn, b.offset(slot, at.SLOT_FN), 8)
            b.store(ctx, b.offset(slot, at.SLOT_CTX), 8)
            b.store(begin, b.offset(slot, at.SLOT_BEGIN), 8)
            b.store(b.select(dynamic, tasks, end), b.offset(slot, at.SLOT_END), 8)
            b.store(chunk, b.offset(slot, at.SLOT_CHUNK), 8)
            b.store(mode, b.offset(slot, at.SLOT_CHUNK_MODE), 4)
            self._bump(b, slot)
            begin.add(end, b.block)
        self._wake_posted(b, workers)

        f = b.function
        chunks, static, failed, join = (f.block(n) for n in ("chunks", "static", "failed", "join"))
        b.cond_br(dynamic, chunks, static)
        b.position_at_end(chunks)
        b.call(self.run_chunks, [fn, ctx, tasks, chunk, b.i32(0)])
        b.br(join)
        b.position_at_end(static)
        result = b.call_pointer(fn, I32, [ctx, b.i64(0), first_end, b.i32(0)], "result")
        b.cond_br(b.icmp("eq", result, b.i32(0)), join, failed, likely=True)
        b.position_at_end(failed)
        self._record_failure(b, result)
        b.br(join)
        b.position_at_end(join)
        self._join(b)

    def _bump(self, b: Builder, slot: Value) -> None:
        """Post what stands in the slot. Only the lock's holder writes POST, so adding needs no atomic operation."""
        post = b.offset(slot, at.SLOT_POST)
        b.store(b.add(b.load(I32, post, 4, ordering="monotonic"), b.i32(1)), post, 4, ordering="release")

    def _wake_posted(self, b: Builder, workers: Value) -> None:
        b.fence("seq_cst")
        some_sleep = b.icmp("ne", self._load(b, at.SLEEPERS, "monotonic"), b.i32(0))
        with b.if_then(some_sleep, name="wake"):
            b.call(self.wake_sleepers, [workers])

    def _join(self, b: Builder) -> None:
        """Wait until PENDING is 0, unlock, and return the region's result."""
        f, pending = b.function, b.offset(self.state, at.PENDING, "pending")
        limit = self._load(b, at.SPIN, "monotonic", "limit")
        before = b.block
        look, spin, pause, sleepy = (f.block(n) for n in ("look", "spin", "pause", "sleepy"))
        check, sleep, awake, done = (f.block(n) for n in ("check", "sleep", "awake", "done"))
        b.br(look)
        b.position_at_end(look)
        left = b.phi(I32, "left", [(limit, before)])
        b.cond_br(b.icmp("eq", b.load(I32, pending, 4, ordering="acquire"), b.i32(0)), done, spin)
        b.position_at_end(spin)
        left.add(b.sub(left, b.i32(1)), pause)
        b.cond_br(b.icmp("sgt", left, b.i32(0)), pause, sleepy)
        b.position_at_end(pause)
        emit_pause(b, self.module.triple)
        b.br(look)

        b.position_at_end(sleepy)
        self._store(b, b.i32(1), at.CALLER_ASLEEP, "seq_cst")
        b.br(check)
        b.position_at_end(check)
        now = b.load(I32, pending, 4, ordering="seq_cst")
        b.cond_br(b.icmp("eq", now, b.i32(0)), awake, sleep)
        b.position_at_end(sleep)
        b.call(self.wait, [pending, now])
        b.br(check)
        b.position_at_end(awake)
        self._store(b, b.i32(0), at.CALLER_ASLEEP, "monotonic")
        b.br(done)

        b.position_at_end(done)
        result = self._load(b, at.FAILED, "monotonic", "result")
        self._store(b, b.i32(0), at.LOCK, "release")
        b.ret(result)

    # -- what Python calls -------------------------------------------------------------------------------------------

    def _num_threads(self) -> None:
        f = self._function(NUM_THREADS, I32)
        b = Builder(f, f.block("entry"))
        b.ret(self._load(b, at.TEAM, "monotonic"))

        f = self._function(READY, I32)
        b = Builder(f, f.block("entry"))
        b.ret(b.trunc(self._roster(b), I32))

    def _stop(self) -> None:
        f = self._function(STOP, I32, [(I32, "team"), (I32, "spin"), (I32, "phase"), (PTR, "hook")])
        entry, turn, dismiss, check, sleep = (f.block(n) for n in ("entry", "turn", "dismiss", "check", "sleep"))
        gone, busy = f.block("gone"), f.block("busy")
        team, spin, phase, hook = f.args
        b = Builder(f, entry)
        b.cond_br(self._try_lock(b), turn, busy)

        b.position_at_end(turn)
        old = self._roster(b)
        swapped = b.cmpxchg(b.offset(self.state, at.ROSTER), old, self._next_generation(b, old), "acq_rel", "monotonic")
        b.cond_br(b.extract_value(swapped, 1), dismiss, turn)

        b.position_at_end(dismiss)
        workers = b.trunc(old, I32, "workers")
        leaving = b.offset(self.state, at.LEAVING, "leaving")
        b.store(workers, leaving, 4, ordering="monotonic")
        with b.if_then(b.icmp("sgt", workers, b.i32(0))):
            with b.for_range(b.i32(0), workers, name="worker", nonempty=True) as worker:
                slot = self._slot(b, worker)
                b.store(null(), b.offset(slot, at.SLOT_FN), 8)
                self._bump(b, slot)
            self._wake_posted(b, workers)
        b.br(check)
        b.position_at_end(check)
        left = b.load(I32, leaving, 4, "left", ordering="acquire")
        b.cond_br(b.icmp("eq", left, b.i32(0)), gone, sleep)
        b.position_at_end(sleep)
        b.call(self.wait, [leaving, left])
        b.br(check)

        b.position_at_end(gone)
        self._store(b, team, at.TEAM, "monotonic")
        self._store(b, spin, at.SPIN, "monotonic")
        b.store(hook, b.offset(self.state, at.HOOK), 8)
        self._store(b, phase, at.PHASE, "monotonic")
        self._store(b, b.i32(0), at.LOCK, "release")
        b.ret(b.i32(1))
        Builder(f, busy).ret(b.i32(0))

    def _forked(self) -> None:
        """Any word may be in the middle of a change by a thread that does not exist in the child; no other one runs.

        The slots need no care: a worker starts from the POST that it finds. A region that the forking thread itself is
        in finds nobody to wait for, and reports that it was abandoned; the next region clears FAILED in any case.
        """
        f = self._function(FORKED, VOID, [(I32, "phase")])
        b = Builder(f, f.block("entry"))
        new = self._next_generation(b, self._roster(b))
        b.store(new, b.offset(self.state, at.ROSTER), 8, ordering="monotonic")
        for offset in (at.PENDING, at.CALLER_ASLEEP, at.SLEEPERS, at.LEAVING):
            self._store(b, b.i32(0), offset, "monotonic")
        self._store(b, b.i32(at.RESULT_ABANDONED), at.FAILED, "monotonic")
        self._store(b, f.args[0], at.PHASE, "monotonic")
        self._store(b, b.i32(0), at.LOCK, "release")
        b.ret()


def _zeros(nbytes: int) -> tuple[Type, Value]:
    return array(nbytes, I8), zero(array(nbytes, I8))
