"""Compiling in several processes: the same machine code, the same errors, and nothing of the script run twice."""

from __future__ import annotations

import ctypes
import os
import pathlib
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import tirlower as tl
from tirlower.driver import processes
from tirlower.ir import IRModule
from tirlower.llvm.codegen import unregister_symbol
from tirlower.script import parse


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two processes at any size of work, and this one waits until they have taken all units; how many units each has."""
    monkeypatch.setenv(processes.PROCESSES_VARIABLE, "3")
    monkeypatch.setattr(processes, "SECONDS_A_BYTE", 1.0)
    take, taken = processes._Batch.take, []

    def patient(batch: processes._Batch, helper: processes._Helper | None = None) -> int | None:
        deadline = time.monotonic() + 300
        while helper is None and batch._next < len(batch.units) and time.monotonic() < deadline and alive(batch):
            time.sleep(0.01)
        number = take(batch, helper)
        if helper is not None and number is not None:
            taken.append(number)
        return number

    def alive(batch: processes._Batch) -> bool:
        return any(helper.thread.is_alive() for helper in helpers if helper.batch is batch)

    helpers: list[processes._Helper] = []
    make = processes._Helper.__init__

    def made(helper: processes._Helper, batch: processes._Batch) -> None:
        make(helper, batch)
        helpers.append(helper)

    monkeypatch.setattr(processes._Batch, "take", patient)
    monkeypatch.setattr(processes._Helper, "__init__", made)
    return taken


def text(i: int) -> str:
    return f"""
@T.prim_func
def k{i}(A: T.Buffer((64,), "float32"), n: T.int32):
    assert n != {i}, "it is {i}"
    for i in T.parallel(64):
        A[i] = T.exp(A[i]) * T.float32({i})
