"""``reuse``: lifetimes that do not meet, element by element; those that do are a witness."""

from __future__ import annotations

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable

CHAIN = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    C = T.alloc_buffer(({size},), "{dtype}")
    for i in range(8):
        B[i] = A[i] * 2
    for i in range({size}):
        C[i] = T.Cast("{dtype}", B[{read}] + 1)
    for i in range(8):
        X[i] = T.Cast("int32", C[i % {size}]) + {late}
"""


def test_elements_are_overwritten_where_they_were_read_last() -> None:
    for size in (8, 5):
        text = CHAIN.format(size=size, dtype="int32", read="i", late="0")
        sch = taken(text, lambda sch: sch.reuse("B", "C"))
        assert "C = " not in str(sch.mod["main"])


def test_elements_that_are_read_later_are_a_witness() -> None:
    for read, late in (("7 - i", "0"), ("i", "B[i]")):
        error = refused(CHAIN.format(size=8, dtype="int32", read=read, late=late), lambda sch: sch.reuse("B", "C"))
        assert "B[" in str(error.witness)


def test_what_has_no_room_or_another_form() -> None:
    text = CHAIN.format(size=5, dtype="int32", read="i", late="0")
    refused(text, lambda sch: sch.reuse("C", "B"), NotApplicable, "longer")
    refused(text, lambda sch: sch.reuse("B", "B"), NotApplicable, "already")
    refused(text, lambda sch: sch.reuse("A", "B"), NotApplicable, "parameter")
    other = CHAIN.format(size=8, dtype="float32", read="i", late="0")
    refused(other, lambda sch: sch.reuse("B", "C"), NotApplicable, "data type")


def test_memory_of_a_loop_is_not_there_outside() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        D = T.alloc_buffer((8,), "int32")
        D[i] = A[i] * 2
        B[i] = D[i] + 1
    for i in range(8):
        X[i] = B[7 - i]
"""
    refused(text, lambda sch: sch.reuse("D", "B"), NotApplicable, "lift_alloc")
    taken(text, lambda sch: sch.reuse("B", "D"))
