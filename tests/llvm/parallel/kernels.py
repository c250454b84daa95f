"""Task functions in textual LLVM IR and the ways to launch them; also the head of the scripts run as subprocesses."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

import numpy as np

from tirlower.emit.compile import CompileOptions
from tirlower.llvm.jit import engine
from tirlower.llvm.parallel import PARALLEL_LAUNCH, Runtime, launch_flags, runtime

IR = """
declare i32 @tirlower_parallel_launch(ptr, ptr, i64, i32)
declare i32 @tirlower_num_threads()
declare i32 @usleep(i32)

; ctx = {ptr counts (i32 a task), ptr threads (i32 a task), i64 fail_at, i32 flags of nested, i64 nested tasks, i64 usec,
;        i32 calls so far, i32 calls to wait for}
%ctx = type { ptr, ptr, i64, i32, i64, i64, i32, i32 }

; counts[i] += 1; threads[i] = thread; task fail_at fails with 1000 + fail_at, and so does every task after it with
; 1000 + its number if it runs in the same range. Each call waits until so many have begun, and fails with 999 if they
; do not within 20 s: as a thread waits in its first, they are begun by as many threads.
define i32 @count(ptr %ctx, i64 %begin, i64 %end, i32 %thread) {
entry:
  %counts = load ptr, ptr %ctx
  %threads.at = getelementptr %ctx, ptr %ctx, i32 0, i32 1
  %threads = load ptr, ptr %threads.at
  %fail.at = getelementptr %ctx, ptr %ctx, i32 0, i32 2
  %fail = load i64, ptr %fail.at
  %usec.at = getelementptr %ctx, ptr %ctx, i32 0, i32 5
  %usec = load i64, ptr %usec.at
  %us = trunc i64 %usec to i32
  %slow = icmp ne i64 %usec, 0
  %calls.at = getelementptr %ctx, ptr %ctx, i32 0, i32 6
  %meet.at = getelementptr %ctx, ptr %ctx, i32 0, i32 7
  %meet = load i32, ptr %meet.at
  %before = atomicrmw add ptr %calls.at, i32 1 seq_cst
  br label %gather
gather:
  %looks = phi i32 [ 0, %entry ], [ %looks1, %wait ]
  %calls = load atomic i32, ptr %calls.at seq_cst, align 4
  %met = icmp sge i32 %calls, %meet
  br i1 %met, label %loop, label %wait
wait:
  call i32 @usleep(i32 50)
  %looks1 = add i32 %looks, 1
  %alone = icmp sgt i32 %looks1, 400000
  br i1 %alone, label %missed, label %gather
missed:
  ret i32 999
loop:
  %i = phi i64 [ %begin, %gather ], [ %next, %more ]
  %c.at = getelementptr i32, ptr %counts, i64 %i
  %c = load i32, ptr %c.at
  %c1 = add i32 %c, 1
  store i32 %c1, ptr %c.at
  %t.at = getelementptr i32, ptr %threads, i64 %i
  store i32 %thread, ptr %t.at
  br i1 %slow, label %nap, label %test
nap:
  call i32 @usleep(i32 %us)
  br label %test
test:
  %bad = icmp eq i64 %i, %fail
  br i1 %bad, label %failed, label %more
more:
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %end
  br i1 %again, label %loop, label %done
done:
  ret i32 0
failed:
  %i32 = trunc i64 %i to i32
  %code = add i32 %i32, 1000
  ret i32 %code
}

; counts[i] += the sum over a nested region; the row i of counts has `nested tasks` entries
define i32 @nested(ptr %ctx, i64 %begin, i64 %end, i32 %thread) {
entry:
  %inner = alloca %ctx
  %all = load %ctx, ptr %ctx
  %counts = extractvalue %ctx %all, 0
  %threads = extractvalue %ctx %all, 1
  %flags = extractvalue %ctx %all, 3
  %n = extractvalue %ctx %all, 4
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %more ]
  %row = mul i64 %i, %n
  %c.at = getelementptr i32, ptr %counts, i64 %row
  %t.at = getelementptr i32, ptr %threads, i64 %row
  %x = insertvalue %ctx %all, ptr %c.at, 0
  %y = insertvalue %ctx %x, ptr %t.at, 1
  store %ctx %y, ptr %inner
  %r = call i32 @tirlower_parallel_launch(ptr @count, ptr %inner, i64 %n, i32 %flags)
  %bad = icmp ne i32 %r, 0
  br i1 %bad, label %failed, label %more
more:
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %end
  br i1 %again, label %loop, label %done
done:
  ret i32 0
failed:
  ret i32 %r
}

define i32 @empty(ptr %ctx, i64 %begin, i64 %end, i32 %thread) {
  ret i32 0
}

