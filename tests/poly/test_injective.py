"""Maps of indices, against all points one by one."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.poly.test_rebound import number
from tirlower.ir.index_map import IndexMap
from tirlower.poly import extract
from tirlower.poly.injective import injective
from tirlower.script import parse

SHAPE = (6, 5)
SCOP = extract(
    parse("""
@T.prim_func
def f(A: T.Buffer((6, 5), "int32")):
    A[0, 0] = 1
""")
)


@pytest.mark.parametrize("seed", range(60))
def test_random_maps(seed: int) -> None:
    rng = random.Random(seed)

    def index(i: object, j: object) -> object:
        form = rng.choice([1, 1, 2, 5, -1]) * i + rng.choice([0, 1, 1, 3, 6]) * j  # type: ignore[operator]
        return rng.choice([form, form, form // 2, form % 4, (form + 20) // 3, form // 1 % 5])  # type: ignore[operator]

    count = rng.randint(1, 3)
    made = IndexMap.from_func(lambda i, j: [index(i, j) for _ in range(count)])
    places = [
        tuple(number(e, dict(zip(made.initial_indices, point, strict=True))) for e in made.final_indices)
        for point in itertools.product(*map(range, SHAPE))
    ]
    verdict = injective(SCOP, made, SCOP.func.buffers[0].shape)
    assert not verdict.unknown
    assert verdict.proved == (len(set(places)) == len(places)), made
    if verdict.refuted:
        one, two = (
            eval(text) for text in verdict.reason.removeprefix("the map takes ").split(" to one")[0].split(" and ")
        )
        values = [dict(zip(made.initial_indices, point, strict=True)) for point in (one, two)]
        assert one != two and len({tuple(number(e, v) for e in made.final_indices) for v in values}) == 1
