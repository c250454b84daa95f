"""Slices of slices: any bounds, negative and dynamic ones, against Python's own slices."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.passes.checking import check_graph
from tirlower.graph.passes.rules import apply_rules, rule_table
from tirlower.graph.passes.rules_shapes import SHAPES

Bounds = tuple[int | None, int | None, int]
RULE = [rule for rule in SHAPES.rules if rule.name == "slice_of_slice"]


def composed(graph: tg.Graph) -> tg.Graph:
    return apply_rules(graph, rule_table(RULE, tg.passes.Canonicalize().numerics))


def sliced(extent: object, *several: Bounds) -> tg.Graph:
    dims = [extent] if not isinstance(extent, int) else []
    b = tg.GraphBuilder("f", dims)
    x = b.param("x", (extent,), "int64")
    for start, end, step in several:
        x = b.op("slice", x, starts=(start,), ends=(end,), steps=(step,))
    return b.finish(x)


def bounds(rng: random.Random) -> Bounds:
    place = (None, 0, 1, 2, 5, 9, -1, -2, -4, -9)
    return rng.choice(place), rng.choice(place), rng.choice((1, 1, 1, 2, 3, -1, -2))


@pytest.mark.parametrize("seed", range(4))
def test_static_slices_are_always_one(seed):
    rng = random.Random(seed)
    for _ in range(60):
        extent, several = rng.choice((0, 1, 2, 5, 7)), [bounds(rng) for _ in range(rng.choice((2, 2, 3)))]
        after = composed(sliced(extent, *several))
        x = wanted = np.arange(extent)
        for one in several:
            wanted = wanted[slice(*one)]
        assert tg.interpret(after, x).tolist() == wanted.tolist(), (several, extent)
        assert len(after.ops) <= 1, (several, extent)


def test_dynamic_slices_are_one_where_that_is_known_and_right_in_any_case():
    rng = random.Random(7)
    count = 0
    for _ in range(60):
        low, several = rng.choice((0, 1, 10)), [bounds(rng), bounds(rng)]
        after = composed(sliced(tg.dim("B", low), *several))
        count += len(after.ops) == 1
        for extent in range(low, low + 6):
            wanted = np.arange(extent)[slice(*several[0])][slice(*several[1])]
            assert tg.interpret(after, np.arange(extent)).tolist() == wanted.tolist(), (several, extent)
    assert count > 30


@pytest.mark.parametrize(
    ("low", "several"),
    [
        (0, [(1, None, 1), (None, -1, 1)]),
        (0, [(None, -1, 1), (None, -2, 1)]),
        (2, [(1, None, 1), (1, None, 1)]),
        (4, [(-3, None, 1), (-2, None, 1)]),
        (4, [(-3, None, 1), (1, -1, 1)]),
        (4, [(None, None, -1), (1, 3, 1)]),
    ],
)
def test_what_has_to_be_known_of_dims(low, several):
    assert len(composed(sliced(tg.dim("B", low), *several)).ops) == 1


def test_turned_round_twice_it_is_the_whole_and_what_might_count_from_the_end_stays():
    assert not composed(sliced(tg.dim("B"), (None, None, -1), (None, None, -1))).ops
    # Its end would be B - 4: for 3 elements -1, which is the last one.
    assert len(composed(sliced(tg.dim("B", 3), (None, None, -1), (1, 3, 1))).ops) == 2


def test_bounds_that_are_dims():
    B, N = tg.dim("B", 1), tg.dim("N", 1)

    def f(x, n):
        return x[n.shape[0] : n.shape[0] + x.shape[0] - 1][1:], x[:, 1:][:, : n.shape[0]]

    graph = tg.trace(f, tg.spec((B, N + 2), "float32"), tg.spec((N,), "float32"))
    after = check_graph(tg.passes.Canonicalize(), graph)
    assert len([op for op in after.ops if op.name == "slice"]) < 4


def test_split_and_concat_undo_each_other_with_dims_behind_expand_too():
    B, C = tg.dim("B"), tg.dim("C", 1)

    def f(x, y):
        low, high = tg.split(np.concatenate([x, y]), (x.shape[0], y.shape[0]))
        return low, high, np.concatenate(tg.split(high, (1, y.shape[0] - 1)))

    graph = tg.trace(f, tg.spec((B, 2), "float32"), tg.spec((C, 2), "float32"))
    for one in (graph, tg.passes.Expand()(graph)):
        after = check_graph(tg.passes.Canonicalize(), one)
        assert [v.name for v in after.results] == ["x", "y", "y"]


def test_slices_of_dims_with_clamped_bounds_are_one_and_written_short():
    x = tg.spec((tg.dim("B", 0),), "float32")
    for function, bounds in (
        (lambda x: x[1:][1:], ((2,), (None,))),
        (lambda x: x[1:][1:][1:][1:], ((4,), (None,))),
        (lambda x: x[2:][::-1], None),
    ):
        graph = tg.trace(function, x)
        made = check_graph(tg.passes.Canonicalize(), graph)
        if bounds is not None:
            assert [(op.attrs["starts"], op.attrs["ends"]) for op in made.ops] == [bounds]
        for size in range(6):
            array = np.arange(size, dtype="float32")
            assert np.array_equal(tg.interpret(made, array), function(array))


def test_bounds_that_grow_end_the_merging():
    def function(x):
        for k in range(12):
            x = x[:-1] if k % 2 else x[: (x.shape[0] + 1) // 2]
        return x

    graph = tg.trace(function, tg.spec((tg.dim("B", 0),), "float32"))
    made = tg.passes.Canonicalize()(graph)
    tg.verify(made)
    assert 1 < len(made.ops) < 12 and len(str(made)) < 10_000
    for size in (0, 5, 12, 15, 300, 5000):
        array = np.arange(size, dtype="float32")
        assert np.array_equal(tg.interpret(made, array), function(array))
