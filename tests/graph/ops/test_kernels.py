"""Prim funcs as kernels: what their symbolic extents are, and what does not fit."""

from __future__ import annotations

import pytest

from tirlower.graph.core.dims import DimEnv, dim
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.kernels import closed, fit, numbers_of
from tirlower.ir import DataType, const
from tirlower.script.parse import parse

pytestmark = pytest.mark.by_day

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
    twice = parse(TWICE)
    with pytest.raises(GraphError, match=r"'n' .* nothing says its value[\s\S]*numbers="):
        numbers_of(twice, [four, four])
    with pytest.raises(GraphError, match="takes 1 numbers, got 2"):
        numbers_of(twice, [four, four], [const(2, "int64")] * 2)


TWICE = """
def twice(A: T.Buffer((n * 2,), "float32"), out: T.Buffer((n * 2,), "float32"), n: T.int64):
    for i in range(n * 2):
        out[i] = A[i]
"""


def test_a_dim_inside_an_extent_is_given() -> None:
    twice, N = parse(TWICE), dim("N")
    six = TensorType((6,), FLOAT)
    fit(twice, [six], [six], [const(3, "int64")], DimEnv())
    env = DimEnv([N])
    doubled = TensorType((N * 2,), FLOAT)
    fit(twice, [doubled], [doubled], [N.var], env)
    assert not env.assumed
    (found,) = numbers_of(twice, [doubled, doubled], named={"n": N.var}).values()
    assert found is N.var
    with pytest.raises(GraphError, match=r"along axis 0 the extent n \* 2, got float32\[6\]: 8 and 6"):
        fit(twice, [six], [six], [const(4, "int64")], DimEnv())


def test_tensors_have_the_extents_that_a_kernel_takes_them_to_have() -> None:
    rows, N, M = parse(ROWS), dim("N"), dim("M")
    four, five = TensorType((4,), FLOAT), TensorType((5, 3), FLOAT)
    with pytest.raises(GraphError, match=r"'out' of the kernel 'rows' has along axis 0 the extent n.*5 and 4"):
        fit(rows, [five], [four], (), DimEnv())
    env = DimEnv([N, M])
    fit(rows, [TensorType((N.var, 3), FLOAT)], [TensorType((M.var,), FLOAT)], (), env)
    assert [(str(a), str(b)) for a, b in env.assumed] == [("N", "M")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A[0] = 1.0", "'A' of the kernel 'f' is an operand, and is written"),
        ('T.evaluate(T.call_extern("int32", "g", A.access_ptr("rw")))', "is an operand, and is written"),
    ],
)
def test_operands_are_only_read(text: str, message: str) -> None:
    kernel = parse(f"""
def f(A: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
    {text}
    out[0] = A[0]
""")
    four = TensorType((4,), FLOAT)
    with pytest.raises(GraphError, match=message):
        fit(kernel, [four], [four], (), DimEnv())


@pytest.mark.parametrize("stated", ["strides=(2,)", "elem_offset=T.int64(2), offset_factor=1", "align=64"])
def test_memory_is_plain(stated: str) -> None:
    kernel = parse(f"""
def f(a: T.handle, o: T.handle):
    A = T.match_buffer(a, (4,), "float32", {stated})
    out = T.match_buffer(o, (4,), "float32")
    out[0] = A[0]
""")
    four = TensorType((4,), FLOAT)
    with pytest.raises(GraphError, match="'A' of the kernel 'f' states strides, an offset or an alignment"):
        fit(kernel, [four], [four], (), DimEnv())


def test_scalars_hold_what_they_are_given() -> None:
    kernel, B, C = parse(ROWS.replace("int64", "int32")), dim("B", 0, 2**31), dim("C", 0, 9)
    fit(kernel, [TensorType((C.var, 3), FLOAT)], [TensorType((C.var,), FLOAT)], (), DimEnv([C]))
    with pytest.raises(GraphError, match="'n' of the kernel 'rows' is int32, which may not hold B"):
        fit(kernel, [TensorType((B.var, 3), FLOAT)], [TensorType((B.var,), FLOAT)], (), DimEnv([B]))
