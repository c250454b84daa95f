"""Transposes and their like: tiles that turn in registers, whatever is left over."""

from __future__ import annotations

import pytest

from tests.autoschedule.scheduled import AVX2, AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size

ONE = AVX2.replace("threads=2", "threads=1")
PLAIN = """
def f(A: T.Buffer(({0}, {1}), "{2}"), B: T.Buffer(({1}, {0}), "{2}")):
    for i, j in T.grid({0}, {1}):
        B[j, i] = A[i, j]
"""
BLOCKS = """
def f(A: T.Buffer((3, {0}, {1}), "{2}"), B: T.Buffer((3, {1}, {0}), "{2}")):
    for n, j, i in T.grid(3, {1}, {0}):
        with T.block("B"):
            vn, vj, vi = T.axis.remap("SSS", [n, j, i])
            B[vn, vj, vi] = A[vn, vi, vj] + A[vn, vi, vj]
"""
SHAPES = [(1, 1), (1, 67), (67, 1), (16, 16), (17, 37), (64, 64)]


@pytest.mark.parametrize("text", [PLAIN, BLOCKS])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_elements_are_the_same(shape: tuple[int, int], text: str):
    scheduled(text.format(*shape, "float32"))


@pytest.mark.parametrize("dtype", ["float64", "int16", "uint32", "bfloat16"])
def test_elements_of_other_sizes(dtype: str):
    [report] = scheduled(PLAIN.format(41, 70, dtype)).nests
    assert report.recipe == "permutation"
    assert report.parameters["tile"] == {"float64": 8, "uint32": 16}.get(dtype, 32)


def test_the_plan():
    found = planned(PLAIN.format(4096, 4096, "float32"), AVX512)
    [report] = found.nests
    assert report.parameters == {"tile": 16, "square": 64, "nontemporal": True, "parallel": True}
    assert report.exactness == "bitwise equal"
    odd = planned(PLAIN.format(1003, 1037, "float32"), ONE)
    assert odd.nests[0].parameters == {"tile": 16, "square": 16, "nontemporal": False, "parallel": False}
    assert [step.instruction.kind.name for step in odd.schedule.steps].count("Peel") == 2


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("B[j, i] = A[i, j] + B[j, i]", "does not read one array and write another"),
        ("B[j, i] = A[i, j] - B[i, j]", "it reads what it writes"),
        ("B[i, j] = A[i, j]", "another one in what is written"),
        ("B[j, 0] = A[i, j]", "written more than once"),
        ("B[j, i] = A[i, j] + A[j, i]", "another one in what is written"),
    ],
)
def test_what_is_none(body: str, why: str):
    text = f"""
def f(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(64, 64):
        {body}
"""
    [report] = planned(text, ONE).nests
    assert report.recipe != "permutation"
    assert any(why in note for note in report.notes if "permutation" in note), report.notes


SYMBOLIC = """
def f(A: T.Buffer(("b", "n", "m"), "float32"), B: T.Buffer(("b", "m", "n"), "float32")):
    for x, i, j in T.grid(b, n, m):
        B[x, j, i] = A[x, i, j] * T.float32(2)
"""


def test_any_size():
    shapes = [(1, 64, 64), (3, 17, 37), (2, 15, 16), (1, 1, 1), (0, 5, 5), (2, 0, 3), (2, 70, 129)]
    sizes = [dict(zip("bnm", shape, strict=True)) for shape in shapes]
    [report] = of_any_size(SYMBOLIC, sizes).nests
    assert report.recipe == "permutation" and "two versions" in report.rule


def test_loops_that_move_with_each_other_are_none():
    text = """
def f(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    for i in range(64):
        for j in range(i + 1):
            B[j, i] = A[i, j]
"""
    assert any("move with each other" in note for note in planned(text, ONE).nests[0].notes)
    scheduled(text)
