from __future__ import annotations

import numpy as np

from tirlower.ir import Add, FloorDiv, IntImm, Mul, Sub, Var, const
from tirlower.ir.cancel import cancelled, expr_key, linear_difference, range_between


def evaluate(expr, values):
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return values[expr]
    a, b = evaluate(expr.a, values), evaluate(expr.b, values)
    return {Add: a + b, Sub: a - b, Mul: a * b, FloorDiv: a // b if b else 0}[type(expr)]


def test_differences_cancel_what_both_share():
    i, n = Var("i"), Var("n")
    assert linear_difference(i * 4 + 4, i * 4).value == 4
    assert linear_difference(n + i, i) is n
    assert linear_difference(i * n + n, i * n) is n
    assert linear_difference((i + 7) // 4 + 2, (i + 7) // 4).value == 2
    assert linear_difference(const(3, "int32"), i + 3).b is i


def test_random_sums_keep_their_value():
    rng = np.random.default_rng(0)
    variables = [Var(name) for name in "abc"]
    for _ in range(200):

        def term(depth):
            kind = rng.integers(0, 5) if depth else rng.integers(0, 2)
            if kind == 0:
                return const(int(rng.integers(-4, 5)), "int32")
            if kind == 1:
                return variables[rng.integers(0, 3)]
            a, b = term(depth - 1), term(depth - 1)
            return (a + b, a - b, a * int(rng.integers(-3, 4)))[kind - 2]

        a, b = term(3), term(3)
        values = {v: int(rng.integers(-9, 10)) for v in variables}
        assert evaluate(linear_difference(a, b, plus=2), values) == evaluate(a, values) - evaluate(b, values) + 2
        assert evaluate(cancelled(a), values) == evaluate(a, values)


def test_what_has_nothing_to_cancel_stays_the_same_object():
    i = Var("i")
    for expr in (i * 2 + 1, i, Add(i, Var("j")), const(3, "int32")):
        assert cancelled(expr) is expr
    assert linear_difference(i * 2, const(0, "int32")) is not None


def test_ranges_between_bounds():
    i = Var("i", "int64")
    made = range_between(i * 2, i * 2 + 3)
    assert made.extent.value == 3 and made.extent.dtype == "int64"
    assert range_between(0, i).extent is i


def test_keys_meet_for_equal_structure_only():
    i, j = Var("i"), Var("i")
    assert expr_key(i + 1) == expr_key(i + 1) != expr_key(j + 1)
    assert expr_key(const(1, "int32")) != expr_key(const(1, "int64"))
    assert expr_key(i // 2) != expr_key(i % 2)


def test_a_long_chain_is_no_deep_recursion():
    i = Var("i")
    total = i
    for k in range(5000):
        total = Add(total, Mul(i, const(k % 3, "int32")))
    assert linear_difference(total, total).value == 0
