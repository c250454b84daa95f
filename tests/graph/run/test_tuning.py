"""``tg.tune``: the kernels of a graph searched, and that later compilations take what was found."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tests.tuning.stand_in import never_faster
from tirlower.diagnostics import TirError
from tirlower.tuning.job import Job, Outcome

TARGET = "llvm -num_threads=1"


def past_the_caches(job: Job) -> list[Outcome]:
    """Half the time for stores past the caches."""
    return [Outcome(1e-3 if "nontemporal" in plan.trace else 2e-3, 2e-3) for plan in job.plans]


def layer(x, w):
    return np.maximum(x @ w, 0).T.copy() + 1


def taken(exe: tg.Executable) -> set[str]:
    """The kernels that are built by plans of the database."""
    text = exe.native["main"].artifact.spec.schedule
    return set(json.loads(text)["tuned"]) if text.startswith("{") else set()


@pytest.fixture(scope="module")
def graph() -> tg.Graph:
    rows = tg.dim("B", 1, 256)
    return tg.trace(layer, tg.spec((rows, 128), "float32"), tg.spec((128, 128), "float32"))


def test_later_compilations_take_what_was_found(graph: tg.Graph, tmp_path: Path):
    place = tmp_path / "plans"
    found = tg.tune(graph, TARGET, database=place, trials=4, measure=past_the_caches)
    assert not found.failed and set(found.kernels) == set(found.calls)
    better = [name for name, one in found.kernels.items() if one.trace is not None]
    assert better and found.seconds < found.untuned and "times as fast" in str(found)
    exe = tg.compile(graph, TARGET, tg.Options(tuned=place))
    assert taken(exe) == set(better)
    x, w = np.random.default_rng(0).standard_normal((2, 128, 128)).astype("float32")
    plain = tg.compile(graph, TARGET)
    assert not taken(plain) and "nontemporal" in exe.native["main"].source("llvm") != plain.native["main"].source(
        "llvm"
    )
    assert np.array_equal(exe(x, w), plain(x, w))


def test_dims_are_what_kernels_are_measured_at(graph: tg.Graph, tmp_path: Path):
    shapes: set[tuple[int, ...]] = set()

    def watched(job: Job) -> list[Outcome]:
        shapes.update(one.shape for one in job.given.args if one.number is None)
        return never_faster(job)

    tg.tune(graph, TARGET, database=tmp_path / "plans", trials=1, measure=watched, dims={"B": 96})
    assert (96, 128) in shapes and (256, 128) not in shapes
    tg.tune(graph, TARGET, database=tmp_path / "plans", trials=1, measure=watched)
    assert (256, 128) in shapes
    with pytest.raises(TirError, match="has no dim 'C'"):
        tg.tune(graph, TARGET, database=tmp_path / "plans", measure=watched, dims={"C": 96})


def test_the_cache_alone(graph: tg.Graph, tmp_path: Path):
    place = tmp_path / "plans"
    with pytest.raises(tg.GraphError, match="nothing is kept of"):
        tg.tune(graph, TARGET, tg.Options(tuned=place), cache="only")
    first = tg.tune(graph, TARGET, tg.Options(tuned=place), trials=4, measure=past_the_caches)
    again = tg.tune(graph, TARGET, tg.Options(tuned=place), cache="only")
    assert (again.seconds, again.untuned, [*again.kernels]) == (first.seconds, first.untuned, [*first.kernels])


def test_a_kernel_that_cannot_be_measured_is_told(graph: tg.Graph, tmp_path: Path):
    def fails(job: Job) -> list[Outcome]:
        return [Outcome(error="it crashed") for _ in job.plans]

    found = tg.tune(graph, TARGET, database=tmp_path / "plans", measure=fails)
    assert not found.kernels and found.failed and "it crashed" in str(found)
    assert found.seconds == 0 == found.untuned


@pytest.mark.nightly
def test_with_the_real_clock(tmp_path: Path):
    """Kernels as graphs have them (private, compiled alone, with dims) run by themselves."""
    rows = tg.dim("B", 1, 64)
    graph = tg.trace(layer, tg.spec((rows, 64), "float32"), tg.spec((64, 64), "float32"))
    found = tg.tune(graph, TARGET, database=tmp_path / "plans", trials=1)
    assert not found.failed, found.failed
    trials = [one for made in found.kernels.values() for one in made.trials]
    assert any(one.seconds and one.untuned for one in trials)
    assert all(not one.error or ": no " in one.error for one in trials), trials  # a step may be refused


def test_a_context_permits_less(graph: tg.Graph, tmp_path: Path):
    place = tmp_path / "plans"
    tg.tune(graph, TARGET, database=place, trials=4, measure=past_the_caches)
    with tl.PassContext(config={"tir.auto.nontemporal": False}):
        exe = tg.compile(graph, TARGET, tg.Options(tuned=place))
    assert not taken(exe)
