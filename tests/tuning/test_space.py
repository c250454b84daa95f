"""The candidates of a function: each proved, each another one, said in words."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tirlower as tl
from tests.tuning.stand_in import product, space_of, transposed
from tirlower.autoschedule.recipes.permutation import Permutation
from tirlower.diagnostics import ScheduleError
from tirlower.schedule.trace import Trace
from tirlower.script import parse


def test_the_base_is_what_a_build_takes():
    func, _ = transposed()
    _, base = space_of(func)
    kernel = tl.build(func, "llvm -mcpu=x86-64-v3 -mcache=32K,512K,32M -num_threads=1")
    assert (
        json.loads(base.trace)["steps"] == json.loads(json.dumps(kernel.schedule.as_json(dialect="tirlower")))["steps"]
    )
    assert base.exact and not base.error


def test_neighbours_differ_in_one_parameter_each():
    func, _ = transposed()
    space, base = space_of(func)
    found = {one.change: one for one in space.neighbours(base)}
    assert "B over i, j: permutation, nontemporal False -> True" in found
    assert "B over i, j: permutation, tile 16 -> 8" in found and "B over i, j: as written" in found
    assert not json.loads(found["B over i, j: as written"].trace)["steps"]
    traces = [one.trace for one in found.values() if not one.error]
    assert len(traces) > 3 and base.trace not in [one for one in traces if "nontemporal" in one]


@pytest.mark.parametrize("make", [transposed, product])
def test_what_candidates_compute(make: object):
    """By running them: each has the bits of the loops as written."""
    func, arrays = make()  # type: ignore[operator]
    given = [np.random.default_rng(at).standard_normal(one.shape).astype(one.dtype) for at, one in enumerate(arrays)]
    wanted = [one.copy() for one in given]
    tl.build(func, "llvm -num_threads=1", schedule="none")(*wanted)
    space, base = space_of(func)
    tried = 0
    for one in [base, *space.neighbours(base)]:
        if one.error:
            continue
        assert one.exact
        sch = tl.Schedule(func)
        Trace.apply_json_to_schedule(json.loads(one.trace), sch)
        mine = [each.copy() for each in given]
        tl.build(sch, "llvm -num_threads=1")(*mine)
        assert all(np.array_equal(x, y) for x, y in zip(mine, wanted, strict=True)), one.change
        tried += 1
    assert tried > 5


def test_changes_of_several_rounds_are_said_against_the_untuned_plan():
    func, _ = transposed()
    space, base = space_of(func)
    first = next(one for one in space.neighbours(base) if one.change.endswith("tile 16 -> 8"))
    second = [one.change for one in space.neighbours(first)]
    assert "B over i, j: permutation, tile 16 -> 8, nontemporal False -> True" in second
    assert "B over i, j: permutation" in second  # the way back


TWICE = """
def f(A: T.Buffer((256, 128), "float32"), B: T.Buffer((128, 256), "float32"), C: T.Buffer((256, 128), "float32")):
    for i, j in T.grid(128, 256):
        B[i, j] = A[j, i]
    for k, l in T.grid(256, 128):
        C[k, l] = B[l, k]
"""


def test_several_nests_change_one_by_one():
    func = parse(TWICE)
    space, base = space_of(func)
    changes = [one.change for one in space.neighbours(base)]
    assert {one.partition(":")[0] for one in changes} == {"B over i, j", "C over k, l"}
    first = next(one for one in space.neighbours(base) if one.change == "C over k, l: as written")
    assert "C over k, l: as written; B over i, j: as written" in [one.change for one in space.neighbours(first)]


def test_what_is_refused_says_why(monkeypatch: pytest.MonkeyPatch):
    func, _ = transposed()
    space, base = space_of(func)

    def refused(self: Permutation, *_: object) -> None:
        raise ScheduleError("the test says no")

    monkeypatch.setattr(Permutation, "apply", refused)
    found = [one for one in space.neighbours(base) if "tile" in one.change]
    assert found and all(one.error == "B over i, j: no permutation: the test says no" for one in found)


def test_a_fault_of_a_recipe_costs_its_candidate(monkeypatch: pytest.MonkeyPatch):
    func, _ = transposed()
    space, base = space_of(func)

    def fails(self: Permutation, *_: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(Permutation, "apply", fails)
    found = [one for one in space.neighbours(base) if "tile" in one.change]
    assert found and all("ZeroDivisionError: a fault" in one.error for one in found)
