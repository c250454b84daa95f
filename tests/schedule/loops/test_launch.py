"""Loops as blocks and threads."""

from __future__ import annotations

import pytest

import tirlower as tl
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, IllegalStep
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((4, 8, 16), "int32"), C: T.Buffer((4,), "int32")):
    for i, j, k in T.grid(4, 8, 16):
        A[i, j, k] = i + j * k
    for p, q in T.grid(4, 8):
        C[p] = C[p] + q
"""


def test_axes_in_their_order() -> None:
    func = parse(TEXT)
    sch = tl.Schedule(func, debug_mask="all")
    i, j, k = sch.loops("A")
    sch.launch(blocks=[j, i], threads=[k])
    assert [sch.get(loop).thread_tag for loop in (i, j, k)] == ["blockIdx.y", "blockIdx.x", "threadIdx.x"]
    again(func, sch)


def test_what_is_refused_leaves_all_as_it_was() -> None:
    func = parse(TEXT)
    sch = tl.Schedule(func)
    p, q = sch.loops("C")
    with pytest.raises(IllegalStep):
        sch.launch(blocks=[q], threads=[p])
    assert sch.mod["main"] is func
    with pytest.raises(BadArgument, match="x, y and z"):
        sch.launch(threads=[p, q, *sch.loops("A")])
