"""Constant bounds and modular sets: tables, limits, and enumeration."""

from __future__ import annotations

import itertools

import pytest
from evaluate import evaluate

from tirlower.arith import Analyzer, ConstIntBound, ModularSet
from tirlower.arith.intervals import floordiv_num, truncdiv_num
from tirlower.arith.modular import intersect
from tirlower.ir import EQ, NE, BufferLoad, Call, Cast, IntImm, Let, Not, Range, Select, Var, build, decl_buffer
from tirlower.ir.op import Op

x, y = Var("x"), Var("y")
NEG, POS = ConstIntBound.NEG_INF, ConstIntBound.POS_INF


def bound(expr, **ranges):
    analyzer = Analyzer()
    for name, (low, high) in ranges.items():
        analyzer.bind({"x": x, "y": y}[name], Range(low, high - low + 1))
    return analyzer.const_int_bound(expr)


OPERATIONS = {
    "add": lambda: x + y,
    "sub": lambda: x - y,
    "mul": lambda: x * y,
    "floordiv": lambda: x // y,
    "floormod": lambda: x % y,
    "truncdiv": lambda: build.truncdiv(x, y),
    "truncmod": lambda: build.truncmod(x, y),
    "min": lambda: build.min_(x, y),
    "max": lambda: build.max_(x, y),
    "select": lambda: Select(x < y, x, y + 3),
    "and": lambda: build.bitwise_and(x, y),
    "or": lambda: build.bitwise_or(x, y),
    "xor": lambda: build.bitwise_xor(x, y),
    "shift": lambda: build.shift_right(x, build.min_(build.max_(y, 0), 3)),
}
RANGES = [(0, 5), (-3, 4), (-6, -2), (2, 2), (1, 7), (0, 0), (-1, 1)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_bounds_hold_and_are_tight_where_operands_are_apart(name):
    expr = OPERATIONS[name]()
    for (a, b), (c, d) in itertools.product(RANGES, RANGES):
        found = bound(expr, x=(a, b), y=(c, d))
        values = []
        for p, q in itertools.product(range(a, b + 1), range(c, d + 1)):
            if q == 0 and ("div" in name or "mod" in name):
                continue
            values.append(evaluate(expr, {x: p, y: q}))
        if values:
            assert found.min_value <= min(values) and max(values) <= found.max_value, (name, a, b, c, d)
            if name in ("add", "sub", "mul", "min", "max", "floordiv", "truncdiv"):
                assert (found.min_value, found.max_value) == (min(values), max(values)), (name, a, b, c, d)


def test_bounds_of_types():
    for dtype, low, high in (
        ("int32", -(2**31), 2**31 - 1),
        ("int8", -128, 127),
        ("uint8", 0, 255),
        ("uint32", 0, 2**32 - 1),
        ("int64", NEG, POS),
        ("uint64", 0, POS),
        ("bool", 0, 1),
    ):
        assert Analyzer().const_int_bound(Var("v", dtype)) == ConstIntBound(low, high), dtype
    assert Analyzer().const_int_bound(Var("n", nonneg=True)).min_value == 0
    assert repr(Analyzer().const_int_bound(Var("v", "int64"))) == "ConstIntBound(neg_inf, pos_inf)"


def test_unbounded_arithmetic():
    a, b = Var("a", "int64"), Var("b", "int64", nonneg=True)
    analyzer = Analyzer()
    for expr, low, high in (
        (a + 1, NEG, POS),
        (a * 0 + b, 0, POS),
        (b * 4, 0, POS),
        (b * -1, NEG, 0),
        (b // 3, 0, POS),
        (a % 8, 0, 7),
        (a % -8, -7, 0),
        (build.truncmod(a, 8), -7, 7),
        (build.truncmod(b, 8), 0, 7),
        (build.max_(a, 3), 3, POS),
        (build.min_(a, 3), NEG, 3),
        (b // a, NEG, POS),
    ):
        assert analyzer.const_int_bound(expr) == ConstIntBound(low, high), expr


def test_infinite_quotients():
    inf = float("inf")
    assert floordiv_num(7, inf) == 0 and floordiv_num(-7, inf) == -1 and floordiv_num(-inf, 2) == -inf
    assert truncdiv_num(-7, inf) == 0 and truncdiv_num(-7, 2) == -3 and truncdiv_num(inf, -2) == -inf


def test_bounds_of_calls_loads_and_casts():
    analyzer = Analyzer()
    load = BufferLoad(decl_buffer((4,), "uint8", "A"), (IntImm("int32", 0),))
    assert analyzer.const_int_bound(load) == ConstIntBound(0, 255)
    assert analyzer.const_int_bound(Cast("int32", load)) == ConstIntBound(0, 255)
    assert analyzer.const_int_bound(Cast("int8", load)) == ConstIntBound(-128, 127)
    assert analyzer.const_int_bound(Cast("int32", x < y)) == ConstIntBound(0, 1)
    assert analyzer.const_int_bound(Call(Op.get("tir.popcount"), (x,), "int32")) == ConstIntBound(0, 32)
    assert analyzer.const_int_bound(build.if_then_else(x < y, x % 4, 9)) == ConstIntBound(0, 9)


def test_wrapping_types_lose_their_bounds():
    u = Var("u", "uint8")
    analyzer = Analyzer()
    with analyzer.constraint_scope(u < 10):
        assert analyzer.const_int_bound(u * 2) == ConstIntBound(0, 18)
        assert analyzer.const_int_bound(u * 40) == ConstIntBound(0, 255)
        assert analyzer.const_int_bound(u - 1) == ConstIntBound(0, 255)


MODULAR = [
    (lambda: x * 4 + 3, (4, 3)),
    (lambda: x * 4 + y * 6 + 1, (2, 1)),
    (lambda: x * 8 * (y * 2 + 1), (8, 0)),
    (lambda: (x * 4 + 2) * (y * 6 + 3), (12, 6)),
    (lambda: (x * 8 + 4) // 4, (2, 1)),
    (lambda: (x * 8 + 5) % 4, (0, 1)),
    (lambda: (x * 8 + 5) % 12, (4, 1)),
    (lambda: build.min_(x * 4, y * 6), (2, 0)),
    (lambda: Select(x < y, x * 8 + 1, y * 4 + 5), (4, 1)),
    (lambda: x - x % 4, (1, 0)),
    (lambda: build.bitwise_and(x, -4), (4, 0)),
    (lambda: build.shift_left(x, 3), (8, 0)),
    (lambda: build.cast("int64", x * 4 + 3), (4, 3)),
    (lambda: IntImm("int32", 7), (0, 7)),
    (lambda: x, (1, 0)),
]


@pytest.mark.parametrize(("make", "expected"), MODULAR)
def test_modular_sets(make, expected):
    expr = make()
    found = Analyzer().modular_set(expr)
    assert found == ModularSet(*expected)
    for p, q in itertools.product(range(-9, 10), range(-9, 10)):
        value = evaluate(expr, {x: p, y: q})
        assert (value - found.base) % found.coeff == 0 if found.coeff else value == found.base


def test_modular_facts():
    analyzer = Analyzer()
    with analyzer.constraint_scope(build.eq(x % 6, 2)):
        assert analyzer.modular_set(x) == ModularSet(6, 2)
        with analyzer.constraint_scope(build.eq(x % 4, 0)):
            assert analyzer.modular_set(x) == ModularSet(12, 8)
        assert analyzer.modular_set(x) == ModularSet(6, 2)
    assert analyzer.modular_set(x) == ModularSet(1, 0)


def test_intersections_of_modular_sets_are_those_of_the_sets():
    for a, b, c, d in itertools.product(range(7), range(7), range(7), range(7)):
        p, q = ModularSet(a, b % a if a else b), ModularSet(c, d % c if c else d)
        numbers = range(-90, 91)

        def members(s, numbers=numbers):
            return {v for v in numbers if ((v - s.base) % s.coeff == 0 if s.coeff else v == s.base)}

        both = intersect(p, q)
        assert (members(both) if both is not None else set()) == members(p) & members(q), (p, q)


def test_unsigned_modular_sets_wrap():
    u = Var("u", "uint8")
    assert Analyzer().modular_set(u * 12) == ModularSet(4, 0)
    assert Analyzer().modular_set(u * 3) == ModularSet(1, 0)


def test_arms_of_choices_are_bounded_under_their_conditions():
    x = Var("x")
    analyzer = Analyzer()
    analyzer.bind(x, Range(-100, 200))
    cases = [
        (Select(x > 5, x, IntImm("int32", 6)), (6, 99)),
        (build.if_then_else(x >= 0, x, 0 - x), (0, 100)),
        (Select(x > 5, Select(x < 20, x, IntImm("int32", 7)), IntImm("int32", 9)), (6, 19)),
        (Select(build.logical_and(x > 0, x < 10), x, IntImm("int32", 3)) * 2 + 1, (3, 19)),
        (Select(x < 5, Select(x > 7, x, IntImm("int32", 1)), IntImm("int32", 2)), (1, 2)),
    ]
    for expr, (low, high) in cases:
        found = analyzer.const_int_bound(expr)
        values = [evaluate(expr, {x: value}) for value in range(-100, 100)]
        assert found.min_value <= min(values) and max(values) <= found.max_value
        assert (found.min_value, found.max_value) == (low, high), str(expr)
    # What holds in an arm holds nowhere else.
    assert analyzer.const_int_bound(x).ends == (-100, 99)
    assert not analyzer.facts.conditions


def test_lets_are_bounded_by_their_values():
    x, y = Var("x"), Var("y")
    analyzer = Analyzer()
    analyzer.bind(y, Range(0, 10))
    assert analyzer.const_int_bound(Let(x, y * 2, x + 1)).ends == (1, 19)
    assert analyzer.modular_set(Let(Var("z"), y * 4, IntImm("int32", 3))).coeff == 0
    z = Var("z")
    assert analyzer.modular_set(Let(z, y * 4, z + 1)) == ModularSet(4, 1)


def test_a_remainder_is_at_most_its_dividend_whatever_divides():
    x, y = Var("x"), Var("y")
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, 7))
    assert analyzer.const_int_bound(x % y).max_value == 6


def test_a_denied_equality_is_none():
    # Facts of conditions as they are written; a negation was noted as what it negates.
    for denied, low in ((Not(EQ(x, y)), 0), (Not(NE(x, y)), 5), (Not(x < y), 5), (Not(Not(EQ(x, y))), 5)):
        analyzer = Analyzer()
        analyzer.bind(x, Range(0, 10))
        analyzer.bind(y, Range(5, 2))
        mark = analyzer.facts.mark()
        analyzer.facts.add(denied)
        assert analyzer.const_int_bound(x).min_value == low, denied
        analyzer.facts.rollback(mark)
    chosen = Select(Not(EQ(x, y)), x, y + 100)
    analyzer = Analyzer()
    analyzer.bind(x, Range(0, 2))
    analyzer.bind(y, Range(0, 2))
    found = analyzer.const_int_bound(chosen)
    assert found.min_value <= 0 and found.max_value >= 101
