"""Tiles in groups of rows: verdicts against brute force, with walks that visit every tile once and such that do not."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.poly.brute import bounds_violations, events, parallel_conflict
from tirlower.arith.affine import Affine
from tirlower.ir import PrimFunc, Var
from tirlower.poly import check_bounds, extract, is_parallel
from tirlower.poly.affine import Space
from tirlower.poly.digit_test import disjoint
from tirlower.poly.evaluate import evaluate
from tirlower.poly.forms import constant, single
from tirlower.script import parse


def walk(rng: random.Random, room: int) -> PrimFunc:
    """A walk over tiles in groups of rows, most with one number off by one, in an array with room for more."""
    rows, columns, group = rng.randint(1, 7), rng.randint(1, 4), rng.randint(2, 4)
    height, width = rng.randint(1, 3), rng.randint(1, 3)
    numbers = [group, columns, rows, group, height, width]
    if rng.random() < 0.7:
        at = rng.choice([0, 1, 2, 3, 4, 4, 5, 5])
        numbers[at] = max(1, numbers[at] + rng.choice([-1, -1, 1]))
    by, across, in_all, most, high, wide = numbers
    return parse(f"""
@T.prim_func
def f(A: T.Buffer(({rows * height + room}, {columns * width + room}), "int32")):
    for bx in T.parallel({rows * columns}):
        first: T.int32 = bx // {by * across} * {by}
        left: T.int32 = T.max(T.min({in_all} - first, {most}), 1)
        for y, x in T.grid({height}, {width}):
            A[(first + bx % {by * across} % left) * {high} + y, bx % {by * across} // left * {wide} + x] = bx
""")


@pytest.mark.parametrize("part", range(4))
@pytest.mark.by_day
def test_verdicts_equal_brute_force(part: int):
    proved = refuted = 0
    for seed in range(part * 30, part * 30 + 30):
        func = walk(random.Random(seed), 99)  # what leaves its row of an array may come to another one
        found = events(func)
        scop = extract(func)
        loop = scop.loops[0]
        verdict = is_parallel(scop, loop)
        conflict = parallel_conflict(found, loop.node)
        assert verdict.status == ("proved" if conflict is None else "refuted"), f"seed {seed}\n{func.script()}"
        tight = walk(random.Random(seed), 0)
        inside = all(each.verdict.proved for each in check_bounds(tight))
        assert inside == (not bounds_violations(events(tight))), f"seed {seed}\n{tight.script()}"
        proved += verdict.proved
        refuted += not verdict.proved
    assert proved > 9 and refuted > 1


@pytest.mark.parametrize(("rows", "tile", "proved"), [("n", 4, True), ("n", 3, False), ("n + 1", 4, True)])
def test_groups_of_any_number_of_rows(rows: str, tile: int, proved: bool):
    """The rows are no number at all: that all blocks have the same is enough."""
    verdict = is_parallel(
        parse(f"""
@T.prim_func
def f(a: T.handle, n: T.int32):
    T.func_attr({{"tir.noalias": True}})
    A = T.match_buffer(a, (n, 1 << 20), "int32")
    for bx in T.parallel(64):
        for i in range(4):
            A[bx % ({rows}), bx // ({rows}) * {tile} + i] = bx
"""),
        "bx",
    )
    assert verdict.proved == proved


def test_a_no_is_never_wrong():
    for seed in range(400):
        rng = random.Random(seed)
        space, (i, j, n) = Space(), (Var("i"), Var("j"), Var("n"))
        sizes = [rng.randint(1, 5), rng.randint(1, 4), 3]
        for var, size in zip((i, j), sizes, strict=False):
            space.iterated.add(var)
            space.ranges[var] = (0, size - 1)
        space.ranges[n] = (1, 3)
        lin = single(i).scaled(rng.choice([1, 2])) + single(j).scaled(rng.choice([0, 1, 3]))
        divisor = rng.choice(
            [
                single(n).shifted(rng.randint(0, 1)),
                space.extremum([single(n), single(j).shifted(1)], rng.random() < 0.5),
                space.extremum([single(i).scaled(-2).shifted(11), constant(rng.randint(1, 4))], False),
                space.extremum([space.floordiv(single(i), 2).scaled(-2).shifted(6), constant(3)], False),
            ]
        )
        parts = [space.symbolic_div(lin, divisor, remainder) for remainder in (False, True)]
        rng.shuffle(parts)
        pairs = []
        for part in parts[: rng.choice([1, 2, 2, 2])]:
            form = part.scaled(rng.choice([1, 2, 4])) + Affine({j: c} if (c := rng.choice([0, 0, 1])) else {})
            pairs.append((form, form.shifted(rng.choice([0, 0, 0, 1]))))
        if rng.random() < 0.5:
            floor = space.floordiv(single(i), 2)
            pairs.append((floor, floor))
        signs = {i: rng.choice("!!<>="), j: rng.choice("=*!")}
        holds = {
            "=": lambda a, b: a == b, "<": lambda a, b: a < b, ">": lambda a, b: a > b, "!": lambda a, b: a != b,
            "*": lambda a, b: True,
        }  # fmt: skip
        points = list(itertools.product(*map(range, sizes[:2])))
        meets = any(
            all(holds[signs[var]](x, y) for var, x, y in zip((i, j), a, b, strict=True))
            and all(
                evaluate(left, dict(zip((i, j, n), (*a, size), strict=True)))
                == evaluate(right, dict(zip((i, j, n), (*b, size), strict=True)))
                for left, right in pairs
            )
            for size in (1, 2, 3)
            for a in points
            for b in points
        )
        assert not (meets and disjoint(space, pairs, signs)), f"seed {seed}: {pairs} {signs}"
