"""``rolling_buffer``: rings that hold what is still read; what overwrites it, or runs at once, is refused."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, same_function
from tests.schedule.stepping import refused, taken, witness_is_true
from tirlower.diagnostics import IllegalStep, NotApplicable, ScheduleError, UnprovedStep
from tirlower.ir import BufferStore
from tirlower.ir.query import each
from tirlower.poly.verdict import Witness
from tirlower.script import parse

POOLS = """
@T.prim_func
def f(A: T.Buffer((12, 12), "int8"), C: T.Buffer((8, 8), "int8")):
    B = T.alloc_buffer((10, 10), "int8")
    for i0, i1 in T.grid(2, 2):
        for ax0, ax1, ax2, ax3 in T.grid(6, 6, 3, 3):
            with T.block("B"):
                v0 = T.axis.spatial(10, i0 * 4 + ax0)
                v1 = T.axis.spatial(10, i1 * 4 + ax1)
                r0, r1 = T.axis.remap("RR", [ax2, ax3])
                with T.init():
                    B[v0, v1] = T.int8(-128)
                B[v0, v1] = T.max(B[v0, v1], A[v0 + r0, v1 + r1])
        for ax0, ax1, ax2, ax3 in T.grid(4, 4, 3, 3):
            with T.block("C"):
                v0 = T.axis.spatial(8, i0 * 4 + ax0)
                v1 = T.axis.spatial(8, i1 * 4 + ax1)
                r0, r1 = T.axis.remap("RR", [ax2, ax3])
                with T.init():
                    C[v0, v1] = T.int8(-128)
                C[v0, v1] = T.max(C[v0, v1], B[v0 + r0, v1 + r1])
"""
STENCIL = """
@T.prim_func
def f(A: T.Buffer((20,), "int32"), C: T.Buffer((20,), "int32")):
    B = T.alloc_buffer((20,), "int32")
    for i in {kind}({low}, {high}):
        for j in range({width}):
            B[i * {stride} + j] = A[i * {stride} + j] * 3
        {between}
        for j in range({stride}):
            C[i * {stride} + j] = B[i * {stride} + j] + B[i * {stride} + {width} - 1]
"""


def test_two_pools_as_in_tvm() -> None:
    sch = taken(POOLS, lambda sch: sch.rolling_buffer("B", 0))
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((12, 12), "int8"), C: T.Buffer((8, 8), "int8")):
    B = T.alloc_buffer((6, 10), "int8")
    for i0, i1 in T.grid(2, 2):
        for ax0, ax1, ax2, ax3 in T.grid(6, 6, 3, 3):
            with T.block("B"):
                v0 = T.axis.opaque(10, i0 * 4 + ax0)
                v1 = T.axis.opaque(10, i1 * 4 + ax1)
                r0, r1 = T.axis.remap("RR", [ax2, ax3])
                T.where((i0 < 1 or 2 <= ax0) and (i1 < 1 or 2 <= ax1))
                with T.init():
                    B[v0 % 6, v1] = T.int8(-128)
                B[v0 % 6, v1] = T.max(B[v0 % 6, v1], A[v0 + r0, v1 + r1])
        for ax0, ax1, ax2, ax3 in T.grid(4, 4, 3, 3):
            with T.block("C"):
                v0 = T.axis.spatial(8, i0 * 4 + ax0)
                v1 = T.axis.spatial(8, i1 * 4 + ax1)
                r0, r1 = T.axis.remap("RR", [ax2, ax3])
                with T.init():
                    C[v0, v1] = T.int8(-128)
                C[v0, v1] = T.max(C[v0, v1], B[(v0 + r0) % 6, v1 + r1])
"""),
    )
    assert "sch.rolling_buffer(block=b0, write_buffer_index=0)" in sch.trace.text("tvm")
    loop = sch.get_loops("C")[0]
    with pytest.raises(ScheduleError):
        sch.parallel(loop)
    a = np.random.default_rng(0).integers(-100, 100, (12, 12)).astype("int8")
    results = [np.zeros((8, 8), "int8") for _ in range(2)]
    for func, out in zip((parse(POOLS), sch.mod["main"]), results, strict=True):
        tl.build(func, schedule="none")(a, out)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(("stride", "width", "low", "high"), [(1, 3, 0, 8), (2, 3, 0, 1), (2, 7, 1, 6), (3, 5, 2, 5)])
