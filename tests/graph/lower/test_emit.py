"""The prim func of an operation: its form, its parameters, and that the interpreter of prim funcs gives the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower import ir
from tirlower.graph.core.dims import DimEnv, dim
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.lower.emit import dims_of, emit, with_numbers
from tirlower.graph.ops.evaluate import evaluate
from tirlower.graph.ops.registry import definition
from tirlower.ir import DataType
from tirlower.ir.query import each, has


def made(name: str, *types: tuple[tuple[Any, ...], str], env: DimEnv | None = None, **attrs: Any) -> Any:
    found = definition(name)
    kinds = [TensorType(shape, DataType(dtype)) for shape, dtype in types]
    return found.generic(kinds, tuple(-1 for _ in types), found.completed(attrs)), env or DimEnv()


def run(func: ir.PrimFunc, *arrays: Any) -> None:
    tl.interpret(func.with_attr("global_symbol", "main"), *arrays)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_a_product_is_what_the_reference_gives(dtype: str) -> None:
    generic, env = made("matmul", ((3, 5), dtype), ((5, 4), dtype))
    func = emit(generic, "product", env)
    a, b = (np.random.default_rng(n).integers(-3, 4, s).astype(dtype) for n, s in enumerate([(3, 5), (5, 4)]))
    out = np.empty((3, 4), dtype)
    run(func, a, b, out)
    np.testing.assert_array_equal(out, evaluate(generic, a, b)[0])
    # Narrow floats are added up in float32, in an accumulator of each element.
    assert has(ir.AllocBuffer, func.body) == (dtype == "float16")
    assert has(ir.Block, func.body) == (dtype != "float16")


def test_a_reduction_over_nothing_gives_what_changes_nothing() -> None:
    generic, env = made("sum", ((3, 0), "float32"), axis=1)
    out = np.full(3, 7, "float32")
    run(emit(generic, "sum", env), np.empty((3, 0), "float32"), out)
    assert out.tolist() == [0, 0, 0]


def test_a_reduction_over_a_dim_that_may_be_zero() -> None:
    for low, blocks in ((0, False), (1, True)):
        n = dim("N", low, 9)
        generic, env = made("sum", ((3, n.var), "float32"), env=DimEnv([n]), axis=1)
        func = emit(generic, "sum", env)
        assert has(ir.Block, func.body) == blocks
        assert has(ir.AllocBuffer, func.body) != blocks
        for size in range(low, 4):
            x, out = np.ones((3, size), "float32"), np.full(3, 7, "float32")
            run(func, x, out, size)
            assert out.tolist() == [size] * 3


def test_several_results_of_one_reduction() -> None:
    generic, env = made("max_with_index", ((2, 5), "float32"), axis=1)
    x = np.array([[1, 5, 5, 0, 2], [3, np.nan, 9, np.nan, 1]], "float32")
    best, place = np.empty(2, "float32"), np.empty(2, "int64")
    run(emit(generic, "greatest", env), x, best, place)
    np.testing.assert_array_equal(best, np.max(x, 1))
    np.testing.assert_array_equal(place, np.argmax(x, 1))


def test_dims_are_int64_parameters_of_the_functions_own() -> None:
    n = dim("N", 1, 9)
    generic, env = made("add", ((n.var, 4), "float32"), ((4,), "float32"), env=DimEnv([n]))
    func = emit(generic, "add", env)
    assert [p.name for p in func.params] == ["a", "b", "out", "N"] and func.params[-1] is not n.var
    assert str(func.params[-1].dtype) == "int64"
    assert n.var not in set(each(ir.Var, func.body))


def test_an_operand_that_is_one_number_is_no_parameter() -> None:
    generic, env = made("multiply", ((4,), "float32"), ((), "float32"))
    func = emit(generic, "twice", env, {generic.operands[1]: ir.const(2.0, "float32")})
    assert [p.name for p in func.params] == ["a", "out"]
    x, out = np.arange(4, dtype="float32"), np.empty(4, "float32")
    run(func, x, out)
    assert out.tolist() == [0, 2, 4, 6]
    value = generic.results[0].value
    assert with_numbers(value, {}) is value


def test_the_dims_of_extents_in_order() -> None:
    m, n = dim("M"), dim("N")
    assert [v.name for v in dims_of([4, n.var * 2, m.var + n.var])] == ["N", "M"]
