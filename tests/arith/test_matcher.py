"""Every compiled matcher fires on an instance of its pattern, and what it builds has the instance's value."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from evaluate import NoValue, evaluate, show
from pattern_values import condition_holds, sorts_of

from tirlower import ir
from tirlower.arith import Analyzer, rules
from tirlower.arith.matcher import compile_variant, operand_names
from tirlower.arith.pattern import Domain, PConst, PFloat, PLanes, PLit, PVar
from tirlower.ir import IntImm, Range, Var
from tirlower.ir.op import Op

pytestmark = pytest.mark.by_day

SCALAR = (Domain.INDEX, Domain.RING, Domain.INTEGER, Domain.BOOL, Domain.INDEX_BOOL, Domain.ANY)
CASES = [(rule, each.domain) for each in rules.ALL for rule in each]
CONSTANTS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, -1, -2, -3, -4, -8, 0, 7, 9)
RANGES = ((0, 1), (0, 2), (1, 3), (0, 3), (0, 4), (2, 5), (4, 4), (0, 8), (-4, 4), (-8, -1), (5, 7), (16, 40), (-3, 0))


def build(pat, env):
    """The expression that a pattern describes."""
    if isinstance(pat, (PVar, PConst)):
        return env[pat.name]
    if isinstance(pat, PLit):
        return IntImm("bool" if pat.is_bool else "int32", pat.value)
    if isinstance(pat, PFloat):
        return ir.FloatImm("float32", pat.value)
    if isinstance(pat, PLanes):
        return 4
    args = [build(arg, env) for arg in pat.args]
    if pat.op is not None:
        op = Op.get(pat.op)
        return ir.Call(op, tuple(args), op.infer(args))
    return pat.kind(*args)


def operands(expr, pat):
    if pat.op is not None:
        return expr.args
    return [getattr(expr, name) for name in operand_names(pat.kind, len(pat.args))]


def instance(rule, domain, rng):
    """Variables with ranges, and constants, that meet the rule's condition; None when this draw does not."""
    sorts = sorts_of(rule, domain)
    constants = {name: rng.choice(CONSTANTS) for name, (sort, _) in sorts.items() if sort == "const"}
    if rng.random() < 0.5 and constants:
        # Conditions relate constants: equal, opposite, or products of one another.
        first = next(iter(constants))
        for name in constants:
            if rng.random() < 0.6:
                constants[name] = constants[first] * rng.choice((1, 1, -1, 2, 3)) + rng.choice((0, 0, 0, 1, -1))
    ranges = {}
    for name, (sort, _) in sorts.items():
        if sort == "int":
            low, high = rng.choice(RANGES)
            if rng.random() < 0.3 and constants:
                size = abs(rng.choice(list(constants.values())))
                low, high = 0, max(0, size - 1)
            ranges[name] = (low, high)
        elif sort == "bool":
            ranges[name] = (0, 1)
    for _ in range(12):
        values = {name: np.array([rng.randint(*r)]) for name, r in ranges.items()}
        values |= {name: np.array([c]) for name, c in constants.items()}
        for name, (sort, _) in sorts.items():
            if sort == "bool":
                values[name] = values[name].astype(bool)
        if not condition_holds(rule, values, 1)[0]:
            return None
    return constants, ranges, sorts


@pytest.mark.parametrize(("rule", "domain"), CASES, ids=[f"{r.where}:{r.lhs}" for r, _ in CASES])
def test_matcher_fires(rule, domain):
    rng = random.Random(zlib.crc32(str(rule).encode()))
    vector = domain in (Domain.VECTOR, Domain.INT_VECTOR, Domain.INDEX_VECTOR)
    for variant in rule.variants:
        matcher = compile_variant(rule, variant, domain)
        for _ in range(4000):
            drawn = instance(rule, domain, rng)
            if drawn is None:
                continue
            constants, ranges, sorts = drawn
            analyzer = Analyzer()
            env = {name: IntImm("int32", c) for name, c in constants.items()}
            scalars = {}
            for name, (low, high) in ranges.items():
                sort, is_vector = sorts[name]
                kind = "bool" if sort == "bool" else "float32" if domain is Domain.FLOAT else "int32"
                env[name] = Var(name, kind + ("x4" if vector and is_vector else ""))
                if sort == "int" and kind == "int32" and not is_vector:
                    if "divides" in rule.when:
                        analyzer.enter_constraint(ir.build.eq(env[name] % abs(next(iter(constants.values()))), 0))
                    analyzer.bind(env[name], Range(low, high - low + 1))
                    scalars[env[name]] = (low, high)
                elif kind == "bool":
                    scalars[env[name]] = (0, 1)
            expr = build(variant, env)
            found = matcher(analyzer.rewriter, *operands(expr, variant))
            if found is None:
                continue
            assert found.dtype is expr.dtype or vector, f"{rule}: {found.dtype} from {expr.dtype}"
            if domain in SCALAR:
                for _ in range(20):
                    point = {v: rng.randint(low, high) for v, (low, high) in scalars.items()}
                    point = {v: bool(x) if v.dtype == "bool" else x for v, x in point.items()}
                    if analyzer.constraints and not all(evaluate(c, point) for c in analyzer.constraints):
                        continue
                    before, after = evaluate(expr, point), evaluate(found, point)
                    if not isinstance(before, NoValue):
                        assert before == after, f"{rule.where}: {rule}: {show(expr)} -> {show(found)} at {point}"
            break
        else:
            pytest.fail(f"{rule.where}: {rule}: no instance of {variant} was rewritten")
