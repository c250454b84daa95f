"""A worker: it begins with its own share, sleeps when nothing comes, and is woken."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest


@pytest.mark.parametrize("tasks", [4, 5, 1000])
def test_each_thread_begins_with_its_own_share(kernels, tasks):
    outcome = kernels.count(tasks, meet=4)
    assert outcome.complete
    assert [int(outcome.threads[part[0]]) for part in np.array_split(np.arange(tasks), 4)] == [0, 1, 2, 3]


def test_regions_with_pauses_in_between_wake_the_sleepers(kernels):
    for pause in itertools.islice(itertools.cycle([0, 1e-5, 5e-5, 1e-4, 2e-3]), 400):
        time.sleep(pause)
        outcome = kernels.count(8, meet=4)
        assert outcome.complete and outcome.num_threads == 4


def test_workers_that_nobody_calls_sleep(script):
    # Also those that have grown patient, with regions that come often.
    script(
        """
k = Kernels(Runtime(3))
for _ in range(200):
    assert k.count(9, meet=3).complete
    time.sleep(1e-3)
time.sleep(0.1)
before = time.process_time()
time.sleep(0.5)
assert time.process_time() - before < 0.1, time.process_time() - before
"""
    )
