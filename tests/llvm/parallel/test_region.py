"""A region: its shares, its threads, and who runs what nobody comes to."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest


@pytest.mark.parametrize("tasks", [-3, 0, 1, 2, 3, 4, 5, 7, 255, 256, 257, 1000, 1001, 1002, 1003])
def test_static_shares_are_contiguous_balanced_and_taken_in_few_chunks(kernels, lib, tasks):
    ranges, threads = lib.ranges_of(kernels, tasks)
    assert [task for begin, end in ranges for task in range(begin, end)] == list(range(max(tasks, 0)))
    team = max(min(4, tasks), 0)
    # NumPy splits the same way: the first `tasks % team` parts are one longer
    parts = np.array_split(np.arange(tasks), team) if team else []
    begins = [begin for begin, _ in ranges]
    for share in parts:
        inside = [(b, e) for b, e in ranges if share[0] <= b <= share[-1]]
        assert share[0] in begins and inside[-1][1] == share[-1] + 1
        assert len(inside) <= 4
        if len(share) >= 256:
            assert all((end - begin) % 64 == 0 for begin, end in inside[:-1])
    assert threads <= set(range(4))


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_a_region_gets_the_threads_that_it_asks_for(kernels, threads):
    outcome = kernels.count(400, threads=threads, meet=threads)
    assert outcome.complete
    assert outcome.num_threads == threads


def test_a_region_cannot_get_more_threads_than_the_pool_has(kernels):
    outcome = kernels.count(400, threads=9, meet=4)
    assert outcome.complete
    assert outcome.num_threads == 4


@pytest.mark.parametrize("stuck", [0, 1], ids=["launcher", "worker"])
def test_others_do_what_a_thread_does_not_come_to(lib, stuck):
    # It sits in its first chunk until all other tasks were run, which somebody else must have done.
    pool = lib.Runtime(2)
    done: list[tuple[int, int, int]] = []
    begun = threading.Event()

    @lib.TASK
    def task(ctx: int | None, begin: int, end: int, thread: int) -> int:
        deadline = time.monotonic() + 30
        if thread == stuck:
            begun.set()
            while sum(e - b for b, e, _ in done) < 80 - (end - begin):
                time.sleep(1e-3)
                if time.monotonic() > deadline:
                    return 1
        elif not begun.wait(30):
            return 2
        done.append((begin, end, thread))
        return 0

    assert lib.Kernels(pool).launch(ctypes.cast(task, ctypes.c_void_p).value, None, 80) == 0
    pool.shutdown()
    assert sorted(t for begin, end, _ in done for t in range(begin, end)) == list(range(80))
    assert [thread for *_, thread in done] == [1 - stuck] * (len(done) - 1) + [stuck]
