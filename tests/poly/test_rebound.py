"""Bounds in a new order, against all iterations counted one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.sampling import in_pairs
from tirlower.diagnostics import TirError
from tirlower.ir.expr import Expr, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import For
from tirlower.poly.rebound import rebound
from tirlower.script import parse


class Words:
    """The functions of the script that bounds call."""

    max, min = max, min

    @staticmethod
    def Select(condition: bool, a: int, b: int) -> int:
        return a if condition else b

    @staticmethod
    def Cast(dtype: str, value: int) -> int:
        return value

    @staticmethod
    def int64(value: int) -> int:
        return value


def number(expr: Expr, values: dict[Var, int]) -> int:
    """The value of an expression, computed by Python from its text."""
    return int(eval(str(expr), {"T": Words, **{var.name: value for var, value in values.items()}}))


def visited(bounds: Sequence[tuple[Var, Expr, Expr]], known: dict[Var, int]) -> list[dict[str, int]]:
    """The points of loops given by variable, start and extent, in their order."""
    if not bounds:
        return [{}]
    (var, low, extent), *rest = bounds
    start, count = number(low, known), number(extent, known)
    assert count < 200, "a loop of no use"
    return [
        {var.name: value, **inner}
        for value in range(start, start + count)
        for inner in visited(rest, {**known, var: value})
    ]


def form(rng: random.Random, outer: str) -> str:
    parts = [str(rng.randint(-3, 4))]
    if outer and rng.random() < 0.6:
        parts.append(f"{rng.choice(['', '2 * ', '-1 * '])}{rng.choice(outer)}")
    if rng.random() < 0.3:
        parts.append("n")
    text = " + ".join(parts)
    return rng.choice([text, text, f"({text}) // 2", f"T.max({text}, {rng.randint(-2, 3)})"])


def nest(rng: random.Random, depth: int) -> tuple[list[For], PrimFunc]:
    names = "ijk"[:depth]
    lines = [
        f"{'    ' * (at + 1)}for {name} in range({form(rng, names[:at])}, {form(rng, names[:at])} + {rng.randint(0, 4)}):"
        for at, name in enumerate(names)
    ]
    text = "@T.prim_func\ndef f(A: T.Buffer((4,), 'int32'), n: T.int32):\n" + "\n".join(lines)
    func = parse(f"{text}\n{'    ' * (depth + 1)}A[0] = 1\n")
    assert isinstance(func, PrimFunc)
    loops = []
    stmt = func.body
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, func


@pytest.mark.parametrize(("seed", "around"), in_pairs(range(20), [0, 1], each=4))
def test_all_iterations_once_and_no_others(seed: int, around: int) -> None:
    rng = random.Random(seed)
    loops, func = nest(rng, rng.choice([2, 2, 3]) if not around else 3)
    outside, loops = loops[:around], loops[around:]
    order = loops[:]
    rng.shuffle(order)
    found = rebound(func, loops, order)
    n = func.params[1]
    for size in (-4, 0, 1, 3):
        for values in visited([(loop.loop_var, loop.min, loop.extent) for loop in outside], {n: size}):
            known = {n: size, **{loop.loop_var: values[loop.loop_var.name] for loop in outside}}
            wanted = visited([(loop.loop_var, loop.min, loop.extent) for loop in loops], known)
            ranges = [(loop.loop_var, part.min, part.extent) for loop, part in zip(order, found.ranges, strict=True)]
            tested = [loop.node for loop in found.tested]
            points = [
                point
                for point in visited(ranges, known)
                if all(
                    _inside(loop, {one.loop_var: point[one.loop_var.name] for one in loops} | known) for loop in tested
                )
            ]
            key = [loop.loop_var.name for loop in order]
            assert points == sorted(wanted, key=lambda point: [point[name] for name in key])


def _inside(loop: For, values: dict[Var, int]) -> bool:
    start = number(loop.min, values)
    return start <= values[loop.loop_var] < start + number(loop.extent, values)


def test_a_band_of_two_needs_no_test() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((99, 99), "int32"), n: T.int32):
    for t in range(10):
        for i in range(t, n + t):
            A[t, i] = 1
""")
    t, i = func.body, func.body.body
    found = rebound(func, [t, i], [i, t])
    assert not found.tested
    assert str(found.ranges[0]) == "0:n + 9"


def test_what_is_not_affine() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((99, 99), "int32"), X: T.Buffer((99,), "int32")):
    for i in range(10):
        for j in range(X[i]):
            A[i, j] = 1
""")
    with pytest.raises(TirError, match="quasi-affine"):
        rebound(func, [func.body, func.body.body], [func.body.body, func.body])
