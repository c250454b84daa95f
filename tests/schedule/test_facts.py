"""What is remembered of functions: planted wrong memories are found where everything is looked up anew."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import ScheduleError
from tirlower.schedule.facts import Facts
from tirlower.schedule.loops import reverse
from tirlower.schedule.uses import Uses
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((8, 12), "int32"), B: T.Buffer((8, 12), "int32")):
    for i, j in T.grid(8, 12):
        B[i, j] = A[i, j] + 1
    for i in range(8):
        A[i, 0] = 2
"""


def test_right_memories_stay() -> None:
    sch: Any = tl.Schedule(parse(TEXT), debug_mask=2)
    j_0, _ = sch.split("B/j", [None, 4])
    sch.reorder(j_0, "B/i")
    facts = sch._facts
    facts.scop(sch.mod["main"])
    assert facts.stale(sch.mod["main"]) == ""


@pytest.mark.parametrize("what", ["uses", "inside", "names", "scop"])
def test_a_wrong_memory_is_found(what: str) -> None:
    func, facts = parse(TEXT), Facts()
    first, second = func.body.stmts
    facts.inside(func.body), facts.uses(func.body), [*facts.named(func.body, "i")]
    if what == "uses":
        facts.uses._known[first] = Uses()
    elif what == "inside":
        facts._inside[func.body] = facts._inside[func.body][1:]
    elif what == "names":
        facts._names[second] = frozenset("x")
    else:
        facts._scops[func] = facts.scop(func.with_(body=first))
    found = facts.stale(func)
    wanted = {"uses": "reads and writes", "inside": "stand", "names": "the names in", "scop": "its accesses"}[what]
    assert wanted in found


def test_a_step_that_mixes_handles_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sch: Any = tl.Schedule(parse(TEXT), debug_mask=2)
    i = sch.loop("B/i")
    rewrite = reverse.REVERSE.rewrite

    def wrong(step: Any) -> Any:
        change = rewrite(step)
        old = step.loop(step.handle("loop"))
        change.forward.keep(old, change.forward.after(old).body.body)
        return change

    monkeypatch.setitem(reverse.REVERSE.__dict__, "rewrite", wrong)
    with pytest.raises(ScheduleError, match="`i` stands at a BufferStore"):
        sch.reverse(i)
    sch._policy = type(sch._policy)(debug_mask=1)
    sch.reverse(i)
