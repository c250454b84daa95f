"""``bind_expr``: an expression has a name in front of its statement, unless it is computed under a condition only."""

from __future__ import annotations

from typing import Any

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable

TEXT = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        C[i] = {first}
    for j in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, j)
            B[v] = {second}
"""


def test_all_occurrences_in_the_statement() -> None:
    def steps(sch: Any) -> None:
        bind = sch.bind_expr("_ * _ + 1", "x")
        assert sch.get(bind).var.name == "x"

    sch = taken(TEXT.format(first="(A[i] * 3 + 1) * (A[i] * 3 + 1)", second="A[v]"), steps)
    assert "C[i] = x * x" in str(sch.mod["main"])


def test_in_a_block_and_in_indices() -> None:
    text = TEXT.format(first="A[i]", second="A[(v + 3) % 8] + (v + 3) % 8")
    sch = taken(text, lambda sch: sch.bind_expr("_ % 8", "at", at=sch.get_block("B")))
    assert "A[at] + at" in str(sch.mod["main"])
    # Regions say what the block reads, not its names.
    refused(text, lambda sch: sch.bind_expr("_ % 8", "at", at="i"), NotApplicable, "no statement")


def test_what_is_computed_under_a_condition() -> None:
    text = TEXT.format(first="T.if_then_else(i < 4, A[i + 4], 0)", second="A[v]")
    refused(text, lambda sch: sch.bind_expr("A[_]", "x", at="i"), NotApplicable, "condition")
    both = TEXT.format(first="T.if_then_else(A[i] < 4, A[i], 0)", second="A[v]")
    taken(both, lambda sch: sch.bind_expr("A[_]", "x"))


def test_wrong_arguments() -> None:
    text = TEXT.format(first="A[i]", second="A[v]")
    refused(text, lambda sch: sch.bind_expr("A[_", "x"), BadArgument)
    refused(text, lambda sch: sch.bind_expr("A[_]", "1x"), BadArgument)
    refused(text, lambda sch: sch.bind_expr("A[_] / _", "x"), NotApplicable)
