"""The pool as a whole: many regions, nested ones, callers at a time, and changes between them."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest


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
    assert mine.count(30, meet=3).num_threads == 3
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
    assert sorted(task for begin, end, _ in seen for task in range(begin, end)) == list(range(10))
    assert {thread for *_, thread in seen} <= {0, 1, 2, 3}
