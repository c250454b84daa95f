"""The database of plans: what it keeps, for whom, and what is wrong with others' files."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from tests.tuning.stand_in import TARGET, product, transposed
from tirlower.diagnostics import TirError
from tirlower.driver.plan_database import Database, Found, PlanKey, Trial
from tirlower.machine.target import Target
from tirlower.script import parse

KEY = PlanKey("program", "machine", "version")


def test_plans_by_program_machine_version_and_sizes(tmp_path: Path):
    plans = Database(tmp_path / "folder" / "plans")
    assert plans.plan(KEY) is None and not plans.path.exists()  # to look makes nothing
    first, second = Found("[1]", 1.0, 2.0), Found("[2]", 0.5, 2.0)
    plans.keep(KEY, "4", first)
    plans.keep(KEY, "8", second)
    assert plans.plan(KEY, "4") == first and plans.plan(KEY, "8") == second and plans.plan(KEY, "16") is None
    assert plans.plan(KEY) == second
    plans.keep(KEY, "4", second)
    assert plans.plan(KEY, "4") == second
    for other in (KEY._replace(program="x"), KEY._replace(machine="x"), KEY._replace(version="x")):
        assert plans.plan(other) is None


def test_trials_in_their_order(tmp_path: Path):
    plans = Database(tmp_path / "plans")
    assert plans.trials(KEY, "") == {}
    told = {f"digest {at}": Trial(f"change {at}", at, 2.0 * at, "" if at else "an error") for at in (3, 0, 2)}
    for digest, trial in told.items():
        plans.note(KEY, "", digest, trial)
    assert plans.trials(KEY, "") == told and list(plans.trials(KEY, "")) == list(told)
    assert plans.trials(KEY, "8") == {}
    assert told["digest 3"].ratio == 0.5 and told["digest 0"].ratio == float("inf")


def test_the_key_tells_programs_and_machines_apart():
    func, target = transposed()[0], Target(TARGET)
    key = PlanKey.of(func, target, {})
    assert key == PlanKey.of(parse(func.script()), target, {})  # wherever it stands
    others = [
        PlanKey.of(product()[0], target, {}),
        PlanKey.of(parse(func.script().replace("256", "512")), target, {}),
        PlanKey.of(parse(func.script().replace("i, j", "i, k").replace(" j", " k").replace("[j", "[k")), target, {}),
        PlanKey.of(func, Target(TARGET.replace("-num_threads=1", "-num_threads=2")), {}),
        PlanKey.of(func, Target(TARGET.replace("32M", "16M")), {}),
        PlanKey.of(func, Target(TARGET + " -fast-math-reassoc"), {}),
        PlanKey.of(func, target, {"tir.auto.parallel": False}),
    ]
    assert len({key, *others}) == 8
    assert PlanKey.of(func, target, {"tir.auto.tuned": "elsewhere", "tir.UnrollLoop": {}}) == key


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + bytes(200)])
def test_what_is_no_database_is_said(content: bytes, tmp_path: Path):
    path = tmp_path / "plans"
    path.write_bytes(content)
    plans = Database(path)
    for ask in (lambda: plans.plan(KEY), lambda: plans.keep(KEY, "", Found("", 0, 0)), lambda: plans.trials(KEY, "")):
        with pytest.raises(TirError, match=r"the database of plans, .*plans"):
            ask()
    assert path.read_bytes() == content


def test_another_form_is_refused(tmp_path: Path):
    with sqlite3.connect(tmp_path / "plans") as file:
        file.execute("PRAGMA user_version = 99")
    with pytest.raises(TirError, match="has the form 99, and this version reads 1"):
        Database(tmp_path / "plans").plan(KEY)


def test_a_folder_is_no_database(tmp_path: Path):
    with pytest.raises(TirError, match="the database of plans"):
        Database(tmp_path).plan(KEY)


def test_several_threads_write(tmp_path: Path):
    plans = Database(tmp_path / "plans")
    failed: list[Exception] = []

    def work(number: int) -> None:
        try:
            for at in range(10):
                plans.note(KEY, "", f"{number} {at}", Trial("", 1.0, 1.0))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(plans.trials(KEY, "")) == 40
