"""Random lets, of few variables that take several values: simplified, bounded and ranged over they keep their meaning."""

from __future__ import annotations

import random

from evaluate import NoValue, evaluate, show

from tests.generate.nodes import Nodes
from tirlower.arith import Analyzer
from tirlower.ir import Expr, Let, Range, Var, build

METHODS = (Analyzer.simplify, Analyzer.rewrite_simplify, Analyzer.canonical_simplify)


def _lets(rng: random.Random, depth: int, variables: list[Var], bound: list[Var]) -> Expr:
    """A let in whose value and body others stand, which may bind its variable anew."""
    if depth == 0:
        return Nodes(rng, variables).integer(2)
    var = bound[rng.randrange(len(bound))]
    value = _lets(rng, rng.randrange(depth), variables, bound)
    inner = variables if var in variables else [*variables, var]
    return Let(var, value, _lets(rng, depth - 1, inner, bound))


def check_lets(seed: int) -> None:
    """The sum of some lets, by one analyzer in any order and by fresh ones."""
    rng = random.Random(seed)
    free, bound = [Var(name) for name in "ijn"], [Var("a"), Var("b")]
    parts = [_lets(rng, rng.randrange(1, 4), free, bound) for _ in range(rng.randrange(1, 4))]
    expr = parts[0]
    for part in parts[1:]:
        expr = build.add(expr, part)
    ranges = {var: (low := rng.randrange(-4, 2), low + rng.randrange(1, 12)) for var in free}

    def fresh() -> Analyzer:
        found = Analyzer()
        for var, (low, high) in ranges.items():
            found.bind(var, Range(low, high - low + 1))
        return found

    shared, order = fresh(), list(METHODS)
    rng.shuffle(order)
    results = [method(shared, expr) for method in order]
    limits = [fresh().const_int_bound(expr), shared.const_int_bound(expr)]
    moduli = [fresh().modular_set(expr), shared.modular_set(expr)]
    span = fresh().int_set(expr)
    for _ in range(12):
        env = {var: rng.randint(*ranges[var]) for var in free}
        value = evaluate(expr, env)
        if isinstance(value, NoValue):
            continue
        shown = f"seed {seed}: {show(expr)} at { ({v.name: x for v, x in env.items()}) } is {value}"
        for method, result in zip(order, results, strict=True):
            after = evaluate(result, env)
            assert after == value and not isinstance(after, NoValue), (
                f"{shown}; {method.__name__}: {show(result)}, {after}"
            )
        for limit in limits:
            assert limit.min_value <= value <= limit.max_value, f"{shown}, outside {limit}"
        for modulus in moduli:
            step = (value - modulus.base) % modulus.coeff if modulus.coeff else value - modulus.base
            assert step == 0, f"{shown}, not in {modulus}"
        low, high = (None if end is None else evaluate(end, {}) for end in (span.min_value, span.max_value))
        assert low is None or isinstance(low, NoValue) or low <= value, f"{shown}, outside {span}"
        assert high is None or isinstance(high, NoValue) or value <= high, f"{shown}, outside {span}"
