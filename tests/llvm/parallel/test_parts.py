"""Chunks: every task once, none behind a failure."""

from __future__ import annotations

import pytest

from tirlower.llvm.parallel import launch_flags


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
