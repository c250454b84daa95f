"""Index maps, their inverses checked on every index and every place of the result."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tirlower.script  # noqa: F401  (messages show printed expressions)
from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir import IndexMap, structural_equal, substitute


def ints(exprs: Any) -> list[int]:
    return [e.value for e in exprs]


def padded_form(fn: Callable[..., Any], shape: tuple[int, ...]) -> tuple[list[int], bool]:
    """Check the inverse and its predicate everywhere; the new shape, and whether it has padding."""
    made = IndexMap.from_func(fn, len(shape))
    back, padding = made.non_surjective_inverse(shape)
    new_shape = ints(made.map_shape(shape))
    came_from = {tuple(ints(made.map_indices(at))): at for at in itertools.product(*map(range, shape))}
    assert len(came_from) == np.prod(shape)
    for at in itertools.product(*map(range, new_shape)):
        is_padding = substitute(padding, dict(zip(back.initial_indices, at, strict=True))).value
        assert bool(is_padding) == (at not in came_from), (at, str(padding))
        if at in came_from:
            assert tuple(ints(back.map_indices(at))) == came_from[at]
    return new_shape, len(came_from) < np.prod(new_shape)


@pytest.mark.parametrize(
    ("fn", "shape", "new_shape"),
    [
        (lambda i: [i // 4, i % 4], (16,), [4, 4]),
        (lambda i, j: [j, i], (3, 5), [5, 3]),
        (lambda i, j: [i * 5 + j], (3, 5), [15]),
        (lambda i, j: [(i * 6 + j) // 4, (i * 6 + j) % 4], (2, 6), [3, 4]),
        (lambda i, j: [i * 16 + j // 2, j % 2], (2, 32), [32, 2]),
        (lambda i: [7 - i], (8,), [8]),
        (lambda i, j: [j], (1, 7), [7]),
        (lambda i: [i % 4, 0, i // 4], (8,), [4, 1, 2]),
        (lambda i: [i % 4 * 4 + i // 4], (16,), [16]),
        (lambda i, j, k: [i, j // 4, k // 4, j % 4 // 2, k % 4 // 2, j % 2, k % 2], (2, 8, 4), [2, 2, 1, 2, 2, 2, 2]),
        (lambda i, j: [(i * 32 + j) // 64, (i * 32 + j) % 64 // 4, (i * 32 + j) % 4], (6, 32), [3, 16, 4]),
        (lambda i, j: [i + j * 0, j], (3, 4), [3, 4]),
    ],
)
def test_bijections(fn, shape, new_shape):
    assert padded_form(fn, shape) == (new_shape, False)
    made = IndexMap.from_func(fn)
    back = made.inverse(shape)
    assert back.inverse(new_shape).map_shape(shape) is not None


@pytest.mark.parametrize(
    ("fn", "shape", "new_shape"),
    [
        (lambda i: [i // 4, i % 4], (15,), [4, 4]),
        (lambda i: [i // 4, i % 4], (13,), [4, 4]),
        (lambda i: [(i + 1) // 4, (i + 1) % 4], (15,), [4, 4]),
        (lambda i: [(i + 1) // 4, (i + 1) % 4], (14,), [4, 4]),
        (lambda i: [(i + 5) // 4, (i + 5) % 4], (3,), [2, 4]),
        (lambda i: [i // 32, i // 4 % 8, i % 4], (116,), [4, 8, 4]),
        (lambda i, j: [(i + 1) // 4, (j + 5) // 16, (i + 1) % 4, (j + 5) % 16], (14, 31), [4, 3, 4, 16]),
        (lambda i: [2 * i], (4,), [7]),
        (lambda i: [i + 3], (4,), [7]),
        (lambda i, j: [i * 16 + j], (3, 10), [42]),
        (lambda i, j: [(i * 5 + j) // 4, (i * 5 + j) % 4], (3, 5), [4, 4]),
        (lambda i: [(7 - i) // 3, (7 - i) % 3], (8,), [3, 3]),
        (lambda i: [(i - 2) // 4 + 1, (i - 2) % 4], (9,), [3, 4]),
        (lambda i: [i % 6 // 4, i % 6 % 4, i // 6], (12,), [2, 4, 2]),
    ],
)
def test_padding(fn, shape, new_shape):
    assert padded_form(fn, shape) == (new_shape, True)
    with pytest.raises(TirError, match="not surjective"):
        IndexMap.from_func(fn).inverse(shape)


@st.composite
def layouts(draw: Any) -> tuple[tuple[int, ...], Callable[..., Any]]:
    """A random composition of pads, splits, fusions and a permutation, as a shape and a function."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    steps: list[tuple[str, int, int]] = []
    rank = len(shape)
    for _ in range(draw(st.integers(0, 4))):
        axis = draw(st.integers(0, rank - 1))
        what = draw(st.sampled_from(["split", "pad", "fuse", "swap", "flip"]))
        if what == "split" and rank < 5:
            steps.append((what, axis, draw(st.integers(1, 4))))
            rank += 1
        elif what == "fuse" and axis + 1 < rank:
            steps.append((what, axis, 0))
            rank -= 1
        elif what in ("pad", "swap", "flip"):
            steps.append((what, axis, draw(st.integers(0, 3))))

    def fn(*indices: Any) -> list[Any]:
        current: list[tuple[Any, int]] = list(zip(indices, shape, strict=True))
        for what, axis, number in steps:
            index, extent = current[axis]
            if what == "split":
                current[axis : axis + 1] = [(index // number, -(-extent // number)), (index % number, number)]
            elif what == "fuse":
                other, inner = current[axis + 1]
                current[axis : axis + 2] = [(index * inner + other, extent * inner)]
            elif what == "pad":
                current[axis] = (index + number, extent + number)
            elif what == "flip":
                current[axis] = (extent - 1 - index, extent)
            else:
                to = number % len(current)
                current[axis], current[to] = current[to], current[axis]
        return [index for index, _ in current]

    return shape, fn


@pytest.mark.parametrize(
    ("fn", "shape"),
    [
        (lambda a, b, c: [a * 5 + (b * 2 + c + 1)], (2, 2, 2)),
        (lambda a, b, c: [a * 7 + b * 2 + c * 14], (2, 3, 4)),
        (lambda a, b, c, d: [a * 30 + b * 10 + c * 4 + d + 2], (2, 3, 2, 3)),
        (lambda i: [i // 3 * 8 + i % 3 * 3], (12,)),
    ],
)
def test_steps_that_are_no_multiples(fn, shape):
    assert padded_form(fn, shape)[1]


@given(layouts())
@settings(max_examples=60, deadline=None)
def test_random_layouts(layout):
    shape, fn = layout
    padded_form(fn, shape)


def test_symbolic_shapes():
    n = ir.Var("n", "int32")
    made = IndexMap.from_func(lambda i, j: [j, i])
    assert structural_equal(made.map_shape((n, 4)), [ir.IntImm("int32", 4), n])
    assert made.inverse((n, 4)).is_equivalent_to(made)
    split = IndexMap.from_func(lambda i: [i // 4, i % 4])
    back, padding = split.non_surjective_inverse([n])
    for extent in range(1, 14):
        fixed = substitute(padding, {n: extent})
        rows = substitute(split.map_shape([n])[0], {n: extent}).value
        assert rows == -(-extent // 4)
        for i, j in itertools.product(range(rows), range(4)):
            at = dict(zip(back.initial_indices, (i, j), strict=True))
            assert bool(substitute(fixed, at).value) == (4 * i + j >= extent)
    _, none = split.non_surjective_inverse([n * 8])
    assert none.value == 0


@pytest.mark.parametrize(
    ("fn", "shape"),
    [
        (lambda i: [i // 4], (16,)),
        (lambda i: [i % 4], (16,)),
        (lambda i: [i, i], (16,)),
        (lambda i: [i // 4, i], (16,)),
        (lambda i, j: [i + j], (4, 4)),
        (lambda i, j: [i], (4, 4)),
        (lambda i, j: [i * j, j], (4, 4)),
        (lambda i, j: [i, i ^ j], (4, 4)),
        (lambda i: [i - 3], (4,)),
    ],
)
def test_maps_without_an_inverse(fn, shape):
    with pytest.raises(TirError, match="no inverse"):
        IndexMap.from_func(fn).non_surjective_inverse(shape)


def test_a_stated_inverse_is_used():
    made = IndexMap.from_func(lambda i, j: [i, i ^ j], inverse_index_map=lambda i, j: [i, i ^ j])
    assert ints(made.inverse((4, 4)).map_indices(ints(made.map_indices((3, 2))))) == [3, 2]


def test_ranges():
    made = IndexMap.from_func(lambda i, j: [i * 4 + j, ir.build.min_(i, 3)])
    ranges = made.map_ranges([ir.Range(2, 3), ir.Range(0, 4)])
    assert [(r.min.value, r.extent.value) for r in ranges] == [(8, 12), (2, 2)]
    ranges = IndexMap.from_func(lambda i: [3 - i]).map_ranges([6])
    assert (ranges[0].min.value, ranges[0].extent.value) == (-2, 6)
    with pytest.raises(TirError, match="below 0"):
        IndexMap.from_func(lambda i: [3 - i]).map_shape([6])
    with pytest.raises(TirError, match="extents"):
        made.map_ranges([1])


def test_from_func():
    made = IndexMap.from_func(lambda i, *, k: i * 4 + k, index_dtype="int64")
    assert [v.name for v in made.initial_indices] == ["i", "k"] and made.final_indices[0].dtype == "int64"
    every = IndexMap.from_func(lambda *axes: axes[::-1], ndim=3)
    assert ints(every.map_indices([1, 2, 3])) == [3, 2, 1]
    parts, separators = IndexMap.from_func_with_separators(
        lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j, IndexMap.AXIS_SEPARATOR, 0]
    )
    assert separators == [1, 2] and len(parts.final_indices) == 3
    with pytest.raises(TirError, match="separators"):
        IndexMap.from_func(lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j])
    with pytest.raises(TirError, match="ndim"):
        IndexMap.from_func(lambda *axes: axes)
    with pytest.raises(TirError, match="ndim is 3"):
        IndexMap.from_func(lambda i, j: [i], ndim=3)
    with pytest.raises(TirError, match="takes 2 indices"):
        IndexMap.from_func(lambda i, j: [i]).map_indices([1])
    with pytest.raises(TirError, match="returns indices"):
        IndexMap.from_func(lambda i: [object()])


def test_equivalence():
    same = lambda f, g: IndexMap.from_func(f).is_equivalent_to(IndexMap.from_func(g))
    assert same(lambda i, j: [i * 4 + j], lambda a, b: [b + a * 4])
    assert same(lambda i: [i // 4, i % 4], lambda x: [x // 4, x % 4])
    assert not same(lambda i, j: [i, j], lambda i, j: [j, i])
    assert not same(lambda i: [i], lambda i: [i, 0])
    assert not same(lambda i, j: [i], lambda i: [i])


def test_arrays():
    a = np.arange(15, dtype="int16").reshape(3, 5)
    made = IndexMap.from_func(lambda i, j: [j // 2, i, j % 2])
    moved = made.map_ndarray(a)
    expected = np.zeros((3, 3, 2), "int16")
    for i, j in np.ndindex(3, 5):
        expected[j // 2, i, j % 2] = a[i, j]
    assert moved.dtype == a.dtype and (moved == expected).all()
    swizzle = IndexMap.from_func(lambda i, j: [i, i ^ j])
    with pytest.raises(TirError, match="no bounds"):
        swizzle.map_ndarray(np.zeros((4, 4)))
    with pytest.raises(TirError, match="one place"):
        IndexMap.from_func(lambda i: [i // 2]).map_ndarray(np.zeros(4))


def test_a_map_is_a_node():
    made = IndexMap.from_func(lambda i, j: [i // 4, j])
    other = IndexMap.from_func(lambda x, y: [x // 4, y])
    assert structural_equal(made, other)
    assert not structural_equal(made, IndexMap.from_func(lambda x, y: [x // 8, y]))
    back = ir.load_json(ir.save_json(ir.Block("b", (), True, (), (), None, (), {"layout": made}, ir.Evaluate(0))))
    assert structural_equal(back.annotations["layout"], made)


def test_wide_indices_widen_the_map():
    made = IndexMap.from_func(
        lambda i, j: [i // 4, j, i % 4 + 2, ir.build.bitwise_xor(i, 3), ir.build.if_then_else(i < j, i, 0)]
    )
    i64, j32 = ir.Var("i", "int64"), ir.Var("j", "int32")
    found = made.map_indices([i64, j32])
    assert {e.dtype for e in found} == {"int64"}
    assert [str(e) for e in found[:3]] == ["i // T.int64(4)", 'T.Cast("int64", j)', "i % T.int64(4) + T.int64(2)"]
    assert ints(made.map_indices([ir.build.const(2**40 + 1, "int64"), 7])[:3]) == [2**38, 7, 3]
    # a map of int64 takes narrow indices
    wide = IndexMap.from_func(lambda i: [i * 2], index_dtype="int64")
    assert wide.map_indices([j32])[0].dtype == "int64"
    assert {e.dtype for e in made.map_indices([j32, 3])} == {"int32"}


def test_indices_are_integers():
    with pytest.raises(TirError, match="returns integers, got float32"):
        IndexMap.from_func(lambda i: [i, ir.Var("f", "float32")])


def test_maps_that_differ_in_their_text_alone_are_equivalent():
    equal = [
        (lambda i: [i // 4 * 4 + i % 4], lambda i: [i]),
        (lambda i: [i * 2 // 2], lambda i: [i]),
        (lambda i, j: [(i * 8 + j * 2) // 2, j % 3], lambda i, j: [i * 4 + j, (j + 3) % 3]),
        (lambda i: [i // 2 // 3, (i + 6) % 2], lambda i: [i // 6, i % 2]),
    ]
    for f, g in equal:
        assert IndexMap.from_func(f).is_equivalent_to(IndexMap.from_func(g))
    different = [
        (lambda i: [i // 4 * 4 + i % 4], lambda i: [i + 1]),
        (lambda i: [i // 4], lambda i: [i // 4 * 4]),
        (lambda i, j: [i, j], lambda i, j: [j, i]),
        (lambda i: [i % 4], lambda i: [i % 8]),
    ]
    for f, g in different:
        assert not IndexMap.from_func(f).is_equivalent_to(IndexMap.from_func(g))
