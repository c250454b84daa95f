"""``compute_at``: the producer runs where it is read, for what is read, or two instances show why it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable
from tirlower.schedule.compute.moved import Source
from tirlower.script import parse

BLUR = """
@T.prim_func
def f(A: T.Buffer((18, 8), "float32"), C: T.Buffer((16, 8), "float32")):
    B = T.alloc_buffer((18, 8), "float32")
    for i, j in T.grid(18, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + B[vi + 1, vj] + B[vi + 2, vj]
"""


def test_a_stencil_is_recomputed_in_tiles_whatever_divides() -> None:
    for factor in (4, 5):

        def steps(sch: Any, factor: int = factor) -> None:
            i, _ = sch.get_loops("C")
            outer, _ = sch.split(i, [None, factor])
            sch.compute_at("B", outer)

        sch = taken(BLUR, steps)
        text = str(sch.mod["main"])
        assert f"for ax0, ax1 in T.grid({factor + 2}, 8)" in text
        assert ("T.where(" in text) == (factor == 5)


def test_a_reduction_with_its_init_and_unit_loops() -> None:
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
            D[v] = C[v] * 2
"""
    sch = taken(text, lambda sch: sch.compute_at("C", sch.get_loops("D")[0]))
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((6, 10), "int32"), D: T.Buffer((6,), "int32")):
    C = T.alloc_buffer((6,), "int32")
    for i in range(6):
        for ax0 in range(10):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, ax0])
                T.reads(A[vi, vk])
                T.writes(C[vi])
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
        with T.block("D"):
            v = T.axis.spatial(6, i)
            T.reads(C[v])
            T.writes(D[v])
            D[v] = C[v] * 2
"""),
    )
    sch = taken(text, lambda sch: sch.compute_at("C", sch.get_loops("D")[0], preserve_unit_loops=True))
    assert "for ax0, ax1 in T.grid(1, 10)" in str(sch.mod["main"])


PLAIN = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 8):
        B[i, j] = A[i, j] + 1
    {between}
    for i, j in T.grid(8, 8):
        C[i, j] = B[j, i] * 3
"""


def test_plain_loops_and_an_unrelated_write_in_between() -> None:
    taken(PLAIN.format(between="for z in range(8):\n        C[z, z] = 0"), lambda sch: sch.compute_at("B", "C/i"))


def test_an_input_that_changes_in_between_is_a_witness() -> None:
    error = refused(
        PLAIN.format(between="for i in range(2, 4):\n        A[i, 7] = 0"), lambda sch: sch.compute_at("B", "C/i")
    )
    assert error.witness.sink.action in ("writes A[2, 7]", "writes A[3, 7]")


def test_what_others_read_or_the_function_leaves_is_a_witness() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(8):
        B[i] = A[i]
    for i in range(4):
        C[i] = B[i]
""",
        lambda sch: sch.compute_at("B", "C/i"),
    )
    # A parameter that is written in full all the same may be computed there.
    taken(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = A[i]
    for i in range(8):
        C[i] = B[i]
""",
        lambda sch: sch.compute_at("B", "C/i"),
    )


OWN = """
@T.prim_func
def f(A: T.Buffer((12, 6), "int32"), X: T.Buffer((12, 6), "int32")):
    for i in range({outer}):
        L = T.alloc_buffer(({rows}, 6), "int32", scope="local")
        for r, j in T.grid({rows}, 6):
            with T.block("P"):
                v0 = T.axis.spatial(12, {first})
                v1 = T.axis.spatial(6, j)
                L[{row}, v1] = A[v0, v1] + A[v0, 5 - v1]
        for r2, j2 in T.grid({rows}, 6):
            X[i * {rows} + r2, j2] = L[r2, j2]
"""


def test_iterators_of_loops_around_both_places_keep_their_values() -> None:
    for outer, first in ((12, "i"), (12, "11 - i"), (6, "i * 2")):
        text = OWN.format(outer=outer, rows=1, first=first, row="0")
        sch = taken(text, lambda sch: sch.compute_at("P", "j2"))
        assert [loop.name for loop in sch.get_loops("P")] == ["i", "r2", "j2"], first
        taken(text, lambda sch: sch.compute_at("P", "r2", preserve_unit_loops=True))
        other = text.replace("X[i * 1 + r2, j2] = L[r2, j2]", "X[L[r2, j2] % 12, j2] = 1")
        taken(other, lambda sch: sch.compute_at("P", "r2"))


def test_two_iterations_with_memory_of_their_own_are_no_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Source, "kept", {})  # each iteration of `i` computes what all of them do: the last row is left
    text = OWN.format(outer=12, rows=1, first="i", row="0")
    error = refused(text, lambda sch: sch.compute_at("P", "j2"))
    (i, *_), (other, *_) = (point.loops for point in error.witness.points)
    assert i == other, "of one iteration, in whose memory both are"


def test_handles_of_the_block_go_along() -> None:
    def steps(sch: Any) -> None:
        block = sch.get_block("B")
        outer = sch.get_loops("C")[0]
        sch.compute_at(block, outer)
        assert sch.get(block).name == "B"
        assert [loop.var.name for loop in block.loops] == ["i", "ax0", "ax1"]
        assert sch.get(outer).loop_var.name == "i"

    taken(BLUR, steps)


@pytest.mark.parametrize(("loop", "index", "kind"), [("B/i", -1, NotApplicable), ("C/i", 7, BadArgument)])
def test_wrong_arguments(loop: str, index: int, kind: type[Exception]) -> None:
    refused(BLUR, lambda sch: sch.compute_at("B", loop, index=index), kind)  # type: ignore[arg-type]


def test_a_sum_into_what_was_there_is_not_repeated() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4, 3), "int32")):
    for i in range(4):
        B[i] = B[i] + A[i]
    for i, j in T.grid(4, 3):
        C[i, j] = B[i]
""",
        lambda sch: sch.compute_at("B", "C/j"),
        IllegalStep,
    )
