from __future__ import annotations

import itertools
import random

import pytest

from tirlower.arith.affine import Affine
from tirlower.ir import Var
from tirlower.poly.affine import Space
from tirlower.poly.conditions import at_least, equal
from tirlower.poly.constraint_system import BOTH, System
from tirlower.poly.evaluate import evaluate
from tirlower.poly.few_values import MAX_VALUES, few_values
from tirlower.poly.forms import constant, single
from tirlower.poly.isl import default_solver


def random_form(rng: random.Random, space: Space, loops: list[Var], depth: int = 2):
    """A sum of loops and floors of them, or the least or greatest of such forms, shifted and scaled."""
    if depth and rng.random() < 0.6:
        options = [random_form(rng, space, loops, depth - 1) for _ in range(rng.randint(1, 2))]
        made = space.extremum([*options, constant(rng.randint(-3, 12))], rng.random() < 0.4)
        return made.scaled(rng.choice([1, 1, 2, -1])).shifted(rng.randint(-2, 5))
    made = Affine({var: c for var in loops if (c := rng.choice([0, 1, -2, 4, -8]))}, rng.randint(-4, 20))
    return space.floordiv(made, rng.choice([1, 1, 2, 4]))


def random_space(rng: random.Random) -> tuple[Space, list[Var], list[dict[Var, int]]]:
    space, loops = Space(), [Var("i"), Var("j")]
    sizes = [rng.randint(1, 4), rng.randint(1, 5)]
    for var, size in zip(loops, sizes, strict=True):
        space.iterated.add(var)
        space.ranges[var] = (0, size - 1)
    return space, loops, [dict(zip(loops, at, strict=True)) for at in itertools.product(*map(range, sizes))]


def test_no_value_is_left_out():
    few = 0
    for seed in range(600):
        rng = random.Random(seed)
        space, loops, every = random_space(rng)
        form = random_form(rng, space, loops)
        values = few_values(form, space.interval)
        assert len(values) <= MAX_VALUES and list(values) == sorted(set(values))
        if values:
            few += 1
            assert {evaluate(form, env) for env in every} <= set(values), f"seed {seed}: {form}"
    assert few > 300


def test_many_values_are_none():
    space, i = Space(), Var("i")
    space.ranges[i] = (0, MAX_VALUES)
    assert few_values(single(i), space.interval) == ()
    assert few_values(single(Var("n")), space.interval) == ()
    assert few_values(space.extremum([single(Var("n")), constant(3)], False), space.interval) == ()


@pytest.mark.parametrize("part", range(4))
def test_isl_knows_divisions_by_few_values(part: int):
    """Every value that a quotient and a remainder have together is a solution, and no other one is."""
    asked = 0
    for seed in range(part * 40, part * 40 + 40):
        rng = random.Random(seed)
        space, loops, every = random_space(rng)
        divisor = space.extremum([random_form(rng, space, loops), constant(1)], True)
        lin = random_form(rng, space, loops)
        forms = [space.symbolic_div(lin, divisor, remainder) for remainder in (False, True)]
        if rng.random() < 0.3:  # the remainder known to nobody when the quotient is asked about
            forms = forms[:1]
        meant = {tuple(evaluate(form, env) for form in forms) for env in every}
        by_hand = {(evaluate(lin, e) // evaluate(divisor, e), evaluate(lin, e) % evaluate(divisor, e)) for e in every}
        assert meant == {values[: len(forms)] for values in by_hand}
        for wanted in (*sorted(meant)[:3], *((rng.randint(-3, 9), rng.randint(0, 5)) for _ in range(3))):
            system = System(space, frozenset(space.iterated))
            for var in loops:
                low, high = space.ranges[var]
                system.add(at_least(single(var).shifted(-int(low))), BOTH)
                system.add(at_least((-single(var)).shifted(int(high))), BOTH)
            for form, value in zip(forms, wanted, strict=False):
                system.add(equal(form.shifted(-value)), BOTH)
            found = system.solve(default_solver())
            if found.status == "unknown" or not found.exact:
                continue
            asked += 1
            assert (found.status == "found") == (wanted[: len(forms)] in meant), f"seed {seed}: {forms} {wanted}"
    assert asked > 100
