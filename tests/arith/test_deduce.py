"""What a condition says of one variable: every value of the interval makes it true, whatever the relaxed ones are."""

from __future__ import annotations

import itertools
import random

import pytest
from evaluate import NoValue, evaluate

from tests.generate.nodes import Nodes
from tirlower.arith import IntervalSet, deduce_bound
from tirlower.ir import Max, Range, Var, build

a, b, c, d = (Var(name) for name in "abcd")
HINTS = {b: IntervalSet(2, 3), c: IntervalSet(10, 15), d: IntervalSet(-3, -1)}


def ends(found, env=None):
    """Both ends as numbers; None where there is none."""
    return [None if end is None else evaluate(end, env or {}) for end in (found.min_value, found.max_value)]


def test_factors_of_known_sign_divide():
    for bb, cc, dd in itertools.product((2, 3), range(10, 16), (-3, -2, -1)):
        env = {b: bb, c: cc, d: dd}
        falling = deduce_bound(a, (0 - b) * a + c - d >= 0, HINTS, {})
        assert ends(falling, env) == [None, (cc - dd) // bb]
        rising = deduce_bound(a, d * a + c - d >= 0, HINTS, {})
        assert ends(rising, env) == [None, (dd - cc) // dd]
        assert ends(deduce_bound(a, a * 4 + b < c, HINTS, {}), env) == [None, (cc - 1 - bb) // 4]
        assert ends(deduce_bound(a, c > a * 4 + b, HINTS, {}), env) == [None, (cc - 1 - bb) // 4]


def test_relaxed_variables_take_their_worst_value():
    found = deduce_bound(a, a * c - b - d >= 0, HINTS, {b: HINTS[b], d: HINTS[d]})
    for cc in range(10, 16):
        assert ends(found, {c: cc}) == [-(-2 // cc), None]  # b + d is 2 at most


def test_equations_and_several_occurrences():
    assert ends(deduce_bound(a, build.eq(a, 5), {}, {})) == [5, 5]
    assert ends(deduce_bound(a, a * 2 - a > b, HINTS, {}), {b: 3}) == [4, None]
    # no number is between: the interval is empty
    low, high = ends(deduce_bound(a, build.eq(a * 2, 5), {}, {}))
    assert low > high


def test_quotients():
    for k, kind in itertools.product((1, 3, 4, -2), ("le", "ge", "lt", "gt", "eq")):
        cond = getattr(build, kind)(a // 4 * 1, k)
        low, high = ends(deduce_bound(a, cond, {}, {}))
        for value in range(-40, 40):
            inside = (low is None or low <= value) and (high is None or value <= high)
            assert inside == bool(evaluate(cond, {a: value})), (kind, k, value)


@pytest.mark.parametrize(
    "cond",
    [
        a + b,
        Max(build.int32(5), a * 4) < 0,
        build.logical_and(a > 1, a < 5),
        a * a > 4,
        a % 4 < 2,
        c // a < 3,
        build.ne(a, 3),
    ],
    ids=str,
)
def test_what_cannot_be_solved_gives_nothing(cond):
    assert deduce_bound(a, cond, HINTS, {}).is_nothing()


def test_the_sign_of_a_factor_must_be_known():
    assert deduce_bound(a, a * b < c, {}, {}).is_nothing()
    assert deduce_bound(a, a * b < c, {}, {b: HINTS[b]}).is_nothing()


def test_every_value_of_the_interval_makes_random_conditions_true():
    solved = 0
    for seed in range(1500):
        rng = random.Random(seed)
        variables = [a, b, c]
        cond = Nodes(rng, variables, calls=False).condition(0 if seed % 2 else 2)
        ranges = {b: (rng.randint(-4, 2), rng.randint(1, 6)), c: (rng.randint(-3, 3), rng.randint(1, 5))}
        domains = {v: Range(low, extent) for v, (low, extent) in ranges.items()}
        relaxed = {b: domains[b]} if rng.random() < 0.5 else domains
        found = deduce_bound(a, cond, {v: dom for v, dom in domains.items() if v not in relaxed}, relaxed)
        if found.is_nothing():
            continue
        solved += 1
        for bb, cc, aa in itertools.product(*[range(low, low + n) for low, n in ranges.values()], range(-9, 10)):
            env = {a: aa, b: bb, c: cc}
            low, high = ends(found, env)
            if isinstance(low, NoValue) or isinstance(high, NoValue):
                continue
            if (low is None or low <= aa) and (high is None or aa <= high):
                truth = evaluate(cond, env)
                assert isinstance(truth, NoValue) or truth is True, (seed, str(cond), found, env)
    assert solved > 100
