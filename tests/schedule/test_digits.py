"""Digits of indices: put together again they are the index, at each point."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tirlower.ir import Range, Var, build
from tirlower.ir.evaluator import Evaluator
from tirlower.schedule.digits import digits_of

i, j, k = (Var(name, "int32") for name in "ijk")


@pytest.mark.parametrize(
    ("index", "extents"),
    [
        (i * 12 + j * 4 + k, (5, 3, 4)),
        (k * 15 + j * 5 + i, (5, 3, 4)),
        ((i * 3 + j) * 4 + k, (5, 3, 4)),
        (build.floordiv(i, 4) * 4 + build.floormod(i, 4), (20, 1, 1)),
    ],
)
def test_digits_make_the_index(index: Any, extents: tuple[int, ...]) -> None:
    ranges = {var: Range(0, extent) for var, extent in zip((i, j, k), extents, strict=True) if extent > 1}
    found = digits_of(index, ranges)
    assert found is not None
    for point in itertools.product(*(range(extent) for extent in extents)):
        values = dict(zip((i, j, k), point, strict=True))
        total = sum(
            values[one.source.var] // one.lower_factor.value % one.extent.value * one.scale.value  # type: ignore[attr-defined, index]
            for one in found
        )
        assert total == Evaluator(index).at(values)


@pytest.mark.parametrize("index", [i + j, i * 6 + j * 4 + k, i * 12 + j * 4 + k + 1, i * i, i * 24 + j * 4 + k])
def test_other_indices(index: Any) -> None:
    assert digits_of(index, {i: Range(0, 5), j: Range(0, 3), k: Range(0, 4)}) is None
