"""Index arithmetic that leaves 64 bits, found and taken to wrap: the interpreter judges what is built."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tirlower as tl
from tirlower.analysis.data_analyzer import DataAnalyzer
from tirlower.analysis.word_reach import BEYOND, WordReach
from tirlower.diagnostics import BoundsError, InterpreterError
from tirlower.ir import Var, build, const
from tirlower.ir.buffer import Range
from tirlower.ir.expr import Expr, Let
from tirlower.script import parse

I, J, N = Var("i", "int64"), Var("j", "int32"), Var("n", "int64")
BIG = const(6364136223846793005, "int64")
REACH = WordReach({I: 9, J: 99}.get)


def _shifted(value: Expr, by: int) -> Expr:
    return build.call("tir.shift_left", value, const(by, value.dtype), dtype=value.dtype)


@pytest.mark.parametrize(
    ("expr", "leaves"),
    [
        (I * BIG, True),
        (I + BIG, False),
        (I + BIG + BIG, True),
        (BIG - I - BIG, True),  # less than it is: bounds are lost, nothing else
        (N * BIG, False),
        (N * N * N * N, False),
        (I % 4 * (1 << 60), False),
        (I % 9 * (1 << 60), True),
        ((I * BIG) // BIG, True),
        (_shifted(const(4, "int64"), 63), True),
        (_shifted(const(1, "int64"), 62), False),
        (_shifted(I, 60), True),
        (build.select(N > 0, I, const(1, "int64")) * BIG, True),
        (build.max_(I, const(1 << 40, "int64")) * (1 << 22), False),
        (build.max_(I, const(1 << 40, "int64")) * (1 << 24), True),
        (build.cast("int64", J) * (1 << 58), True),
        (Let(N, I * (1 << 40), N * (1 << 22)), True),
        (Let(N, I * (1 << 40), N * (1 << 18)), False),
    ],
)
def test_operations_that_may_leave_a_word(expr: Expr, leaves: bool) -> None:
    assert bool(REACH.leaving(expr > 0)) is leaves
    assert (REACH.of(expr) == BEYOND) is leaves or expr.__class__.__name__ == "FloorDiv"


def test_what_is_known_of_a_variable_says_where_its_products_are() -> None:
    analyzer = DataAnalyzer()
    assert analyzer.can_prove(N * BIG >= N) is analyzer.can_prove(N * 3 >= N)  # a size
    for extent, exact in ((2, True), (9, False)):
        i = Var("i", "int64")
        analyzer.bind(i, Range(0, extent))
        assert analyzer.can_prove(i * BIG >= 0) is exact
        assert (str(BIG.value) in str(analyzer.simplify(i * BIG >= BIG))) is not exact
        assert (analyzer.const_int_bound(i * BIG).min_value == 0) is exact
    e, i = Var("e", "int64"), Var("i", "int64")
    analyzer.bind(i, Range(0, 9))
    analyzer.bind(e, i * BIG)
    assert not analyzer.can_prove(e >= 0)
    assert not analyzer.can_prove(e + e >= e)


FUNCTIONS = {
    "compared": "for i in range(8):\n if T.int64(i) * BIG > 0:\n  O[i] = 1",
    "bound": "for i in range(8):\n e: T.int64 = T.int64(i) * BIG\n if e + e > e:\n  O[i] = e",
    "divided": "for i in range(8):\n O[i] = T.int64(i) * BIG // BIG",
    "cancelled": "for i in range(8):\n O[i] = T.int64(i) * BIG + 7 - T.int64(i) * BIG",
    "remainder": "for i in range(8):\n O[i] = (T.int64(i) * BIG * 8) % 8 + (T.int64(i) * BIG * 3) % 3",
    "greatest": "for i in range(8):\n O[i] = T.max(T.int64(i) * BIG, T.int64(i))",
    "shifted": "for i in range(3):\n if T.shift_left(i + 2, 31) * T.shift_left(T.int32(2), 31) < 8:\n  O[i] = 1",
    "constants": "if T.shift_left(T.Select(s == s, T.int64(4), T.int64(3)), T.int64(63)) < 8:\n O[0] = 1",
    "products": "for i, j, k in T.grid(8, 8, 8):\n if T.int64(i + 2**21) * (j + 2**21) * (k + 2**21) > 0:\n  O[i] = j + k",
    "beside data": "for i in range(8):\n O[i] = T.int64(i) * BIG + s - T.int64(i) * BIG * 2 + s",
    "far loop": "for i in range(T.int64(2**62), T.int64(2**62) + 3):\n if i + i > i:\n  O[i - 2**62] = 1",
    "stated": "if s < 2**62 + 4:\n for i in range(4):\n  if s >= 2**62 and O.shape[0] > 0 and i + s > i:\n   O[i] = 1",
    "far size": "n = T.int64(2**62) + 3\nfor i in range(n - 2, n):\n if i * 2 > i:\n  O[i - n + 3] = 1",
    "vectors": "for i in T.vectorized(8):\n O[i] = T.Select(T.int64(i) * BIG > 0, T.int64(1), T.int64(2))",
    "divided lanes": "for i in T.vectorized(8):\n O[i] = T.int64(i) * BIG // BIG + T.int64(i) * BIG % 5",
    "ramp": "O[T.Ramp(0, 1, 8)] = T.Ramp(T.int64(0), BIG, 8) // T.Broadcast(BIG, 8)",
    "remainders of a ramp": "O[T.Ramp(0, 1, 8)] = T.Ramp(T.int64(0), BIG, 8) % T.Broadcast(T.int64(5), 8)",
    "below a negative divisor": "for i in range(8):\n e: T.int64 = T.floormod(T.int64(i), T.int64(-2**63))\n if e + e > e:\n  O[i] = e * 3",
    "lanes below": "for i in range(8):\n for j in T.vectorized(8):\n  O[j] = T.if_then_else(j + T.int64(2**63 - 1) < i, T.int64(i), T.int64(9))",
    "factors of a remainder": "for i in range(8):\n O[i] = T.floormod(T.int64(i) * 2, -BIG) + T.floormod(T.int64(i) * -2, BIG)",
    "names of any word": "for i in range(8):\n e: T.int64 = T.floormod(T.int64(i) * BIG // -7, -BIG)\n if e + e > e:\n  O[i] = e + i",
    "repeated": "for i in range(8):\n O[T.Ramp(0, 1, 8)] = T.Broadcast(T.int64(i) * BIG, 8) // T.Broadcast(BIG, 8)",
    "threads": "for i in T.parallel(8):\n O[i] = T.Select(T.int64(i) * BIG > T.int64(3), T.int64(1), T.int64(2))",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_words(name: str) -> None:
    lines = FUNCTIONS[name].replace("BIG", f"T.int64({BIG.value})").splitlines()
    body = "\n".join(f"    {line.replace(' ', '  ', len(line) - len(line.lstrip()))}" for line in lines)
    func = parse(f'@T.prim_func\ndef f(s: T.int64, O: T.Buffer((8,), "int64")):\n{body}\n')
    wanted = np.zeros(8, "int64")
    tl.interpret(func, 3, wanted)
    for options in ({}, {"schedule": "none"}, {"schedule": "none", "target": "c"}):
        made = np.zeros(8, "int64")
        tl.build(func, **options)(3, made)
        np.testing.assert_array_equal(made, wanted, err_msg=str(options))


@pytest.mark.parametrize(
    "body",
    [
        "    e: T.int32 = T.shift_left(T.int32(4), T.int32(31))\n    if e * e < 8 and e >= 0:\n        O[e] = 1",
        "    for i in range(T.int64(2**33), T.int64(2**33 + 1)):\n        if i * i < 8 and i >= 0:\n            O[i] = 1",
        f"    for i in range(8):\n        if T.int64(i) * {BIG.value} < {BIG.value}:\n            O[i * 8] = 1",
    ],
)
def test_a_condition_that_wraps_proves_no_subscript(body: str) -> None:
    func = parse(f'@T.prim_func\ndef f(O: T.Buffer((8,), "int64")):\n{body}\n')
    runs = [tl.build(func), tl.build(func, schedule="none"), tl.build(func, target="c")]
    for run in (lambda a: tl.interpret(func, a), *runs):
        with pytest.raises(BoundsError, match=r"O\[(8589934592|16)\]"):
            run(np.zeros(8, "int64"))


NUMBERS = (
    1,
    2,
    3,
    -1,
    -5,
    2**31,
    2**32 + 1,
    -(2**40),
    2**61,
    2**62,
    2**63 - 1,
    -(2**63),
    BIG.value,
    -7046029254386353131,
)


def _arithmetic(rng: random.Random, depth: int) -> str:
    """Index arithmetic on two loops whose values may come near the ends of 64 bits, or pass them."""
    number = f"T.int64({rng.choice(NUMBERS)})"
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(["i", "j", "T.int64(i)", number, number])
    a, b = _arithmetic(rng, depth - 1), _arithmetic(rng, depth - 1)
    if rng.random() < 0.5:
        return f"({a} {rng.choice('+-*')} {b})"
    return rng.choice(
        [
            f"T.floordiv({a}, {number})",
            f"T.floormod({a}, {number})",
            f"T.truncdiv({a}, T.int64({rng.choice([3, 7, 2**40, -5])}))",
            f"T.{rng.choice(['min', 'max'])}({a}, {b})",
            f"T.{rng.choice(['shift_left', 'shift_right'])}({a}, T.int64({rng.choice([1, 31, 62, 63])}))",
            f"T.if_then_else({a} < {b}, {_arithmetic(rng, depth - 1)}, {b})",
        ]
    )


@pytest.mark.parametrize("first", [0, *(pytest.param(at, marks=pytest.mark.nightly) for at in range(20, 2000, 20))])
def test_random_arithmetic(first: int) -> None:
    ran = 0
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        kind, deep, flat = rng.choice(["serial", "vectorized", "parallel", "unroll"]), 3, 2
        bodies = [
            [f"O[i, j] = {_arithmetic(rng, deep)}"],
            [f"if {_arithmetic(rng, deep)} < {_arithmetic(rng, flat)}:", f"    O[i, j] = {_arithmetic(rng, flat)}"],
            [f"v: T.int64 = {_arithmetic(rng, deep)}", "if v + v > v:", f"    O[i, j] = v * {_arithmetic(rng, 1)}"],
        ]
        body = "".join(f"            {line}\n" for line in rng.choice(bodies[: 2 if kind == "vectorized" else 3]))
        loops = f"    for i in range(T.int64(4)):\n        for j in T.{kind}(T.int64(0), T.int64(8)):\n"
        func = parse(f'@T.prim_func\ndef f(O: T.Buffer((4, 8), "int64")):\n{loops}{body}')
        wanted = np.zeros((4, 8), "int64")
        try:
            tl.interpret(func, wanted)
        except InterpreterError:
            continue
        ran += 1
        for schedule in ("auto", "none"):
            made = np.zeros((4, 8), "int64")
            tl.build(func, schedule=schedule)(made)
            np.testing.assert_array_equal(made, wanted, err_msg=f"seed {seed}, {schedule}\n{func.script()}")
    assert ran > 10
