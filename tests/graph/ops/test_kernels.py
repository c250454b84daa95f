"""Prim funcs as kernels: what their symbolic extents are, and what does not fit."""

from __future__ import annotations

import pytest

from tirlower.graph.core.dims import dim
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.kernels import closed, numbers_of
from tirlower.ir import DataType
from tirlower.script.parse import parse

FLOAT = DataType("float32")
ROWS = """
def rows(A: T.Buffer((n, m), "float32"), out: T.Buffer((n,), "float32"), n: T.int64, m: T.int64):
    for i in range(n):
        out[i] = 0.0
        for j in range(m):
            out[i] = out[i] + A[i, j]
"""


def test_extents_become_numbers() -> None:
    kernel, N = parse(ROWS), dim("N")
    found = numbers_of(kernel, [TensorType((N * 2, 4), FLOAT), TensorType((N * 2,), FLOAT)])
    assert {v.name: str(e) for v, e in found.items()} == {"n": "N * T.int64(2)", "m": "T.int64(4)"}
    assert closed(kernel) is kernel
    opened = kernel.with_(params=kernel.params[:2])
    assert [p.name for p in closed(opened).params[2:]] == ["n", "m"]


def test_what_does_not_fit() -> None:
    kernel = parse(ROWS)
    four = TensorType((4,), FLOAT)
    with pytest.raises(GraphError, match=r"takes 2 tensors \(A, out\), results included, got 1"):
        numbers_of(kernel, [four])
    with pytest.raises(GraphError, match=r"'A' of the kernel 'rows' is float32\[n, m\], got float32\[4\]"):
        numbers_of(kernel, [four, four])
    with pytest.raises(GraphError, match=r"'A' .* got int8"):
        numbers_of(kernel, [TensorType((4, 4), DataType("int8")), four])
    scalar = parse('def f(A: T.Buffer((4,), "float32"), k: T.int32):\n    A[0] = T.float32(k)')
    with pytest.raises(GraphError, match="'k' of the kernel 'f' is no extent of a tensor"):
        numbers_of(scalar, [four])
    with pytest.raises(GraphError, match=r"got float32\[5\]"):
        numbers_of(scalar, [TensorType((5,), FLOAT)])
