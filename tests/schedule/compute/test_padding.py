"""``decompose_padding``: the fill in front of a loop, the rest under its condition; old values read in between are a witness."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable
from tirlower.script import parse

PAD = """
@T.prim_func
def f(A: T.Buffer((8, 6), "float32"), B: T.Buffer((10, 8), "float32"), X: T.Buffer((10,), "float32")):
    for i in range(10):
        {first}
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(
                    vi >= 1 and vi < 9 and vj >= 1 and vj < 7, A[vi - 1, vj - 1], T.float32(0)
                )
"""


def test_at_both_loops_and_split() -> None:
    text = PAD.format(first="X[i] = T.float32(1)")
    taken(text, lambda sch: sch.decompose_padding("B", sch.get_loops("B")[0]))
    taken(text, lambda sch: sch.decompose_padding("B", sch.get_loops("B")[1]))

    def steps(sch: Any) -> None:
        sch.split(sch.get_loops("B")[1], [None, 3])
        assert sch.can_decompose_padding("B", sch.get_loops("B")[1])
        block = sch.decompose_padding("B", sch.get_loops("B")[1])
        assert sch.get(block).name == "B_pad_const"

    taken(text, steps)


def test_old_values_in_between_are_a_witness() -> None:
    text = PAD.format(first="X[i] = B[T.min(i + 1, 9), 0]")
    error = refused(text, lambda sch: sch.decompose_padding("B", sch.get_loops("B")[0]))
    assert "B" in str(error.witness)
    taken(text, lambda sch: sch.decompose_padding("B", sch.get_loops("B")[1]))


def test_what_pads_nothing_has_not_the_form() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
""",
        lambda sch: sch.decompose_padding("B", "i"),
        NotApplicable,
    )


def test_the_region_has_loops_of_its_own_as_in_tvm() -> None:
    text = PAD.format(first="T.evaluate(0)").replace("        T.evaluate(0)\n", "")
    sch = taken(text, lambda sch: sch.decompose_padding("B", sch.get_loops("B")[0]))
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((8, 6), "float32"), B: T.Buffer((10, 8), "float32"), X: T.Buffer((10,), "float32")):
    for i, j in T.grid(10, 8):
        with T.block("B_pad_const"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.float32(0)
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi + 1, vj + 1] = A[vi, vj]
"""),
    )
    inner = taken(text, lambda sch: sch.decompose_padding("B", sch.get_loops("B")[1]))
    block = inner.get(inner.get_block("B"))
    assert str(block.predicate) == "i >= 1 and i < 9"  # of a loop outside; the other iterator is trimmed
    assert str(block.iters[1].domain.extent) == "6"


@pytest.mark.parametrize(
    "condition",
    ["v >= 3", "5 > v", "v - 2 >= 0 and v < 20", "2 <= v and 9 - v > 0", "v % 2 == 0 and v > 1", "v < 0", "v != 4"],
)
def test_conditions_of_any_form(condition: str) -> None:
    text = f"""
@T.prim_func
def f(A: T.Buffer((10,), "int32"), B: T.Buffer((10,), "int32")):
    for i in range(10):
        with T.block("B"):
            v = T.axis.spatial(10, i)
            B[v] = T.if_then_else({condition}, A[9 - v] + v, 7)
"""
    taken(text, lambda sch: sch.decompose_padding("B", "i"))


def test_a_symbolic_size() -> None:
    taken(
        """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (n + 4,), "int32")
    for i in range(n + 4):
        with T.block("B"):
            v = T.axis.spatial(n + 4, i)
            B[v] = T.if_then_else(2 <= v and v < n + 2, A[v - 2], 0)
""",
        lambda sch: sch.decompose_padding("B", "i"),
    )


PLAIN = """
@T.prim_func
def f(A: T.Buffer((8, 6), "float32"), B: T.Buffer((10, 8), "float32"), X: T.Buffer((10,), "float32"), n: T.int32):
    for i in range({low}, {high}):
        {first}
        for j in range({inner}):
            B[i, j] = T.if_then_else({condition}, A[i - 1, j - 1], T.float32(0))
"""
INSIDE = "i >= 1 and i < 9 and j >= 1 and j < 7"


@pytest.mark.parametrize(("low", "high", "inner"), [(0, 10, "8"), (2, 9, "8"), (0, 1, "1"), (3, 3, "8"), (0, 10, "i")])
@pytest.mark.parametrize("condition", [INSIDE, f"{INSIDE} and (i + j) % 2 == 0", f"n < 4 and {INSIDE}"])
def test_plain_loops(low: int, high: int, inner: str, condition: str) -> None:
    inner = "T.min(i, 8)" if inner == "i" else inner
    text = PLAIN.format(low=low, high=high, inner=inner, condition=condition, first="T.evaluate(0)")
    for loop in ("i", "j"):
        taken(text, lambda sch, loop=loop: sch.decompose_padding("B", loop))
    alone = text.replace("        T.evaluate(0)\n", "")
    for loop in ("i", "j"):
        taken(alone, lambda sch, loop=loop: sch.decompose_padding("B", loop))


def test_plain_loops_go_over_the_region_alone() -> None:
    text = PLAIN.format(low=0, high=10, inner=8, condition=INSIDE, first="T.evaluate(0)").replace(
        "        T.evaluate(0)\n", ""
    )

    def steps(sch: Any) -> None:
        store = sch.find("B[_] = _")
        fill = sch.decompose_padding("B", "i")
        assert sch.get(fill).loop_var.name == "i" and sch.get(fill) is not sch.get(store)
        assert str(sch.get(store)) == "B[i, j] = A[i - 1, j - 1]"

    sch = taken(text, steps)
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((8, 6), "float32"), B: T.Buffer((10, 8), "float32"), X: T.Buffer((10,), "float32"), n: T.int32):
    for i, j in T.grid(10, 8):
        B[i, j] = T.float32(0)
    for i in range(1, 9):
        for j in range(1, 7):
            B[i, j] = A[i - 1, j - 1]
"""),
    )


def test_plain_loops_that_read_old_values_in_between() -> None:
    text = PLAIN.format(low=0, high=10, inner=8, condition=INSIDE, first="X[i] = B[T.min(i + 1, 9), 0]")
    refused(text, lambda sch: sch.decompose_padding("B", "i"))
    taken(text, lambda sch: sch.decompose_padding("B", "j"))
    refused(text, lambda sch: sch.decompose_padding("X", "j"), NotApplicable, "not around the store to X")
