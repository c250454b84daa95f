"""Measuring in processes of their own: whatever happens there costs one plan."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor

import pytest

import tirlower as tl
from tests.tuning.stand_in import job_of, transposed
from tirlower.tuning import apart
from tirlower.tuning.apart import measured_apart
from tirlower.tuning.job import Plan

FAULTY = "import sys; sys.path[:] = {path!r}; from tests.tuning.stand_in import faulty; faulty()"


@pytest.fixture
def good() -> Plan:
    return Plan(json.dumps(tl.Schedule(transposed()[0]).trace.as_json(dialect="tirlower")))


def test_a_job_is_measured(good: Plan):
    func, arrays = transposed()
    first, second = measured_apart(job_of(func, arrays, [good, good], good))
    assert not first.error and not second.error and first.seconds > 0 and first.base > 0


def test_a_crash_a_hang_and_an_end_cost_what_they_happen_to(good: Plan, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(apart, "_START", FAULTY)
    func, arrays = transposed()
    plans = [good, Plan("crash"), good, Plan("end"), Plan("print"), Plan("hang"), good]
    found = measured_apart(job_of(func, arrays, plans, good, limit=8.0))
    assert [bool(one.error) for one in found] == [False, True, False, True, False, True, False], found
    assert found[1].error == "its process was ended by SIGSEGV"
    assert found[3].error == "its process ended with 3: last words"
    assert found[4].seconds == 1.0  # what is printed is no answer
    assert found[5].error == "it took more than 8 s"


def test_a_process_that_says_nothing_or_something_else_is_an_outcome(good: Plan, monkeypatch: pytest.MonkeyPatch):
    func, arrays = transposed()
    job = job_of(func, arrays, [good], good)
    monkeypatch.setattr(apart, "_START", "# {path!r}")
    assert [one.error for one in measured_apart(job)] == ["its process ended with 0"]
    monkeypatch.setattr(apart, "_START", "# {path!r}\nimport pickle, sys; sys.stdout.buffer.write(pickle.dumps(5))")
    [found] = measured_apart(job)
    assert "its process" in found.error
    monkeypatch.setattr(sys, "executable", "/no/python")
    [found] = measured_apart(job)
    assert "no process could be started" in found.error
    monkeypatch.setattr(sys, "executable", "/bin/some-application")  # Python inside of it would start it again
    [found] = measured_apart(job)
    assert "is no Python that could be started again" in found.error


def test_it_runs_in_a_pool_of_processes(good: Plan):
    func, arrays = transposed()
    with ProcessPoolExecutor(1) as pool:
        [found] = pool.submit(measured_apart, job_of(func, arrays, [good], good)).result()
    assert not found.error
