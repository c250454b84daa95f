"""Random interval sets and regions: every value lies in them, and what is said to be covered is covered."""

from __future__ import annotations

import itertools
import random

from evaluate import NoValue, evaluate, show

from tests.generate.nodes import Nodes
from tirlower.arith import (
    Analyzer,
    IntervalSet,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    union_lower_bound,
    union_sets,
)
from tirlower.ir import Expr, IntImm, Let, Range, Var, build


def _draw(rng: random.Random, variables: list[Var]) -> dict[Var, tuple[int, int]]:
    return {var: (rng.choice((0, 0, 0, 1, -3)), rng.choice((1, 2, 3, 4, 6))) for var in variables}


def _within(found: IntervalSet, value: int, env: dict[Var, int]) -> bool:
    """Whether a value lies between the ends of a set, at values of the variables that its ends mention."""
    if found.is_nothing():
        return False
    low = None if found.min_value is None else evaluate(found.min_value, env)
    high = None if found.max_value is None else evaluate(found.max_value, env)
    if isinstance(low, NoValue) or isinstance(high, NoValue):
        return True
    return (low is None or low <= value) and (high is None or value <= high)


def check_set(seed: int) -> None:
    """Every value of an expression lies in its interval set, its constant bounds (with lets and choices) and moduli."""
    rng = random.Random(seed)
    relaxed, free = [Var(name) for name in "ij"], Var("n")
    ranges = _draw(rng, [*relaxed, free])
    expr: Expr = Nodes(rng, [*relaxed, free]).integer(rng.choice((2, 3, 4)))
    bound = Var("b")
    if rng.random() < 0.3:
        expr = Let(bound, expr, Nodes(rng, [bound, *relaxed]).integer(2))
    domains = {var: Range(*ranges[var]) for var in relaxed}
    found = Analyzer().int_set(expr, domains)
    analyzer = Analyzer()
    for var, dom in ranges.items():
        analyzer.bind(var, Range(*dom))
    limits, modular = analyzer.const_int_bound(expr), analyzer.modular_set(expr)
    for at in itertools.product(*[range(low, low + size) for low, size in ranges.values()]):
        env = dict(zip(ranges, at, strict=True))
        value = evaluate(expr, env)
        if isinstance(value, NoValue):
            continue
        shown = f"seed {seed}: {show(expr)} at { ({v.name: x for v, x in env.items()}) } is {value}"
        assert _within(found, value, env), f"{shown}, outside {found}"
        assert limits.min_value <= value <= limits.max_value, f"{shown}, outside {limits}"
        step = (value - modular.base) % modular.coeff if modular.coeff else value - modular.base
        assert step == 0, f"{shown}, not in {modular}"


def check_region(seed: int) -> None:
    """The upper bound of a region holds all of it, the strict one is it, the lower one lies within it."""
    rng = random.Random(seed)
    variables = [Var(name) for name in "ij"]
    ranges = _draw(rng, variables)
    region, starts = [], []
    for _ in range(rng.choice((1, 1, 2))):
        total: Expr = IntImm("int32", rng.choice((0, 0, 1, 5)))
        for var in variables:
            total = build.add(total, build.mul(var, rng.choice((0, 1, 1, 2, 3, 4, 6, -1))))
        if rng.random() < 0.25:
            total = rng.choice((build.floordiv, build.floormod))(total, rng.choice((2, 3, 4)))
        size = rng.choice((1, 1, 2, 4))
        region.append(Range(total, IntImm("int32", size)))
        starts.append((total, size))
    predicate: Expr = IntImm("bool", 1)
    if rng.random() < 0.4:
        limit = IntImm("int32", rng.randint(1, 16))
        predicate = build.lt(build.add(build.mul(variables[0], rng.choice((1, 2, 4))), variables[1]), limit)
    iters = {var: Range(*dom) for var, dom in ranges.items()}
    points: set[tuple[int, ...]] = set()
    for at in itertools.product(*[range(low, low + size) for low, size in ranges.values()]):
        env = dict(zip(ranges, at, strict=True))
        if evaluate(predicate, env) is True:
            spans = [range(evaluate(low, env), evaluate(low, env) + size) for low, size in starts]
            points |= set(itertools.product(*spans))
    text = f"seed {seed}: {[(show(r.min), show(r.extent)) for r in region]} under {show(predicate)} over {ranges}"
    upper = estimate_region_upper_bound(region, iters, predicate)
    for point in points:
        inside = all(_within(one, value, {}) for one, value in zip(upper, point, strict=True))
        assert inside, f"{text}: {point} is outside {upper}"
    strict = estimate_region_strict_bound(region, iters, predicate)
    lower = estimate_region_lower_bound(region, iters, predicate)
    if strict is not None and points:
        assert _box(strict) == points, f"{text}: {strict} is not {sorted(points)}"
    if lower is not None and points:
        assert _box(lower) <= points, f"{text}: {lower} is not within {sorted(points)}"
    parts = [IntervalSet(low, low + size - 1) for low, size in (rng.sample(range(-9, 9), 2) for _ in range(3))]
    everything = {p for one in parts for p in _line(one)}
    assert set(_line(union_lower_bound(parts, Analyzer()))) <= everything <= set(_line(union_sets(Analyzer(), parts)))


def _line(one: IntervalSet) -> range:
    if one.is_nothing():
        return range(0)
    low, high = evaluate(one.min_value, {}), evaluate(one.max_value, {})
    return range(low, high + 1)


def _box(sets: list[IntervalSet]) -> set[tuple[int, ...]]:
    return set(itertools.product(*map(_line, sets)))
