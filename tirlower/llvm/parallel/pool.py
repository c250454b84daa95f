"""The pool in LLVM IR: launching a region, the workers' loop, and what Python needs to start and stop them.

One thread at a time holds the region lock: a kernel that runs a region, or Python while it changes the pool. Whoever
does not get the lock runs its region inline, so nobody ever waits for it in a kernel, and nested regions need no case
of their own.

**Handing out.** Each worker has a mailbox: one cache line, with the whole job in it. The caller fills the lines of the
workers that it wants and makes their POST words odd with *release* stores; a worker takes its job by a compare-and-
exchange to the next even number, with *acquire*, and then sees the job. A job that nobody has taken when there is
nothing left to do is revoked in the same way, so that exactly one of the two has it, and a worker that was late touches
nothing. A worker is posted to again only after its last job was finished or revoked; so what it took is the job that
stands there, also when POST wraps.

**Joining.** PENDING counts jobs that are neither finished nor revoked. Workers count it down *seq_cst* (hence release:
their writes, the error struct and FAILED included, are visible to the caller, whose load of the zero is an acquire).

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

from tirlower.emit.llvm_text import I32, PTR, VOID, Builder, Module, null
from tirlower.llvm.parallel import layout as at
from tirlower.llvm.parallel.parts import Parts
from tirlower.llvm.parallel.region import define_launch
from tirlower.llvm.parallel.waiting import WaitKind, wait_kind
from tirlower.llvm.parallel.worker import define_worker

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


def pool_module(triple: str, data_layout: str = "", *, kind: WaitKind | None = None) -> Module:
    """The pool as an LLVM module for a target triple; ``kind`` overrides how that system's threads sleep.

    Its state is the module's own memory: every module that is linked is one more pool.
    """
    parts = Parts(Module("tirlower_parallel", triple, data_layout), kind or wait_kind(triple), EXPORTS)
    define_worker(parts, WORKER)
    define_launch(parts, PARALLEL_LAUNCH)
    _define_numbers(parts)
    _define_stop(parts)
    _define_forked(parts)
    return parts.module


def _define_numbers(parts: Parts) -> None:
    """Threads of a region, and workers that are parked."""
    f = parts.function(NUM_THREADS, I32)
    b = Builder(f, f.block("entry"))
    b.ret(parts.load(b, at.TEAM, "monotonic"))

    f = parts.function(READY, I32)
    b = Builder(f, f.block("entry"))
    b.ret(b.trunc(parts.roster(b), I32))


def _define_stop(parts: Parts) -> None:
    """Dismiss the workers, and set what the next ones will be."""
    f = parts.function(STOP, I32, [(I32, "team"), (I32, "spin"), (I32, "phase"), (PTR, "hook")])
    entry, turn, dismiss, check, sleep = (f.block(n) for n in ("entry", "turn", "dismiss", "check", "sleep"))
    gone, busy = f.block("gone"), f.block("busy")
    team, spin, phase, hook = f.args
    b = Builder(f, entry)
    b.cond_br(parts.try_lock(b), turn, busy)

    b.position_at_end(turn)
    old = parts.roster(b)
    swapped = b.cmpxchg(b.offset(parts.state, at.ROSTER), old, parts.next_generation(b, old), "acq_rel", "monotonic")
    b.cond_br(b.extract_value(swapped, 1), dismiss, turn)

    b.position_at_end(dismiss)
    workers = b.trunc(old, I32, "workers")
    leaving = b.offset(parts.state, at.LEAVING, "leaving")
    b.store(workers, leaving, 4, ordering="monotonic")
    with b.if_then(b.icmp("sgt", workers, b.i32(0))):
        with b.for_range(b.i32(0), workers, name="worker", nonempty=True) as worker:
            slot = parts.slot(b, worker)
            b.store(null(), b.offset(slot, at.SLOT_FN), 8)
            parts.post(b, slot)
        parts.wake_posted(b, workers)
    b.br(check)
    b.position_at_end(check)
    left = b.load(I32, leaving, 4, "left", ordering="acquire")
    b.cond_br(b.icmp("eq", left, b.i32(0)), gone, sleep)
    b.position_at_end(sleep)
    b.call(parts.waiting.wait, [leaving, left])
    b.br(check)

    b.position_at_end(gone)
    parts.store(b, team, at.TEAM, "monotonic")
    parts.store(b, spin, at.SPIN, "monotonic")
    b.store(hook, b.offset(parts.state, at.HOOK), 8)
    parts.store(b, phase, at.PHASE, "monotonic")
    parts.store(b, b.i32(0), at.LOCK, "release")
    b.ret(b.i32(1))
    Builder(f, busy).ret(b.i32(0))


def _define_forked(parts: Parts) -> None:
    """Any word may be in the middle of a change by a thread that does not exist in the child; no other one runs.

    Jobs that nobody has taken are revoked: the next worker of a slot would take them. A region that the forking thread
    itself is in finds nobody to wait for, takes no more chunks, and reports that it was abandoned; the next region
    clears FAILED in any case.
    """
    f = parts.function(FORKED, VOID, [(I32, "phase")])
    b = Builder(f, f.block("entry"))
    new = parts.next_generation(b, parts.roster(b))
    b.store(new, b.offset(parts.state, at.ROSTER), 8, ordering="monotonic")
    # Of all slots: in the middle of a restart the roster does not say whose were posted to.
    with b.for_range(b.i32(0), b.i32(at.MAX_THREADS - 1), name="worker", nonempty=True) as worker:
        slot = parts.slot(b, worker)
        post = b.load(I32, b.offset(slot, at.SLOT_POST), 4, "post", ordering="monotonic")
        with b.if_then(parts.is_posted(b, post)):
            parts.take(b, slot, post, "monotonic")
    for offset in (at.PENDING, at.CALLER_ASLEEP, at.SLEEPERS, at.LEAVING):
        parts.store(b, b.i32(0), offset, "monotonic")
    parts.store(b, b.i32(at.RESULT_ABANDONED), at.FAILED, "monotonic")
    parts.store(b, f.args[0], at.PHASE, "monotonic")
    parts.store(b, b.i32(0), at.LOCK, "release")
    b.ret()
