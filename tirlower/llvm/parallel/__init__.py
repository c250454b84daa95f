"""Parallel loops: a small thread pool of our own, and the contract between it and generated kernels.

**A kernel** outlines the body of a parallel loop into a task function and launches it, through two imported symbols
whose addresses are :attr:`Runtime.symbols` (an object file of a kernel is thus good in every process)::

    i32 @tirlower_parallel_launch(ptr %fn, ptr %ctx, i64 %num_tasks, i32 %flags)
    i32 @tirlower_num_threads()

    i32 %fn(ptr %ctx, i64 %begin, i64 %end, i32 %thread)        ; the task function

- The launch calls ``fn`` for ranges ``[begin, end)`` that are not empty and cover ``0 .. num_tasks - 1`` once, in
  several threads at a time, and returns when all are done: what the tasks wrote is then visible to the caller, and what
  the caller wrote before was visible to them. Without tasks ``fn`` is not called.
- ``fn`` returns 0, or nonzero to fail. The launch returns 0, or the nonzero result that came first. Once a task function
  has failed, others that run are not stopped, but shares and chunks that have not begun are dropped.
- ``flags`` is made by :func:`launch_flags`: 0 gives each thread a contiguous share, equal to +-1 task, which it takes in
  four chunks, and others where it does not come to them; dynamic scheduling has one share for all; a number of threads
  replaces the default. So a worker that does not get a CPU costs a region no more than its serial time.
- ``thread`` is from 0 (always the caller) up to the number of threads of the region; at one time no two calls of a region
  have the same. It indexes scratch memory of the region. As another Python thread may change the default number
  between the two calls, a kernel that sizes such memory by ``tirlower_num_threads`` also puts that number into ``flags``
  (see :func:`launch_flags`).
- A launch inside a task, or while another thread's region has the pool, or with one task or one thread, runs
  ``fn(ctx, 0, num_tasks, 0)`` in the caller: correct, serial, and never a deadlock.
- Error details go into the record ``{i32 code, i32 nvals, [16 x i64] vals}`` of the kernel call, whose address the kernel
  passes on in ``ctx``; and with it the address of a *claim word*, an i32 on the kernel's stack that is 0 when the call
  starts: the first failure wins it, also among nested regions. :func:`emit_record_error` does that.
- Task functions run in threads that do not hold the GIL, and may not assume that the caller's does not.
- The number of a target that asks for its own goes into the flags of each launch, and :meth:`Runtime.reserve` is called
  with it when the kernel is loaded, or regions get no more threads than the default.

**Python** gets the pool from :func:`runtime`. The workers are started by the first region that wants them, are forgotten
and started anew after a fork, and are joined at exit. A thread that waits looks for 0.3 ms and more, longer while regions
come often, then sleeps. A worker that is woken keeps off the launcher's CPU (``placement``).

Measured on 2 cores of Zen 3: an empty region of two threads 0.15 to 0.3 us, 1 us where the worker sleeps; ``python -m
bench threads`` shows loops in a row, after pauses, and beside a busy process.
"""

from __future__ import annotations

from tirlower.llvm.parallel.emit import emit_launch, emit_num_threads, emit_record_error
from tirlower.llvm.parallel.layout import MAX_THREADS, RESULT_ABANDONED, launch_flags
from tirlower.llvm.parallel.pool import NUM_THREADS, PARALLEL_LAUNCH
from tirlower.llvm.parallel.runtime import Runtime, runtime

__all__ = [
    "MAX_THREADS",
    "NUM_THREADS",
    "PARALLEL_LAUNCH",
    "RESULT_ABANDONED",
    "Runtime",
    "emit_launch",
    "emit_num_threads",
    "emit_record_error",
    "launch_flags",
    "runtime",
]
