"""The pool's memory, field by field, and the bits of a launch's flags.

The state is one block of bytes, so that code and tests name a field by its offset. Fields that different threads
write lie on different lines of :data:`LINE` bytes (two cache lines: the x86 prefetcher fetches lines in pairs, and
Apple's lines are that long).
"""

from __future__ import annotations

from typing import Final

from tirlower.diagnostics import ArgumentValueError

__all__ = ["MAX_THREADS", "launch_flags"]

LINE: Final = 128

#: Most threads that a region may have, the calling one included.
MAX_THREADS: Final = 1023

# --- the control line: written by whoever holds the region lock (LOCK itself by whoever tries to take it) ---
LOCK: Final = 0  # i32: 1 while a region runs, or while Python changes the pool
PHASE: Final = 4  # i32: one of the PHASE_* below
TEAM: Final = 8  # i32: threads of a region that does not ask for a number
SPIN: Final = 12  # i32: how often a waiting thread looks before it sleeps
ROSTER: Final = 16  # i64: generation << 32 | how many workers of that generation are parked in the pool's code
HOOK: Final = 24  # ptr: void(i32 generation) that starts workers; called under the lock at the first region
LEAVING: Final = 32  # i32: dismissed workers that have not left the pool's code
# --- the join line: the workers count PENDING down, the caller watches it ---
PENDING: Final = 1 * LINE  # i32: workers that have not finished their share
CALLER_ASLEEP: Final = 1 * LINE + 4  # i32: 1 while the caller sleeps on PENDING
# --- one line each: read at each region, seldom written ---
FAILED: Final = 2 * LINE  # i32: the first nonzero result of the region
SLEEPERS: Final = 3 * LINE  # i32: how many workers sleep, or are about to
# --- the launcher's share: the first of its tasks that nobody has taken; the region's other shares stand in the slots ---
NEXT: Final = 4 * LINE  # i64
STATE_BYTES: Final = 5 * LINE

# --- a worker's slot: its mailbox, one cache line; a line of its own; and what is known of its affinity ---
SLOT_POST: Final = 0  # i32: odd while a job stands here that nobody has taken; its taker, or who revokes it, adds 1
SLOT_MISSED: Final = 4  # i32: how many jobs in a row were revoked; kept by the launcher
SLOT_FN: Final = 8  # ptr: the task function; null tells the worker to leave
SLOT_CTX: Final = 16  # ptr: its first argument
SLOT_NEXT: Final = 24  # i64: the first task of this share that nobody has taken
SLOT_END: Final = 32  # i64: the end of this share
SLOT_FIRST_END: Final = 40  # i64: the end of the launcher's share
SLOT_CHUNK: Final = 48  # i64: tasks taken at a time
SLOT_ASLEEP: Final = LINE  # i32, the worker's: 1 while it sleeps on SLOT_POST, or is about to
SLOT_CPU: Final = LINE + 4  # i32, the worker's: 1 + the CPU on which it took its last job; 0: it has taken none
SLOT_THREAD: Final = LINE + 8  # i32, the worker's: what the system calls its thread; 0: not known
SLOT_AVOIDED: Final = LINE + 12  # i32, the launcher's: 1 + the CPU taken from the worker's affinity mask; 0: none
#: An affinity mask: a bit for each of 1,024 CPUs.
MASK_BYTES: Final = 128
SLOT_MASK: Final = 2 * LINE  # the launcher's: the worker's affinity mask, without anything taken from it ...
SLOT_MASK_SET: Final = 2 * LINE + MASK_BYTES  # ... and the mask that it was given
SLOT_BYTES: Final = 4 * LINE

PHASE_COLD: Final = 0  # no workers yet: the first region calls the hook
PHASE_STARTED: Final = 1  # the hook was called; those of the roster may be used
PHASE_CLOSED: Final = 2  # the interpreter is leaving: every region runs inline

#: What a launch returns when its process was forked in the middle of the region: the other shares are lost.
RESULT_ABANDONED: Final = -1

# --- flags of a launch: bit 0, then two fields ---
FLAG_DYNAMIC: Final = 1
THREADS_SHIFT: Final = 1
THREADS_BITS: Final = 10
CHUNK_SHIFT: Final = THREADS_SHIFT + THREADS_BITS
CHUNK_BITS: Final = 20
#: With dynamic scheduling and no chunk size, a thread takes its tasks in about so many chunks.
CHUNKS_PER_THREAD: Final = 8
#: A static share is taken in so many chunks by its thread, so that others can take over what one does not come to.
CHUNKS_PER_SHARE: Final = 4
#: Chunks of a static share with at least so many tasks are multiples of it: loops over them stay whole vectors.
CHUNK_MULTIPLE: Final = 64


def launch_flags(*, dynamic: bool = False, chunk: int = 0, threads: int = 0) -> int:
    """The ``flags`` of a launch, as an ``i32``.

    ``dynamic`` lets threads take chunks of ``chunk`` tasks as they become free (0: a size that gives each thread about
    8 chunks); otherwise each thread gets one contiguous share, and the shares differ in length by one at most.
    ``threads`` asks for that many threads (0: as many as :attr:`Runtime.num_threads` says); the pool gives fewer where
    it has fewer, see :meth:`Runtime.reserve`.

    >>> launch_flags(), launch_flags(threads=2), launch_flags(dynamic=True, chunk=16)
    (0, 4, 32769)

    Raises:
        ArgumentValueError: a number out of range, or a chunk size without ``dynamic``.
    """
    if not 0 <= threads <= MAX_THREADS:
        raise ArgumentValueError(
            f"a parallel region cannot have {threads} threads",
            origin="launch_flags",
            help=f"use 1 to {MAX_THREADS}, or 0 for the default",
        )
    limit = (1 << CHUNK_BITS) - 1
    if not 0 <= chunk <= limit or (chunk and not dynamic):
        raise ArgumentValueError(
            f"a parallel region cannot have chunks of {chunk} tasks{'' if dynamic else ' without dynamic scheduling'}",
            origin="launch_flags",
            help=f"use dynamic=True with a chunk of 1 to {limit}, or 0 for an automatic size",
        )
    return int(dynamic) * FLAG_DYNAMIC | threads << THREADS_SHIFT | chunk << CHUNK_SHIFT
