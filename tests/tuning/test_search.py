"""``tl.tune``: what it keeps, what it refuses, and that a later build takes it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.tuning.stand_in import TARGET, never_faster, product, told_by_text, transposed
from tirlower.diagnostics import LegalityError, TirError
from tirlower.script import parse
from tirlower.tuning import Tuned
from tirlower.tuning.job import Job, Outcome

PLAIN = "llvm -num_threads=1"


def past_the_caches(job: Job) -> list[Outcome]:
    """Half the time where a trace stores past the caches, and a little less with smaller tiles too."""
    found = []
    for plan in job.plans:
        seconds = 1e-3 if "nontemporal" in plan.trace else 2e-3
        found.append(Outcome(seconds * (0.9 if '"8"' in plan.trace or ", 8]" in plan.trace else 1.0), 2e-3))
    return found


def test_the_fastest_is_kept_and_a_build_takes_it(tmp_path: Path):
    func, arrays = transposed()
    place = tmp_path / "plans"
    found = tl.tune(func, arrays, TARGET, database=place, measure=past_the_caches)
    assert isinstance(found, Tuned) and found.trace is not None and found.database == place
    assert found.speedup >= 2 and found.untuned == 2e-3
    assert (
        "nontemporal False -> True" in found.change
        and "tir.nontemporal" in str(found.trace)
        and "nontemporal False -> True" in str(found)
    )
    with tl.PassContext(config={"tir.auto.tuned": place}):
        kernel = tl.build(func, TARGET)
        assert kernel.schedule.as_json(dialect="tirlower") == found.trace.as_json(dialect="tirlower")
        assert "= sch.split(i, [None" in str(found.trace)
        assert kernel.report().nests[0].recipe == "tuned"
        assert "tir.nontemporal" in tl.lower(func, TARGET, schedule="auto", until="VectorizeLoop").script()
    a = np.random.default_rng(0).random((256, 128), dtype="float32")
    b = np.zeros((128, 256), "float32")
    kernel(a, b)
    assert np.array_equal(b, a.T)
    plain = tl.build(func, TARGET)  # the database is not where builds look by themselves
    assert "nontemporal" not in str(plain.schedule) and plain.artifact.key != kernel.artifact.key


def test_the_search_goes_on_from_the_best(tmp_path: Path):
    func, arrays = transposed()
    found = tl.tune(func, arrays, TARGET, database=tmp_path / "plans", measure=past_the_caches)
    assert any("tile 16 -> 8" in one.change and "nontemporal" in one.change for one in found.trials)
    best = min(found.trials, key=lambda one: one.ratio)
    assert best.ratio < 0.5 and "nontemporal" in best.change


def test_what_is_not_faster_is_not_kept(tmp_path: Path):
    func, arrays = transposed()
    place = tmp_path / "plans"
    found = tl.tune(func, arrays, TARGET, database=place, measure=never_faster)
    assert found.trace is None and found.speedup == 1.0 and not found.change and len(found.trials) > 5
    assert "the untuned plan stands" in str(found)
    with tl.PassContext(config={"tir.auto.tuned": place}):
        assert tl.build(func, TARGET).report().nests[0].recipe == "permutation"


def test_what_is_faster_once_and_not_again_is_not_kept(tmp_path: Path):
    asked: list[int] = []

    def lucky(job: Job) -> list[Outcome]:
        asked.append(job.rounds)
        return [Outcome(1e-3 if job.rounds < 10 else 1.99e-3, 2e-3) for _ in job.plans]

    func, arrays = transposed()
    found = tl.tune(func, arrays, TARGET, database=tmp_path / "plans", measure=lucky)
    assert found.trace is None and asked.count(15) == 6  # three candidates, each measured twice more


def test_failures_are_the_candidates(tmp_path: Path):
    def fails(job: Job) -> list[Outcome]:
        if job.rounds == 1:
            return [Outcome(1.0, 1.0)]
        if "nontemporal" in "".join(plan.trace for plan in job.plans):
            raise OSError("the worker is gone")
        return [Outcome(error="it hangs") for _ in job.plans]

    func, arrays = transposed()
    found = tl.tune(func, arrays, TARGET, database=tmp_path / "plans", measure=fails)
    errors = {one.error for one in found.trials}
    assert found.trace is None and {"OSError: the worker is gone", "it hangs"} <= errors, errors
    again = tl.tune(func, arrays, TARGET, database=tmp_path / "plans", measure=told_by_text, trials=7)
    errors = {one.error for one in again.trials}  # what the executor lost is tried again, what hangs is not
    assert "it hangs" in errors and "OSError: the worker is gone" not in errors
    assert "it hangs" in str(found)


def test_a_search_goes_on_where_it_ended(tmp_path: Path):
    func, arrays = transposed()
    place = tmp_path / "plans"
    count = 0

    def counted(job: Job) -> list[Outcome]:
        nonlocal count
        count += len(job.plans)
        return told_by_text(job)

    def interrupted(job: Job) -> list[Outcome]:
        if count >= 9:
            raise KeyboardInterrupt
        return counted(job)

    with pytest.raises(KeyboardInterrupt):
        tl.tune(func, arrays, TARGET, database=place, measure=interrupted)
    before = count
    kept = tl.tune(func, arrays, TARGET, database=place, measure=counted)
    after = count - before
    other = tl.tune(func, arrays, TARGET, database=tmp_path / "other", measure=counted)
    assert count - before - after > after - 4  # what was measured is not measured again
    assert kept.trials == other.trials and kept.seconds == other.seconds


def test_trials_and_budget_are_limits(tmp_path: Path):
    func, arrays = transposed()
    found = tl.tune(func, arrays, TARGET, database=tmp_path / "a", measure=told_by_text, trials=3)
    assert len(found.trials) == 3

    def slow(job: Job) -> list[Outcome]:
        time.sleep(0.2)
        return told_by_text(job)

    found = tl.tune(func, arrays, TARGET, database=tmp_path / "b", measure=slow, budget=0.1)
    assert len(found.trials) <= 8  # what was begun is waited for


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 0}, "budget= is a number above 0"),
        ({"budget": "1"}, "budget= is a number above 0"),
        ({"trials": -1}, "trials= is a number above 0"),
        ({"limit": float("nan")}, "limit= is a number above 0"),
        ({"executor": 5}, "executor= is one of concurrent.futures"),
        ({"target": "nvptx"}, "plans are found for the host"),
    ],
)
def test_wrong_options(options: dict[str, Any], words: str, tmp_path: Path):
    func, arrays = transposed()
    with pytest.raises(TirError, match=words):
        tl.tune(func, arrays, database=tmp_path / "plans", **options)


def test_what_cannot_run_is_said(tmp_path: Path):
    func, arrays = transposed()
    with pytest.raises(TirError, match=r"the untuned plan cannot be measured: Argument\w*Error"):
        tl.tune(func, arrays[::-1], PLAIN, database=tmp_path / "plans")
    with pytest.raises(TirError, match="a search is for one function"):
        tl.tune(tl.IRModule({"f": func}), arrays, database=tmp_path / "plans")  # type: ignore[arg-type]
    racing = "def f(A: T.Buffer((8,), 'int32')):\n    for i in T.parallel(8):\n        A[0] = i\n"
    with pytest.raises(LegalityError):
        tl.tune(parse(racing), [np.zeros(8, "int32")], PLAIN, database=tmp_path / "plans")
    with tl.PassContext(opt_level=0), pytest.raises(TirError, match="at opt_level=0 builds take no schedule"):
        tl.tune(func, arrays, PLAIN, database=tmp_path / "plans")
    assert not (tmp_path / "plans").exists()


def test_a_cache_that_is_off_is_no_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TIRLOWER_CACHE", "0")
    func, arrays = transposed()
    with pytest.raises(TirError, match="the disk cache is off"):
        tl.tune(func, arrays, TARGET, measure=told_by_text)


def test_a_kernel_is_tuned_as_it_was_built(tmp_path: Path):
    func, (a, _) = transposed()
    seen: list[Job] = []

    def watched(job: Job) -> list[Outcome]:
        seen.append(job)
        return told_by_text(job)

    for kernel in (tl.build(func, TARGET, outputs=["B"]), tl.jit(target=TARGET, outputs=["B"])(func)):
        seen.clear()
        tl.tune(kernel, [a], database=tmp_path / "plans", measure=watched)
        assert seen[0].outputs == ("B",) and "x86-64-v3" in str(seen[0].target)


def test_arguments_by_name_and_untouched(tmp_path: Path):
    func, arrays = product()
    given = [np.random.default_rng(0).random((64, 64), dtype="float32") for _ in arrays]
    before = [one.copy() for one in given]
    found = tl.tune(func, dict(zip("ABC", given, strict=True)), PLAIN, database=tmp_path / "plans", trials=2)
    assert all(np.array_equal(*pair) for pair in zip(given, before, strict=True))
    assert len(found.trials) == 2 and not any(one.error for one in found.trials)


def test_what_is_kept_is_told_without_measuring(tmp_path: Path):
    func, arrays = transposed()
    place = tmp_path / "plans"

    def nothing(job: Job) -> list[Outcome]:
        raise AssertionError("it measures")

    with pytest.raises(TirError, match=r"no search of `f` for llvm.* is kept in"):
        tl.tune(func, arrays, TARGET, database=place, cache="only", measure=nothing)
    first = tl.tune(func, arrays, TARGET, database=place, measure=past_the_caches)
    again = tl.tune(func, arrays, TARGET, database=place, cache="only", measure=nothing)
    assert again.trace is not None and first.trace is not None and again.trials == first.trials
    assert again.trace.as_json(dialect="tirlower")["steps"][0]["kind"] == "Loop"  # type: ignore[index]
    assert (again.change, again.seconds, again.untuned) == (first.change, first.seconds, first.untuned)
    with pytest.raises(TirError, match="cache= is one of 'readwrite', 'only', 'off', got 'on'"):
        tl.tune(func, arrays, TARGET, database=place, cache="on")


def test_a_plan_that_is_no_trace_is_said(tmp_path: Path):
    func, arrays = transposed()
    place = tmp_path / "plans"
    tl.tune(func, arrays, TARGET, database=place, measure=past_the_caches)
    with sqlite3.connect(place) as file:
        file.execute("UPDATE plans SET trace = 'no JSON'")
    with pytest.raises(TirError, match=r"the plan of `f` in .*plans is no trace"):
        tl.tune(func, arrays, TARGET, database=place, cache="only")


def test_a_search_without_the_cache_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TIRLOWER_CACHE", "0")
    func, arrays = transposed()
    found = tl.tune(func, arrays, TARGET, cache="off", measure=past_the_caches)
    assert found.speedup >= 2 and not found.database.exists()
    kept = tl.tune(func, arrays, TARGET, database=tmp_path / "plans", cache="off", measure=told_by_text, trials=2)
    assert len(kept.trials) == 2 and not (tmp_path / "plans").exists()


ANY = """
def f(A: T.Buffer(("m", "n"), "float32"), B: T.Buffer(("n", "m"), "float32")):
    for i, j in T.grid(n, m):
        B[i, j] = A[j, i]
