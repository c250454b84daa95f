"""``cache_write``: the result is copied out whole, or nothing is changed."""

from __future__ import annotations

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable

SUM = """
@T.prim_func
def f(A: T.Buffer((6, 4), "float32"), C: T.Buffer((6,), "float32"), D: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] += A[vi, vk]
    for i in range(6):
        with T.block("D"):
            v = T.axis.spatial(6, i)
            D[v] = C[v]
"""


def test_a_sum_and_consumers_of_the_copy() -> None:
    sch = taken(SUM, lambda sch: sch.cache_write("C", 0, "local"))
    assert "D[v] = C[v]" in str(sch.mod["main"])
    sch = taken(SUM, lambda sch: sch.cache_write("C", 0, "local", ["D"]))
    assert "D[v] = C_local[v]" in str(sch.mod["main"])


SCAN = """
@T.prim_func
def f(A: T.Buffer((9,), "int32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.opaque(8, i)
            A[v + 1] = A[v] + 1
"""


def test_old_values_are_copied_in_where_that_is_asked_for() -> None:
    refused(SCAN, lambda sch: sch.cache_write("A", 0, "local"), NotApplicable)
    taken(SCAN, lambda sch: sch.cache_write("A", 0, "local", copy_in=True))


def test_what_is_not_written_must_not_be_copied_over() -> None:
    part = """
@T.prim_func
def f(A: T.Buffer((9,), "int32")):
    for i in range(8):
        A[i] = i
"""
    refused(part, lambda sch: sch.cache_write("A", 0, "local"), NotApplicable)
    taken(part, lambda sch: sch.cache_write("A", 0, "local", copy_in=True))
