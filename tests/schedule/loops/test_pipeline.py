"""``pipeline``: stages that keep dependences are annotated, and what is built of them computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.script import parse

PLAIN = """
@T.prim_func
def f(A: T.Buffer(({n},), "int32"), C: T.Buffer(({n},), "int32")):
    for i in range({n}):
        B = T.alloc_buffer((1,), "int32")
        B[0] = A[i] * 2
        {middle}
        C[i] = B[0] + 1
"""
BLOCKS = """
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8, 4), "int32")):
    B = T.alloc_buffer((8, 4), "int32")
    for i in range(8):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * 2
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, 3 - vj] + 1
"""


def built_alike(text: str, sch: Any, shape: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).integers(-99, 99, shape).astype("int32")
    results = [np.zeros(shape, "int32") for _ in range(2)]
    for func, out in zip((parse(text), sch.mod["main"]), results, strict=True):
        tl.build(func, schedule="none")(a, out)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("n", [2, 3, 9])
def test_stages_of_plain_loops(n: int) -> None:
    text = PLAIN.format(n=n, middle="C[i] = B[0]")
    sch = taken(text, lambda sch: sch.pipeline("i", [0, 1, 2]))
    built_alike(text, sch, (n,))
    sch = taken(text, lambda sch: sch.pipeline("i", [0, 1, 1], [2, 0, 1]))
    built_alike(text, sch, (n,))


def test_stages_of_blocks() -> None:
    sch = taken(BLOCKS, lambda sch: sch.pipeline(sch.get_loops("C")[0], [0, 1], async_=True))
    loop = sch.get(sch.get_loops("C")[0])
    assert loop.annotations["software_pipeline_async_stages"] == (0,)
    built_alike(BLOCKS, sch, (8, 4))


def test_dependences_that_would_turn_round() -> None:
    text = PLAIN.format(n=8, middle="A[(i + 1) % 8] = B[0]")
    refused(text, lambda sch: sch.pipeline("i", [0, 1, 1]), NotApplicable, "iteration")
    refused(
        PLAIN.format(n=8, middle="C[i] = 0"), lambda sch: sch.pipeline("i", [1, 1, 0]), NotApplicable, "later stage"
    )
    refused(PLAIN.format(n=1, middle="C[i] = 0"), lambda sch: sch.pipeline("i", [0, 1, 1]), NotApplicable, "one time")
    one = '@T.prim_func\ndef f(A: T.Buffer((8,), "int32")):\n    for i in range(8):\n        A[i] = 1\n'
    refused(one, lambda sch: sch.pipeline("i", [0]), NotApplicable, "two statements")


def test_numbers_that_mean_nothing() -> None:
    text = PLAIN.format(n=8, middle="C[i] = B[0]")
    for stages, order in (([0, 1], None), ([0, 1, -1], None), ([0, 1, 1], [0, 1, 1]), ([0, 1, 1], [0, 1])):
        refused(text, lambda sch, stages=stages, order=order: sch.pipeline("i", stages, order), BadArgument)