; the least and the sum of the cycles of `n` launches of @empty
define void @bench(ptr %cycles, i64 %n, i64 %tasks) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %t0 = call i64 @llvm.readcyclecounter()
  %r = call i32 @tirlower_parallel_launch(ptr @empty, ptr null, i64 %tasks, i32 0)
  %t1 = call i64 @llvm.readcyclecounter()
  %d = sub i64 %t1, %t0
  %at = getelementptr i64, ptr %cycles, i64 %i
  store i64 %d, ptr %at
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %n
  br i1 %again, label %loop, label %done
done:
  ret void
}
"""

TASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)


class Ctx(ctypes.Structure):
    _fields_ = [
        ("counts", ctypes.c_void_p),
        ("threads", ctypes.c_void_p),
        ("fail_at", ctypes.c_int64),
        ("flags", ctypes.c_int32),
        ("nested", ctypes.c_int64),
        ("usec", ctypes.c_int64),
        ("calls", ctypes.c_int32),
        ("meet", ctypes.c_int32),
    ]


class Outcome:
    """What a region did: its result, how often each task ran, and in which thread."""

    def __init__(self, result: int, counts: np.ndarray, threads: np.ndarray) -> None:
        self.result, self.counts, self.threads = result, counts, threads

    @property
    def complete(self) -> bool:
        return self.result == 0 and bool((self.counts == 1).all())

    @property
    def num_threads(self) -> int:
        return len(set(self.threads[self.counts > 0].tolist()))


class Kernels:
    """The functions of IR, linked to a pool."""

    def __init__(self, pool: Runtime, ir: str = IR) -> None:
        self.pool = pool
        code = engine().compile_object(ir, CompileOptions.for_host(pipeline="none"))
        names = [line.split("@")[1].split("(")[0] for line in ir.splitlines() if line.startswith("define")]
        self.linked = engine().link(code.object, names, pool.symbols)
        signature = (ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
        self._launch = ctypes.CFUNCTYPE(*signature)(pool.symbols[PARALLEL_LAUNCH])
        self._launch_with_gil = ctypes.PYFUNCTYPE(*signature)(pool.symbols[PARALLEL_LAUNCH])

    def launch(self, fn: int, ctx: Ctx | None, tasks: int, flags: int = 0, *, gil: bool = False) -> int:
        call = self._launch_with_gil if gil else self._launch
        return int(call(fn, ctypes.addressof(ctx) if ctx is not None else None, tasks, flags))

    def count(
        self, tasks: int, *, fail_at: int = -1, usec: int = 0, meet: int = 0, gil: bool = False, **flags: int
    ) -> Outcome:
        """``meet`` threads work at a time, at least, or the result is 999."""
        counts, threads = np.zeros(max(tasks, 1), np.int32), np.full(max(tasks, 1), -1, np.int32)
        ctx = Ctx(counts.ctypes.data, threads.ctypes.data, fail_at, 0, 0, usec, 0, meet)
        result = self.launch(self.linked["count"], ctx, tasks, launch_flags(**flags), gil=gil)
        return Outcome(result, counts[: max(tasks, 0)], threads[: max(tasks, 0)])

    def nested(self, tasks: int, inner: int, **flags: int) -> Outcome:
        counts, threads = np.zeros((tasks, inner), np.int32), np.full((tasks, inner), -1, np.int32)
        ctx = Ctx(counts.ctypes.data, threads.ctypes.data, -1, launch_flags(**flags), inner, 0, 0, 0)
        result = self.launch(self.linked["nested"], ctx, tasks, launch_flags(**flags))
        return Outcome(result, counts, threads)


def ranges_of(kernels: Kernels, tasks: int) -> tuple[list[tuple[int, int]], set[int]]:
    """The ranges that a region's task function is called for, in order, and its threads."""
    ranges: list[tuple[int, int]] = []
    threads: set[int] = set()

    @TASK
    def task(ctx: int | None, begin: int, end: int, thread: int) -> int:
        ranges.append((begin, end))
        threads.add(thread)
        return 0

    assert kernels.launch(ctypes.cast(task, ctypes.c_void_p).value or 0, None, tasks) == 0
    return sorted(ranges), threads


def in_child(work) -> int:  # type: ignore[no-untyped-def]
    """Run ``work`` in a forked child, and return its exit status; 99 for an exception, 98 if it hangs."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = 0 if work() else 1
        finally:
            sys.stdout.flush()
            os._exit(status)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return 98


__all__ = [
    "TASK",
    "Ctx",
    "Kernels",
    "Outcome",
    "in_child",
    "launch_flags",
    "np",
    "os",
    "ranges_of",
    "runtime",
    "sys",
    "threading",
    "time",
]
