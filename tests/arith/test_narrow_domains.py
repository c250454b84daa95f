"""What conditions leave of the domains of variables, and what choices range over then."""

from __future__ import annotations

import itertools
import random

import pytest
from evaluate import NoValue, evaluate, show

from tests.generate.nodes import Nodes
from tirlower.arith import Analyzer, IntervalSet, eval_set
from tirlower.ir import BufferLoad, Expr, IntImm, Range, Select, Var, build
from tirlower.ir.buffer import Buffer
from tirlower.ir.query import has, mentions
from tirlower.ir.structural import structural_equal

x, y, n = Var("x"), Var("y"), Var("n")
A = Buffer("A", (64,), "int32")
X, Y = Range(0, 16), Range(0, 4)


def choose(condition: Expr, a: object, b: object) -> Expr:
    return build.if_then_else(condition, a, b)


CHOICES = [
    (Select(x < 5, x, 6), {x: X}, (0, 6)),
    (choose(x >= 4, x - 4, 0), {x: X}, (0, 11)),
    (choose(build.logical_not(x >= 4), 0, x - 4), {x: X}, (0, 11)),
    (Select(x < 20, x, 100), {x: X}, (0, 15)),
    (Select(x * 4 + y < 30, x, 0), {x: X, y: Y}, (0, 7)),
    (Select(x * 4 + y < 30, 0, x), {x: X, y: Y}, (0, 15)),
    (Select(build.eq(x, 3), x, 7), {x: X}, (3, 7)),
    (Select(build.eq(x * 2 - y, 7), x, 3), {x: X, y: Y}, (3, 5)),
    (Select(x // 4 < 2, x // 4, 0), {x: X}, (0, 1)),
    (Select(x < n, x, 0), {x: X}, (0, build.max_(build.min_(15, n - 1), 0))),
    (choose(build.logical_and(x >= 2, x < n), choose(x < 9, x - 2, 1), 0), {x: X}, None),
    # what reads memory may have changed, and other conditions say nothing
    (Select(build.lt(x, BufferLoad(A, (y,))), x, 0), {x: X, y: Y}, (0, 15)),
    (Select(build.ne(x, 3), x, 0), {x: X}, (0, 15)),
]


@pytest.mark.parametrize(("expr", "domains", "expected"), CHOICES, ids=lambda v: show(v) if isinstance(v, Expr) else "")
def test_choices(expr, domains, expected):
    found = Analyzer().int_set(expr, domains)
    for end, wanted in zip((found.min_value, found.max_value), expected or (), strict=False):
        assert structural_equal(end, build.as_expr(wanted)), found
    if has(BufferLoad, expr):
        return
    for at in itertools.product(range(16), range(4), (-3, 0, 1, 5, 9, 20)):
        env = dict(zip((x, y, n), at, strict=True))
        value = evaluate(expr, env)
        assert evaluate(found.min_value, env) <= value <= evaluate(found.max_value, env), env


def test_factors_that_leave_the_type_say_nothing():
    for condition in (x * 65536 * 65536 < y, x + (2**31 - 1) + (2**31 - 1) > y, x * (2**31 - 1) <= y):
        found = eval_set(Select(condition, x, 0), {x: X, y: Y})
        assert (found.min_value, found.max_value) in ((0, 15), (0, 0)), (show(condition), found)


def test_sums_that_wrap_say_nothing_of_their_terms():
    class Data(Analyzer):
        """An analyzer to which ``n`` is data."""

        def wraps_around(self, expr: Expr) -> bool:
            return mentions(expr, (n,))

    expr = Select(n + x < 8, x, 0)
    assert str(Analyzer().int_set(expr, {x: X}).max_value) == "T.max(T.min(15, 7 - n), 0)"
    assert Data().int_set(expr, {x: X}).max_value == 15
    assert str(Data().int_set(Select(x < n, x, 0), {x: X}).max_value) == "T.max(T.min(15, n - 1), 0)"


def test_random_choices():
    tighter = 0
    for seed in range(100):
        rng = random.Random(seed)
        nodes = Nodes(rng, [x, y])
        expr: Expr = nodes.integer(2)
        for _ in range(rng.randint(1, 3)):
            expr = build.add(choose(nodes.condition(2), nodes.integer(2), expr), nodes.integer(1))
        domains = {x: Range(rng.choice((0, -3)), rng.randint(1, 8)), y: Range(0, rng.randint(1, 5))}
        found = Analyzer().int_set(expr, domains)
        plain = Analyzer().int_set(_opaque(expr), domains)
        for at in itertools.product(*[range(d.min.value, d.min.value + d.extent.value) for d in domains.values()]):
            env = dict(zip(domains, at, strict=True))
            value = evaluate(expr, env)
            if isinstance(value, NoValue):
                continue
            for end, fits in ((found.min_value, int.__le__), (found.max_value, int.__ge__)):
                assert end is None or fits(evaluate(end, env), value), f"seed {seed}: {show(expr)} at {at}: {found}"
        tighter += str(found) != str(plain)
    assert tighter > 10


def _opaque(expr: Expr) -> Expr:
    """The expression with conditions that say nothing: of elements of memory."""
    if isinstance(expr, Select):
        return expr.with_(condition=build.lt(BufferLoad(A, (0,)), 0))
    return expr.map_children(_opaque)


def test_many_choices_in_each_other_take_no_longer_than_they_are_long():
    expr: Expr = x
    for k in range(40):
        expr = choose(x < k, build.add(expr, 1), build.sub(expr, 1))
    assert isinstance(eval_set(expr, {x: X}), IntervalSet)
    assert eval_set(choose(x < 3, x, IntImm("int32", 2)), {x: X}).max_value == 2
