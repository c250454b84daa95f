"""Calls whose sizes would take index arithmetic past 64 bits are refused."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.script import parse

CLAMPED = """
@T.prim_func
def clamped(A: T.Buffer(("n",), "int8"), B: T.Buffer((4,), "int32")):
    for i in range(n):
        B[T.max(T.min(i * i * i, 3), 0)] = i
"""


def test_a_call_past_64_bits_is_refused() -> None:
    kernel = tl.build(parse(CLAMPED))
    B = np.zeros(4, "int32")
    kernel(np.zeros(1300, "int8"), B)
    assert B.tolist() == [0, 1, 0, 1299]
    with pytest.raises(OverflowError, match="clamped: with these sizes its index arithmetic may leave int64"):
        kernel(np.zeros(3_000_000, "int8"), B)
    assert B.tolist() == [0, 1, 0, 1299]


def test_nothing_is_asserted_of_two_sizes() -> None:
    assert "float64" not in tl.build(parse(CLAMPED.replace("i * i * i", "i * i"))).source("tir")


def test_where_accesses_are_trusted_nothing_is_asserted() -> None:
    with tl.PassContext(config={"tir.unproved_bounds": "trust"}):
        assert "float64" not in tl.build(parse(CLAMPED)).source("tir")