def test_strides_widths_and_beginnings(stride: int, width: int, low: int, high: int) -> None:
    text = STENCIL.format(stride=stride, width=width, low=low, high=high, kind="range", between="T.evaluate(0)")
    if high - low == 1:
        refused(text, lambda sch: sch.rolling_buffer("B", 0), NotApplicable, "the one before")
        return
    sch = taken(text, lambda sch: sch.rolling_buffer("B", 0))
    assert sch.get(sch.buffer("B")).shape[0].value == width
    # The store goes on under its handle.
    other: Any = tl.Schedule(parse(text))
    store = other.find("B[_] = _")
    other.rolling_buffer("B", 0)
    assert other.get(store).buffer.name == "B"


def shown(text: str, match: str = "") -> Witness:
    """The witness of a refusal, which happens in the program that the step makes where it is forced, and computes something else."""
    before = parse(text)
    sch: Any = tl.Schedule(before, debug_mask="all")
    with pytest.raises(IllegalStep, match=match) as caught:
        sch.rolling_buffer("B", 0)
    assert sch.mod["main"] is before
    forced: Any = tl.Schedule(before)
    with forced.unchecked("to see what it does"):
        forced.rolling_buffer("B", 0)
    after, witness = forced.mod["main"], caught.value.witness
    assert witness is not None
    stores = {str(store): store for store in each(BufferStore, after.body)}
    points = [dataclasses.replace(point, statement=stores[str(point.statement)]) for point in witness.points]
    assert witness_is_true(after, Witness(points[0], points[1], witness.parameters)), witness
    with pytest.raises(AssertionError):
        executes_alike(before, after, samples=2)
    return witness


def test_what_changes_in_between_is_computed_again() -> None:
    text = STENCIL.format(stride=2, width=4, low=0, high=4, kind="range", between="A[i * 2 + 2] = 7")
    witness = shown(text, "kept in the ring, which is computed again where A has changed")
    assert [point.action for point in witness.points] == ["reads A[2]", "writes A[2]"]


def test_iterations_at_once_hand_nothing_on() -> None:
    text = STENCIL.format(stride=2, width=4, low=0, high=4, kind="T.parallel", between="T.evaluate(0)")
    sch: Any = tl.Schedule(parse(text))
    assert not sch.can("rolling_buffer", "B", 0).proved


def test_an_element_that_is_read_later_than_the_ring_is_long() -> None:
    text = STENCIL.format(stride=2, width=4, low=0, high=4, kind="range", between="T.evaluate(0)")
    text = text.replace("+ B[i * 2 + 4 - 1]", "+ B[0]")
    witness = shown(text, "read in the ring where another one has overwritten it")
    assert [point.action for point in witness.points] == ["writes B[0]", "reads B[0]"]


def test_what_has_not_the_form() -> None:
    text = STENCIL.format(stride=2, width=2, low=0, high=4, kind="range", between="T.evaluate(0)")
    refused(text, lambda sch: sch.rolling_buffer("B", 0), NotApplicable, "the one before")
    refused(text, lambda sch: sch.rolling_buffer("C", 0), NotApplicable, "parameter")
    apart = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        B[i] = A[i]
    for i in range(8):
        C[i] = B[i]
"""
    refused(apart, lambda sch: sch.rolling_buffer("B", 0), NotApplicable, "no loop is around")


def random_stencil(seed: int) -> str:
    """A producer at a loop, of any stride and width, and a reader of some of its elements, or of some from the iteration before."""
    rng = random.Random(seed)
    stride, low = rng.randint(1, 3), rng.randint(0, 2)
    width, high = rng.randint(stride, stride * 3 + 1), low + rng.randint(2, 5)
    reads = [f"B[i * {stride} + {rng.randrange(width)}]" for _ in range(2)]
    if rng.random() < 0.3:
        reads.append(f"B[T.max(i - 1, {low}) * {stride} + {rng.randrange(width)}]")
    size = stride * high + width + 8
    return f"""
@T.prim_func
def f(A: T.Buffer(({size + 4},), "int32"), C: T.Buffer(({size},), "int32")):
    B = T.alloc_buffer(({size},), "int32")
    for i in range({low}, {high}):
        for j in range({width}):
            with T.block("B"):
                v = T.axis.spatial({size}, i * {stride} + j)
                B[v] = A[v + {rng.randint(0, 2)}] * 3
        C[i] = {" + ".join(reads)}
"""


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(6, 200))]
)
def test_random_stencils(seed: int) -> None:
    func = parse(random_stencil(seed))
    sch: Any = tl.Schedule(func, debug_mask="all")
    try:
        sch.rolling_buffer("B", 0)
    except IllegalStep:
        shown(random_stencil(seed))
        return
    except (NotApplicable, UnprovedStep):
        return
    executes_alike(func, sch.mod["main"], samples=1)
