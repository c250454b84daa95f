from __future__ import annotations

import random

import islpy as isl
import pytest

from tests.arith.evaluate import evaluate
from tirlower.ir import FloorDiv, FloorMod, Sub, Var
from tirlower.ir.query import each
from tirlower.poly.from_isl import expression_of

NAMES = ("n", "m")


def _random_sum(rng: random.Random, depth: int) -> str:
    parts = [f"{rng.randint(-7, 7)}{rng.choice(NAMES)}" for _ in range(rng.randint(1, 3))]
    parts.append(str(rng.randint(-70, 70)))
    if depth and rng.random() < 0.8:
        inside = _random_sum(rng, depth - 1)
        divisor = rng.choice((1, 2, 3, 6, 7, 8, 64))
        part = f"({inside}) mod {divisor}" if rng.random() < 0.5 else f"floor(({inside})/{divisor})"
        parts.append(f"{rng.choice((-3, -1, 1, 2))}*({part})")
    return " + ".join(parts)


@pytest.mark.parametrize("seed", range(40))
def test_an_expression_has_the_value_of_the_function_wherever_it_is_known(seed: int):
    rng = random.Random(seed)
    sums = [_random_sum(rng, 2) for _ in range(rng.randint(1, 2))]
    body = f"max({', '.join(sums)})" if len(sums) == 2 else sums[0]
    function = isl.PwAff(f"[n, m] -> {{ [({body})] }}")
    low, high = rng.choice(((0, 63), (-40, 40), (1, 17)))
    known = isl.Set(f"[n, m] -> {{ : {low} <= n <= {high} and -9 <= m <= 30 }}")
    names = {name: Var(name, rng.choice(("int32", "int64"))) for name in NAMES}
    expr = expression_of(function, known, names)
    for _ in range(60):
        n, m = rng.randint(low, high), rng.randint(-9, 30)
        at = isl.Set(f"[n, m] -> {{ : n = {n} and m = {m} }}")
        value = function.intersect_params(at).max_val()
        assert evaluate(expr, {names["n"]: n, names["m"]: m}) == value.to_python(), (body, expr, n, m)


def test_one_remainder_is_one_expression_however_isl_makes_it_positive():
    n = Var("n", "int32")
    texts = set[str]()
    for body, known in (("n mod 6", "n >= 64"), ("n mod 6", "0 <= n <= 63"), ("5 - (-1 - n) mod 6", "n >= 0")):
        expr = expression_of(isl.PwAff(f"[n] -> {{ [({body})] }}"), isl.Set(f"[n] -> {{ : {known} }}"), {"n": n})
        [remainder] = each(FloorMod, expr)
        texts.add(str(remainder))
    assert texts == {"n % 6"}


def test_a_quotient_of_what_falls_is_taken_of_what_rises():
    n = Var("n", "int32")
    expr = expression_of(isl.PwAff("[n] -> { [(floor((2 - n)/3))] }"), isl.Set("[n] -> { : n >= 0 }"), {"n": n})
    [quotient] = each(FloorDiv, expr)
    assert not [*each(Sub, quotient)], quotient
