"""What a build takes from the database of plans, and what it does where there is something wrong with it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

import tirlower as tl
from tests.tuning.stand_in import TARGET, product, transposed
from tirlower.driver.build import module_of
from tirlower.driver.plan_database import Database, Found, PlanKey
from tirlower.driver.tuned import TUNED, default_path, with_tuned_plans
from tirlower.machine.target import Target


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TIRLOWER_CACHE", raising=False)
    found = default_path()
    assert found is not None and found.is_relative_to(tmp_path)
    return found


def keep(path: Path, sch: tl.Schedule, func: tl.PrimFunc) -> None:
    text = json.dumps(sch.trace.as_json(dialect="tirlower"))
    Database(path).keep(PlanKey.of(module_of(func)[0][func.name], Target(TARGET), {}), "", Found(text, 1.0, 2.0))


def by_hand(func: tl.PrimFunc) -> tl.Schedule:
    sch = tl.Schedule(func)
    sch.split(sch.loop("i"), [None, 16])
    return sch


def text_of(func: tl.PrimFunc, schedule: str = "auto", target: str = TARGET, **config: object) -> str:
    ctx = tl.PassContext(config=config, opt_level=2)
    return with_tuned_plans(module_of(func)[0], schedule, Target(target), ctx.choices)


def test_the_plan_of_the_default_place_is_taken(cache: Path):
    func, _ = transposed()
    assert text_of(func) == "auto"
    keep(cache, by_hand(func), func)
    assert text_of(func).startswith(TUNED)
    kernel = tl.build(func, TARGET)
    assert kernel.report().nests[0].recipe == "tuned" and "split(i, [None, 16])" in str(kernel.schedule)
    a, b = np.random.default_rng(1).random((256, 128), dtype="float32"), np.zeros((128, 256), "float32")
    kernel(a, b)
    assert np.array_equal(b, a.T)


def test_who_does_not_take_it(cache: Path):
    func, _ = transposed()
    keep(cache, by_hand(func), func)
    assert text_of(func, "none") == "none" and text_of(func, "[]") == "[]"
    assert text_of(func, **{"tir.auto.tuned": False}) == "auto"
    assert text_of(func, target=TARGET.replace("-num_threads=1", "-num_threads=2")) == "auto"
    assert text_of(func, **{"tir.auto.parallel": False}) == "auto"  # the plan may be parallel
    assert text_of(func, target="nvptx") == "auto" and text_of(product()[0]) == "auto"
    with tl.PassContext(opt_level=0):
        assert tl.build(func, TARGET).report().nests == ()


def test_another_place_is_named(cache: Path, tmp_path: Path):
    func, _ = transposed()
    keep(tmp_path / "mine", by_hand(func), func)
    assert text_of(func) == "auto"
    assert text_of(func, **{"tir.auto.tuned": str(tmp_path / "mine")}).startswith(TUNED)
    assert text_of(func, **{"tir.auto.tuned": tmp_path / "nothing"}) == "auto"
    with pytest.raises(tl.TransformError, match=r"tir.auto.tuned"):
        tl.PassContext(config={"tir.auto.tuned": 5})


def test_a_plan_that_is_refused_is_not_taken(cache: Path, caplog: pytest.LogCaptureFixture):
    func, _ = transposed()
    other = tl.Schedule(product()[0])
    other.unroll(other.loop("k"))
    keep(cache, other, func)
    with caplog.at_level(logging.WARNING, "tirlower.tuned"):
        assert tl.build(func, TARGET).report().nests[0].recipe == "permutation"
    assert "the tuned plan of f is not taken" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[" * 100_000,
        "[]",
        "5",
        "null",
        '"text"',
        '{"format": "tirlower.trace"}',
        '{"format": "tirlower.trace", "version": 1, "source": "", "steps": 5}',
        '{"format": "tirlower.trace", "version": 1, "source": "", "steps": [5]}',
        '{"format": "tirlower.trace", "version": 1, "source": "", "steps": [{"kind": "Loop"}]}',
        '{"format": "tirlower.trace", "version": 1, "source": "", "steps": [{"kind": 7, "inputs": 3}]}',
        "[[], []]",
        '[[["Split", [1], [2], ["l0"]]], []]',
        '[[["Nothing", [], [], []]], [[0, 1]]]',
    ],
)
def test_whatever_stands_in_a_database_a_build_goes_on(text: str, cache: Path, caplog: pytest.LogCaptureFixture):
    func, (a, b) = transposed()
    key = PlanKey.of(module_of(func)[0][func.name], Target(TARGET), {})
    Database(cache).keep(key, "", Found(text, 1.0, 2.0))
    with caplog.at_level(logging.WARNING, "tirlower.tuned"):
        kernel = tl.build(func, TARGET)
    empty = text == "[[], []]"  # a plan without steps is one: as written
    assert kernel.report().nests[0].recipe == ("tuned" if empty else "permutation")
    assert ("tuned plan" in caplog.text) != empty
    a[...] = np.random.default_rng(2).random(a.shape)
    kernel(a, b)
    assert np.array_equal(b, a.T)


@pytest.mark.parametrize("how", ["unchecked", "layout"])
def test_a_plan_that_rests_on_a_word_or_changes_parameters_is_not_taken(
    how: str, cache: Path, caplog: pytest.LogCaptureFixture
):
    """Whoever writes the file: no plan makes a wrong program."""
    func, _ = transposed()
    sch = tl.Schedule(func)
    if how == "unchecked":
        sch.annotate(sch.loop("i"), "tir.unchecked", "my word")
    else:
        sch.transform_layout(sch.loop("i"), ("write", 0), lambda i, j: [j, i], interface=True)
    keep(cache, sch, func)
    with caplog.at_level(logging.WARNING, "tirlower.tuned"):
        assert tl.build(func, TARGET).report().nests[0].recipe == "permutation"
    assert "the tuned plan of f is not taken" in caplog.text and "is not proved" in caplog.text


@pytest.mark.parametrize("how", ["others may write", "a link", "no database", "a folder"])
def test_a_database_that_is_not_ours_or_none_is_not_read(how: str, cache: Path, caplog: pytest.LogCaptureFixture):
    func, _ = transposed()
    keep(cache, by_hand(func), func)
    if how == "others may write":
        cache.chmod(0o666)
    elif how == "a link":
        cache.rename(cache.with_name("other"))
        cache.symlink_to(cache.with_name("other"))
    elif how == "no database":
        cache.write_bytes(b"something else, of some length")
    else:
        cache.unlink()
        cache.mkdir()
    with caplog.at_level(logging.WARNING, "tirlower.tuned"):
        assert text_of(func) == "auto"
    assert "no tuned plans" in caplog.text
