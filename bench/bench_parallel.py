"""What a parallel region costs: empty, after a pause, and for an elementwise loop, against serial code and Numba.

Run ``python -m pytest bench/bench_parallel.py --benchmark-enable``. Times are of one region: each round makes many in
native code. Numba is skipped where it is not installed.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np
import pytest

from tirlower.emit.compile import CompileOptions
from tirlower.llvm.jit import engine
from tirlower.llvm.parallel import launch_flags, runtime

IR = """
declare i32 @tirlower_parallel_launch(ptr, ptr, i64, i32)

define i32 @nothing(ptr %ctx, i64 %begin, i64 %end, i32 %thread) {
  ret i32 0
}

; ctx = {ptr a, ptr c}: c[i] = 3 * a[i]
define i32 @triple(ptr %ctx, i64 %begin, i64 %end, i32 %thread) {
entry:
  %a = load ptr, ptr %ctx
  %c.at = getelementptr i8, ptr %ctx, i64 8
  %c = load ptr, ptr %c.at
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %a.at = getelementptr inbounds float, ptr %a, i64 %i
  %x = load float, ptr %a.at
  %y = fmul float %x, 3.0
  %o.at = getelementptr inbounds float, ptr %c, i64 %i
  store float %y, ptr %o.at
  %next = add nsw i64 %i, 1
  %again = icmp slt i64 %next, %end
  br i1 %again, label %loop, label %done
done:
  ret i32 0
}

; `regions` launches of fn
define void @repeat(ptr %fn, ptr %ctx, i64 %tasks, i32 %flags, i64 %regions) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %r = call i32 @tirlower_parallel_launch(ptr %fn, ptr %ctx, i64 %tasks, i32 %flags)
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %regions
  br i1 %again, label %loop, label %done
done:
  ret void
}
"""
SIZES = [1 << 10, 1 << 14, 1 << 18]
Repeat = Callable[[str, int, int, int], None]
A, C = np.ones(max(SIZES), np.float32), np.empty(max(SIZES), np.float32)
CTX = np.array([A.ctypes.data, C.ctypes.data], np.uintp)


@pytest.fixture(scope="module")
def repeat() -> Repeat:
    """``repeat(function, tasks, threads, regions)``"""
    pool = runtime()
    pool.reserve(2)
    code = engine().compile_object(IR, CompileOptions.for_host())
    linked = engine().link(code.object, ["nothing", "triple", "repeat"], pool.symbols)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_int64)
    native = ctypes.CFUNCTYPE(None, *types)(linked["repeat"])

    def run(function: str, tasks: int, threads: int, regions: int) -> None:
        native(linked[function], CTX.ctypes.data, tasks, launch_flags(threads=threads), regions)

    return run


def per_region(benchmark: Callable[..., None], regions: int) -> None:
    """Add the time of one region to the record of a benchmark of many."""
    if benchmark.stats is not None:  # type: ignore[attr-defined]
        stats = benchmark.stats.stats  # type: ignore[attr-defined]
        benchmark.extra_info["us_min"] = stats.min / regions * 1e6  # type: ignore[attr-defined]
        benchmark.extra_info["us_median"] = stats.median / regions * 1e6  # type: ignore[attr-defined]


@pytest.mark.benchmark(group="empty region, 1000 in a row")
@pytest.mark.parametrize("threads", [1, 2])
def test_empty(benchmark, repeat, threads):
    benchmark(repeat, "nothing", 2, threads, 1000)
    per_region(benchmark, 1000)


@pytest.mark.benchmark(group="empty region, 1000 in a row")
def test_empty_numba(benchmark):
    numba = pytest.importorskip("numba")

    @numba.njit(parallel=True)
    def regions(c, n):
        for _ in range(n):
            for i in numba.prange(2):
                c[i] = i

    numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
    regions(C, 1)
    benchmark(regions, C, 1000)
    per_region(benchmark, 1000)


@pytest.mark.benchmark(group="empty region after 2 ms of sleep")
def test_empty_cold(benchmark, repeat):
    # Waking the worker is the caller's cost; ctypes and the clock are in it too.
    benchmark.pedantic(repeat, ("nothing", 2, 2, 1), setup=lambda: time.sleep(0.002), rounds=200)


@pytest.mark.benchmark(group="c = 3 * a, float32, 100 in a row")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("threads", [1, 2])
def test_triple(benchmark, repeat, threads, size):
    benchmark(repeat, "triple", size, threads, 100)
    per_region(benchmark, 100)
    np.testing.assert_array_equal(C[:size], 3 * A[:size])


@pytest.mark.benchmark(group="c = 3 * a, float32, 100 in a row")
@pytest.mark.parametrize("size", SIZES)
def test_triple_numba(benchmark, size):
    numba = pytest.importorskip("numba")

    @numba.njit(parallel=True, fastmath=True)
    def triple(a, c, n):
        for _ in range(n):
            for i in numba.prange(a.size):
                c[i] = np.float32(3) * a[i]

    numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
    a, c = A[:size], C[:size]
    triple(a, c, 1)
    benchmark(triple, a, c, 100)
    per_region(benchmark, 100)
    np.testing.assert_array_equal(c, 3 * a)
