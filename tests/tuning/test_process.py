"""Measuring in this process: what is compared, timed, and said of what goes wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tests.tuning.stand_in import job_of, product, transposed
from tirlower.script import parse
from tirlower.tuning import process
from tirlower.tuning.job import Plan
from tirlower.tuning.process import _same_bits, measured


def plan_of(sch: tl.Schedule) -> Plan:
    return Plan(json.dumps(sch.trace.as_json(dialect="tirlower")))


def test_both_are_timed_in_turns():
    func, arrays = product()
    sch = tl.Schedule(func)
    base = plan_of(sch)
    sch.vectorize(sch.loop("j"))  # nothing of the sums' order changes
    [found] = measured(job_of(func, arrays, [plan_of(sch)], base))
    assert not found.error and 0 < found.seconds and 0 < found.base
    assert not arrays[2].any()  # what is measured is not the caller's


def test_other_bits_are_an_error():
    text = """
    def f(A: T.Buffer((64,), "float32"), S: T.Buffer((1,), "float32")):
        for i in range(64):
            with T.block("S"):
                v = T.axis.reduce(64, i)
                with T.init():
                    S[0] = T.float32(0)
                S[0] = S[0] + A[v]
    """
    func = parse(dedent(text))
    sch = tl.Schedule(func)
    base = plan_of(sch)
    sch.rfactor(sch.split(sch.loop("i"), [None, 8])[1], 0)
    arrays = [np.random.default_rng(3).standard_normal(64).astype("float32"), np.zeros(1, "float32")]
    exact, other = measured(job_of(func, arrays, [plan_of(sch), loose(plan_of(sch))], base))
    assert exact.error == "it computes other bits than the untuned plan" and not other.error
    [both] = measured(job_of(func, arrays, [plan_of(sch)], loose(base)))
    assert not both.error  # what is not exact promises no bits


def loose(plan: Plan) -> Plan:
    return Plan(plan.trace, False)


def test_each_turn_begins_with_the_same_arrays():
    text = """
    def f(A: T.Buffer((512,), "int32")):
        for i in range(512):
            A[i] = A[i] * 3 + 1
    """
    func = parse(dedent(text))
    sch = tl.Schedule(func)
    base = plan_of(sch)
    sch.vectorize(sch.loop("i"))
    [found] = measured(job_of(func, [np.arange(512, dtype="int32")], [plan_of(sch)], base))
    assert not found.error  # with what a call before left the bits would differ


def test_what_is_refused_or_no_plan_is_told_and_the_next_is_measured():
    func, arrays = transposed()
    good = plan_of(tl.Schedule(func))
    other = tl.Schedule(product()[0])
    other.unroll(other.loop("k"))
    first, second, third = measured(job_of(func, arrays, [Plan("{}"), plan_of(other), good], good))
    assert "TraceError" in first.error and "NotFound" in second.error and not third.error


def test_a_call_that_fails_is_the_outcome_of_all_plans():
    func, arrays = transposed()
    good = plan_of(tl.Schedule(func))
    found = list(measured(job_of(func, arrays[:1], [good, good], good)))
    assert len(found) == 2 and all("Argument" in one.error for one in found)


def test_returned_arrays_are_compared_too():
    func, arrays = transposed()
    good = plan_of(tl.Schedule(func))
    job = replace(job_of(func, arrays[:1], [good], good), outputs=("B",))
    [found] = measured(job)
    assert not found.error


def test_a_hopeless_plan_gets_one_turn(monkeypatch: pytest.MonkeyPatch):
    func, arrays = transposed()
    good = plan_of(tl.Schedule(func))
    turns: list[object] = []

    def turn(call: object, kernel: object, calls: int) -> float:
        turns.append(kernel)
        return 1e-3 if kernel is call.base else 1.0  # type: ignore[attr-defined]

    monkeypatch.setattr(process._Call, "_turn", turn)
    [found] = measured(job_of(func, arrays, [good], good))
    assert found.seconds == 1.0 and found.base == 1e-3 and len(turns) == 5  # three to see how long a call takes


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ml_dtypes.bfloat16])
def test_same_bits(dtype: str):
    one = np.array([0.0, 1.5, np.nan, -2.0], dtype)
    other = one.copy()
    bits = other.view(f"u{other.itemsize}")
    bits[2] ^= 1  # another NaN
    assert _same_bits(one, other)
    for at, value in ((0, -0.0), (1, np.nan), (2, 1.0), (3, 2.0)):
        wrong = one.copy()
        wrong[at] = value
        assert not _same_bits(one, wrong), (at, value)
    assert not _same_bits(one, one[:2]) and not _same_bits(one, np.nan_to_num(one.astype("float64")).astype("int32"))
    assert not _same_bits(np.arange(3), np.arange(1, 4))
