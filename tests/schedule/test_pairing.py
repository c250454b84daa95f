"""The ways to lay expressions on each other."""

from __future__ import annotations

from typing import Any

import pytest

from tirlower.ir import decl_buffer
from tirlower.schedule.pairing import ways

A, B, C = (decl_buffer((4,), "int32", name) for name in "ABC")


def paired(mine: Any, described: Any) -> list[str]:
    return [" ".join(f"{a}={b}" for a, b in way) for way in ways(mine, described)]


def test_operands_either_way_round_as_written_first() -> None:
    assert paired(A[0] * B[1], B[2] * C[3]) == ["A[0]=B[2] B[1]=C[3]", "B[1]=B[2] A[0]=C[3]"]
    assert paired(A[0] - B[1], B[2] - C[3]) == ["A[0]=B[2] B[1]=C[3]"]
    assert len(paired(A[0] + B[1] * C[2], A[0] + B[1] * C[2])) == 2  # a product is no load


def test_what_loads_nothing_is_one_expression() -> None:
    assert paired(A[0] + 6, B[0] + 6) == ["A[0]=B[0] 6=6"]


@pytest.mark.parametrize("other", [B[0] - C[1], B[0] + C[1] * 2, B[0].astype("int64") + C[1].astype("int64")])
def test_other_operations(other: Any) -> None:
    assert paired(A[0] + A[1], other) == []
