"""Regions: every task once, in the right threads, whatever the numbers, the callers and the failures."""

from __future__ import annotations

import ctypes
import itertools
import threading
import time

import numpy as np
import pytest

from tirlower.llvm.parallel import launch_flags
from tirlower.llvm.parallel.waiting import WaitKind


@pytest.fixture(scope="module", params=[None, WaitKind.POLL], ids=["system", "polling"])
def kernels(lib, request):
    """Kernels on a pool of their own, with more threads than this machine may have CPUs."""
    pool = lib.Runtime(4, wait=request.param)
    yield lib.Kernels(pool)
    pool.shutdown()


@pytest.mark.parametrize("tasks", [-3, 0, 1, 2, 3, 4, 5, 7, 1000, 1001, 1002, 1003])
def test_static_ranges_are_contiguous_and_balanced(kernels, tasks):
    outcome = kernels.count(tasks)
    assert outcome.complete
    team = max(min(4, tasks), 0)
    # NumPy splits the same way: the first `tasks % team` parts are one longer
    expected = [len(part) for part in np.array_split(np.arange(tasks), team)] if team else []
    assert [int((outcome.threads == t).sum()) for t in range(team)] == expected
    assert (np.diff(outcome.threads) >= 0).all()


@pytest.mark.parametrize("chunk", [0, 1, 3, 64, 5000])
@pytest.mark.parametrize("tasks", [2, 5, 333, 1000])
def test_dynamic_chunks_cover_every_task_once(kernels, tasks, chunk):
    outcome = kernels.count(tasks, dynamic=True, chunk=chunk)
    assert outcome.complete
    if chunk:
        for begin in range(0, tasks, chunk):  # a chunk is never split
            assert len(set(outcome.threads[begin : begin + chunk].tolist())) == 1


def test_dynamic_chunks_go_to_several_threads(kernels):
    outcome = kernels.count(64, dynamic=True, chunk=1, usec=500)
    assert outcome.complete and outcome.num_threads > 1


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_a_region_gets_the_threads_that_it_asks_for(kernels, threads):
    outcome = kernels.count(400, threads=threads)
    assert outcome.complete
    assert outcome.num_threads == threads


def test_a_region_cannot_get_more_threads_than_the_pool_has(kernels):
    outcome = kernels.count(400, threads=9)
    assert outcome.complete
    assert outcome.num_threads == 4


def test_the_number_of_tasks_may_be_huge(kernels):
    assert kernels.launch(kernels.linked["empty"], None, 2**62) == 0
    assert kernels.launch(kernels.linked["empty"], None, 2**62, launch_flags(dynamic=True)) == 0


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("bad", [0, 1, 499, 500, 998, 999])
def test_a_failure_reaches_the_caller_and_the_next_region_is_clean(kernels, bad, dynamic):
    assert kernels.count(1000, fail_at=bad, dynamic=dynamic).result == 1000 + bad
    assert kernels.count(1000, dynamic=dynamic).complete


def test_after_a_failure_no_more_chunks_are_taken(kernels):
    outcome = kernels.count(4000, fail_at=0, usec=20, dynamic=True, chunk=1)
    assert outcome.result == 1000
    assert 1 <= outcome.counts.sum() < 4000
    assert outcome.counts.max() == 1


def test_nested_regions_run_inline(kernels):
    outcome = kernels.nested(37, 11)
    assert outcome.complete
    assert (outcome.threads == 0).all()  # an inline region has one thread, number 0
    assert kernels.nested(37, 11, dynamic=True, chunk=2).complete


def test_thousands_of_regions_of_changing_shape(kernels):
    rng = np.random.default_rng(1)
    for n, threads, dynamic in zip(
        rng.integers(0, 40, 6000), rng.integers(0, 5, 6000), rng.integers(0, 2, 6000), strict=True
    ):
        outcome = kernels.count(int(n), threads=int(threads), dynamic=bool(dynamic))
        assert outcome.complete, (n, threads, dynamic)


def test_regions_with_pauses_in_between_wake_the_sleepers(kernels):
    for pause in itertools.islice(itertools.cycle([0, 1e-5, 5e-5, 1e-4, 2e-3]), 400):
        time.sleep(pause)
        outcome = kernels.count(8)
        assert outcome.complete and outcome.num_threads == 4


def test_callers_that_hold_the_gil(kernels):
    for _ in range(500):
        assert kernels.count(100, gil=True).complete


@pytest.mark.parametrize("gil", [False, True])
def test_concurrent_callers(kernels, gil):
    problems: list[object] = []

    def work(seed: int) -> None:
        for i in range(400):
            bad = 17 if (i + seed) % 5 == 0 else -1
            outcome = kernels.count(50 + seed, fail_at=bad, dynamic=bool(i % 2), gil=gil, usec=i % 3)
            if outcome.result != (1017 if bad >= 0 else 0) or (bad < 0 and not outcome.complete):
                problems.append((seed, i, outcome.result, outcome.counts))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    assert problems == []


def test_numbers_change_under_concurrent_callers(kernels, lib):
    pool = lib.Runtime(2)
    mine = lib.Kernels(pool)
    ends = threading.Event()
    problems: list[object] = []

    def work() -> None:
        while not ends.is_set():
            outcome = mine.count(23)
            if not outcome.complete:
                problems.append(outcome.counts)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for i in range(60):
        pool.set_num_threads(1 + i % 5)
    ends.set()
    for t in threads:
        t.join(60)
        assert not t.is_alive()
    pool.set_num_threads(3)
    assert mine.count(30).num_threads == 3
    pool.shutdown()
    assert problems == [] and pool.num_workers == 0


def test_a_task_function_may_be_python(lib, kernels):
    # Python in a worker takes the GIL, which a caller that launches through ctypes has released.
    seen = []

    @lib.TASK
    def task(ctx: int | None, begin: int, end: int, thread: int) -> int:
        seen.append((begin, end, thread))
        return 0

    assert kernels.launch(ctypes.cast(task, ctypes.c_void_p).value, None, 10) == 0
    assert sorted(seen) == [(0, 3, 0), (3, 6, 1), (6, 8, 2), (8, 10, 3)]
