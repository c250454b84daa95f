"""What an operation tells of itself: iterators, reads, writes, its kind."""

from __future__ import annotations

import pytest

from tirlower.graph.core.nodes import TensorType
from tirlower.graph.ops.compute import compute, formal, sum_over
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.registry import definition
from tirlower.ir.dtype import DataType

pytestmark = pytest.mark.by_day

a, b = formal("a", (4, 8), "float32"), formal("b", (8, 2), "float32")
PRODUCT = compute((4, 2), lambda i, j: sum_over(8, lambda k: a[i, k] * b[k, j]))


def operation(name: str, *shapes: tuple[int, ...], **attrs: object) -> Generic:
    found = definition(name)
    types = [TensorType(shape, DataType("float32")) for shape in shapes]
    return found.generic(types, (-1,) * len(types), found.completed(attrs))


def test_iterators() -> None:
    assert [it.var.name for it in PRODUCT.parallel] == ["i", "j"]
    assert [(it.var.name, it.extent) for it in PRODUCT.reduction] == [("k", 8)]


def test_reads_and_writes() -> None:
    assert [str(load) for load in PRODUCT.loads()] == ["a[i, k]", "b[k, j]"]
    i, j, k = (it.var for it in PRODUCT.iters)
    assert [m.final_indices for m in PRODUCT.read_maps(1)] == [(k, j)]
    assert PRODUCT.write_map().final_indices == (i, j)


@pytest.mark.parametrize(
    ("kind", "name", "shapes", "attrs"),
    [
        ("elementwise", "add", [(2, 3), (2, 3)], {}),
        ("elementwise", "exp", [(2, 3)], {}),
        ("broadcast", "add", [(2, 3), (3,)], {}),
        ("broadcast", "add", [(2, 3), ()], {}),
        ("broadcast", "batch_norm", [(2, 3, 4), (3,), (3,), (3,), (3,)], {}),
        ("injective", "transpose", [(2, 3)], {}),
        ("injective", "reshape", [(2, 3)], {"shape": (6,)}),
        ("injective", "flip", [(2, 3)], {}),
        ("reduction", "sum", [(2, 3)], {"axis": 1}),
        ("reduction", "max_pool", [(1, 2, 4)], {"kernel": (2,)}),
        ("contraction", "matmul", [(2, 3), (3, 4)], {}),
        ("contraction", "conv", [(1, 2, 5), (3, 2, 2)], {}),
    ],
)  # fmt: skip
def test_kinds(kind: str, name: str, shapes: list[tuple[int, ...]], attrs: dict[str, object]) -> None:
    assert operation(name, *shapes, **attrs).classify() == kind
