"""Values of expressions at points, against the interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.generate.nodes import Nodes
from tirlower import ir
from tirlower.diagnostics import InterpreterError
from tirlower.interp.interpreter import Interpreter
from tirlower.ir import Call, Op, PrimFunc, Var, build
from tirlower.ir.dtype import DataType
from tirlower.ir.evaluator import Evaluator, NoValue
from tirlower.ir.integers import kept, wrapped
from tirlower.ir.query import has
from tirlower.ir.stmt import Evaluate

pytestmark = pytest.mark.by_day


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("seed", range(40))
def test_wrapped_values_are_those_of_the_interpreter(dtype: str, seed: int) -> None:
    rng = random.Random(seed)
    kind = DataType(dtype)
    variables = [Var(name, kind) for name in "abc"]
    nodes = Nodes(rng, variables)
    root = build.if_then_else(nodes.condition(3), nodes.integer(4), nodes.integer(4))
    func = PrimFunc(
        tuple(variables), {}, kind, {"global_symbol": "value"}, Evaluate(Call(Op.get("tir.ret"), (root,), kind))
    )
    evaluator, judge = Evaluator(root), Interpreter(func)
    low, high = int(kind.min_value), int(kind.max_value)
    for _ in range(30):
        point = {
            var: rng.choice((rng.randint(max(low, -9), 9), rng.randint(low, high), low, high)) for var in variables
        }
        try:
            wanted = judge.call("value", *point.values())
        except InterpreterError:
            if not has(ir.Select, root):  # of which the interpreter evaluates both arms
                with pytest.raises(ArithmeticError):
                    evaluator.at(point, wrapped)
            continue
        assert evaluator.at(point, wrapped) == wanted
        try:
            assert evaluator.at(point) == wanted  # within its types, or no value
        except OverflowError:
            continue


@pytest.mark.parametrize("seed", range(60))
def test_vectors_of_points_are_points(seed: int) -> None:
    rng = random.Random(seed)
    variables = [Var(name, "int32") for name in "ab"]
    evaluator = Evaluator(Nodes(rng, variables).integer(4))
    points = [{var: rng.randint(-20, 20) for var in variables} for _ in range(20)]

    def one(point: dict[Var, int]) -> int | None:
        try:
            return int(evaluator.at(point, kept))
        except ZeroDivisionError:
            return None

    wanted = [one(point) for point in points]
    # A vector has a value where all of its points have, whatever is chosen.
    kept_points = [point for point, value in zip(points, wanted, strict=True) if value is not None]
    columns = {var: np.array([point[var] for point in kept_points], np.int64) for var in variables}
    try:
        found = evaluator.at(columns, kept)
    except ArithmeticError:
        assert any(isinstance(op, (ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod, ir.Mul)) for op in evaluator.nodes)
        return
    assert np.broadcast_to(found, len(kept_points)).tolist() == [value for value in wanted if value is not None]


def test_what_has_no_value_is_named() -> None:
    n, m = Var("n", "int32"), Var("m", "int32")
    load = ir.BufferLoad(ir.Buffer("A", (8,), "int32"), (n,))
    evaluator = Evaluator(ir.Select(n > 0, load, m // n))
    assert evaluator.strange is load and evaluator.nodes[-1].__class__ is ir.Select
    assert evaluator.at({n: -2, m: 9}) == -5
    for point, wanted in (({n: 1, m: 0}, load), ({n: -1}, m), ({m: 1}, n)):
        with pytest.raises(NoValue, match="has no value that is known") as told:
            evaluator.at(point)
        assert told.value.op is wanted
    with pytest.raises(ZeroDivisionError):
        evaluator.at({n: 0, m: 1})
    assert Evaluator(n + m).strange is None


def test_shared_parts_are_computed_once() -> None:
    total: ir.Expr = Var("n", "int64")
    n = total
    for _ in range(40):
        total = total + total
    assert Evaluator(total).at({n: 3}) == 3 << 40 and len(Evaluator(total).nodes) == 41
