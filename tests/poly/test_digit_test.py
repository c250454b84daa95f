from __future__ import annotations

import itertools
import math
import random
from operator import mul

import pytest

from tirlower.arith.affine import Affine
from tirlower.ir import Var
from tirlower.poly.affine import Space
from tirlower.poly.digit_test import disjoint, meeting
from tirlower.poly.forms import constant, single

pytestmark = pytest.mark.by_day


@pytest.mark.parametrize("seed", range(300))
def test_a_no_is_never_wrong_and_digits_are_decided(seed: int):
    rng = random.Random(seed)
    space = Space()
    loops = [Var(name) for name in "ij"]
    sizes = [rng.randint(1, 4), rng.randint(1, 4)]
    for var, size in zip(loops, sizes, strict=True):
        space.iterated.add(var)
        space.ranges[var] = (0, size - 1)
    pairs, values = [], []
    for _ in range(rng.randint(1, 2)):
        coefficients = [rng.choice([0, 1, 2, 4, -1, 3]) for _ in loops]
        other = coefficients if rng.random() < 0.7 else [rng.choice([0, 1, 2, 4]) for _ in loops]
        by = rng.choice([1, 1, 2, 3])
        made = [(coefficients, 0), (other, rng.randint(-2, 3))]
        forms = [Affine({v: c for v, c in zip(loops, each, strict=True) if c}, const) for each, const in made]
        pairs.append(tuple(space.floordiv(form, by) for form in forms))
        values.append(
            [lambda at, each=each, const=const, by=by: (sum(map(mul, each, at)) + const) // by for each, const in made]
        )
    signs = {var: rng.choice("=<>!*") for var in loops}
    holds = {
        "=": lambda a, b: a == b, "<": lambda a, b: a < b, ">": lambda a, b: a > b, "!": lambda a, b: a != b,
        "*": lambda a, b: True,
    }  # fmt: skip
    every = list(itertools.product(*(range(n) for n in sizes)))

    def meets(signs: dict[Var, str]) -> bool:
        return any(
            all(holds[signs[v]](x, y) for v, x, y in zip(loops, a, b, strict=True))
            and all(one(a) == other(b) for one, other in values)
            for a in every
            for b in every
        )

    assert not (disjoint(space, pairs, signs) and meets(signs))
    met = meeting(space, pairs, signs)
    for var, sign in itertools.product(loops, "<>"):
        if met is not None and signs[var] in "!*":
            told = {**signs, var: sign}
            empty = met.directed(var, sign) is None
            assert not (empty and meets(told))
            assert empty or not disjoint(space, pairs, told)  # as much is known as if it had been asked so
            for other in loops:
                if not empty and signs[other] in "!*" and other is not var:
                    assert met.directed(var, sign).directed(other, "<") or not meets({**told, other: "<"})


def test_digits_of_tiles():
    space = Space()
    io, ii, n = Var("io"), Var("ii"), Var("n", nonneg=True)
    space.iterated |= {io, ii}
    space.ranges |= {io: (0, math.inf), ii: (0, 7)}
    index = single(io).scaled(8) + single(ii) + single(n)
    assert disjoint(space, [(index, index)], {io: "!"})
    assert disjoint(space, [(index, index.shifted(8))], {io: "="})
    assert not disjoint(space, [(index, index.shifted(8))], {io: "!"})
    wide = single(io).scaled(7) + single(ii)
    assert not disjoint(space, [(wide, wide)], {io: "!"})


def test_families_as_one_unknown():
    space = Space()
    i = Var("i")
    space.iterated.add(i)
    space.ranges[i] = (0, 15)
    index = single(i).scaled(4)
    assert disjoint(space, [(index, index)], {i: "!"}, [(1, -3, 3)])
    assert not disjoint(space, [(index, index)], {i: "!"}, [(1, -4, 4)])
    assert disjoint(space, [(index, constant(2))], {i: "*"}) and not disjoint(space, [(index, constant(8))], {i: "*"})
