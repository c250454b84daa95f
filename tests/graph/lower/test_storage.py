"""Where values live: no two in one place, aligned, results and constants outside of the arena."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np

import tirlower.graph as tg
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.lower.storage import place, size_in_bytes
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.evaluate import extent_value


def chain(extents: list[Any], dims: list[Any]) -> tg.Graph:
    b = GraphBuilder("chain", dims)
    x = b.param("x", extents, "float32")
    y = b.op("exp", b.op("add", x, np.ones(3, "float32")))
    return b.finish([b.op("sum", b.op("greater", y, 1.0)), b.op("cast", y, dtype="int8"), y])


def test_places_do_not_overlap_whatever_the_dims() -> None:
    n = tg.dim("N", 0, 1000)
    for extents, dims in (([5, 3], []), ([n, 3], [n])):
        graph = chain(extents, dims)
        env = DimEnv(graph.dims)
        storage = place(graph, env, [v for op in graph.ops for v in (*op.operands, *op.results)])
        assert set(storage.written) == set(graph.results) and not set(storage.written) & set(storage.offsets)
        assert len(storage.constants) == 2  # the array and the number
        for value in random.Random(1).sample(range(1001), 20) if dims else [0]:
            at = {graph.dims[0].var: value} if dims else {}
            spans = sorted(
                (extent_value(o, at), extent_value(o, at) + extent_value(size_in_bytes(v, env), at))
                for v, o in storage.offsets.items()
            )
            assert all(start % 64 == 0 for start, _ in spans)
            assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
            assert not spans or spans[-1][1] <= extent_value(storage.arena, at)


def test_a_value_has_room_for_its_elements() -> None:
    env = DimEnv()
    b = GraphBuilder()
    for dtype, shape, size in (
        ("bool", (3,), 64),
        ("float64", (9,), 128),
        ("int8", (65,), 128),
        ("float32", (0, 4), 0),
    ):
        assert extent_value(size_in_bytes(b.param("x", shape, dtype), env), {}) == size
