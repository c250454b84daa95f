"""The padding of layouts: who writes it, what may be in it, and that nobody sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import (
    BadArgument,
    BoundsError,
    NotApplicable,
    RuntimeAssertError,
    StricterThanLegal,
    UnprovedStep,
)
from tirlower.interp import interpret
from tirlower.script import parse

BLOCKS = """
@T.prim_func
def f(A: T.Buffer(({n},), "int32"), X: T.Buffer(({n},), "int32")):
    B = T.alloc_buffer(({n},), "int32")
    C = T.alloc_buffer(({n},), "int32")
    for i in range({n}):
        with T.block("block"):
            vi = T.axis.spatial({n}, i)
            B[vi] = A[vi] + vi
            {more}
    for i in range({n}):
        with T.block("X"):
            vi = T.axis.spatial({n}, i)
            X[vi] = B[{n} - 1 - vi] * 2
"""
PLAIN = """
@T.prim_func
def f(A: T.Buffer((5, 7), "int32"), X: T.Buffer((5, 7), "int32")):
    B = T.alloc_buffer((5, 7), "int32")
    for i, j in T.grid(5, 7):
        B[i, j] = A[i, j] + i
    {more}
    for i, j in T.grid(5, 7):
        X[i, j] = B[i, 6 - j] * 2
"""


def by_four(i: Any) -> list[Any]:
    return [i // 4, i % 4]


@pytest.mark.parametrize("n", [1, 13, 14, 16])
@pytest.mark.parametrize("more", ["", "C[vi] = 0"])
@pytest.mark.parametrize("pad", [0, -3, lambda i, j: i * 2 + j])
def test_blocks_that_cover_the_buffer_or_not(n: int, more: str, pad: Any) -> None:
    sch = taken(BLOCKS.format(n=n, more=more), lambda sch: sch.transform_layout("block", "B", by_four, pad_value=pad))
    text = str(sch.mod["main"])
    assert ("if_then_else" in text) is (n in (13, 14) and not more)
    assert ("block_pad_B" in text) is (n in (13, 14) and bool(more))


def test_the_producer_is_that_of_tvm() -> None:
    sch = taken(BLOCKS.format(n=14, more=""), lambda sch: sch.transform_layout("X", "B", by_four, pad_value=42))
    block = sch.get(sch.get_block("block"))
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((14,), "int32"), X: T.Buffer((14,), "int32")):
    B = T.alloc_buffer((4, 4), "int32")
    C = T.alloc_buffer((14,), "int32")
    for i, j in T.grid(4, 4):
        with T.block("block"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vi == 3 and 2 <= vj, 42, A[vi * 4 + vj] + (vi * 4 + vj))
    for i in range(14):
        with T.block("X"):
            vi = T.axis.spatial(14, i)
            X[vi] = B[(13 - vi) // 4, (1 - vi) % 4] * 2
"""),
    )
    assert len(block.iters) == 2


