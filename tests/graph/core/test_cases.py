"""Extents that are equal in every case: what is proved is so at all small values, and what differs is never proved."""

from __future__ import annotations

import itertools
import random

import pytest

import tirlower.graph as tg
from tirlower.graph.core.cases import equal_by_cases, has_cases
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.extents import parsed_extent
from tirlower.graph.ops.evaluate import extent_value
from tirlower.ir import build

B, C = tg.dim("B", 0), tg.dim("C", 1, 9, multiple_of=2)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("max(B - 5, 0) + min(B, 5)", "B"),
        ("min(1, B) + min(1, max(B - 1, 0))", "min(2, B)"),
        ("max(max(min(3, B) - max(B - 3, 0), 0) - 1, 0)", "max(max(min(3, B), B - 3) - max(B - 3, 0) - 1, 0)"),
        ("min(max(B, C), B)", "B if C > 0 else 0"),
        ("B - C if B > C else C - B", "max(B, C) - min(B, C)"),
        ("(B if C > 4 else 1) * 2", "B * 2 if C >= 5 else 2"),
    ],
)
def test_equal(a, b):
    env = DimEnv([B, C])
    x, y = (parsed_extent(text, env, "x") for text in (a, b))
    assert env.equal(x, y) is True and env.equal(y, x) is True and not env.assumed


@pytest.mark.parametrize(
    ("a", "b"),
    [("min(B, 5)", "min(B, 6)"), ("max(B - 1, 0)", "B - 1"), ("min(B, C)", "B"), ("B if C == 2 else 1", "B")],
)
def test_not_known_to_be_equal(a, b):
    env = DimEnv([B, C])
    x, y = (parsed_extent(text, env, "x") for text in (a, b))
    assert env.equal(x, y) is None
    assert not equal_by_cases(env.analyzer, x, y)  # also without the samples


def test_facts_that_come_later_are_seen():
    env = DimEnv([tg.dim("B", 0)])
    x, y = (parsed_extent(text, env, "x") for text in ("max(B - 1, 0)", "B - 1"))
    assert env.equal(x, y) is None
    env.state("B", 1)
    assert env.equal(x, y) is True


def test_random_verdicts_against_all_small_values():
    rng = random.Random(5)
    env = DimEnv([B, C])
    forms = [build.add, build.sub, build.min_, build.max_, lambda a, b: build.select(build.lt(a, b), a, b + 1)]

    def drawn(depth):
        if depth == 0:
            return rng.choice([B.var, C.var, build.add(B.var, rng.randint(-3, 3)), build.sub(C.var, rng.randint(0, 3))])
        return rng.choice(forms)(drawn(depth - 1), drawn(rng.randint(0, depth - 1)))

    proved = refused = 0
    points = list(itertools.product(range(12), (2, 4, 6, 8)))
    for _ in range(120):
        x = drawn(2)
        # As likely as not the same in another form: a minimum is the lesser of two, however it is written.
        y = build.max_(x, x - rng.randint(0, 2)) if rng.random() < 0.5 else drawn(2)
        if not has_cases(x, y):
            continue
        same = all(extent_value(x, {B.var: b, C.var: c}) == extent_value(y, {B.var: b, C.var: c}) for b, c in points)
        if equal_by_cases(env.analyzer, x, y):
            proved += 1
            assert same, f"{x} and {y}"
        else:
            refused += 1
    assert proved > 20 and refused > 20
