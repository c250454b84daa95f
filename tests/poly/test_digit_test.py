from __future__ import annotations

import itertools
import math
import random

import pytest

from tirlower.arith.affine import Affine
from tirlower.ir import Var
from tirlower.poly.affine import Space
from tirlower.poly.digit_test import disjoint
from tirlower.poly.forms import constant, single


@pytest.mark.parametrize("seed", range(300))
def test_a_no_is_never_wrong_and_digits_are_decided(seed: int):
    rng = random.Random(seed)
    space = Space()
    loops = [Var(name) for name in "ij"]
    sizes = [rng.randint(1, 4), rng.randint(1, 4)]
    for var, size in zip(loops, sizes, strict=True):
        space.iterated.add(var)
        space.ranges[var] = (0, size - 1)
    pairs = []
    for _ in range(rng.randint(1, 2)):
        coefficients = [rng.choice([0, 1, 2, 4, -1, 3]) for _ in loops]
        other = coefficients if rng.random() < 0.7 else [rng.choice([0, 1, 2, 4]) for _ in loops]
        pairs.append(
            (
                Affine({v: c for v, c in zip(loops, coefficients, strict=True) if c}, 0),
                Affine({v: c for v, c in zip(loops, other, strict=True) if c}, rng.randint(-2, 3)),
            )
        )
    signs = {var: rng.choice("=<>!*") for var in loops}
    answer = disjoint(space, pairs, signs)
    holds = {
        "=": lambda a, b: a == b, "<": lambda a, b: a < b, ">": lambda a, b: a > b, "!": lambda a, b: a != b,
        "*": lambda a, b: True,
    }  # fmt: skip
    every = [dict(zip(loops, v, strict=True)) for v in itertools.product(*(range(n) for n in sizes))]
    meets = any(
        all(holds[signs[v]](a[v], b[v]) for v in loops)
        and all(
            sum(c * a[v] for v, c in x.terms.items()) + x.const == sum(c * b[v] for v, c in y.terms.items()) + y.const
            for x, y in pairs
        )
        for a in every
        for b in every
    )
    assert not (answer and meets)


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
