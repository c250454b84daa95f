"""Nests of no other class: interchanged for contiguous memory, one loop parallel, never a bit changed."""

from __future__ import annotations

import functools

import pytest

from tests.autoschedule import scheduled as schedules
from tests.autoschedule.scheduled import AVX2
from tirlower.autoschedule.recipes.fallback import FALLBACK
from tirlower.script import parse

planned = functools.partial(schedules.planned, recipes=[FALLBACK])
scheduled = functools.partial(schedules.scheduled, recipes=[FALLBACK])
COLUMNS = """
def f(A: T.Buffer(({0}, {1}), "float32"), B: T.Buffer(({0}, {1}), "float32")):
    for j, i in T.grid({1}, {0}):
        B[i, j] = A[i, j] * T.float32(2)
"""


@pytest.mark.parametrize("shape", [(33, 17), (1, 64), (64, 1), (5, 7)])
def test_interchanged(shape: tuple[int, int]):
    scheduled(COLUMNS.format(*shape))


def test_the_plan():
    found = planned(COLUMNS.format(512, 512), AVX2.replace("threads=2", "threads=1"))
    assert found.nests[0].parameters == {"innermost": "j", "parallel": None}
    assert planned(COLUMNS.format(512, 512)).nests[0].parameters == {"innermost": "j", "parallel": "i"}
    [little] = planned(COLUMNS.format(8, 8)).nests
    assert little.parameters.get("parallel") is None


def test_a_sum_keeps_its_order():
    # The loops of the sum would be faster the other way round.
    text = """
def f(A: T.Buffer((40, 30), "float32"), B: T.Buffer((1,), "float32")):
    for k, l in T.grid(30, 40):
        B[0] = B[0] + A[l, k]
"""
    [nest] = scheduled(text).nests
    assert nest.recipe == ""


def test_what_carries_is_neither_interchanged_nor_parallel():
    text = """
def f(A: T.Buffer((40, 60), "int32")):
    for j, i in T.grid(39, 59):
        A[j + 1, i] = A[j, i + 1] + 1
"""
    [nest] = scheduled(text).nests
    assert nest.parameters.get("parallel") != "j"


def test_symbolic_sizes():
    found = scheduled("""
def f(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("n", "m"), "float32")):
    for j, i in T.grid(m, n):
        B[i, j] = A[i, j] * T.float32(2)
""")
    assert found.nests[0].parameters["innermost"] == "j"


def test_imperfect_and_triangular_nests():
    found = scheduled(
        """
def f(A: T.Buffer((300, 300), "float32"), B: T.Buffer((300,), "float32")):
    for i in range(300):
        B[i] = T.float32(0)
        for j in range(i + 1):
            B[i] = B[i] + A[i, j]
""",
        interpreted=False,
    )
    assert found.nests[0].parameters == {"innermost": None, "parallel": "i"}
    inner = planned("""
def f(A: T.Buffer((300, 300), "float32")):
    for i in range(300):
        for j in range(i + 1):
            A[j, i] = A[j, i] + T.float32(1)
""")
    assert inner.nests[0].parameters.get("innermost") in (None, "i")


def test_arrays_that_overlap_get_the_written_loops():
    import numpy as np

    import tirlower as tl

    func = parse("""
def f(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    for j, i in T.grid(64, 64):
        B[i, j] = A[i, j] + T.float32(1)
""")
    made, plain = (tl.build(func, schedule=how) for how in ("auto", "none"))
    for at in (0, 1, 64, 65):
        one, other = (np.arange(64 * 66, dtype="float32") for _ in "ab")
        for kernel, memory in ((made, one), (plain, other)):
            kernel(memory[: 64 * 64].reshape(64, 64), memory[at : at + 64 * 64].reshape(64, 64))
        assert one.tobytes() == other.tobytes()
