"""Where a block is computed, drawn: what may be drawn is what is legal, decisions are kept and mended."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike
from tests.schedule.stepping import taken
from tirlower.diagnostics import BadArgument
from tirlower.schedule.testing import verify_trace_roundtrip
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32")):
    B = T.alloc_buffer((6, 8), "int32")
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, u, j in T.grid(6, 1, 8):
        with T.block("C"):
            vi, vu, vj = T.axis.remap("SSS", [i, u, j])
            C[vi, vj] = B[vi, vj] + 1
"""
PLAIN = """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32")):
    B = T.alloc_buffer((6, 8), "int32")
    for i, j in T.grid(6, 8):
        B[i, j] = A[i, j] * 2
    for i, j in T.grid(6, 8):
        C[i, j] = B[i, j] + 1
"""
SUM = """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6,), "int32")):
    B = T.alloc_buffer((6, 8), "int32")
    for i, k in T.grid(6, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = A[vi, vk] * 2
    for i, k in T.grid(6, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + B[vi, vk]
"""


def drawn(text: str, times: int = 80, name: str = "B", **options: Any) -> Counter[Any]:
    sch: Any = tl.Schedule(parse(text), seed=3, **options)
    for _ in range(times):
        sch.sample_compute_location(name)
    return Counter(sch.trace.decisions.values())


@pytest.mark.parametrize("accept", ["legal", "tvm"])
def test_all_that_is_legal_is_drawn_as_often(accept: str) -> None:
    found = drawn(TEXT, accept=accept)
    assert set(found) == {-2, -1, 0, 2} and min(found.values()) > 8  # the loop of one iteration is left out
    assert set(drawn(TEXT, 8, "C", accept=accept)) == {-1}


def test_plain_loops() -> None:
    assert set(drawn(PLAIN, 60)) == {-2, -1, 0, 1}


def test_not_in_reduction_loops_behind_the_last_spatial_one() -> None:
    assert set(drawn(SUM, 60)) == {-2, -1, 0}
    swapped = SUM.replace(
        'for i, k in T.grid(6, 8):\n        with T.block("C")', 'for k, i in T.grid(8, 6):\n        with T.block("C")'
    )
    assert swapped != SUM and set(drawn(swapped, 60)) == {-2, -1, 0}  # not the spatial loop inside the reduction


@pytest.mark.parametrize("text", [TEXT, PLAIN])
@pytest.mark.parametrize("decision", [-2, -1, 0, 1])
def test_what_is_drawn_is_done(text: str, decision: int) -> None:
    sch = taken(text, lambda sch: sch.compute_at("B", sch.sample_compute_location("B", decision=decision)))
    assert ("B = T.alloc_buffer" in str(sch.mod["main"])) == (decision != -2)
    assert (sch.mod["main"] is sch.moments()[0].mod["main"]) == (decision == -1)


def test_a_trace_in_both_dialects() -> None:
    func = parse(TEXT)
    for decision in (-2, 0):
        sch: Any = tl.Schedule(func)
        block = sch.get_block("B")
        sch.compute_at(block, sch.sample_compute_location(block, decision=decision))
        line = f"l1 = sch.sample_compute_location(block=b0, decision={decision})"
        assert sch.trace.as_python()[1] == line
        assert sch.trace.as_json()[1] == [[1, decision]]
        verify_trace_roundtrip(sch, func)


def test_decisions_that_may_not_be_taken_any_more() -> None:
    sch: Any = tl.Schedule(parse(TEXT))
    sch.sample_compute_location("B", decision=1)
    sch.sample_compute_location("B", decision=9)
    assert list(sch.trace.decisions.values()) == [0, 2]
    for wrong in (-3, True, "0"):
        with pytest.raises(BadArgument, match="number of a loop"):
            sch.sample_compute_location("B", decision=wrong)


def test_the_mark_is_no_loop() -> None:
    sch: Any = tl.Schedule(parse(TEXT))
    root = sch.sample_compute_location("B", decision=-1)
    for use in (lambda: sch.split(root, [None, 2]), lambda: sch.get(root)):
        with pytest.raises(BadArgument, match="is no loop of the program"):
            use()
    inline = sch.sample_compute_location("B", decision=-2)
    sch.reverse_compute_at("C", inline)
    executes_alike(parse(TEXT), sch.mod["main"])
    assert "C" in str(sch.mod["main"]) and sch.get_block("B")
    assert sch.can("compute_at", "B", root).proved


def test_several_consumers_have_their_loops_in_common() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6, 8), "int32"), D: T.Buffer((6, 8), "int32")):
    B = T.alloc_buffer((6, 8), "int32")
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i in range(6):
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + 1
        for j in range(8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj] + 2
"""
    assert set(drawn(text, 40)) == {-2, -1, 0}
