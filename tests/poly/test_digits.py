from __future__ import annotations

import itertools
import random

import pytest

from tirlower.ir import Var
from tirlower.poly.affine import Space
from tirlower.poly.digit_test import disjoint
from tirlower.poly.digits import in_digits
from tirlower.poly.evaluate import evaluate
from tirlower.poly.forms import constant, single

pytestmark = pytest.mark.by_day

HOLDS = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "!": lambda a, b: a != b,
    "*": lambda a, b: True,
}


def _loops(sizes):
    space = Space()
    loops = [Var(name) for name, _ in zip("ijk", sizes, strict=False)]
    for var, size in zip(loops, sizes, strict=True):
        space.iterated.add(var)
        space.ranges[var] = (0, size - 1)
    every = [dict(zip(loops, at, strict=True)) for at in itertools.product(*map(range, sizes))]
    return space, loops, every


def _random_form(rng, space, loops):
    """A sum of quotients and remainders of one or two forms, by divisors that often divide each other."""
    bases = [single(loops[0]), single(loops[1]), single(loops[0]).scaled(rng.choice([2, 3, 4])) + single(loops[1])]
    bases = [base.shifted(rng.choice([0, 0, 0, 1, 5])) for base in bases]
    form = constant(rng.choice([0, 0, 0, 1, -2]))
    for _ in range(rng.randint(1, 4)):
        base, divisor = rng.choice(bases), rng.choice([1, 2, 2, 3, 4, 4, 6, 8])
        part = space.floordiv(base, divisor) if rng.random() < 0.6 else space.floormod(base, divisor)
        form = form.plus(part, rng.choice([1, 1, 2, 4, 8, -1, -2, 3]))
    return form


@pytest.mark.parametrize("seed", range(400))
def test_a_no_is_never_wrong(seed: int):
    rng = random.Random(seed)
    space, loops, every = _loops([rng.randint(1, 12), rng.randint(1, 5)])
    pairs = []
    for _ in range(rng.randint(1, 2)):
        a = _random_form(rng, space, loops)
        pairs.append((a, a if rng.random() < 0.6 else _random_form(rng, space, loops)))
    signs = {var: rng.choice("=<>!*") for var in loops if rng.random() < 0.8}
    if not disjoint(space, pairs, signs):
        return
    values = [([evaluate(a, at) for a, _ in pairs], [evaluate(b, at) for _, b in pairs], at) for at in every]
    meeting = [
        (p, q)
        for mine, _, p in values
        for _, others, q in values
        if mine == others and all(HOLDS[sign](p[var], q[var]) for var, sign in signs.items())
    ]
    assert not meeting


@pytest.mark.parametrize("seed", range(100))
def test_digits_are_the_form_that_they_stand_for(seed: int):
    rng = random.Random(seed)
    space, loops, every = _loops([rng.randint(1, 40), rng.randint(1, 9)])
    pairs = [(_random_form(rng, space, loops), _random_form(rng, space, loops)) for _ in range(2)]
    apart = in_digits(space, pairs) or list(pairs)
    for (a, b), (x, y) in zip(pairs, apart, strict=False):
        assert [evaluate(a, at) for at in every] == [evaluate(x, at) for at in every]
        assert [evaluate(b, at) for at in every] == [evaluate(y, at) for at in every]
    for nothing, same in apart[len(pairs) :]:
        assert nothing.key == same.key and {evaluate(nothing, at) for at in every} == {0}
    for dim in {dim for pair in apart for lin in pair for dim in lin.terms}:
        low, high = space.interval_of_dim(dim)
        assert all(low <= evaluate(single(dim), at) <= high for at in every)


def test_tiles_in_groups_of_rows():
    """What a grid is taken apart into for tiles of 128, eight rows of them a group."""
    space, (x, t), _ = _loops([1024, 128])
    x, t = single(x), single(t)
    rows = space.floordiv(x, 256).scaled(8) + space.floormod(space.floormod(x, 256), 8)
    m = rows.scaled(128) + space.floormod(t, 32).scaled(4)
    n = space.floordiv(space.floormod(x, 256), 8).scaled(128) + space.floordiv(t, 32).scaled(32)
    (bx,) = x.terms
    assert disjoint(space, [(m, m), (n, n)], {bx: "!"})
    assert disjoint(space, [(m, m), (n, n)], {bx: "<"})
    # Rows of other groups, but of the same columns.
    assert not disjoint(space, [(m, m)], {bx: "!"})
    assert not disjoint(space, [(n, n)], {bx: "!"})
    narrow = space.floordiv(space.floormod(x, 256), 8).scaled(96) + space.floordiv(t, 32).scaled(32)
    assert not disjoint(space, [(m, m), (narrow, narrow)], {bx: "!"})


def test_a_fused_loop():
    """``(i * 6 + j) // 4`` and ``% 4`` tell the iterations of both loops apart."""
    space, (i, j), _ = _loops([9, 6])
    fused = single(i).scaled(6) + single(j)
    pairs = [(lin, lin) for lin in (space.floordiv(fused, 4), space.floormod(fused, 4))]
    assert disjoint(space, pairs, {i: "!"}) and disjoint(space, pairs, {i: "=", j: "!"})
    assert not disjoint(space, pairs[:1], {i: "=", j: "!"})
    wider = single(i).scaled(5) + single(j)
    pairs = [(lin, lin) for lin in (space.floordiv(wider, 4), space.floormod(wider, 4))]
    assert not disjoint(space, pairs, {i: "!"})
