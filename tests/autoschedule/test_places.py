"""Where loops and blocks stand in a schedule now."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tirlower.autoschedule.places import block_in, loop_in
from tirlower.diagnostics import NotFound
from tirlower.script import parse


def test_loops_of_parts():
    sch: Any = tl.Schedule(
        parse("""
def f(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8, 4), "int32")):
    for i, j in T.grid(8, 4):
        A[i, j] = 1
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = 1
""")
    )
    second = sch.loop("i#1")
    parts = sch.loop_partition(sch.loop("i#0"), [3])
    for number, part in enumerate((*parts, second)):
        assert sch.get(loop_in(sch, part, "j")) is sch.get(sch.loop(f"j#{number}"))
    assert block_in(sch, second) == "B" and block_in(sch, parts[0]) is None
    with pytest.raises(NotFound, match="no loop 'i' stands"):
        loop_in(sch, second, "i")
