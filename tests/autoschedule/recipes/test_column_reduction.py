"""Sums along rows of what is contiguous across them: rows outermost, and the bits of the loops as written."""

from __future__ import annotations

import pytest

from tests.autoschedule.scheduled import AVX2, planned, scheduled
from tests.autoschedule.unknown import of_any_size

ONE = AVX2.replace("threads=2", "threads=1")
PLAIN = """
def f(A: T.Buffer(({0}, {1}), "{2}"), S: T.Buffer(({1},), "{2}")):
    for j in range({1}):
        S[j] = T.cast(0, "{2}")
        for i in range({0}):
            S[j] = S[j] + A[i, j]
"""
BLOCKS = """
def f(A: T.Buffer(({0}, {1}), "{2}"), v: T.Buffer(({0},), "{2}"), S: T.Buffer(({1},), "{2}")):
    for j, i in T.grid({1}, {0}):
        with T.block("S"):
            vj, vi = T.axis.remap("SR", [j, i])
            with T.init():
                S[vj] = T.cast(0, "{2}")
            S[vj] += A[vi, vj] * v[vi]
"""
SHAPES = [(1, 1), (1, 131), (131, 1), (7, 5), (19, 37), (16, 64), (8, 16)]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("text", [PLAIN, BLOCKS])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_bits_of_the_loops(shape: tuple[int, int], text: str, dtype: str):
    # A single column lies in a row, whose order the block leaves free.
    free = shape[1] == 1 and dtype == "float32" and text is BLOCKS
    scheduled(text.format(*shape, dtype), tolerance=1e-4 if free else 0.0)


@pytest.mark.parametrize("text", [PLAIN, BLOCKS])
def test_tiles_of_rows_and_columns(text: str):
    found = planned(text.format(1003, 1037, "float32"), ONE)
    [report] = found.nests
    assert (report.recipe, report.exactness) == ("column reduction", "bitwise equal")
    assert report.parameters == {"rows": 8, "columns": 16, "block": 1024, "parallel": False}
    kinds = [step.instruction.kind.name for step in found.schedule.steps]
    assert "RegisterTile" in kinds and kinds.count("Peel") == 2


def test_threads_take_blocks_of_columns():
    [report] = planned(PLAIN.format(4096, 4096, "float32")).nests
    assert report.parameters == {"rows": 8, "columns": 16, "block": 2048, "parallel": True}
    [few] = planned(PLAIN.format(8, 32, "float32")).nests
    assert not few.parameters.get("parallel")


UNKNOWN = [
    {"n": n, "m": m}
    for n, m in [(0, 3), (3, 0), (1, 1), (1, 500), (500, 1), (8, 32), (9, 33), (23, 131), (40, 263), (7, 64)]
]


@pytest.mark.parametrize("text", [PLAIN, pytest.param(BLOCKS, marks=pytest.mark.nightly)])
def test_sizes_that_are_not_known(text: str):
    program = text.replace("({0}, {1})", "('n', 'm')").replace("({0},)", "('n',)").replace("({1},)", "('m',)")
    found = of_any_size(program.format("n", "m", "float32"), UNKNOWN)
    assert (found.nests[0].recipe, found.nests[0].exactness) == ("column reduction", "bitwise equal")
    assert "parallel where m * n >= " in found.nests[0].rule


BATCHES = """
def f(A: T.Buffer((2, 3, {0}, 35), "float32"), S: T.Buffer((2, 35), "float32")):
    for b, c, y, x in T.grid(2, 35, 3, {0}):
        with T.block("S"):
            vb, vc, vy, vx = T.axis.remap("SSRR", [b, c, y, x])
            with T.init():
                S[vb, vc] = T.float32(0)
            S[vb, vc] += A[vb, vy, vx, vc]
"""


def test_sums_over_several_loops_of_batches():
    [report] = scheduled(BATCHES.format(18)).nests
    assert report.recipe == "column reduction" and report.parameters["rows"] == 6
    # Single rows behind each other's would be added in another order.
    [prime] = scheduled(BATCHES.format(17)).nests
    assert prime.recipe == "loops" and any("come in no pieces" in note for note in prime.notes)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("S[j] = S[j] + A[j, i]", "is not contiguous along j"),
        ("S[i + j] = S[i + j] + A[i, j]", "no columns are summed up"),
        ("S[j] = S[j] + A[i, j]\n            S[j] = S[j] * A[i, j]", "it has not one reduction"),
    ],
)
def test_what_is_none(body: str, why: str):
    text = f"""
def f(A: T.Buffer((64, 64), "float32"), S: T.Buffer((128,), "float32")):
    for j in range(64):
        for i in range(64):
            {body}
"""
    [report] = planned(text, ONE).nests
    assert report.recipe != "column reduction"
    assert any(why in note for note in report.notes if "column reduction" in note), report.notes
