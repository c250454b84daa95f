"""Random expressions: simplification keeps the value, is idempotent, and makes no node without a change.

Run many more with ``-m nightly`` (or FUZZ_EXPRESSIONS=n). A failure prints the seed that repeats it.
"""

from __future__ import annotations

import os
import random

import pytest
from evaluate import Generator, NoValue, evaluate, show

from tirlower.arith import Analyzer
from tirlower.ir import Range, Var

COUNT = int(os.environ.get("FUZZ_EXPRESSIONS", "3000"))


def _names(dtype):
    return [Var(name, dtype) for name in "ijkn"]


def _ranges(rng, variables):
    ranges = {}
    for var in variables:
        low = rng.choice((0, 0, 0, 1, -4)) if not var.dtype.is_uint else 0
        ranges[var] = (low, low + rng.choice((2, 4, 4, 8, 16, 6, 10)) - 1)
    return ranges


def _analyzer(ranges, fact):
    analyzer = Analyzer()
    for var, (low, high) in ranges.items():
        analyzer.bind(var, Range(low, high - low + 1))
    if fact is not None:
        analyzer.enter_constraint(fact)
    return analyzer


def check_one(seed, dtype="int32"):
    rng = random.Random(seed)
    variables = _names(dtype)
    generator = Generator(rng, variables)
    ranges = _ranges(rng, variables)
    fact = None
    if rng.random() < 0.3:
        fact = generator.condition(2)
    is_condition = rng.random() < 0.35
    expr = generator.condition(3) if is_condition else generator.integer(rng.choice((2, 3, 4)))
    analyzer = _analyzer(ranges, fact)
    methods = {
        "simplify": analyzer.simplify,
        "rewrite": analyzer.rewrite_simplify,
        "canonical": analyzer.canonical_simplify,
    }
    results = {name: method(expr) for name, method in methods.items()}
    bound = analyzer.const_int_bound(expr) if not is_condition else None
    modular = analyzer.modular_set(expr) if not is_condition else None
    for _ in range(24):
        env = {var: rng.randint(*ranges[var]) for var in variables}
        if fact is not None and evaluate(fact, env) is not True:
            continue
        before = evaluate(expr, env)
        if isinstance(before, NoValue):
            continue
        for name, result in results.items():
            after = evaluate(result, env)
            assert before == after and not isinstance(after, NoValue), (
                f"seed {seed} {dtype}: {name} of {show(expr)} under {show(fact) if fact is not None else None} is "
                f"{show(result)}; at { ({v.name: x for v, x in env.items()}) } {before} becomes {after!r}"
            )
        if bound is not None:
            assert bound.min_value <= before <= bound.max_value, f"seed {seed}: {show(expr)} = {before} outside {bound}"
            if modular.coeff:
                assert (before - modular.base) % modular.coeff == 0, f"seed {seed}: {show(expr)} = {before}: {modular}"
            else:
                assert before == modular.base, f"seed {seed}: {show(expr)} = {before}: {modular}"
    simple = results["simplify"]
    assert analyzer.simplify(expr) is simple
    again = _analyzer(ranges, fact).simplify(simple)
    assert again is simple, f"seed {seed} {dtype}: {show(expr)} -> {show(simple)} -> {show(again)}"


def test_index_expressions():
    for seed in range(COUNT):
        check_one(seed)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int8", "uint32"])
def test_other_integer_types(dtype):
    for seed in range(10**6, 10**6 + COUNT // 6):
        check_one(seed, dtype)


@pytest.mark.nightly
def test_a_million():
    for seed in range(10**7, 10**7 + 10**6):
        check_one(seed)
