"""Random expressions: simplification keeps the value, is idempotent, and makes no node without a change.

20,000 index expressions and 4,000 of other types run here, in chunks that spread over the workers of pytest-xdist;
FUZZ_EXPRESSIONS=n runs another number. ``python -m tests.arith.fuzz --count 1000000 --workers 2`` is the nightly run.
A failure prints the seed that repeats it.
"""

from __future__ import annotations

import os

import pytest
from evaluate import evaluate
from fuzz import CHECKS, check_one
from index_expressions import Case, Problem

from tests.sampling import by_day
from tirlower.arith import Analyzer
from tirlower.ir import substitute
from tirlower.ir.structural import structural_equal

COUNT = int(os.environ.get("FUZZ_EXPRESSIONS", "6000"))
CHUNKS = 20
FIRST = 0


@pytest.mark.parametrize("chunk", by_day(range(CHUNKS)))
def test_index_expressions(chunk):
    for seed in range(FIRST + chunk, FIRST + COUNT, CHUNKS):
        check_one(seed)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int8", "uint32"])
@pytest.mark.by_day
def test_other_integer_types(dtype):
    for seed in range(10**6, 10**6 + COUNT // 20):
        check_one(seed, dtype)


@pytest.mark.parametrize("what", ["maps", "sets", "regions", "lets"])
@pytest.mark.by_day
def test_maps_sets_regions_and_lets(what):
    for seed in range(COUNT // (200 if what == "maps" else 60)):
        CHECKS[what](seed, "int32")


@pytest.mark.parametrize("seed", [9960002516, 9960002915])
def test_lets_whose_value_became_a_variable_later(seed):
    CHECKS["lets"](seed, "int32")


# What failed once, by its seed.
KEPT = [(20035898, "int32"), (20281354, "int32"), (200261214, "int32"), (500762543, "int32")]


@pytest.mark.parametrize(("seed", "dtype"), KEPT)
def test_seeds_that_once_failed(seed, dtype):
    check_one(seed, dtype)


# The same as expressions, which no change of the generator takes away: variables, their ranges, and the text.
EXPRESSIONS = [
    # a quotient inside a remainder: the constant was reduced only the second time
    ("i:-4+8", "tmod(tdiv(i - -40, 3), -3)"),
    ("i:8 j:8 k:8", "tmod(tdiv(iff(j <= i, i, k) + 7, 4), 2)"),
    ("i:64", "tmod(tdiv(i + 40, 4), 5)"),
    # a division in one arm that is gone once simplified: the other arm's condition told only the second time
    ("i:8 k:16 n:4", "iff(n < i, k // (i // min(i, i)), tdiv(i, 5))"),
    # divisors whose product no constant holds, and the least value, which has no opposite
    ("i:64", "i // 65536 // 65536"),
    ("i:-32+64", "i // -2147483648"),
    ("i:-32+64", "i % -2147483648"),
    ("i:-32+64", "tdiv(i, -2147483648) + tmod(i, -2147483648)"),
    ("i:-32+64 j:8", "(i * 65536 + j) // 65536 // 65536 % 65536"),
    # a multiple divided twice: what 3 does not divide, 6 does
    ("j:10", "j * 2 // 3 // 2"),
    ("n:-4+10", "n * 2 // 5 // 16"),
    ("n:-4+4", "n * 4 * 7 // -3 // 5"),
    # a truncated quotient that its bounds decide, beside a multiple of the divisor
    ("i:16 n:4", "tdiv(n, 4) * 16 + (n + i) * -4"),
]


@pytest.mark.parametrize(("ranges", "text"), EXPRESSIONS, ids=[text for _, text in EXPRESSIONS])
def test_expressions_that_once_failed(ranges, text):
    for method in (Analyzer.simplify, Analyzer.canonical_simplify):
        problem = Problem(Case("kept", text, ranges, "0"))
        simple = method(problem.analyzer, problem.expr)
        for env in problem.points():
            assert evaluate(simple, env) == evaluate(problem.expr, env), env
        again = Problem(Case("kept", text, ranges, "0"))
        substituted = substitute(simple, {old: again.variables[name] for name, old in problem.variables.items()})
        assert structural_equal(method(again.analyzer, substituted), substituted), method


@pytest.mark.nightly
def test_a_million():
    for seed in range(10**7, 10**7 + 10**6):
        check_one(seed)
