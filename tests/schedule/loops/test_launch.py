"""Loops as blocks and threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, IllegalStep
from tirlower.ir.query import each
from tirlower.ir.stmt import For
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((4, 8, 16), "int32"), C: T.Buffer((4,), "int32")):
    for i, j, k in T.grid(4, 8, 16):
        A[i, j, k] = i + j * k
    for p, q in T.grid(4, 8):
        C[p] = C[p] + q
"""


def test_axes_in_their_order() -> None:
    func = parse(TEXT)
    sch = tl.Schedule(func, debug_mask="all")
    i, j, k = sch.loops("A")
    sch.launch(blocks=[j, i], threads=[k])
    assert [sch.get(loop).thread_tag for loop in (i, j, k)] == ["blockIdx.y", "blockIdx.x", "threadIdx.x"]
    again(func, sch)


WIDE = """
@T.prim_func
def f(A: T.Buffer(({i}, {j}, {k}), "int32")):
    for i, j, k in T.grid({i}, {j}, {k}):
        A[i, j, k] = i + j * k
"""


@pytest.mark.parametrize(
    ("sizes", "blocks", "threads", "extents"),
    [
        ((2, 1, 4096), "i", "k", {"blockIdx.x": 2, "threadIdx.x": 1024}),
        ((2, 3, 1025), "i", "k", {"blockIdx.x": 2, "threadIdx.x": 1024}),  # no part of it fills half of them
        ((2, 3, 1500), "i", "k", {"blockIdx.x": 2, "threadIdx.x": 750}),
        ((2, 64, 64), "i", "kj", {"blockIdx.x": 2, "threadIdx.x": 64, "threadIdx.y": 16}),
        ((2, 3, 1024), "i", "kj", {"blockIdx.x": 2, "threadIdx.x": 1024, "threadIdx.y": 1}),
        ((128, 2, 3), "", "jki", {"threadIdx.x": 2, "threadIdx.y": 3, "threadIdx.z": 64}),
        ((2, 65536, 1), "ij", "k", {"blockIdx.x": 2, "blockIdx.y": 32768, "threadIdx.x": 1}),
        ((2, 3, 4), "i", "kj", {"blockIdx.x": 2, "threadIdx.x": 4, "threadIdx.y": 3}),
    ],
)
def test_loops_over_the_limits_are_split(
    sizes: tuple[int, ...], blocks: str, threads: str, extents: dict[str, int]
) -> None:
    func = parse(WIDE.format(**dict(zip("ijk", sizes, strict=True))))
    sch: Any = tl.Schedule(func, debug_mask="all")
    found = sch.launch(blocks=list(blocks), threads=list(threads))
    bound = {loop.thread_tag: loop.extent.value for loop in each(For, sch.mod["main"].body) if loop.thread_tag}
    assert bound == extents
    tags = [sch.get(loop).thread_tag for loop in found or ()]
    assert all((at % 2 == 1) is (tag is None) for at, tag in enumerate(tags))
    product = 1
    for tag, extent in extents.items():
        product *= extent if tag.startswith("threadIdx") else 1
    assert product <= 1024
    if max(sizes) < 5000:
        a, b = np.zeros(sizes, "int32"), np.zeros(sizes, "int32")
        tl.build(func, schedule="none")(a)
        tl.interpret(sch, b)
        np.testing.assert_array_equal(a, b)
    again(func, sch)


def test_what_is_refused_leaves_all_as_it_was() -> None:
    func = parse(TEXT)
    sch = tl.Schedule(func)
    p, q = sch.loops("C")
    with pytest.raises(IllegalStep):
        sch.launch(blocks=[q], threads=[p])
    assert sch.mod["main"] is func
    with pytest.raises(BadArgument, match="x, y and z"):
        sch.launch(threads=[p, q, *sch.loops("A")])
