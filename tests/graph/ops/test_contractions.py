"""Sums of products against NumPy's matmul and einsum."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.graph.ops.checking import check, floats, integers, refused
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.contractions import parsed

pytestmark = pytest.mark.by_day


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)), ((1, 4), (4, 1)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 6)),
        ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((2, 3, 4), (2, 4, 5)), ((7, 3, 4), (4, 5)), ((1, 1), (1, 1)),
    ],
    ids=str,
)  # fmt: skip
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = floats(*a), floats(*b, seed=1)
    check("matmul", x @ y, x, y)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "uint8", "float64"])
def test_dtypes_of_matmul(dtype: str) -> None:
    x, y = integers(3, 4, low=0, dtype=dtype), integers(4, 5, low=0, dtype=dtype)
    check("matmul", x @ y, x, y)
    check("matmul", x @ y.astype(np.float64), x, y.astype(np.float64))


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_narrow_floats_are_added_in_float32(dtype: str) -> None:
    x, y = floats(3, 300).astype(dtype), floats(300, 5).astype(dtype)
    check("matmul", (x.astype(np.float32) @ y.astype(np.float32)).astype(dtype), x, y)


def test_refusals_of_matmul() -> None:
    refused("the axes that are added up differ: 4 and 3", "matmul", floats(3, 4), floats(3, 4))
    refused("got a scalar", "matmul", np.float32(1), floats(3, 4))
    refused("cannot be broadcast", "matmul", floats(2, 3, 4), floats(3, 4, 5))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]), ("...ij,jk", [(2, 2, 3), (3, 4)]), ("ba", [(2, 3)]),
        ("...i,...i->...", [(2, 1, 3), (4, 3)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]), ("i,j->ij", [(2,), (3,)]),
        ("ij->ji", [(2, 3)]), ("ijk->", [(2, 3, 4)]), ("i,i->", [(0,), (0,)]), ("ij,ij->ij", [(2, 3), (2, 3)]),
        ("ij,k->ik", [(2, 3), (4,)]), ("ij,ij", [(1, 3), (2, 3)]), (" i j , j -> i ", [(2, 3), (3,)]),
        ("i...->...", [(2, 3, 4)]), ("iij,jk->ik", [(2, 2, 3), (3, 4)]),
    ],
)  # fmt: skip
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    xs = [floats(*shape, seed=n) for n, shape in enumerate(shapes)]
    # With dims two axes of one label have one dim; where one of them is 1 only numbers tell that it is broadcast.
    check("einsum", np.einsum(equation, *xs), *xs, equation=equation)


def test_equations_that_are_none() -> None:
    for equation, match in (
        ("ij,jk", "is of 2 operands, got 1"),
        ("ijk->i", "does not name the 2 axes"),
        ("ij->ik", "'k' stands in the result of 'ij->ik' alone"),
        ("ij->ii", "'i' stands in the result of 'ij->ii' twice"),
        ("i1->i", "an axis is a letter, got '1'"),
    ):
        with pytest.raises(GraphError, match=match):
            parsed(equation, [2])
    refused("axis 0 of b, 'j', has two extents: 3 and 4", "einsum", floats(2, 3), floats(4, 2), equation="ij,jk")
    refused("einsum takes numbers, got bool", "einsum", np.ones((2, 2), bool), equation="ij->i")


def test_gemm() -> None:
    a, w, c = floats(3, 2), floats(4, 3), floats(4)
    check("gemm", 0.5 * a.T @ w.T + 2 * c, a, w, c, alpha=0.5, beta=2.0, trans_a=True, trans_b=True, rtol=1e-5)
    check("gemm", a.T @ w.T, a, w, trans_a=True, trans_b=True)
    check("gemm", a.T @ w.T, a, w, c, beta=0.0, trans_a=True, trans_b=True)
    x, y = integers(2, 3), integers(3, 4)
    check("gemm", 2 * (x @ y), x, y, alpha=2.0)
    refused("gemm takes matrices", "gemm", floats(2, 3, 4), w)
