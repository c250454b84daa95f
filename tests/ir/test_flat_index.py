"""Offsets whose digits meet again: they are one number, which has the value of the sum."""

from __future__ import annotations

import itertools

import pytest

from tests.arith.evaluate import evaluate
from tirlower.ir import Buffer, FloorDiv, FloorMod, Var, build

x, y, n = Var("x"), Var("y"), Var("n")


@pytest.mark.parametrize(
    ("shape", "indices", "text"),
    [
        ((4, 8), (x // 8, x % 8), "x"),
        ((2, 4, 8), (x // 32, x % 32 // 8, x % 8), "x"),
        ((4, 8), (y + x // 8, x % 8), "y * 8 + x"),
        ((4, 8), (x % 32 // 8, x % 8), "x % 32"),
        ((9, 8), (x % 36 // 8, x % 8), "x % 36 // 8 * 8 + x % 8"),  # 8 does not divide 36
        ((4, 4), (x // 8, x % 8), "x // 8 * 4 + x % 8"),
        ((4, 8), (x // 8, y % 8), "x // 8 * 8 + y % 8"),
        ((4, 4), (x // 8, x % 8 // 2), "x // 2"),
        ((4, n), (x // n, x % n), "x"),
    ],
)
def test_digits_meet(shape, indices, text):
    found = Buffer("A", shape).offset_of(indices)
    assert str(found) == text
    plain = indices[0]
    for extent, index in zip(shape[1:], indices[1:], strict=True):
        plain = build.add(build.mul(plain, extent), index)
    for value, other in itertools.product(range(-70, 140), (0, 5)):
        env = {x: value, y: other, n: 7}
        assert evaluate(found, env) == evaluate(plain, env)


def test_the_operations_are_those_of_the_language():
    quotient, rest = FloorDiv(x, build.int32(8)), FloorMod(x, build.int32(8))
    assert Buffer("A", (4, 8)).offset_of([quotient, rest]) is x
