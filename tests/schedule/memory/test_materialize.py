"""Names that get memory of their own."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, Bind
from tirlower.script import parse

ROWS = """
@T.prim_func
def f(A: T.Buffer(({n}, {m}), "{dtype}"), B: T.Buffer(({n}, {m}), "{dtype}")):
    for i in range({n}):
        first = A[i, 0]
        twice = first + first
        for j in range({m}):
            B[i, j] = A[i, j] * twice + first
"""


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize(("n", "m"), [(4, 3), (1, 1), (0, 2), (13, 7)])
def test_values_are_handed_on(n: int, m: int, dtype: str) -> None:
    sch = taken(ROWS.format(n=n, m=m, dtype=dtype), lambda sch: (sch.materialize("first"), sch.materialize("twice")))
    assert not any(each(Bind, sch.mod["main"].body)) and {step.exactness for step in sch.steps} == {"bitwise"}


def test_statements_part_then() -> None:
    text = ROWS.format(n=6, m=5, dtype="float32")
    refused(text, lambda sch: sch.fission("i"), NotApplicable)

    def steps(sch):
        for name in ("twice", "first"):
            sch.materialize(name)
            sch.expand(name, "i")
        sch.fission("i")

    sch = taken(text, steps)
    assert [one.buffer.shape[0].value for one in each(AllocBuffer, sch.mod["main"].body)] == [6, 6]


def test_one_of_several_names_and_those_in_conditions() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        x = A[i] // 2
        if x > 3:
            y = T.min(x, 3)
            B[i] = y
        else:
            B[i] = x
    for j in range(8):
        x = B[j]
        A[j] = x + 1
"""
    refused(text, lambda sch: sch.materialize("x"), BadArgument, match="2 bindings of the name 'x'")
    refused(text, lambda sch: sch.materialize("z"), BadArgument, match="0 bindings")
    taken(text, lambda sch: (sch.materialize("x", at="j"), sch.materialize("x", at="i"), sch.materialize("y")))


def test_what_bounds_and_shapes_are_stated_with_stays_a_name() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        n = T.min(i, 3)
        for j in range(n):
            B[i] = B[i] + A[j]
"""
    refused(text, lambda sch: sch.materialize("n"), NotApplicable, match="stated with n")


def test_an_index_past_its_type_stays_a_name() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        q = i {0}
        B[i] = A[q {1}]
"""
    wide = text.format("* 65536 * 65536", "// 65536 // 65536")
    refused(wide, lambda sch: sch.materialize("q"), NotApplicable, match="may not fit int32")
    taken(text.format("* 2", "// 2"), lambda sch: sch.materialize("q"))


def test_handles_behind_it_go_on() -> None:
    sch = tl.Schedule(parse(ROWS.format(n=4, m=3, dtype="float32")))
    inner, outer = sch.loop("j"), sch.loop("i")
    sch.materialize("first")
    sch.materialize("twice", at=outer)
    sch.vectorize(inner)
    assert sch.get(inner).kind.value == "vectorized" and sch.get(outer).loop_var.name == "i"


def test_its_memory_has_a_name_of_its_own() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        mean = 0.0
        for k in range(8):
            mean += A[k]
        mean /= T.float32(8)
        B[i] = A[i] - mean
"""

    def steps(sch: Any) -> None:
        sch.materialize("mean")
        sch.expand("mean_1", "i")
        sch.expand("mean", "i")
        sch.fission("i")

    sch = taken(text, steps)
    assert [one.buffer.name for one in each(AllocBuffer, sch.mod["main"].body)] == ["mean_1", "mean"]
