"""What look-ups find: blocks by name, loops, blocks inside, producers and consumers, outputs."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import Ambiguous, NotFound
from tirlower.ir.func import PrimFunc
from tirlower.script import parse

CHAIN = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), D: T.Buffer((8, 8), "int32"), E: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8, 8), "int32")
    C = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i in range(8):
        with T.block("outer"):
            vi = T.axis.spatial(8, i)
            if A[vi, 0] > 0:
                for j in range(8):
                    with T.block("C"):
                        vj = T.axis.spatial(8, j)
                        C[vi, vj] = B[vi, vj]
            with T.block("E"):
                E[vi] = B[vi, 0]
    for i, j in T.grid(8, 8):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + B[vi, vj]
"""


def names(handles: list[Any]) -> list[str]:
    return [handle.name for handle in handles]


def test_loops_stop_at_the_next_block_and_ifs_do_not_count() -> None:
    sch = tl.Schedule(parse(CHAIN))
    assert names(sch.get_loops("B")) == ["i", "j"]
    assert names(sch.get_loops("outer")) == ["i"]
    assert names(sch.get_loops("C")) == ["j"]
    assert names(sch.get_loops("E")) == [] and names(sch.get_loops("root")) == []


def test_blocks_inside_are_those_directly_inside_in_the_order_of_the_text() -> None:
    sch = tl.Schedule(parse(CHAIN))
    assert names(sch.get_child_blocks("root")) == ["B", "outer", "D"]
    assert names(sch.get_child_blocks("outer")) == ["C", "E"]
    assert names(sch.get_child_blocks(sch.get_loops("B")[1])) == ["B"]
    assert names(sch.get_child_blocks("D")) == []


def test_producers_and_consumers_are_of_the_same_scope() -> None:
    sch = tl.Schedule(parse(CHAIN))
    assert names(sch.get_consumers("B")) == ["outer", "D"]
    assert names(sch.get_producers("D")) == ["B", "outer"]
    assert names(sch.get_producers("C")) == [] and names(sch.get_consumers("root")) == []


def test_output_blocks_write_what_their_scope_does_not_allocate() -> None:
    sch = tl.Schedule(parse(CHAIN))
    assert names(sch.get_output_blocks("root")) == ["outer", "C", "E", "D"]


def test_a_function_without_blocks_has_a_root_all_the_same() -> None:
    sch = tl.Schedule(
        parse('@T.prim_func\ndef f(A: T.Buffer((8,), "int32")):\n    for i in range(8):\n        A[i] = 1\n')
    )
    root = sch.get_block("root")
    assert isinstance(sch.get(root), PrimFunc) and sch.get_child_blocks(root) == []


def test_names_that_are_not_there_twice_or_of_another_function() -> None:
    module = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def one(A: T.Buffer((1,), "int32")):
        with T.block("A"):
            A[0] = 1
    @T.prim_func
    def two(A: T.Buffer((2,), "int32")):
        with T.block("A"):
            A[0] = 1
        with T.block("A"):
            A[1] = 1
""")
    sch = tl.Schedule(module)
    with pytest.raises(ValueError, match="does not know which function to be working on"):
        sch.get_block("A")
    assert sch.get_block("A", func_name="one").name == "A"
    sch.work_on("two")
    with pytest.raises(Ambiguous, match="Found 2 blocks"):
        sch.get_block("A")
    with pytest.raises(NotFound, match="no function"):
        sch.work_on("three")
    assert sch.func_working_on == "two"
