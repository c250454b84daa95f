"""Quasi-affine forms and conditions, against evaluation over all values of their variables."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.sampling import by_day
from tirlower.arith.affine import Affine
from tirlower.arith.intervals import intersection
from tirlower.ir import Var
from tirlower.poly.affine import Space
from tirlower.poly.conditions import FALSE, TRUE, AtLeast, at_least, equal, negate
from tirlower.poly.evaluate import evaluate
from tirlower.poly.forms import Extremum, constant, single


def space_of(*ends: tuple[int, int]) -> tuple[Space, list[Var]]:
    space = Space()
    variables = [Var(name) for name in "ijk"[: len(ends)]]
    for var, (low, high) in zip(variables, ends, strict=True):
        space.ranges[var] = (low, high)
        space.iterated.add(var)
    return space, variables


def everywhere(space: Space, variables: list[Var]):
    for values in itertools.product(*(range(space.ranges[v][0], space.ranges[v][1] + 1) for v in variables)):  # type: ignore
        yield dict(zip(variables, values, strict=True))


@pytest.mark.parametrize("seed", by_day(range(60)))
def test_operations_mean_what_they_compute(seed: int):
    rng = random.Random(seed)
    space, variables = space_of((-3, 4), (0, 5), (-2, 2))
    made = [(single(v), lambda env, v=v: env[v]) for v in variables]
    for _ in range(8):
        (a, f), (b, g) = rng.choice(made), rng.choice(made)
        c = rng.choice([2, 3, 4, -2, -3, 7])
        kind = rng.randrange(7)
        if kind == 0:
            made.append((a.plus(b, c), lambda env, f=f, g=g, c=c: f(env) + c * g(env)))
        elif kind == 1:
            made.append((space.floordiv(a.shifted(c), c), lambda env, f=f, c=c: (f(env) + c) // c))
        elif kind == 2:
            made.append((space.floormod(a, c), lambda env, f=f, c=c: f(env) % c))
        elif kind == 3:
            made.append((space.truncdiv(a, c), lambda env, f=f, c=c: int(f(env) / c)))
        elif kind == 4:
            made.append((space.extremum([a, b, constant(c)], True), lambda env, f=f, g=g, c=c: max(f(env), g(env), c)))
        elif kind == 5:
            made.append((space.extremum([a, b], False), lambda env, f=f, g=g: min(f(env), g(env))))
        else:
            made.append((space.choice(at_least(a), b, a), lambda env, f=f, g=g: g(env) if f(env) >= 0 else f(env)))
    for lin, meaning in made:
        low, high = intersection(space.interval(lin), space.limits(lin))
        shifted = lin.shifted(-1)
        least, same = at_least(shifted), equal(shifted)
        conditions = [(least, negate(least)), (same, negate(same))]
        for env in everywhere(space, variables):
            value = meaning(env)
            assert evaluate(lin, env) == value, lin
            assert low <= value <= high, lin
            for (condition, negated), truth in zip(conditions, (value >= 1, value == 1), strict=True):
                assert condition.holds(lambda part, env=env: evaluate(part, env)) == truth, condition
                assert negated.holds(lambda part, env=env: evaluate(part, env)) == (not truth), condition


def test_forms_are_reduced():
    space, (i, j) = space_of((0, 3), (0, 7))
    n = Var("n", nonneg=True)
    whole = single(n).scaled(4) + single(i)
    assert str(space.floordiv(whole, 4)) == "n" and str(space.floormod(whole, 4)) == "i"
    assert str(space.floordiv(space.floordiv(single(n), 3), 4)) == str(space.floordiv(single(n), 12))
    assert str(space.floordiv(single(j).scaled(6).shifted(5), 9)) == str(
        space.floordiv(single(j).scaled(2).shifted(1), 3)
    )
    assert space.floordiv(single(j), 1).key == single(j).key
    assert str(space.extremum([single(i), constant(9)], False)) == "i"
    assert isinstance(next(iter(space.extremum([single(i), single(j)], True).terms)), Extremum)


def test_atoms_are_interned():
    space, (i,) = space_of(
        (0, 63),
    )
    assert space.floordiv(single(i), 8).key == space.floordiv(single(i), 8).key
    assert (
        space.opaque("key", "x", frozenset(), (None, None)).key
        == space.opaque("key", "x", frozenset(), (None, None)).key
    )
    assert (
        space.opaque(None, "x", frozenset(), (None, None)).key != space.opaque(None, "x", frozenset(), (None, None)).key
    )
    n, m = Var("n"), Var("m")
    assert space.multiply(single(n), single(m)).key == space.multiply(single(m), single(n)).key
    product = space.multiply(single(n).shifted(1), single(m).shifted(2))
    assert evaluate(product, {n: 5, m: 7}) == 6 * 9


def test_conditions_fold():
    i = Var("i")
    assert at_least(constant(0)) is TRUE and at_least(constant(-1)) is FALSE
    assert equal(constant(0)) is TRUE and equal(constant(3)) is FALSE
    assert negate(TRUE).is_false and negate(FALSE).is_true
    condition = at_least(Affine({i: 1}, 0))
    assert isinstance(condition, AtLeast) and str(negate(condition)) == "-1*i + -1 >= 0"


def test_a_lone_division_leaves_its_inequality():
    space = Space()
    n, i = Var("n"), Var("i")
    condition = at_least(space.floordiv(single(n).shifted(7), 8) - single(i).shifted(1))
    assert str(condition) == "-8*i + n + -1 >= 0"


@pytest.mark.parametrize("divisors", [(0, 4), (1, 3), (3, 5), (-4, -1), (-2, 2)])
@pytest.mark.parametrize("dividends", [(0, 2), (3, 9), (-7, 4), (-6, -2)])
def test_products_and_divisions_by_symbols_stay_in_their_bounds(dividends: tuple[int, int], divisors: tuple[int, int]):
    space, (i, n) = space_of(dividends, divisors)
    lin, divisor = single(i).scaled(2).shifted(-1), single(n)
    made = [
        (space.symbolic_div(lin, divisor, False), lambda x, by: x // by),
        (space.symbolic_div(lin, divisor, True), lambda x, by: x % by),
        (space.multiply(lin, divisor), lambda x, by: x * by),
    ]
    for form, meaning in made:
        for env in everywhere(space, [i, n]):
            if env[n]:
                value = meaning(2 * env[i] - 1, env[n])
                for low, high in (space.interval(form), space.limits(form)):
                    assert low <= value <= high
                assert evaluate(form, env) == value
