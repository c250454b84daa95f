"""``recompute``: a copy for each consumer but the first, in front of it; inputs that changed are a witness."""

from __future__ import annotations

from typing import Any

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable

BLOCKS = """
@T.prim_func
def f(A: T.Buffer((8, 5), "int32"), X: T.Buffer((8,), "int32"), Y: T.Buffer((8,), "int32"), Z: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i, k in T.grid(8, 5):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] += A[vi, vk]
    for i in range(8):
        with T.block("X"):
            v = T.axis.spatial(8, i)
            X[v] = B[v] + 1
    {between}
    for i in range(8):
        with T.block("Y"):
            v = T.axis.spatial(8, i)
            Y[v] = B[7 - v] * 2
    for i in range(8):
        with T.block("Z"):
            v = T.axis.spatial(8, i)
            Z[v] = B[v] - B[0]
"""


def test_three_consumers_have_one_each() -> None:
    def steps(sch: Any) -> None:
        first, second = sch.recompute("B")
        assert sch.get(first).name != sch.get(second).name != "B"
        sch.compute_at(second, sch.get_loops("Z")[0])

    sch = taken(BLOCKS.format(between=""), steps)
    assert str(sch.mod["main"]).count("T.alloc_buffer") == 3


def test_inputs_that_change_in_between() -> None:
    between = "for m in range(8):\n        A[m, 2] = 7"
    error = refused(BLOCKS.format(between=between), lambda sch: sch.recompute("B"))
    assert "A[" in str(error.witness)


def test_one_consumer_is_none_to_compute_for_again() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        B[i] = A[i]
    for i in range(8):
        X[i] = B[i]
"""
    refused(text, lambda sch: sch.recompute("B"), NotApplicable, "nobody")
    refused(text, lambda sch: sch.recompute("X"), NotApplicable, "parameter")
