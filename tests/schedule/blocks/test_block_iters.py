"""The iterators of a block in another order."""

from __future__ import annotations

import pytest

import tirlower as tl
from tests.checking import executes_alike
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.script import parse

FUNC = parse("""
@T.prim_func
def f(A: T.Buffer((4, 5, 6), "int32")):
    for i, j, k in T.grid(4, 5, 6):
        with T.block("A"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            A[vi, vj, vk] = vi * 100 + vj * 10 + vk
""")


def test_a_permutation() -> None:
    sch = tl.Schedule(FUNC, debug_mask="all")
    block = sch.get_block("A")
    sch.reorder_block_iter_var(block, [2, 0, 1])
    assert [it.var.name for it in sch.get(block).iters] == ["vk", "vi", "vj"]
    executes_alike(FUNC, sch.mod["main"])
    again(FUNC, sch)
    assert "sch.reorder_block_iter_var(block=b0, new_order=[2, 0, 1])" in sch.trace.text("tvm")


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [0, 1, 3], []])
def test_what_is_none(order: list[int]) -> None:
    with pytest.raises(BadArgument, match="permutation"):
        tl.Schedule(FUNC).reorder_block_iter_var("A", order)


def test_a_function_without_blocks() -> None:
    sch = tl.Schedule(
        parse("""
@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = 1
""")
    )
    with pytest.raises(NotApplicable):
        sch.reorder_block_iter_var("root", [0])
