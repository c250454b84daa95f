"""Who measures: executors, clients that have one, Ray; and that all of them find the same."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tirlower as tl
from tests.tuning.stand_in import TARGET, told_by_text, transposed
from tirlower.diagnostics import TirError
from tirlower.tuning.executors import Here, RayExecutor, executor_of

ROOT = Path(__file__).resolve().parents[2]


def rows(path: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as file:
        return [row for table in ("plans", "trials") for row in file.execute(f"SELECT * FROM {table} ORDER BY rowid")]


def database_of(executor: object, path: Path) -> list[tuple[object, ...]]:
    func, arrays = transposed()
    tl.tune(func, arrays, TARGET, executor=executor, database=path, measure=told_by_text, budget=600)
    found = rows(path)
    assert len(found) > 8
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    return database_of(None, tmp_path_factory.mktemp("tune") / "alone")


def test_which_executor_is_meant():
    here, one = executor_of(None)
    assert isinstance(here, Here) and one == 1

    class Client:
        def get_executor(self) -> Executor:
            return here

    assert executor_of(Client()) == (here, 8)
    with ThreadPoolExecutor(3) as threads:
        assert executor_of(threads) == (threads, 3)
    with pytest.raises(TirError, match="a client of Dask, got str"):
        executor_of("processes")


def test_what_is_done_here_is_done_at_once():
    order: list[int] = []
    first, second = (Here().submit(order.append, at) for at in (1, 2))
    assert order == [1, 2] and first.done() and second.result() is None
    failed = Here().submit(int, "x")
    assert isinstance(failed.exception(), ValueError)
    with pytest.raises(KeyboardInterrupt):  # which is not kept for later
        Here().submit(interrupt)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [1, 3])
def test_threads_and_processes_find_the_same(workers: int, expected: list[tuple[object, ...]], tmp_path: Path):
    with ThreadPoolExecutor(workers) as threads:
        assert database_of(threads, tmp_path / "threads") == expected
    with ProcessPoolExecutor(workers) as processes:
        assert database_of(processes, tmp_path / "processes") == expected


def test_a_given_executor_is_left_open(tmp_path: Path):
    with ThreadPoolExecutor(1) as threads:
        database_of(threads, tmp_path / "threads")
        assert threads.submit(int, 5).result() == 5


def test_ray_by_its_interface(monkeypatch: pytest.MonkeyPatch):
    """Where Ray is not installed: what is asked of it."""
    ray = ModuleType("ray")
    asked: list[str] = []

    def future(fn: Any, args: Any) -> Future[Any]:
        found: Future[Any] = Future()
        found.set_result(fn(*args))
        return found

    class Remote:
        def __init__(self, fn: Any) -> None:
            self.fn = fn

        def remote(self, *args: Any) -> Any:
            return type("Reference", (), {"future": lambda _: future(self.fn, args)})()

    vars(ray).update(remote=Remote, init=lambda: asked.append("init"), is_initialized=lambda: bool(asked))
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert RayExecutor().submit(max, 3, 5).result() == 5
    assert RayExecutor().submit(min, 3, 5).result() == 3 and asked == ["init"]


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Other processes find the tests, and this version of the package."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    monkeypatch.setenv("PYTHONPATH", path)
    yield {"PYTHONPATH": path}


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="Dask is not installed")
def test_dask_finds_the_same(expected: list[tuple[object, ...]], tmp_path: Path, importable: dict[str, str]):
    distributed = importlib.import_module("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        assert database_of(client, tmp_path / "client") == expected
        assert database_of(client.get_executor(), tmp_path / "executor") == expected


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_ray_finds_the_same(expected: list[tuple[object, ...]], tmp_path: Path, importable: dict[str, str]):
    ray = importlib.import_module("ray")
    ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": importable}, log_to_driver=False)
    try:
        assert database_of(RayExecutor(), tmp_path / "ray") == expected
    finally:
        ray.shutdown()
