"""What comes later is asked for inside of its buffer, and changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable, NotFound
from tirlower.script import parse

ROWS = """
@T.prim_func
def f(A: T.Buffer((5, 40), "float32"), B: T.Buffer((5, 40), "float32")):
    for i, j in T.grid(5, 40):
        B[i, j] = A[i, j] + T.float32(1)
"""
BLOCKS = """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 32), "float64")
    B = T.match_buffer(b, (n, 32), "float64")
    for i, j in T.grid(n, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float64(2)
"""
TRIANGLE = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i):
            B[i, j] = A[i, j]
"""


def addresses(sch: tl.Schedule) -> list[str]:
    return [line.strip() for line in str(sch.mod["main"]).splitlines() if "T.prefetch" in line]


@pytest.mark.parametrize("ahead", [1, 3, 100])
def test_the_next_rows_are_asked_for(ahead: int) -> None:
    def steps(sch: Any) -> None:
        sch.prefetch("A", sch.vectorize("j", 32, tail="scalar")[0], "i", ahead=ahead)

    sch = taken(ROWS, steps)
    row = "4" if ahead == 100 else f"T.min(i + {ahead}, 4)"
    assert addresses(sch) == [f"T.prefetch(T.address_of(A[{row}, line1 * 16]), 0, 3, 1)"]
    a = np.random.default_rng(0).random((5, 40), dtype=np.float32)
    np.testing.assert_array_equal(tl.build(sch, outputs=["B"], schedule="none")(a), a + np.float32(1))


def test_lines_of_blocks_and_symbolic_rows() -> None:
    sch = taken(BLOCKS, lambda sch: sch.prefetch("A", sch.get_loops("B")[0], sch.get_loops("B")[0]))
    assert addresses(sch) == ["T.prefetch(T.address_of(A[n - T.max(n - i - 2, 0) - 1, line1 * 8]), 0, 3, 1)"]
    a = np.random.default_rng(0).random((3, 32))
    np.testing.assert_array_equal(tl.build(sch, outputs=["B"], schedule="none")(a), a * 2)
    assert tl.build(sch, outputs=["B"], schedule="none")(np.empty((0, 32))).shape == (0, 32)


def test_what_is_not_fetched_ahead() -> None:
    refused(ROWS, lambda sch: sch.prefetch("B", "i", "i"), NotApplicable, "nothing there reads B")
    refused(ROWS, lambda sch: sch.prefetch("C", "i", "i"), NotFound)
    refused(ROWS, lambda sch: sch.prefetch("A", "i", "j"), BadArgument, "not a loop around")
    refused(ROWS, lambda sch: sch.prefetch("A", "j", "i", ahead=0), BadArgument, "from 1")
    refused(TRIANGLE, lambda sch: sch.prefetch("A", "j", "i"), NotApplicable, "depends on `i`")


def test_what_would_lie_outside_of_its_buffer_is_refused() -> None:
    shifted = parse("""
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(8):
        for j in range(8):
            if i * 16 + j < 64:
                B[i * 8 + j] = A[i * 16 + j]
""")
    sch: Any = tl.Schedule(shifted)
    assert not sch.can("prefetch", "A", "j", "i").proved
