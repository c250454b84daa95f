"""The language of definitions: what it makes, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tirlower.graph.core.dims import DimEnv, dim
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.compute import (
    Reduction,
    accumulator,
    broadcast,
    compute,
    formal,
    greater,
    greatest,
    lead,
    least,
    lesser,
    max_over,
    min_over,
    prod_over,
    reduce_over,
    sum_over,
)
from tirlower.graph.ops.evaluate import evaluate
from tirlower.ir import Var
from tirlower.ir.constants import const
from tirlower.ir.dtype import DataType

pytestmark = pytest.mark.by_day

a, b = formal("a", (4, 8), "float32"), formal("b", (8, 2), "float32")


def test_iterators_have_the_names_of_the_parameters() -> None:
    made = compute((4, 2), lambda row, column: sum_over((8,), lambda k: a[row, k] * b[k, column]))
    assert [it.var.name for it in made.iters] == ["row", "column", "k"]
    assert [it.reduction for it in made.iters] == [False, False, True]
    assert [o.name for o in made.operands] == ["a", "b"]
    (result,) = made.results
    assert (result.shape, str(result.dtype), len(result.indices)) == ((4, 2), "float32", 2)
    several = compute((4, 8), lambda *i: a[i])
    assert [it.var.name for it in several.iters] == ["i0", "i1"]


def test_a_result_has_the_dtype_that_is_asked_for() -> None:
    made = compute((4, 8), lambda i, j: a[i, j], "int8")
    assert made.results[0].dtype == "int8" and made.results[0].value.dtype == "float32"


def test_elements() -> None:
    i, j = Var("i", "int64"), Var("j", "int32")
    assert str(a[i, j]) == 'a[i, T.Cast("int64", j)]'
    assert str(formal("c", (1, 8), "float32").at(i, i, j)) == 'c[T.int64(0), T.Cast("int64", j)]'
    assert str(formal("s", (), "float32").at(i, j)) == "s[()]"
    assert [str(k) for k in lead(formal("d", (1, 3, 5, 5), "float32"), (i, i), 2)] == ["0", "i"]
    assert a.ndim == 2 and repr(a) == "Formal('a', (4, 8), float32)"


def test_what_is_refused() -> None:
    with pytest.raises(GraphError, match="a has 2 axes, got 1 indices"):
        compute((4,), lambda i: a[i])
    with pytest.raises(GraphError, match="the body takes 1 indices, the shape has 2 axes"):
        compute((4, 8), lambda i: a[i, i])
    with pytest.raises(GraphError, match="a reduction stands inside another one"):
        compute((), lambda: sum_over(4, lambda i: sum_over(8, lambda k: a[i, k])))  # type: ignore[return-value]


def rows(over: Callable[..., Reduction], i: Var) -> Reduction:
    return over(8, lambda k: a[i, k])


def test_reductions() -> None:
    A = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    for over, want in ((sum_over, A.sum(1)), (prod_over, A.prod(1)), (max_over, A.max(1)), (min_over, A.min(1))):
        (got,) = evaluate(compute((4,), partial(rows, over)), A)
        np.testing.assert_allclose(got, want, rtol=1e-5)
    combined = reduce_over((4, 8), lambda i, k: a[i, k], lambda x, y: [x[0] + y[0]], [const(0, "float32")])
    assert len(combined.iters) == 2 and str(combined.reducer.identity[0]) == "T.float32(0)"


@pytest.mark.parametrize(("x", "y"), [(1.0, 2.0), (math.nan, 1.0), (1.0, math.nan), (math.inf, math.nan), (2.0, 2.0)])
def test_the_extreme_of_a_nan_is_nan(x: float, y: float) -> None:
    p, q = formal("p", (), "float64"), formal("q", (), "float64")
    arrays = np.float64(x), np.float64(y)
    for extreme, numpys in ((greater, np.maximum), (lesser, np.minimum)):
        (got,) = evaluate(compute((), partial(extreme, p[()], q[()])), *map(np.asarray, arrays))
        np.testing.assert_array_equal(got, numpys(*arrays))
        if y == y:
            for both in ((p[()], const(y, "float64")), (const(y, "float64"), p[()])):
                (got,) = evaluate(compute((), partial(extreme, *both)), np.asarray(x))
                np.testing.assert_array_equal(got, numpys(*arrays))


def test_ends_of_dtypes() -> None:
    assert [str(least(DataType(d))) for d in ("int8", "uint8", "bool")] == [
        "T.int8(-128)",
        "T.uint8(0)",
        "T.bool(False)",
    ]
    assert [str(greatest(DataType(d))) for d in ("int8", "bool")] == ["T.int8(127)", "T.bool(True)"]
    assert least(DataType("float16")).value == -math.inf  # type: ignore[attr-defined]
    assert [str(accumulator(DataType(d))) for d in ("float16", "bfloat16", "float64", "int8")] == [
        "float32", "float32", "float64", "int8",
    ]  # fmt: skip


def test_broadcasting_of_shapes() -> None:
    assert broadcast() == ()
    assert broadcast((4, 1, 3), (5, 1), ()) == (4, 5, 3)
    assert broadcast((0,), (1,)) == (0,)
    with pytest.raises(
        GraphError, match=r"shapes \(2, 3\) and \(4,\) cannot be broadcast: axis -1 has extents: 3 and 4"
    ):
        broadcast((2, 3), (4,))
    n, m = dim("N"), dim("M")
    env = DimEnv([n, m])
    with env.inferring():
        assert broadcast((n.var, 1), (m.var,)) == (n.var, m.var)
        assert not env.assumed
        assert broadcast((n.var,), (m.var,)) == (n.var,)
        assert broadcast((n.var,), (7,)) == (7,)
    assert [(str(p), str(q)) for p, q in env.assumed] == [("N", "M"), ("N", "T.int64(7)")]
