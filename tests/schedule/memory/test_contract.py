"""``contract``: a dimension less, where each element is read before another one of its place is written."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.script import parse

PLAIN = """
@T.prim_func
def f(A: T.Buffer((8, 6), "int32"), C: T.Buffer((8, 6), "int32")):
    B = T.alloc_buffer((8, 6), "int32")
    for i in range(8):
        for j in range(6):
            B[i, j] = A[i, j] * 2
        for j in range(6):
            C[i, j] = B[{row}, 5 - j] + B[i, j]
"""
BLOCKS = """
@T.prim_func
def f(A: T.Buffer((8, 6), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = 0
                B[vi] += A[vi, vj]
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] * B[vi]
"""


@pytest.mark.parametrize("dim", [0, -2])
def test_rows_that_are_read_where_they_are_written(dim: int) -> None:
    sch = taken(PLAIN.format(row="i"), lambda sch: sch.contract("B", dim))
    assert len(sch.get(sch.buffer("B")).shape) == 1
    error = refused(PLAIN.format(row="i"), lambda sch: sch.contract("B", 1))
    assert "B[" in str(error.witness)
    refused(PLAIN.format(row="T.max(i - 1, 0)"), lambda sch: sch.contract("B", 0))


def test_the_last_dimension_leaves_one_element() -> None:
    sch = taken(BLOCKS, lambda sch: sch.contract("B", 0))
    assert "B[0]" in str(sch.mod["main"])


def test_iterations_at_once_would_share_the_place() -> None:
    text = PLAIN.format(row="i").replace("range(8)", "T.parallel(8)", 1)
    sch: Any = tl.Schedule(parse(text))
    assert not sch.can("contract", "B", 0).proved


def test_wrong_arguments() -> None:
    refused(BLOCKS, lambda sch: sch.contract("B", 1), BadArgument)
    refused(BLOCKS, lambda sch: sch.contract("C", 0), NotApplicable, "parameter")
