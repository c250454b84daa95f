"""What is renamed in a look-up of another workload; the replays themselves: tests/schedule/test_samples.py."""

from __future__ import annotations

import tirlower as tl
from tirlower.schedule.replay import renamed
from tirlower.script import parse


def test_names_are_renamed_in_look_ups_alone() -> None:
    sch = tl.Schedule(
        parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        A[i] = 1
    for i in range(8):
        A[i] = 2
""")
    )
    sch.unroll(sch.loop("A/i#1"))
    sch.annotate(sch.loop("i#0"), "A", "i")
    look, unroll, other, note = sch.trace.insts
    names = {"A": "B", "i": "k"}
    assert renamed(look, names).attrs == ["B/k#1"] and renamed(other, names).attrs == ["k#0"]
    assert renamed(unroll, names) is unroll and renamed(note, names) is note
    assert renamed(look, {"x": "y"}) is look
