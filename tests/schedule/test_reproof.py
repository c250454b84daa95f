"""Steps proved anew from the two programs alone: right ones are, planted wrong rewrites are found."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import tirlower as tl
from tests.fuzz.schedules import run_one
from tirlower.diagnostics import ScheduleError
from tirlower.ir.expr import const
from tirlower.poly.verdict import PROVED
from tirlower.schedule import step as steps
from tirlower.schedule.bindings import predicated
from tirlower.schedule.facts import Facts
from tirlower.schedule.loops import split
from tirlower.schedule.reproof import proved_again
from tirlower.script import parse

pytest.importorskip("islpy")

STENCIL = """
@T.prim_func
def f(n: T.int32, A: T.Buffer((n + 1, 9), "int32"), B: T.Buffer((n, 8), "int32")):
    for i, j in T.grid(n, 8):
        A[i + 1, j] = A[i, j + 1]
    for i, j in T.grid(n, 8):
        B[i, j] = A[i, j] * 2
"""


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    seen: Counter[str] = Counter()

    def asked(*args: Any) -> str:
        found = proved_again(*args)
        seen[found or "proved"] += 1
        return found

    monkeypatch.setattr(steps, "proved_again", asked)
    return seen


def test_right_steps_are_proved_again(answers: Counter[str]) -> None:
    sch: Any = tl.Schedule(parse(STENCIL), debug_mask="all")
    i, j = sch.loops("B")
    i_0, i_1 = sch.split(i, [None, 4])
    j_0, j_1 = sch.split(j, [2, 4])
    sch.reorder(i_0, j_0, i_1, j_1)
    sch.fuse(i_1, j_1)
    sch.parallel(i_0)
    sch.add_unit_loop(j_0)
    sch.unroll("A/j#0")
    assert answers == {"proved": 7}


def test_a_condition_that_is_forgotten_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "predicated", lambda body, condition: predicated(body, const(1, "bool")))
    sch: Any = tl.Schedule(parse(STENCIL), debug_mask="all")
    before = sch.mod
    with pytest.raises(ScheduleError, match=r"proved anew .* others do"):
        sch.split("B/j", [None, 3])
    assert sch.mod is before


def test_an_order_that_is_wrongly_proved_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Facts, "order_kept", lambda *args, **kwargs: (PROVED, "bitwise"))
    monkeypatch.setattr(Facts, "positions_kept", lambda *args, **kwargs: (PROVED, "bitwise"))
    sch: Any = tl.Schedule(parse(STENCIL), debug_mask="all")
    with pytest.raises(ScheduleError, match="come in the other order"):
        sch.reorder("A/j#0", "A/i#0")
    monkeypatch.setattr(Facts, "concurrent", lambda *args, **kwargs: PROVED)
    with pytest.raises(ScheduleError, match="run at once"):
        sch.parallel("A/i#0")
    sch.parallel("B/i")


@pytest.mark.parametrize("wrong", [-1, 1])
def test_wrong_subscripts_are_found(monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    real = split.loop_nests.split

    def off(loop: Any, *rest: Any) -> Any:
        return real(loop.with_(min=loop.min + wrong), *rest)

    monkeypatch.setattr(split.loop_nests, "split", off)
    sch: Any = tl.Schedule(parse(STENCIL), debug_mask="all")
    with pytest.raises(ScheduleError, match="other elements"):
        sch.split("B/j", [2, 4])


def test_random_schedules_are_proved_again(answers: Counter[str]) -> None:
    for seed in range(12):
        run_one(seed)
    assert answers["proved"] >= 5, answers


def test_steps_that_put_blocks_around_are_proved_again(answers: Counter[str]) -> None:
    sch: Any = tl.Schedule(parse(STENCIL), debug_mask="all")
    block = sch.as_block(sch.find("B[_] = _"))
    i, _ = sch.get_loops(block)
    sch.split(i, [None, 4])
    sch.reorder_block_iter_var(block, [1, 0])
    sch.annotate(block, "hint", 1)
    sch.as_block(sch.find("A[_] = _"))
    loops = [sch.get_loops(name) for name in "AB"]
    sch.unannotate(block, "hint")
    sch.blockize(loops[0][1])
    assert answers == {"proved": 7}


def test_a_statement_that_stands_in_several_places_is_each_of_its_copies(answers: Counter[str]) -> None:
    sch: Any = tl.Schedule(
        parse("""
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        for r in range(4):
            A[i] = A[i] + 2
    for j in range(8):
        B[j] = A[j]
"""),
        debug_mask="all",
    )
    sch.unroll_jam("r", 2)
    sch.split("j", [None, 2])
    sch.split("i", [None, 4])
    assert str(sch.mod["main"]).count("+ 2") == 2
