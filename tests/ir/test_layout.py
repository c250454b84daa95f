"""Layouts by letters: their parts, what is refused, and that conversions there and back are the identity."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tirlower.diagnostics import TirError
from tirlower.ir import BijectiveLayout, Layout, Var, bijective_layout, layout


def numbers(exprs):
    return tuple(int(e.value) for e in exprs)


def test_the_parts_of_a_layout():
    blocked = layout("OIHW4i16o")
    assert len(blocked) == 6 and str(blocked) == "OIHW4i16o" and list(blocked.axes) == ["O", "I", "H", "W", "i", "o"]
    assert [blocked.index_of(axis) for axis in "OWoix"] == [0, 3, 5, 4, -1]
    assert [blocked.factor_of(axis) for axis in "OoIHz"] == [16, 16, 4, -1, -1]
    assert "i" in blocked and "h" not in blocked and blocked[4] == "i"
    assert blocked == Layout("OIHW4i16o") and blocked != Layout("OIHW") and len({blocked, layout("OIHW4i16o")}) == 1


@pytest.mark.parametrize("text", ["NN", "NCH4", "NC0c", "Nc", "N4c", "NC 4c", "NC-4c", "N4C", "NC4c8c"])
def test_texts_that_are_no_layout(text):
    with pytest.raises(TirError, match="no layout"):
        Layout(text)


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [
        ("NCHW", "NHWC", (2, 3, 4, 5)),
        ("NCHW", "NCHW4c", (2, 8, 3, 2)),
        ("NCHW4c", "NHWC", (1, 2, 3, 2, 4)),
        ("NCHW4c", "NCHW8c", (1, 4, 2, 2, 4)),
        ("OI", "IO2i4o", (8, 6)),
        ("A", "A3a", (7,)),
    ],
)
def test_every_index_goes_there_and_back(source, target, shape):
    made = bijective_layout(source, target)
    there = numbers(made.forward_shape(shape))
    seen = np.zeros(there, dtype=int)
    for index in itertools.product(*map(range, shape)):
        at = numbers(made.forward_index(index))
        seen[at] += 1
        assert numbers(made.backward_index(at)) == index
    assert seen.max() == 1
    if seen.size == np.prod(shape):
        assert numbers(made.backward_shape(there)) == shape


def test_symbols_and_what_does_not_fit():
    n = Var("n")
    made = bijective_layout("NCHW", "NCHW16c")
    assert [str(e) for e in made.forward_index((n, n, 0, 0))] == ["n", "n // 16", "0", "0", "n % 16"]
    with pytest.raises(TirError, match="has 4 axes, got 3 indices"):
        made.forward_index((0, 0, 0))
    with pytest.raises(TirError, match="extent 8"):
        made.backward_shape((1, 2, 3, 4, 8))
    with pytest.raises(TirError, match="other axes"):
        BijectiveLayout("NCHW", "NCW")
