"""From statement to statement, in the program as it is now; gaps go with their statement."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, DeadHandle, IllegalStep
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8, 4), "int32")):
    for i in range(8):
        A[i] = i
        B[i] = A[i] + 1
        for j in range(4):
            C[i, j] = B[i]
    if A[0] == 0:
        A[1] = 2
"""
BLOCKS = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        D = T.alloc_buffer((8,), "int32")
        for i in range(8):
            with T.block("D"):
                vi = T.axis.spatial(8, i)
                D[vi] = A[vi]
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = D[vi]
"""


def test_around_inside_and_beside() -> None:
    sch: Any = tl.Schedule(parse(TEXT))
    i = sch.loop("i")
    a, b, j = i.body
    assert [one.name for one in (a, b, j)] == ["A", "B", "j"] and i.parent is None and i.prev is None
    assert sch.get(a.next) is sch.get(b) and sch.get(b.prev) is sch.get(a) and j.next is None and a.prev is None
    (c,) = j.body
    assert sch.get(c.parent) is sch.get(j) and sch.get(j.parent) is sch.get(i) and c.next is None
    assert [[x.name for x in side] for side in (i.reads, i.writes, c.reads)] == [["A", "B"], ["A", "B", "C"], ["B"]]
    assert i.next.name == "ifthenelse"
    sch.split(j, [2, 2])
    assert sch.get(c.parent).loop_var.name == "j_1"


def test_blocks_and_the_root() -> None:
    sch: Any = tl.Schedule(parse(BLOCKS))
    root, d, b = (sch.get_block(name) for name in ("root", "D", "B"))
    assert [one.name for one in root.body] == ["i", "i"]  # an allocation does nothing
    assert sch.get(d.parent.parent) is sch.get(root) and root.parent is None and root.before.name == "before_root"
    assert sch.get(d.parent.next) is sch.get(b.parent) and [x.name for x in b.reads] == ["D"]
    plain: Any = tl.Schedule(parse(TEXT))
    whole = plain.get_block("root")
    assert [one.name for one in whole.body] == ["i", "ifthenelse"] and whole.parent is None and whole.before is None


def test_a_gap_goes_with_its_statement() -> None:
    def steps(sch: Any) -> None:
        i = sch.loop("i")
        _, b, j = i.body
        gap, behind = b.before, b.after
        sch.split(j, [2, 2])
        first, second = sch.fission(i, at=gap)
        assert [len(one.body) for one in (first, second)] == [1, 2]
        assert sch.get(b.parent) is sch.get(second)
        again = sch.fission(second, at=behind)
        assert [one.body[0].name for one in again] == ["B", "j_0"]

    taken(TEXT, steps)


def test_gaps_that_are_elsewhere() -> None:
    sch: Any = tl.Schedule(parse(TEXT))
    i = sch.loop("i")
    j = i.body[2]
    with pytest.raises(BadArgument, match="not directly in the body"):
        sch.fission(i, at=j.body[0].before)
    with pytest.raises(BadArgument, match="cannot be cut at 0"):
        sch.fission(i, at=i.body[0].before)
    gap = j.body[0].before
    sch.unroll(j)
    sch.split(j, [2, 2])
    assert sch.get(gap) is not None
    late = i.before
    sch.split(i, [2, 4])
    with pytest.raises(DeadHandle, match="split ended it"):
        sch.get(late)
    with pytest.raises(TypeError):
        sch.split(gap, [2, 2])
    with pytest.raises(BadArgument, match="'parent', 'body'"):
        sch.navigate(sch.loop("i_0"), "up")


def test_a_cut_that_hands_on_too_late() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
    for i in range(8):
        A[i + 1] = B[i]
        B[i + 1] = A[i]
"""
    refused(text, lambda sch: sch.fission("i", at=sch.loop("i").body[1].before), IllegalStep)
