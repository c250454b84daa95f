"""Where a draft says that statements are afterwards, against a search for them."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tirlower as tl
from tests.fuzz.values import VERBS, chain
from tirlower.diagnostics import ScheduleError
from tirlower.ir.path import Path
from tirlower.ir.stmt import Evaluate, For, Seq, Stmt
from tirlower.schedule.draft import Draft
from tirlower.schedule.facts import Facts
from tirlower.script import parse


def agrees(draft: Draft) -> int:
    """Compare what a draft says of places with the two functions; of how many statements."""
    facts, trails = Facts(), draft.trails
    old = {("body", *way): stmt for way, stmt in facts.inside(draft.old.body)}
    new = {("body", *way): stmt for way, stmt in facts.inside(trails.func.body)}
    told: dict[Any, Stmt] = {}
    for way, part in trails.made():
        told.update({(*way, *rest): stmt for rest, stmt in facts.inside(part)})
    told.update(trails.kept())
    under = {stmt for root in trails.left() for _, stmt in facts.inside(root)}
    for steps, stmt in old.items():
        place = trails.moved(steps)
        if place is None:
            assert stmt in under or draft.forward.after(stmt) is not stmt or stmt in draft.forward.ended
            continue
        assert new[place] in (stmt, draft.forward.after(stmt))
        told[place] = new[place]
    assert told == new, "every statement came from somewhere, and stands where it is said to"
    return len(new)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_steps(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    original = Draft.change

    def change(draft: Draft, *args: Any) -> Any:
        made = original(draft, *args)
        seen.append(agrees(draft))
        return made

    monkeypatch.setattr(Draft, "change", change)
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        sch: Any = tl.Schedule(parse(chain(seed)), reassociate=False)
        for _ in range(4):
            try:
                VERBS[rng.choice(list(VERBS))](sch, rng)
            except ScheduleError:
                continue
    assert len(seen) > 3


def row() -> Any:
    return parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        for j in range(8):
            A[j] = i
    for k in range(8):
        B[k] = 1
        B[k] = 2
""")


def drafted(func: Any) -> Draft:
    class _Step:
        state = tl.Schedule(func)._state
        facts = Facts()

    return Draft(_Step(), "main")  # type: ignore[arg-type]


BODY = ("body", "stmts", 1, "body")


@pytest.mark.parametrize("place", [("body",), ("body", "stmts", 0), ("body", "stmts", 1), BODY, (*BODY, "stmts", 1)])
def test_statements_put_before_and_behind(place: Any) -> None:
    func = row()
    draft, new = drafted(func), [Evaluate(n) for n in range(3)]
    draft.before(place, new[0], Seq((new[1],)))
    draft.after(place, new[2])
    draft.change(())
    assert agrees(draft) == 9
    assert {stmt for _, stmt in draft.trails.made()} == set(new)


@pytest.mark.parametrize("place", [("body", "stmts", 0), (*BODY, "stmts", 0), ("body", "stmts", 0, "body", "body")])
def test_what_is_taken_out_takes_the_empty_loops_around_along(place: Any) -> None:
    draft = drafted(row())
    draft.replace(place)
    draft.change(())
    left = agrees(draft)
    assert left == (5 if place[-1] == 0 and len(place) > 3 else 3)
    assert draft.trails.moved((*place,)) is None


def test_a_sequence_that_declares_something_stays_one() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        t = T.alloc_buffer((1,), "int32")
        t[0] = 1
        A[i] = t[0]
""")
    draft = drafted(func)
    path = ("body", "body", "stmts", 1)
    draft.before(path, Evaluate(0))
    draft.replace(path, Evaluate(1), Evaluate(2))
    draft.change(())
    assert agrees(draft) == 6
    assert draft.trails.moved(("body", "body", "stmts", 2)) == ("body", "body", "stmts", 4)
    found = Path(("body", "body", "stmts", 4)).chain(draft.func())[-1]
    assert found is func.body.body.stmts[2]
    assert isinstance(draft.func().body, For)
