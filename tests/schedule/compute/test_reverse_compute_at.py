"""``reverse_compute_at``: the consumer runs where its input is written, all of it, or an instance shows what is lost."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable
from tirlower.script import parse

CHAIN = """
@T.prim_func
def f(A: T.Buffer(({n}, 8), "int32"), C: T.Buffer(({n}, 8), "int32")):
    B = T.alloc_buffer(({n}, 8), "int32")
    for i, j in T.grid({n}, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid({n}, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1
"""


def test_at_outer_inner_and_split_loops_that_do_not_divide() -> None:
    taken(CHAIN.format(n=6), lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0]))

    def steps(sch: Any) -> None:
        outer, _ = sch.split(sch.get_loops("B")[0], [None, 4])
        sch.reverse_compute_at("C", outer)

    assert "T.where(" in str(taken(CHAIN.format(n=7), steps).mod["main"])


def test_behind_a_reduction_only_where_it_is_done() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((6, 10), "int32"), D: T.Buffer((6,), "int32")):
    C = T.alloc_buffer((6,), "int32")
    for i, k in T.grid(6, 10):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] += A[vi, vk]
    for i in range(6):
        with T.block("D"):
            v = T.axis.spatial(6, i)
            D[v] = T.max(C[v], 0)
"""
    taken(text, lambda sch: sch.reverse_compute_at("D", sch.get_loops("C")[0]))
    # Inside the sum it reads what is not summed up yet; the last time it reads all, and what it wrote before is written over.
    sch = taken(text, lambda sch: sch.reverse_compute_at("D", sch.get_loops("C")[0]))
    assert sch.can("reverse_compute_at", "D", sch.get_loops("C")[1]).status in ("refuted", "proved")


def test_what_is_not_run_any_more_is_a_witness() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(4):
        B[i] = A[i]
    for i in range(8):
        C[i] = B[i]
""",
        lambda sch: sch.reverse_compute_at("C", "B/i"),
    )
    refused(CHAIN.format(n=6), lambda sch: sch.reverse_compute_at("B", sch.get_loops("C")[0]), NotApplicable)


def test_a_neighbour_that_is_not_written_yet_is_a_witness() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((9,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((9,), "int32")
    for i in range(9):
        B[i] = A[i]
    for i in range(8):
        C[i] = B[i] + B[i + 1]
""",
        lambda sch: sch.reverse_compute_at("C", "B/i"),
    )


def test_what_is_read_has_to_be_there_at_the_new_place_which_comes_before_the_old_one() -> None:
    """The result is read behind both places, and its own reads look ahead in the loops that it moves into."""
    text = """
@T.prim_func
def f(X: T.Buffer((6, 6), "int32"), Y: T.Buffer((6, 6), "int32")):
    B = T.alloc_buffer((6, 6), "int32")
    D = T.alloc_buffer((6, 6), "int32")
    for i0, j0 in T.grid(6, 6):
        D[i0, j0] = X[1, 5 - j0]
    for i1, j1 in T.grid(6, 6):
        B[i1, j1] = D[i1, j1] + D[i1, {ahead}]
    for i2, j2 in T.grid(6, 6):
        Y[i2, j2] = B[5 - i2, j2]
"""
    for ahead in ("5 - j1", "T.min(j1 + 1, 5)"):
        for index in (-1, -2):
            refused(text.format(ahead=ahead), lambda sch, index=index: sch.reverse_compute_at("B", "j0", index=index))
        taken(text.format(ahead=ahead), lambda sch: sch.reverse_compute_at("B", "i0"))
    taken(text.format(ahead="T.max(j1 - 1, 0)"), lambda sch: sch.reverse_compute_at("B", "j0"))


OWN = """
@T.prim_func
def f(A: T.Buffer((6, 6), "int32"), X: T.Buffer((6, 6), "int32")):
    B = T.alloc_buffer((6, 6), "int32")
    for i, j in T.grid(6, 6):
        B[i, j] = A[i, j] * 3
    for k in range(6):
        row = T.alloc_buffer((6,), "int32", scope="local")
        for l in range(6):
            with T.block("row"):
                vk, vl = T.axis.remap("SS", [k, l])
                row[vl] = B[vk, vl] + 1
        for m in range(6):
            X[k, m] = row[m]
"""


def test_what_it_uses_is_declared_where_it_goes() -> None:
    """Memory that the loops around the old place declare is not there at the new one: the step left it undefined."""
    sch = tl.Schedule(parse(OWN), debug_mask="all")
    with pytest.raises(
        NotApplicable, match=r"what `row` uses is declared where the loop does not see it(\n.*)*lift_alloc"
    ):
        sch.reverse_compute_at("row", "i")
    name = OWN.replace("            with", "            n = A[k, 0]\n            with").replace("+ 1", "+ n")
    with pytest.raises(NotApplicable, match="is declared where the loop does not see it"):
        tl.Schedule(parse(name)).reverse_compute_at("row", "i")