def test_plain_loops_and_two_dimensions() -> None:
    def tiles(i: Any, j: Any) -> list[Any]:
        return [i // 2, j // 4, i % 2, j % 4]

    for more in ("", "B[2, 3] = 5"):
        sch = taken(PLAIN.format(more=more), lambda sch: sch.transform_layout("X", "B", tiles, pad_value=9))
        assert ("if_then_else" in str(sch.mod["main"])) is (not more)
        taken(PLAIN.format(more=more), lambda sch: sch.transform_layout("X", "B", tiles))


def test_an_output_is_given_with_its_padding() -> None:
    sch: Any = tl.Schedule(parse(BLOCKS.format(n=14, more="")), debug_mask="all", validate=True)
    sch.transform_layout("X", "X", by_four, pad_value=7, interface=True)
    assert sch.steps[-1].exactness.startswith("interface(X")
    a, x = np.arange(14, dtype="int32"), np.zeros((4, 4), "int32")
    interpret(sch.mod["main"], a, x)
    assert (x.reshape(-1)[14:] == 7).all()
    assert (x.reshape(-1)[:14] == (a + np.arange(14))[::-1] * 2).all()
    out = np.zeros((4, 4), "int32")
    tl.build(sch.mod["main"], schedule="none")(a, out)
    assert (out == x).all()


def test_an_input_is_assumed_to_have_it() -> None:
    sch: Any = tl.Schedule(parse(BLOCKS.format(n=14, more="")), debug_mask="all", validate=True)
    sch.transform_layout("block", "A", by_four, pad_value=42, interface=True)
    assert sch.steps[-1].verdict == "trusted"
    assert "padding of A is 42" in str(sch.report())
    assert sch.get(sch.get_block("buffer_A_assumptions")).iters[0].var.name == "v_axis0"
    a, x = np.full((4, 4), 42, "int32"), np.zeros(14, "int32")
    interpret(sch.mod["main"], a, x)
    a[3, 3] = 0
    with pytest.raises(RuntimeAssertError):
        interpret(sch.mod["main"], a, x)


def test_elements_of_the_buffer_are_repeated() -> None:
    def steps(sch: Any) -> None:
        buffer = sch.get(sch.get_block("block")).writes[0].buffer
        sch.transform_layout("block", "B", by_four, pad_value=lambda i, j: buffer[(i * 4 + j) % 14])

    taken(BLOCKS.format(n=14, more=""), steps)
    # Not all that it may load was written.
    some = BLOCKS.format(n=14, more="").replace("range(14)", "range(2, 14)", 1).replace("B[14 - 1 - vi]", "B[2]")
    refused(some, steps, UnprovedStep, "nothing wrote")


def test_what_is_no_value() -> None:
    text = BLOCKS.format(n=14, more="")

    def other(sch: Any) -> None:
        buffer = sch.get(sch.get_block("block")).reads[0].buffer
        sch.transform_layout("block", "B", by_four, pad_value=lambda i, j: buffer[i])

    refused(text, other, BadArgument, "may load B alone")
    refused(text, lambda sch: sch.transform_layout("block", "B", by_four, pad_value="x"), BadArgument)
    refused(text, lambda sch: sch.transform_layout("block", "B", by_four, pad_value=lambda i, j: [i, j]), BadArgument)
    refused(text, lambda sch: sch.transform_layout("block", "A", by_four, pad_value=0), NotApplicable, "parameter")


def test_an_index_outside_does_not_come_to_lie_in_the_padding() -> None:
    text = BLOCKS.format(n=14, more="").replace("B[14 - 1 - vi]", "B[vi + 1]")
    for pad in (None, 0):
        refused(
            text,
            lambda sch, pad=pad: sch.transform_layout("block", "B", by_four, pad_value=pad),
            UnprovedStep,
            "outside",
        )
    # Without room for it, it is as wrong as before.
    sch: Any = tl.Schedule(parse(text.replace("14", "16")))
    sch.transform_layout("block", "B", by_four)
    with pytest.raises(BoundsError):
        interpret(sch.mod["main"], np.zeros(16, "int32"), np.zeros(16, "int32"))


def test_tvm_asks_for_a_value() -> None:
    text = BLOCKS.format(n=14, more="")
    refused(text, lambda sch: sch.transform_layout("block", "B", by_four), StricterThanLegal, "padding", accept="tvm")
    taken(text, lambda sch: sch.transform_layout("block", "B", by_four, pad_value=0), accept="tvm")
    sch: Any = tl.Schedule(parse(text), accept="tvm")
    sch.transform_layout("block", "A", by_four, pad_value=1)  # parameters too
    assert sch.get(sch.buffer("A")).shape[0].value == 4


def test_alignments_move_along() -> None:
    text = PLAIN.format(more="").replace(
        "        B[i, j] = A[i, j] + i",
        '        with T.block("B"):\n            vi, vj = T.axis.remap("SS", [i, j])\n            B[vi, vj] = A[vi, vj] + vi',
    )

    def steps(sch: Any, index_map: Any) -> Any:
        sch.storage_align("B", 0, -2, 8, 1)
        sch.transform_layout("B", "B", index_map)
        return sch.get(sch.get_block("B")).annotations

    sch: Any = tl.Schedule(parse(text))
    assert steps(sch, lambda i, j: [j // 2, i, j % 2]) == {"buffer_dim_align": ((0, 1, 8, 1),)}
    sch = tl.Schedule(parse(text))
    assert steps(sch, lambda i, j: [i // 2, j, i % 2]) == {}
    assert any("no more" in record.why for record in sch.steps)
