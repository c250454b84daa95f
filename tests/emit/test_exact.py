"""Index arithmetic of 32 bits that may leave its type: exact where it decides, wrapped where it is stored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tirlower as tl
from tests.llvm.codegen.conftest import build as build_as_it_is
from tirlower.emit.facts import DATA, Fact, Facts
from tirlower.ir import build
from tirlower.ir.expr import Add, Call, Cast, Expr, Select, Var, const
from tirlower.ir.op import Op
from tirlower.script import parse

pytestmark = pytest.mark.by_day


class Kept(Facts):
    """Facts are known by identity: what is asked here must stay alive."""

    def of(self, expr: Expr) -> Fact:
        self.kept.append(expr)
        return super().of(expr)


def facts(**ranges: tuple[int, int]) -> tuple[Facts, dict[str, Var]]:
    made, variables = Kept(), {name: Var(name, "int32") for name in ranges}
    for name, (low, high) in ranges.items():
        made.define(variables[name], low, high)
    return made, variables


def shift(expr: Expr, by: int) -> Expr:
    return Call(Op.get("tir.shift_right"), (expr, const(by)), expr.dtype)


def test_what_leaves_its_type() -> None:
    known, v = facts(i=(0, 1 << 20), n=(0, (1 << 31) - 1))
    i, n = v["i"], v["n"]
    assert not known.leaves(i * 2047)
    assert known.leaves(i * 2048)
    assert known.leaves(n + 1)
    assert known.leaves(build.min_(i * n, n))
    assert known.leaves((n + 15) // 16)
    assert known.leaves(shift(n + 15, 4))
    assert not known.leaves(i * 2048 < n)
    assert known.of(shift(n + 15, 4)).high == ((1 << 31) + 14) >> 4


def test_arithmetic_on_numbers_is_that_of_indices() -> None:
    known, v = facts(i=(0, 15))
    number, i = const((1 << 31) - 1), v["i"]
    e = Var("e", "int32")
    known.define_as(e, number)
    for most in (number, e):
        assert known.leaves(Add(most, const(1))) and known.leaves(Add(most, i))
        assert not known.data_wraps(Add(most, const(1)))


def test_data_does_not_leave_its_type_but_wraps() -> None:
    known, v = facts(n=(0, (1 << 31) - 1))
    x = Var("x", "int32")
    known.define(x, None, None, flags=DATA)
    assert known.data_wraps(x * 2)
    assert not known.leaves(x * 2)
    assert not known.leaves(v["n"] * x)
    # What chooses is no part of what is chosen.
    assert known.leaves(Select(x > 0, v["n"] * 2, const(0)))


def test_conversions_to_64_bits_are_exact_and_leave_nothing() -> None:
    known, v = facts(n=(0, (1 << 31) - 1))
    wide = known.of(Cast("int64", v["n"] * v["n"]))
    assert (wide.low, wide.high, wide.flags) == (0, ((1 << 31) - 1) ** 2, 0)
    narrow = known.of(Cast("int8", v["n"] * 2))
    assert (narrow.low, narrow.high, narrow.flags) == (-128, 127, 0)  # what the type holds of an index is one


def test_what_is_stored_wraps() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer(("n",), "int8"), B: T.Buffer((2,), "int32")):
    B[0] = n * 65536
    B[1] = T.Select(n * 65536 < 4, 1, 2)
""")
    B = np.zeros(2, "int32")
    tl.build(func, schedule="none")(np.zeros(65537, "int8"), B)
    assert B.tolist() == [65536, 2]


def test_lanes_on_a_line_are_compared_by_one_distance() -> None:
    """The compare has lanes of 32 bits: in 64 bits it would take twice the registers."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer(("n",), "int8"), B: T.Buffer((8,), "int32")):
    for i in range(n):
        for j in T.vectorized(8):
            if i * 65536 + j * 2 < n:
                B[j] = i
""")
    text = tl.build(func, schedule="none").source("llvm")
    assert "icmp slt <8 x i32>" in text
    assert "icmp slt <8 x i64>" not in text


@pytest.mark.parametrize(
    ("lanes", "holds"),
    [
        ("T.Ramp(i * 1000000000, 1, 8) * T.Broadcast(3, 8) < T.Broadcast(7, 8)", lambda i, l: (i * 10**9 + l) * 3 < 7),
        (
            "T.Broadcast(3, 8) * T.Ramp(i - 1, 2, 8) >= T.Ramp(i * 1000000000, 3, 8)",
            lambda i, l: 3 * (i - 1 + 2 * l) >= i * 10**9 + 3 * l,
        ),
        (
            "T.Ramp(i * 1000000000, 1, 8) - T.Ramp(5, 2, 8) <= T.Ramp(i * 999999999, -2, 8)",
            lambda i, l: i * 10**9 + l - (5 + 2 * l) <= i * 999999999 - 2 * l,
        ),
        (
            "T.Ramp(i * 1000000000, 1, 8) + T.Ramp(5, 2, 8) == T.Ramp(i * 1000000001, 3, 8) + T.Broadcast(3, 8)",
            lambda i, l: i * 10**9 + l + 5 + 2 * l == i * (10**9 + 1) + 3 * l + 3,
        ),
    ],
)
def test_lines_of_sums_and_products_are_those_of_their_lanes(lanes: str, holds: Callable[[int, int], bool]) -> None:
    func = parse(f"""
def f(B: T.Buffer((32,), "int8")):
    for i in range(4):
        B[i * 8:i * 8 + 8] = T.Cast("int8x8", {lanes})
""")
    wanted = [int(holds(i, lane)) for i in range(4) for lane in range(8)]
    for run in (build_as_it_is(func), lambda b: tl.interpret(func, b)):
        found = np.zeros(32, "int8")
        run(found)
        assert found.tolist() == wanted
