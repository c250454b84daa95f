"""Facts that users state: later proofs use them, the interpreter checks them, traces carry them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import BadArgument, RuntimeAssertError
from tirlower.ir.structural import assert_structural_equal
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(n: T.int32, m: T.int32, A: T.Buffer((64,), "int32")):
    for i in range(n):
        A[i + m] = A[i] + 1
"""


def test_a_fact_decides_what_was_not_known() -> None:
    sch: Any = tl.Schedule(parse(TEXT))
    assert not sch.can("parallel", "i").proved
    sch.assume("m == 32 and n <= 32")
    sch.parallel("i")
    assert [record.verdict for record in sch.steps if not record.instruction.kind.pure] == ["assumed", "proved"]
    a = np.zeros(64, "int32")
    tl.interpret(sch, 32, 32, a)
    assert a[32:].tolist() == [1] * 32
    with pytest.raises(RuntimeAssertError):
        tl.interpret(sch, 33, 31, a)
    again: Any = tl.Schedule(parse(TEXT))
    sch.trace.apply_json_to_schedule(sch.trace.as_json(dialect="tirlower"), again)
    assert_structural_equal(again.mod, sch.mod)


def test_in_front_of_a_loop_it_names_the_loops_around() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = 1
""")
    sch: Any = tl.Schedule(func, debug_mask="all")
    held = sch.get_block("A")
    j = sch.get_loops("A")[1]
    sch.assume("i < 8", at=j)
    sch.assume("i + j < 16", at=held)
    assert str(sch.mod).count("T.assume") == 2 and sch.get(held).name == "A" and sch.get(j).loop_var.name == "j"
    sch.assume("1 < 2")
    assert len(sch.get_loops("A")) == 2


@pytest.mark.parametrize("text", ["k > 3", "n +", "n; m", "A[0] > 1"])
def test_what_is_no_condition_there(text: str) -> None:
    sch: Any = tl.Schedule(parse(TEXT))
    with pytest.raises(BadArgument):
        sch.assume(text)
    assert not sch.steps
