"""``reindex``: copies that a block's iterators index, on both sides."""

from __future__ import annotations

import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import IllegalStep, NotApplicable
from tirlower.script import parse

CONV = """
@T.prim_func
def f(A: T.Buffer((20,), "int32"), W: T.Buffer((3,), "int32"), C: T.Buffer((18,), "int32")):
    for i, k in T.grid(18, 3):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] += A[vi + vk] * W[vk]
"""


def test_a_sliding_window_and_the_result() -> None:
    sch = taken(CONV, lambda sch: (sch.reindex("C", "A"), sch.reindex("C", "W"), sch.reindex("C", ("write", 0))))
    text = str(sch.mod["main"])
    assert "A_reindex = T.alloc_buffer((18, 3)" in text
    assert "W_reindex = T.alloc_buffer((3,)" in text
    assert "C[v0] = C_reindex[v0]" in text


def test_two_ways_of_access_and_old_values() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((9,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] + A[v + 1]
""",
        lambda sch: sch.reindex("C", "A"),
        NotApplicable,
        "2 ways",
    )
    refused(
        """
@T.prim_func
def f(A: T.Buffer((9,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v]
        A[7 - i] = 0
""",
        lambda sch: sch.reindex("C", "A"),
    )


def test_what_is_read_under_a_condition_is_not_copied_from_outside() -> None:
    padded = """
@T.prim_func
def f(X: T.Buffer((6,), "int32"), Y: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("Y"):
            v = T.axis.spatial(8, i)
            Y[v] = T.if_then_else(v < 6, X[v], 0)
"""
    sch = tl.Schedule(parse(padded))
    with pytest.raises(IllegalStep, match=r"X\[v0\] would be copied where nothing of X is accessed") as caught:
        sch.reindex("Y", ("read", 0))
    assert str(caught.value.witness) == "iteration (ax0 = 6) reads X[6]"  # in the program after
