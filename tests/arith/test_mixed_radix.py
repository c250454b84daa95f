"""Quotients and remainders of multiples plus a constant: the constant's own multiples are digits too."""

from __future__ import annotations

import itertools

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


@pytest.mark.parametrize("kind", [FloorDiv, FloorMod])
def test_multiples_plus_a_constant_of_every_size(kind: type[FloorDiv] | type[FloorMod]):
    points = [{n: a, i: b, j: b // 5 - 3} for a in (-50, -7, -1, 0, 3, 50) for b in (0, 13, 31)]
    cases = itertools.product((2, 8, 32), (3, 4), (1, -1), range(-70, 170, 13), (const(0), i, j, -i), (const(0), n))
    for scale, factor, sign, base, extra, beside in cases:
        expr = kind(n * (scale * sign) + extra + base, const(scale * factor)) * 6 + beside
        simple = analyzer().canonical_simplify(expr)
        assert structural_equal(analyzer().canonical_simplify(simple), simple), (str(expr), str(simple))
        for at in points:
            assert evaluate(simple, at) == evaluate(expr, at), (str(expr), str(simple), at)
