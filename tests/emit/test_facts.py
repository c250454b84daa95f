"""Ranges and divisors hold for every value of the variables, by enumeration."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable

import pytest

from tests.generate.nodes import Nodes
from tests.sampling import by_day
from tirlower.emit.facts import DATA, WRAPS, Facts
from tirlower.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)
from tirlower.ir.dtype import DataType

pytestmark = pytest.mark.by_day

KIND = DataType("int8")


TRUTHS: dict[type, Callable[[int, int], bool]] = {
    LT: operator.lt, LE: operator.le, GT: operator.gt, GE: operator.ge, EQ: operator.eq, NE: operator.ne,
    And: lambda a, b: bool(a and b), Or: lambda a, b: bool(a or b),
}  # fmt: skip


def wrap(value: int) -> int:
    return (value + 128) % 256 - 128


def evaluate(op: Expr, env: dict[Var, int], exact: bool) -> int:
    if isinstance(op, Var):
        return env[op]
    if isinstance(op, IntImm):
        return op.value
    if isinstance(op, Select):
        chosen = op.true_value if evaluate(op.condition, env, exact) else op.false_value
        return evaluate(chosen, env, exact)
    if isinstance(op, Not):
        return not evaluate(op.a, env, exact)
    a, b = evaluate(op.a, env, exact), evaluate(op.b, env, exact)  # type: ignore[attr-defined]
    if op.dtype.is_bool:
        return TRUTHS[type(op)](a, b)
    if isinstance(op, (Div, Mod, FloorDiv, FloorMod)) and b == 0:
        raise ZeroDivisionError
    quotient = (abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))) if isinstance(op, (Div, Mod)) else 0
    value = {
        Add: lambda: a + b, Sub: lambda: a - b, Mul: lambda: a * b, Min: lambda: min(a, b), Max: lambda: max(a, b),
        FloorDiv: lambda: a // b, FloorMod: lambda: a % b, Div: lambda: quotient, Mod: lambda: a - b * quotient,
    }[type(op)]()  # fmt: skip
    return value if exact else wrap(value)


@pytest.mark.parametrize("seed", by_day(range(60)))
def test_ranges_hold(seed: int) -> None:
    rng = random.Random(seed)
    x, y = Var("x", KIND), Var("y", KIND)
    ranges = {x: (rng.randint(-20, 5), rng.randint(6, 40)), y: (rng.randint(-3, 2), rng.randint(3, 9))}

    for _ in range(30):
        facts = Facts()
        for var, (low, high) in ranges.items():
            facts.define(var, low, high)
        root = Nodes(rng, [x, y], calls=False).integer(rng.choice([1, 2, 3]))
        fact = facts.of(root)
        low, high = facts.value_range(root)
        for a in range(ranges[x][0], ranges[x][1] + 1):
            for b in range(ranges[y][0], ranges[y][1] + 1):
                env = {x: a, y: b}
                try:
                    value = evaluate(root, env, exact=False)
                    exact = evaluate(root, env, exact=True)
                except ZeroDivisionError:
                    continue
                assert low <= value <= high, (root, env, value, fact)
                assert value % fact.divisor == 0 or fact.divisor > 128, (root, env, value, fact)
                if not fact.flags & WRAPS:
                    assert fact.low <= exact <= fact.high


def test_a_variable_bound_again_is_known_anew() -> None:
    facts = Facts()
    i = Var("i", "int32")
    twice = Mul(i, IntImm("int32", 2))
    facts.define(i, 0, 9)
    assert facts.value_range(twice) == (0, 18)
    facts.define(i, -5, 9)
    assert facts.value_range(twice) == (-10, 18)


def test_a_size_is_not_negative() -> None:
    facts = Facts()
    n = Var("n", "int32", nonneg=True)
    assert facts.value_range(n)[0] == 0


def test_index_arithmetic_leaves_its_type_and_data_wraps() -> None:
    facts = Facts()
    i, n, d = Var("i", "int32"), Var("n", "int32", nonneg=True), Var("d", "int32")
    facts.define(i, 0, 1000)
    facts.define(d, None, None, flags=DATA)
    most = 2**31 - 1
    square, small = Mul(n, n), Mul(i, i)  # facts are known by identity
    assert facts.leaves(square) and not facts.data_wraps(square)
    assert facts.index_range(square) == (0, most * most) and facts.value_range(square) == (-most - 1, most)
    assert not facts.leaves(small) and facts.index_range(small) == facts.range_of(small) == (0, 10**6)
    wrapped = Mul(d, d)
    assert facts.data_wraps(wrapped) and not facts.leaves(wrapped)
    assert facts.range_of(wrapped) == facts.value_range(wrapped) == (-most - 1, most)
    assert not facts.data_wraps(d) and not facts.leaves(d)
    name = Var("name", "int32")
    facts.define_as(name, square)
    assert facts.leaves(name) and facts.index_range(name) == (0, most * most)
