"""Where handles stand after others moved: in sequences that grow, in what was rewritten, in what is no more."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

import tirlower as tl
from tests.fuzz.schedules import step
from tests.generate.programs import generate
from tirlower.diagnostics import ScheduleError
from tirlower.ir.func import IRModule
from tirlower.ir.query import each
from tirlower.ir.stmt import BufferStore, For, Seq
from tirlower.schedule import sites
from tirlower.schedule import step as steps_of
from tirlower.schedule.edits import Rebuilt
from tirlower.schedule.facts import Facts
from tirlower.schedule.handles import LoopRV
from tirlower.schedule.sites import Change, Edit, Ended, Forward, Place, Site, at_site, moved
from tirlower.script import parse

THREE = """
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        A[i] = 1
    for j in range(8):
        A[j] = 2
    for k in range(8):
        for l in range(8):
            A[k] = 3
"""


def test_a_statement_becomes_two_and_those_behind_are_counted_anew() -> None:
    mod = IRModule({"main": parse(THREE)})
    body = mod["main"].body
    assert isinstance(body, Seq)
    i, j, k = body.stmts
    assert isinstance(i, For) and isinstance(j, For) and isinstance(k, For)
    places: dict[object, Place] = {}
    handles = {name: LoopRV(name, None) for name in "ijkl"}  # type: ignore[arg-type]
    for at, name in enumerate("ijk"):
        places[handles[name]] = Site("main", ("body", "stmts", at))
    places[handles["l"]] = Site("main", ("body", "stmts", 2, "body"))
    one, two = j.with_(kind="unroll"), j.with_(kind="parallel")
    forward = Forward()
    forward.end(j, one, two)
    change = Change(Edit(Site("main", ("body", "stmts", 1)), Seq((one, two))), forward)
    ended = Ended(1, "cut")
    made = moved(mod, places, change, ended, Facts().inside)  # type: ignore[arg-type]
    after, table, found = made.mod, made.places, made.found
    assert table[handles["j"]] is ended
    assert [at_site(after, table[handles[name]]) for name in "ikl"] == [i, k, k.body]
    assert at_site(after, found[one]) is one and at_site(after, found[two]) is two
    # What was not touched is the same object, and the module of before is as it was.
    assert mod["main"].body is body and len(after["main"].body.stmts) == 4


def test_facts_about_what_did_not_change_are_not_collected_again() -> None:
    func = parse(THREE)
    facts = Facts()
    first = facts.inside(func.body)
    assert [way for way, stmt in first if isinstance(stmt, For)] == [
        ("stmts", 0),
        ("stmts", 1),
        ("stmts", 2),
        ("stmts", 2, "body"),
    ]
    assert facts.inside(func.body) is first
    body = func.body
    assert isinstance(body, Seq)
    changed = body.with_(stmts=(body.stmts[0].with_(kind="parallel"), *body.stmts[1:]))
    assert facts.inside(changed) is not first and facts.inside(body.stmts[2]) is facts.inside(body.stmts[2])


def test_handles_that_are_not_asked_where_they_are_stand_where_they_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all places of random programs, those that a step passes over are asked after all."""
    passed = 0

    def checked(mod: IRModule, places: Mapping[Any, Place], change: Change, ended: Ended, inside: Any) -> Any:
        nonlocal passed
        for name, edits in change.of().items():
            one = change.rebuilt if change.rebuilt is not None else Rebuilt(mod[name], edits)
            every = {Site(name, ("body", *way)): way for way, _ in inside(mod[name].body)}
            handles: dict[Any, Place] = {LoopRV(str(way), None): site for site, way in every.items()}  # type: ignore[arg-type]
            asked = {site for _, site in sites._touched(handles, name, one.beside())}
            for site in every.keys() - asked:
                assert one.moved(site.steps) == site.steps
                passed += 1
        return moved(mod, places, change, ended, inside)

    monkeypatch.setattr(steps_of, "moved", checked)
    for seed in range(12):
        rng, parsed = random.Random(seed), parse(generate(seed).text)
        sch: Any = tl.Schedule(parsed)
        for _ in range(6):
            try:
                step(sch, rng)
                loops, written = list(each(For, sch.mod["main"].body)), list(each(BufferStore, sch.mod["main"].body))
                if loops and written and rng.random() < 0.5:
                    sch.stage_mem(rng.choice(loops).loop_var.name, rng.choice(written).buffer.name)
            except ScheduleError:
                continue
    assert passed > 150
