"""Validation by running: planted faults are found, with the step, and the file that shows them runs alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import ScheduleError, ValidationError
from tirlower.ir.expr import const
from tirlower.schedule.bindings import predicated
from tirlower.schedule.loops import split
from tirlower.script import parse

STENCIL = """
@T.prim_func
def stencil(A: T.Buffer((9, 9), "float32")):
    for i, j in T.grid(8, 8):
        A[i + 1, j] = A[i, j + 1] + T.float32(1)
"""
COPY = """
@T.prim_func
def copy(A: T.Buffer((SIZE, 12), "float32"), B: T.Buffer((SIZE, 12), "float32")):
    for i, j in T.grid(SIZE, 12):
        B[i, j] = A[i, j] * T.float32(2)
"""


def test_a_step_taken_on_a_word_is_found_among_others(tmp_path: Path) -> None:
    sch: Any = tl.Schedule(parse(STENCIL), enable_check=False)
    i, j = sch.loops("A")
    j_0, j_1 = sch.split(j, [None, 4])
    sch.reorder(j_0, i)
    sch.unroll(j_1)
    with pytest.raises(ValidationError, match=r"step 3, sch\.reorder\(j_0, i\), is wrong: .* A\[") as raised:
        sch.validate(directory=str(tmp_path))
    assert raised.value.step == 3 and len(raised.value.arguments) == 1
    [path] = tmp_path.glob("*.py")
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1 and "mismatch in the arguments [0]" in run.stdout, run.stdout + run.stderr


def test_a_wrong_rewrite_after_a_right_proof(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(split, "predicated", lambda body, condition: predicated(body, const(1, "bool")))
    sch: Any = tl.Schedule(parse(COPY.replace("SIZE", "10")))
    sch.split("i", [None, 4])
    with pytest.raises(ValidationError, match="fails where it ran before"):
        sch.validate(directory=str(tmp_path))
    checked: Any = tl.Schedule(parse(COPY.replace("SIZE", "10")), validate=True)
    before = checked.mod
    with pytest.raises(ValidationError):
        checked.split("i", [None, 4])
    assert checked.mod is before and "split" not in str(checked.trace)


@pytest.mark.parametrize("size", ["1", "10"])
def test_what_is_right_is_equal_to_the_bit(size: str) -> None:
    sch: Any = tl.Schedule(parse(COPY.replace("SIZE", size)), validate=True)
    i_0, i_1 = sch.split("i", [None, 4])
    sch.reorder("j", i_0, i_1)
    found = sch.validate(seeds=2)
    assert found.runs == 2 and not found.shrunk and str(found) == "2 runs agree"
    assert sch.report().endswith("bitwise equal")


def test_a_large_program_is_made_smaller_and_a_huge_one_is_not_run() -> None:
    sch: Any = tl.Schedule(parse(COPY.replace("SIZE", "100000")))
    sch.split("i", [None, 16, 4])
    found = sch.validate(seeds=1)
    assert found.shrunk and found.runs == 1 and "smaller" in str(found)
    sch = tl.Schedule(parse(COPY.replace("SIZE", "100000")))
    sch.split("i", [None, 50000])
    found = sch.validate(seeds=1)
    assert found.runs == 0 and "copy was not run" in str(found).replace("main", "copy")


def test_a_runner_of_ones_own_runs_both() -> None:
    seen: list[Any] = []

    def run(program: Any) -> Any:
        seen.append(program)
        return lambda *arguments: tl.interpret(program, *arguments)

    sch: Any = tl.Schedule(parse(COPY.replace("SIZE", "4")))
    sch.parallel("i")
    assert sch.validate(seeds=1, run=run).runs == 1
    assert len(seen) == 2 and seen[1] is sch.mod["main"]
    with pytest.raises(ScheduleError, match="1 or more sets"):
        sch.validate(seeds=0)


def test_sums_in_another_order_are_compared_on_inputs_that_are_exact() -> None:
    func = parse("""
@T.prim_func
def total(A: T.Buffer((8, 16), "float32"), B: T.Buffer((1,), "float32")):
    for i, j in T.grid(8, 16):
        B[0] = B[0] + A[i, j]
""")
    sch: Any = tl.Schedule(func, reassociate=True)
    sch.reorder("j", "i")
    assert sch.validate().runs == 3
    assert sch.report().splitlines()[-1] == "equal up to the order of the sum into B"