"""


def kernels(count: int, *more: str) -> IRModule:
    functions = [parse(source) for source in (*map(text, range(count)), *more)]
    return IRModule({func.name: func.with_attr("global_symbol", func.name) for func in functions})


def stored(folder: pathlib.Path) -> dict[str, bytes]:
    found = {}
    for path in folder.rglob("*.tlo"):
        data = path.read_bytes()
        found[path.name] = data[data.index(b"\x7fELF") :] if b"\x7fELF" in data else b""
    return found


def test_the_machine_code_is_the_same(tmp_path: pathlib.Path, many: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path / "together"))
    mod = kernels(6)
    built = tl.build(mod)
    assert sorted(many) == list(range(6))
    assert built.report().compiled == tuple(mod) and built.report().timings["llvm emit"] > 0
    assert built.report().passes["Simplify"] > 0 and len(built.report().loops) == 6
    with pytest.raises(tl.RuntimeAssertError, match="it is 4"):
        built.k4(np.zeros(64, "float32"), 4)
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path / "alone"))
    monkeypatch.setenv(processes.PROCESSES_VARIABLE, "1")
    tl.build(mod)
    assert len(many) == 6
    together = stored(tmp_path / "together")
    assert len(together) == 7 and together == stored(tmp_path / "alone")


def test_errors_and_external_functions_are_as_without_processes(tmp_path, many, monkeypatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    external = "@T.prim_func\ndef {0}(A: T.Buffer((8,), 'int32')):\n    A[0] = T.call_extern('int32', '{1}', A[0])\n"
    twice = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(lambda x: 2 * x)
    tl.register_symbol("of_this_process", twice)
    mod = kernels(
        2, external.format("x", "no_such_x"), external.format("e", "of_this_process"), external.format("y", "no_y")
    )
    with pytest.raises(tl.TirError, match="no_such_x"):
        tl.build(mod)
    assert sorted(many) == [0, 1, 2, 3, 4]
    good = IRModule({name: func for name, func in mod.items() if name not in "xy"})
    built = tl.build(good)
    assert built.report().compiled == ()  # what the others made was kept
    a = np.full(8, 21, "int32")
    built.e(a)
    assert a[0] == 42
    unregister_symbol("of_this_process")


@pytest.mark.parametrize(
    "start",
    [
        "import sys",
        "import sys; sys.stdout.buffer.write(b'Python says hello'); sys.stdout.flush()",
        "from tirlower.driver import compile_process as c; c.versions = lambda: {{}}; c.serve()",
        "no Python",
    ],
)
def test_a_process_that_ends_or_is_another_program(start, tmp_path, many, monkeypatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(processes, "_START", start)
    assert len(tl.build(kernels(3)).report().compiled) == 3 and many == []


def test_a_process_that_dies_at_its_work(tmp_path, many, monkeypatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    dying = "; from tirlower.driver import compile_process as c; import os; c.compile_version = lambda *_: os._exit(3); c.serve()"
    monkeypatch.setattr(processes, "_START", "import sys; sys.path[:] = {path!r}" + dying)
    assert len(tl.build(kernels(4)).report().compiled) == 4 and len(many) == 2  # one each, then they were gone


def test_no_process_can_be_started(tmp_path, many, monkeypatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert len(tl.build(kernels(3)).report().compiled) == 3 and many == []


def test_ctrl_c_ends_the_processes_and_keeps_what_was_made(tmp_path, many, monkeypatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    started = []
    make = subprocess.Popen

    def remembered(*args: object, **options: object) -> object:
        started.append(make(*args, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", remembered)
    finish = processes._Helper.finish

    def interrupted(helper: processes._Helper) -> None:
        finish(helper)
        raise KeyboardInterrupt

    monkeypatch.setattr(processes._Helper, "finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tl.build(kernels(4))
    assert len(started) == 2 and all(process.returncode is not None for process in started)
    assert processes._busy.acquire(blocking=False)
    processes._busy.release()
    monkeypatch.setattr(processes._Helper, "finish", finish)
    assert len(tl.build(kernels(4)).report().compiled) < 4


def test_what_only_this_process_knows_is_compiled_here(tmp_path, many, monkeypatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    assert processes._is_plain({"a": [1, ("b", None)], "c": {2.0, True}})
    assert not processes._is_plain({"a": [object()]}) and not processes._is_plain({tl: 1})
    monkeypatch.setattr(processes, "_is_plain", lambda value: False)
    assert len(tl.build(kernels(3)).report().compiled) == 3 and many == []


def test_how_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(units: int, seconds: float) -> int:
        return processes.processes_for(units, int(seconds / processes.SECONDS_A_BYTE))

    monkeypatch.setenv(processes.PROCESSES_VARIABLE, "4")
    assert [count(50, seconds) for seconds in (0.5, 1.1, 2.1, 60)] == [0, 1, 2, 3]
    assert [count(units, 60) for units in (1, 2, 3)] == [0, 1, 2]
    monkeypatch.setenv(processes.PROCESSES_VARIABLE, "100")
    assert count(200, 60) == processes.MOST
    monkeypatch.setenv(processes.PROCESSES_VARIABLE, "1")
    assert count(50, 60) == 0
    monkeypatch.setenv(processes.PROCESSES_VARIABLE, "none")
    with pytest.raises(tl.ArgumentValueError, match="TIRLOWER_COMPILE_PROCESSES is 'none'"):
        count(50, 60)
    monkeypatch.setenv(processes.PROCESSES_VARIABLE, "4")
    for program in ("", "/usr/bin/blender", None):
        monkeypatch.setattr(sys, "executable", program)
        assert count(50, 60) == 0


def test_a_script_without_a_guard_runs_once_in_daemons_too(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import multiprocessing, os, sys
            import tirlower as tl
            from tirlower.driver import processes
            from tirlower.ir import IRModule
            from tirlower.script import parse
            print("the script runs", flush=True)
            processes.SECONDS_A_BYTE = 1.0
            started = []
            make = processes._Helper.__init__
            def counting(helper, batch):
                started.append(1)
                make(helper, batch)
            processes._Helper.__init__ = counting
            def build(word):
                funcs = [parse(f"@T.prim_func\\ndef {word}{i}(A: T.Buffer(({i + 1},), 'int32')):\\n    A[0] = {i}") for i in range(4)]
                tl.build(IRModule({f.name: f.with_attr("global_symbol", f.name) for f in funcs}))
                print(word, len(started), flush=True)
            build("main")
            if hasattr(os, "fork"):
                child = multiprocessing.get_context("fork").Process(target=build, args=("daemon",), daemon=True)
                child.start()
                child.join()
            """)
    )
    environment = {**os.environ, "TIRLOWER_CACHE_DIR": str(tmp_path), processes.PROCESSES_VARIABLE: "2"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split("\n")[:2] == ["the script runs", "main 1"]
    assert done.stdout.split("\n")[2:] in (["daemon 2", ""], [""]) and done.stderr == ""
