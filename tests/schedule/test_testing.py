"""Traces through text and JSON and back."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tirlower.schedule.testing import assert_structural_equal_ignore_global_symbol, verify_trace_roundtrip
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((8, 12), "int32"), B: T.Buffer((8, 12), "int32")):
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""


@pytest.mark.parametrize("form", ["python", "json", ("python", "json")])
@pytest.mark.parametrize("own", [False, True])
def test_a_schedule_again(form: Any, own: bool) -> None:
    func = parse(TEXT)
    sch: Any = tl.Schedule(func, seed=7)
    sch.transform_block_layout("B", lambda a, b: [b, a])
    i, j = sch.loops("B") if own else sch.get_loops(sch.get_block("B"))
    j_0, j_1 = sch.split(j, sch.sample_perfect_tile(j, n=2))
    sch.reorder(j_0, i, j_1)
    sch.annotate(i, "hint", {"a": [1, 2]})
    assert verify_trace_roundtrip(sch, func, text_format=form).mod is not sch.mod


def test_a_trace_that_does_something_else() -> None:
    func = parse(TEXT)
    sch: Any = tl.Schedule(func)
    sch.split(sch.get_loops("B")[0], [None, 4])
    with pytest.raises(AssertionError):
        verify_trace_roundtrip(sch, parse(TEXT.replace("8", "9")))
    with pytest.raises(ValueError, match="'python', 'json'"):
        verify_trace_roundtrip(sch, func, text_format="xml")


def test_names_of_functions_do_not_count() -> None:
    a, b = (parse(TEXT).with_attr("global_symbol", name) for name in "ab")
    assert_structural_equal_ignore_global_symbol(a, b)
    assert_structural_equal_ignore_global_symbol(tl.ir.IRModule({"m": a}), tl.ir.IRModule({"m": b}))
    with pytest.raises(AssertionError):
        assert_structural_equal_ignore_global_symbol(a, parse(TEXT.replace("12", "11")))
