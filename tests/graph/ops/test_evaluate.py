"""The reference itself: views, guards, gathers and chunks give what loops over single elements give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.ops.checking import floats, integers
from tirlower.graph.core.dims import dim
from tirlower.graph.errors import GraphError
from tirlower.graph.ops import evaluate as reference
from tirlower.graph.ops.compute import compute, formal, max_over, reduce_over, sum_over
from tirlower.graph.ops.evaluate import bind_dims, evaluate, extent_value, strided
from tirlower.graph.ops.generic import Generic
from tirlower.ir import Var, build
from tirlower.ir.constants import const

pytestmark = pytest.mark.by_day

a = formal("a", (4, 6), "float32")
A = floats(4, 6)


@pytest.mark.parametrize("name", ["rows", "diagonal", "backwards", "windows", "gathered", "constant"])
def test_loads(name: str) -> None:
    bodies = {
        "rows": ((4, 6), lambda i, j: a[i, j], lambda i, j: A[i, j]),
        "diagonal": ((4,), lambda i: a[i, i], lambda i: A[i, i]),
        "backwards": ((4, 3), lambda i, j: a[3 - i, 5 - 2 * j], lambda i, j: A[3 - i, 5 - 2 * j]),
        "windows": ((4, 4, 3), lambda i, j, k: a[i, j + k], lambda i, j, k: A[i, j + k]),
        "gathered": ((4, 9), lambda i, j: a[i, (j * j) % 6], lambda i, j: A[i, (j * j) % 6]),
        "constant": ((5,), lambda i: a[2, 3], lambda i: A[2, 3]),
    }
    shape, body, loop = bodies[name]
    (got,) = evaluate(compute(shape, body), A)
    want = np.array([loop(*at) for at in np.ndindex(*shape)], np.float32).reshape(shape)
    np.testing.assert_array_equal(got, want)


def guarded(*tests: object) -> Generic:
    def body(i: Var, j: Var) -> object:
        y, x = i - 1, j - 2
        conditions = {
            "low": [build.ge(y, const(0, "int64")), build.ge(x, const(0, "int64"))],
            "high": [build.lt(y, const(4, "int64")), build.lt(x, const(6, "int64"))],
            "joint": [build.lt(y + x, const(7, "int64")), build.ne(y % 2, const(1, "int64"))],
        }
        return build.if_then_else(
            build.all_of(*[c for t in tests for c in conditions[t]]),
            a[y, x],
            const(-1, "float32"),  # type: ignore[index]
        )

    return compute((7, 9), body)


def test_guards() -> None:
    for tests in (("low", "high"), ("high", "low"), ("low", "high", "joint"), ("joint", "high", "low")):
        (got,) = evaluate(guarded(*tests), A)
        for i, j in itertools.product(range(7), range(9)):
            y, x = i - 1, j - 2
            inside = 0 <= y < 4 and 0 <= x < 6 and ("joint" not in tests or (y + x < 7 and y % 2 != 1))
            assert got[i, j] == (A[y, x] if inside else -1)


def test_a_read_outside_its_bounds_is_an_error() -> None:
    with pytest.raises(GraphError, match="a is read outside its bounds: index -1 of axis 0, whose extent is 4"):
        evaluate(guarded("high"), A)
    with pytest.raises(GraphError, match="index 6 of axis 1"):
        evaluate(compute((7,), lambda i: a[0, i]), A)


def test_chunks_give_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    b = formal("b", (6, 5), "float32")
    B = floats(6, 5, seed=1)
    product = compute((4, 5), lambda i, j: sum_over(6, lambda k: a[i, k] * b[k, j]))
    largest = compute((4,), lambda i: max_over((6, 5), lambda k, j: a[i, k] + b[k, j]))
    total = compute((), lambda: sum_over((4, 6), lambda i, j: a[i, j] * a[i, j] + 1))
    rows = compute((4, 6, 5), lambda i, k, j: a[i, k] - b[k, j])
    whole = [evaluate(g, *([A, B][: len(g.operands)]))[0] for g in (product, largest, total, rows)]
    np.testing.assert_allclose(whole[0], A @ B, rtol=1e-5)
    np.testing.assert_allclose(whole[2], (A * A + 1).sum(), rtol=1e-5)
    monkeypatch.setattr(reference, "LIMIT", 7)
    for g, want in zip((product, largest, total, rows), whole, strict=True):
        np.testing.assert_allclose(evaluate(g, *([A, B][: len(g.operands)]))[0], want, rtol=1e-5)


def test_several_values_are_combined_together() -> None:
    def combine(x: tuple[Var, ...], y: tuple[Var, ...]) -> list[object]:
        first = build.le(x[0], y[0])
        return [build.select(first, p, q) for p, q in zip(x, y, strict=True)]

    nothing = [const(np.inf, "float32"), const(-1, "int64")]
    least = compute((4,), lambda i: reduce_over(6, lambda k: (a[i, k], k), combine, nothing))  # type: ignore[arg-type]
    value, place = evaluate(least, A)
    np.testing.assert_array_equal(value, A.min(1))
    np.testing.assert_array_equal(place, A.argmin(1))


def test_no_iterations() -> None:
    empty = formal("e", (4, 0), "float32")
    e = np.zeros((4, 0), np.float32)
    assert evaluate(compute((4,), lambda i: sum_over(0, lambda k: empty[i, k])), e)[0].tolist() == [0.0] * 4
    assert evaluate(compute((0, 4), lambda i, j: a[j, i]), A)[0].shape == (0, 4)


def test_precisely() -> None:
    third = compute((4, 6), lambda i, j: build.cast("float16", a[i, j] / const(3, "float32")))
    assert evaluate(third, A)[0].dtype == np.float16
    (got,) = evaluate(third, A, precise=True)
    np.testing.assert_allclose(got, A.astype(np.float64) / 3, rtol=1e-15)


def test_dims_are_bound_and_compared() -> None:
    n, m = dim("N"), dim("M")
    x, y = formal("x", (n, 6), "float32"), formal("y", (n * 2,), "float32")
    both = compute((n, m), lambda i, j: x[i, 0] + y[i * 2])
    (got,) = evaluate(both, A, np.arange(8, dtype=np.float32), dims={m.var: 3})
    np.testing.assert_array_equal(
        got, np.broadcast_to((A[:, 0] + np.arange(0, 8, 2))[:, None], (4, 3)).astype(np.float32)
    )
    for arrays, match in (
        ([A, np.zeros(7, np.float32)], r"axis 0 has the extent N \* 2 = 8, got 7"),
        ([A[:, :5], np.zeros(8, np.float32)], "axis 1 has the extent 6, got 5"),
        ([A[0], np.zeros(8, np.float32)], "has 2 axes, got an array of shape"),
        ([A.astype(np.float64), np.zeros(8, np.float32)], "takes x of float32, got float64"),
        ([A], "has 2 operands, got 1 arrays"),
    ):
        with pytest.raises(GraphError, match=match):
            evaluate(both, *arrays, dims={m.var: 3})
    with pytest.raises(GraphError, match="the dim M of M has no value"):
        evaluate(both, A, np.zeros(8, np.float32))
    with pytest.raises(GraphError, match="N = 4, got 5"):
        bind_dims("w", (n.var,), (5,), {n.var: 4})
    assert extent_value((n * 3 + 1) // 2, {n.var: 5}) == 8


def test_strided() -> None:
    steps = np.arange(3).reshape(3, 1), np.arange(0, 6, 2).reshape(1, 3)
    np.testing.assert_array_equal(strided(A, steps, 2), A[:3, ::2])
    assert strided(A, (np.array([0, 1, 3]), np.zeros(1, np.int64)), 1) is None
    np.testing.assert_array_equal(strided(A.T, (np.arange(4, 0, -1), np.array([2])), 1), A[2, 4:0:-1])


def test_a_convolution_is_a_product_of_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = formal("x", (8, 7), "int32"), formal("w", (5, 8, 3), "int32")
    X, W = integers(8, 7), integers(5, 8, 3)

    def element(f: Var, p: Var) -> object:
        def term(c: Var, k: Var) -> object:
            at = p + k - 1
            inside = build.all_of(build.ge(at, const(0, "int64")), build.lt(at, const(7, "int64")))
            return build.if_then_else(inside, x[c, at], const(0, "int32")) * w[f, c, k]

        return sum_over((8, 3), term)  # type: ignore[arg-type]

    conv = compute((5, 7), element)  # type: ignore[arg-type]
    padded = np.pad(X, ((0, 0), (1, 1)))
    want = sum(W[:, :, k] @ padded[:, k : k + 7] for k in range(3))
    monkeypatch.setattr(
        reference._Run, "_block", lambda *_: pytest.fail("a product is not computed element by element")
    )
    np.testing.assert_array_equal(evaluate(conv, X, W)[0], want)


def test_an_extent_that_is_negative_for_these_inputs_is_named() -> None:
    x = tg.spec((tg.dim("B"), 2), "float32")
    graph = tg.trace(lambda x: tg.pad(x, pads=((-1, 0), (0, 0)), mode="constant"), x)
    assert tg.interpret(graph, np.ones((1, 2), "float32")).shape == (0, 2)
    with pytest.raises(tg.GraphError, match=r"an extent is negative: .* is \(-1, 2\) where B = 0"):
        tg.interpret(graph, np.ones((0, 2), "float32"))
