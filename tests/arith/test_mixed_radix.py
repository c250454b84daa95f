"""Quotients and remainders of multiples plus a constant: the constant's own multiples are digits too."""

from __future__ import annotations

import random

import pytest
from evaluate import evaluate

from tirlower.arith import Analyzer
from tirlower.ir import Expr, FloorDiv, FloorMod, Range, Var, const
from tirlower.ir.structural import structural_equal

n, i, j = Var("n"), Var("i"), Var("j")


def analyzer() -> Analyzer:
    found = Analyzer()
    found.bind(i, Range(0, 32))
    found.bind(j, Range(-3, 8))
    return found


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((n * 32 + 127) // 128, (n + 3) // 4),
        ((n * 32 + 127) % 128, (n + 3) % 4 * 32 + 31),
        ((n * 32 + i + 160) // 128, (n + 1) // 4 + 1),
        ((n * 32 - i + 70) // 64, None),  # up to 70, from 39: two blocks of 32
        ((n * 8 + j + 11) // 32, None),  # from 8 to 15: one block of 8
        ((n * 32 + 127) // 128 * 128 + (n * 32 + 127) % 128, n * 32 + 127),
        ((n + 3) // 4 * 32 + (n + 3) % 4 * 8, n * 8 + 24),
        ((n * 32) // 128 <= (n * 32 + 127) // 128, const(True, "bool")),
    ],
)
def test_forms(expr: Expr, expected: Expr | None):
    ours = analyzer()
    found = ours.simplify(expr)
    if expected is not None:
        assert structural_equal(found, ours.simplify(expected)), found
    assert structural_equal(analyzer().simplify(found), found)
    for value in range(-20, 21):
        for at in ({i: 0, j: -3}, {i: 31, j: 4}, {i: 17, j: 0}):
            assert evaluate(found, {n: value, **at}) == evaluate(expr, {n: value, **at})


def test_one_block_is_taken_out_and_two_are_not():
    assert str(analyzer().canonical_simplify((n * 8 + j + 11) // 32)) == "(n + 1) // 4"
    assert str(analyzer().canonical_simplify((n * 32 - i + 70) // 64)) == "(n * 32 + 70 - i) // 64"


def test_random_multiples_plus_a_constant():
    rng = random.Random(7)
    for _ in range(1500):
        scale, factor = rng.choice((2, 3, 4, 8, 16, 32)), rng.choice((2, 3, 4, 5, 8))
        base, outer = rng.randint(-300, 300), rng.choice((1, 1, 2, 6))
        dividend = n * (scale * rng.choice((1, 1, -1))) + base
        extra = rng.choice((None, i, j, -i, -j))
        if extra is not None:
            dividend = dividend + extra
        kind = rng.choice((FloorDiv, FloorMod))
        expr = kind(dividend, const(scale * factor, "int32")) * outer + rng.choice((0, 5, n, i))
        simple = analyzer().canonical_simplify(expr)
        assert structural_equal(analyzer().canonical_simplify(simple), simple), (str(expr), str(simple))
        for _ in range(12):
            at = {n: rng.randint(-50, 50), i: rng.randint(0, 31), j: rng.randint(-3, 4)}
            assert evaluate(simple, at) == evaluate(expr, at), (str(expr), str(simple), at)