"""


def test_sizes_of_the_call_are_kept_apart_and_the_last_plan_counts(tmp_path: Path):
    func, place = parse(dedent(ANY)), tmp_path / "plans"
    sizes = [(64, 128), (128, 64)]
    for number, (m, n) in enumerate(sizes):
        arrays = [np.zeros((m, n), "float32"), np.zeros((n, m), "float32")]
        measure = never_faster if number else told_by_text
        tl.tune(func, arrays, TARGET, database=place, measure=measure, trials=6)
    with sqlite3.connect(place) as file:
        rows = file.execute("SELECT sizes, trace <> '' FROM plans ORDER BY rowid").fetchall()
    assert rows == [("64x128, 128x64", 1), ("128x64, 64x128", 0)]
    with tl.PassContext(config={"tir.auto.tuned": place}):
        assert tl.build(func, TARGET).report().nests[0].recipe != "tuned"


def test_functions_of_a_module_each_take_their_plan(tmp_path: Path):
    func, arrays = transposed()
    other = product()[0].with_attr("global_symbol", "g")
    place = tmp_path / "plans"
    tl.tune(func, arrays, TARGET, database=place, measure=past_the_caches)
    mod = tl.IRModule({"f": func.with_attr("global_symbol", "f"), "g": other})
    with tl.PassContext(config={"tir.auto.tuned": place}):
        made = tl.build(mod, TARGET)
        nests = {nest.function: nest.recipe for nest in made["f"].report().nests}
    assert nests == {"f": "tuned", "g": "contraction"}


SCRIPT = """
import sys, logging
import numpy as np
import tirlower as tl
from tirlower.script import tir as T

