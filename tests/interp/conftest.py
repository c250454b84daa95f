from __future__ import annotations

import pytest

from tirlower.interp import interpret
from tirlower.ir import Call, DataType, Evaluate, Expr, Op, PrimFunc, Var


def _evaluate(expr: Expr, params: dict[Var, object] | None = None):
    """The value of an expression of scalar parameters, by a function that returns it."""
    values = params or {}
    body = Evaluate(Call(Op.get("tir.ret"), (expr,), expr.dtype))
    return interpret(PrimFunc(tuple(values), {}, DataType(expr.dtype), {}, body), *values.values())


@pytest.fixture
def evaluate():
    return _evaluate
