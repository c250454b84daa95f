"""Narrowed predicates: they do not mention what was relaxed, and imply the predicate for each of its values."""

from __future__ import annotations

import itertools
import random

import pytest
from evaluate import NoValue, evaluate

from tests.generate.nodes import Nodes
from tirlower.arith import IntervalSet, NarrowPredicateExpression, narrow_predicate_expression
from tirlower.diagnostics import TirError
from tirlower.ir import Buffer, Range, Var, build
from tirlower.ir.query import mentions
from tirlower.ir.structural import structural_equal

i, j, n = Var("i"), Var("j"), Var("n")
flag = Var("flag", "bool")
A = Buffer("A", (8,), "int32")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (i < 7, True),
        (i < 6, False),
        (i < n, build.lt(6, n)),
        (i <= n, build.le(6, n)),
        (i > n, build.lt(n, 0)),
        (build.logical_and(i < n, n < 5), False),
        (build.logical_or(i < n, n < 5), build.logical_or(build.lt(6, n), build.lt(n, 5))),
        (build.logical_not(i < n), build.le(n, 0)),
        (build.ne(i, 9), True),
        (build.ne(i, n), build.logical_or(build.lt(6, n), build.lt(n, 0))),
        (build.eq(i, n), False),
        (i + n < i + 4, build.lt(n, 4)),
        (build.lt(A[i], 4), False),
        (build.lt(A[n], 4), build.lt(A[n], 4)),
        (flag, flag),
        (build.logical_not(flag), build.logical_not(flag)),
        (build.const(True, "bool"), True),
    ],
    ids=str,
)
def test_narrowed(before, after):
    found = NarrowPredicateExpression(before, {i: Range(0, 7)})
    assert structural_equal(found, build.as_bool(after) if not isinstance(after, bool) else build.const(after, "bool"))


def test_a_relaxed_bool_and_a_single_value():
    assert not narrow_predicate_expression(
        flag, {flag: Range(build.const(False, "bool"), build.const(True, "bool"))}
    ).value
    assert structural_equal(narrow_predicate_expression(i < n, {i: Range(3, 1)}), build.lt(3, n))


def test_random_predicates_are_implied():
    narrowed = 0
    for seed in range(1500):
        rng = random.Random(seed)
        cond = Nodes(rng, [i, j, n], calls=False).condition(rng.choice((1, 2, 3)))
        ranges = {i: (rng.randint(-3, 2), rng.randint(1, 6)), j: (0, rng.randint(1, 4))}
        found = narrow_predicate_expression(cond, {v: Range(*dom) for v, dom in ranges.items()})
        assert not mentions(found, ranges)
        for value in range(-8, 9):
            if evaluate(found, {n: value}) is not True:
                continue
            for ii, jj in itertools.product(*[range(low, low + size) for low, size in ranges.values()]):
                truth = evaluate(cond, {i: ii, j: jj, n: value})
                assert isinstance(truth, NoValue) or truth is True, (seed, str(cond), str(found), value, ii, jj)
                narrowed += 1
    assert narrowed > 1000


def test_a_domain_that_is_no_range_is_named():
    x = Var("x")
    for domain in (3, IntervalSet(0, 3)):
        with pytest.raises(TirError, match=r"free_parameters maps Var\(x\) to [\s\S]*Range\(min, extent\)"):
            narrow_predicate_expression(x < 3, {x: domain})