@T.prim_func
def f(A: T.Buffer((1024, 64), "float32"), B: T.Buffer((64, 1024), "float32")):
    for i, j in T.grid(64, 1024):
        B[i, j] = A[j, i]

arrays = np.zeros((1024, 64), "float32"), np.zeros((64, 1024), "float32")
if sys.argv[1] == "tune":
    found = tl.tune(f, arrays, "llvm -num_threads=1", trials=2, budget=120)
    assert len(found.trials) == 2 and not any(one.error for one in found.trials), found
    from tirlower.driver.plan_database import Database, Found, PlanKey
    from tirlower.driver.build import module_of, target_of
    key = PlanKey.of(module_of(f)[0]["f"], target_of("llvm -num_threads=1"), {})
    assert Database(found.database).plan(key) is not None
else:
    kernel = tl.build(f, "llvm -num_threads=1")
    kernel(*arrays)
    print(kernel.report().nests[0].recipe, "sqlite3" in sys.modules)
"""


def test_in_fresh_processes_with_the_real_clock(tmp_path: Path):
    """No guard around the main part of the script, no options: measured in processes, kept in the cache's folder."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "TIRLOWER_CACHE_DIR": str(tmp_path / "cache")}
    env.pop("TIRLOWER_CACHE", None)

    def run(what: str) -> str:
        done = subprocess.run([sys.executable, str(script), what], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert run("build") == "permutation False"  # SQLite is not imported where there is no database
    run("tune")
    [place] = (tmp_path / "cache").rglob("tuned.sqlite")
    assert place.stat().st_mode & 0o077 == 0
    assert run("build") in ("permutation True", "tuned True")
