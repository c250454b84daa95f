"""Loops of one iteration around blocks and loops."""

from __future__ import annotations

import pytest

import tirlower as tl
from tests.checking import executes_alike, same_function
from tirlower.diagnostics import NotApplicable
from tirlower.script import parse


def test_around_a_block_and_around_a_loop() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = vi
""")
    sch = tl.Schedule(before, debug_mask="all")
    block = sch.get_block("A")
    inner = sch.add_unit_loop(block)
    outer = sch.add_unit_loop(sch.get_loops(block)[0])
    assert sch.get_loops(block)[0].var is outer.var and sch.get_loops(block)[-1].var is inner.var
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for u, i, u_1 in T.grid(1, 8, 1):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes(A[vi])
            A[vi] = vi
"""),
    )
    executes_alike(before, sch.mod["main"])


def test_not_around_the_root() -> None:
    # A block that is all of a function is its root.
    for name, text in (("root", "A[0] = 1"), ("A", 'with T.block("A"):\n        A[0] = 1')):
        sch = tl.Schedule(parse(f'@T.prim_func\ndef f(A: T.Buffer((1,), "int32")):\n    {text}\n'))
        with pytest.raises(NotApplicable, match="root block"):
            sch.add_unit_loop(name)
        assert not sch.steps
