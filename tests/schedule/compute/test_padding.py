"""``decompose_padding``: the fill in front of a loop, the rest under its condition; old values read in between are a witness."""

from __future__ import annotations

from typing import Any

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable

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
