"""``cache_read``: readers see through the copy what they saw before, and only those that can read it."""

from __future__ import annotations

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument

TWO = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + 1
    {between}
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[7 - v] * 2
"""
OVER = """for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = 9"""


def test_all_readers_read_the_copy() -> None:
    sch = taken(TWO.format(between=""), lambda sch: sch.cache_read("C", 0, "shared"))
    assert str(sch.mod["main"]).count("A_shared[v") == 4


def test_a_write_in_between_leaves_the_others_alone() -> None:
    for block, first in (("B", True), ("C", False)):
        sch = taken(TWO.format(between=OVER), lambda sch, block=block: sch.cache_read(block, "A", "local"))
        text = str(sch.mod["main"])
        assert (text.index("A_local[v0] = A[v0]") < text.index("A[v] = 9")) is first
        assert text.count("= A_local[") == 1


def test_a_consumer_that_cannot_read_it_is_refused_by_name() -> None:
    refused(TWO.format(between=OVER), lambda sch: sch.cache_read("B", 0, "local", ["C"]))


def test_disjoint_writers_and_plain_loops() -> None:
    taken(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(4):
        B[i] = A[i]
    for i in range(4, 8):
        B[i] = A[i] * 2
    for i in range(8):
        C[i] = B[i] + B[7 - i]
""",
        lambda sch: sch.cache_read("C", "B", "local"),
    )


def test_wrong_arguments() -> None:
    refused(TWO.format(between=""), lambda sch: sch.cache_read("C", 1, "local"), BadArgument)
    refused(TWO.format(between=""), lambda sch: sch.cache_read("C", 0, "everywhere"), BadArgument)
