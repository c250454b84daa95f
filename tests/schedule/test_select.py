"""Selectors of loops: names, numbers, nests, buffers, globs; none and several are errors that name what there is."""

from __future__ import annotations

import pytest

import tirlower as tl
from tirlower.diagnostics import Ambiguous, BadArgument, NotFound
from tirlower.script import parse

TWO = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 4), "int32")):
    for i, j in T.grid(8, 8):
        A[i, j] = 1
    for i in range(8):
        for k_0 in range(2):
            for k_1 in range(2):
                B[i, k_0 * 2 + k_1] = 2
"""


def test_each_form_finds_its_loop() -> None:
    sch = tl.Schedule(parse(TWO))
    first, second = sch.get(sch.loop("i#0")), sch.get(sch.loop("i#1"))
    assert first is not second
    assert sch.get(sch.loop("A/i")) is first and sch.get(sch.loop("B/i")) is second
    assert sch.loop("i/j").name == "j" and sch.loop("k_1").name == "k_1" and sch.loop("k_0/k_*").name == "k_1"
    assert [loop.name for loop in sch.loops("B")] == ["i", "k_0", "k_1"]


def test_none_and_several() -> None:
    sch = tl.Schedule(parse(TWO))
    with pytest.raises(Ambiguous, match="2 loops are 'i'"):
        sch.loop("i")
    with pytest.raises(Ambiguous):
        sch.loop("k_*")
    with pytest.raises(NotFound, match="did you mean 'k_1'"):
        sch.loop("k_2")
    with pytest.raises(NotFound):
        sch.loop("i#2")
    with pytest.raises(NotFound, match="no buffer of that name is written"):
        sch.loops("C")
    for wrong in ("", "i#x", "A/"):
        with pytest.raises(BadArgument):
            sch.loop(wrong)
    assert not sch.steps


def test_one_buffer_written_in_several_nests_is_ambiguous_and_in_one_nest_is_not() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        C[i] = 0
        for k in range(8):
            C[i] = C[i] + A[k]
    for i in range(8):
        A[i] = 0
    for j in range(8):
        A[j] = 0
""")
    sch = tl.Schedule(func)
    assert [loop.name for loop in sch.loops("C")] == ["i", "k"]
    with pytest.raises(Ambiguous):
        sch.loops("A")


def test_a_selector_is_asked_again_in_another_program() -> None:
    sch = tl.Schedule(parse(TWO))
    sch.unroll("B/k_0")
    other = tl.Schedule(parse(TWO.replace("range(8)", "range(5)").replace("(8, 4)", "(5, 4)")))
    sch.trace.apply_to_schedule(other)
    assert other.get(other.loop("k_0")).kind.value == "unroll"
    assert str(sch.trace).count('sch.loop("B/k_0")') == 1
