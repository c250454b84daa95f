from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError
from tirlower.interp import interpret
from tirlower.interp.expressions import VSCALE
from tirlower.ir import (
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    GlobalVar,
    IntImm,
    Let,
    Mul,
    Not,
    Op,
    Or,
    Ramp,
    Select,
    Shuffle,
    Var,
    const,
)  # fmt: skip
from tirlower.ir.expr import vscale
from tirlower.script import tir as T


def i32(value):
    return const(value, "int32")


def test_vectors_lane_by_lane(evaluate):
    ramp = Ramp(const(120, "int8"), const(3, "int8"), 5)
    assert evaluate(ramp) == (120, 123, 126, -127, -124)
    assert evaluate(Broadcast(Ramp(i32(0), i32(1), 2), 3)) == (0, 1) * 3
    assert evaluate(Shuffle((Ramp(i32(0), i32(1), 2), i32(9)), (2, 0, 1, 2))) == (9, 0, 1, 9)
    assert evaluate(Shuffle((Ramp(i32(0), i32(1), 4),), (3,))) == 3
    assert evaluate(Cast("float32x2", Ramp(i32(1), i32(2), 2))) == (1.0, 3.0)
    assert evaluate(Mul(Ramp(i32(1), i32(1), 3), Broadcast(i32(2**31 - 1), 3))) == (2**31 - 1, -2, 2**31 - 3)
    even = Shuffle((const(True, "bool"), const(False, "bool")), (0, 1))
    assert evaluate(Select(even, Ramp(i32(0), i32(1), 2), Broadcast(i32(7), 2))) == (0, 7)
    assert evaluate(And(even, Not(even))) == (False, False) and evaluate(Or(even, Not(even))) == (True, True)
    assert evaluate(Ramp(i32(0), i32(1), vscale(4))) == tuple(range(4 * VSCALE))


def test_conditions_are_lazy(evaluate):
    x = Var("x", "int32")
    fails = Div(i32(1), x) > i32(0)
    assert evaluate(And(x > i32(0), fails), {x: 0}) is False
    assert evaluate(Or(x < i32(1), fails), {x: 0}) is True
    with pytest.raises(InterpreterError, match="division by zero"):
        evaluate(And(x < i32(1), fails), {x: 0})


def test_lets_and_shared_operands(evaluate):
    x, y = Var("x", "int32"), Var("y", "int32")
    assert evaluate(Let(x, Add(y, i32(1)), Mul(x, x)), {y: 4}) == 25
    inner = Let(x, i32(3), Add(x, y))
    assert evaluate(Add(inner, Mul(inner, i32(10))), {y: 2}) == 55


def test_shared_operands_are_evaluated_anew_in_each_evaluation():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            x = T.meta_var(A[i] + i)
            B[i] = x * x

    a, b = np.array([1, 5, 7, -2], np.int32), np.zeros(4, np.int32)
    interpret(kernel, a, b)
    assert b.tolist() == [(v + i) ** 2 for i, v in enumerate(a.tolist())]


def test_what_the_interpreter_does_not_know(evaluate):
    x = Var("x", "int32")
    with pytest.raises(InterpreterError, match=r"the variable 'x' .int32. is not defined"):
        evaluate(Add(x, i32(1)))
    with pytest.raises(InterpreterError, match="register a Python function"):
        evaluate(Add(FloatImm("custom[posit]8", 1.0), FloatImm("custom[posit]8", 2.0)))
    with pytest.raises(InterpreterError, match="no function 'helper'"):
        evaluate(Call(GlobalVar("helper"), (), "int32"))


def test_assume_is_checked(evaluate):
    assert evaluate(Call(Op.get("tir.assume"), (IntImm("bool", 1),), "bool")) is True
