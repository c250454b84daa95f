"""Operations as machine code give what their reference gives, with every extent above 1 a dim."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.ops.checking import built, floats, same
from tirlower.graph.api import compile
from tirlower.graph.core.dims import DimEnv, dim
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.lower.emit import emit
from tirlower.graph.ops.interpret import interpret
from tirlower.graph.ops.registry import definition
from tirlower.ir.dtype import DataType

X, Y = floats(3, 4, 5), floats(4, 5, seed=1)
IMAGE, KERNEL = floats(2, 3, 7, 7), floats(4, 3, 3, 3, seed=1)

CASES: list[tuple[str, tuple[np.ndarray, ...], dict[str, object]]] = [
    ("maximum", (X, Y), {}),
    ("power", (np.abs(X), Y), {}),
    ("floor_divide", (X.astype(np.int32), Y.astype(np.int32)), {}),
    ("gelu", (X,), {}),
    ("clip", (X, Y), {}),
    ("sum", (X,), {"axis": (0, 2)}),
    ("sum", (X.astype(np.float16),), {"axis": 1}),
    ("max", (X,), {"axis": 0}),
    ("max_with_index", (X,), {"axis": 2}),
    ("mean", (X,), {}),
    ("matmul", (X, floats(5, 6)), {}),
    ("conv", (IMAGE, KERNEL), {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
    ("max_pool", (IMAGE,), {"kernel": (3, 3), "pads": (1, 1, 1, 1), "ceil_mode": True}),
    ("softmax", (X,), {}),
    ("layer_norm", (X,), {}),
    ("reshape", (X,), {"shape": (-1,)}),
    ("transpose", (X,), {"axes": (2, 0, 1)}),
    ("concat", (X, X + 1, X + 2), {"axis": 1}),
    ("slice", (X,), {"starts": (-2,), "ends": (None,), "axes": (0,)}),
    ("pad", (X,), {"pads": ((1, 0), (0, 2), (0, 0)), "mode": "edge"}),
    ("gather", (X, np.array([[0, -1], [2, 1]])), {"axis": 0}),
    ("scatter_nd", (X, np.array([[0], [2]]), floats(2, 4, 5)), {}),
    ("resize", (IMAGE,), {"shape": (2, 3, 5, 9), "mode": "cubic"}),
]


@pytest.mark.parametrize(("name", "arrays", "attrs"), CASES, ids=[c[0] for c in CASES])
@pytest.mark.by_day
def test_machine_code_gives_what_the_reference_gives(
    name: str, arrays: tuple[np.ndarray, ...], attrs: dict[str, object]
) -> None:
    fixed = 1 if name in ("resize", "scatter_nd") else 64  # extents that attributes or the indices say stay numbers
    sizes = sorted({e for a in arrays for e in a.shape if 1 < e < fixed})
    dims = {e: dim(f"D{e}", 2, 64) for e in sizes}
    graph = built(name, arrays, dims, attrs)
    got, want = compile(graph)(*arrays), interpret(graph, *arrays)
    assert isinstance(got, tuple) and isinstance(want, tuple)
    for a, b in zip(got, want, strict=True):
        same(np.asarray(a), b)


def test_a_dim_that_only_the_value_speaks_of_is_a_parameter() -> None:
    n = dim("N", 1)
    generic = definition("dim_value").generic([], (), {"value": n.var, "dtype": "float32"})
    func = emit(generic, "count", DimEnv([n]))
    assert [p.name for p in func.params[1:]] == ["N"]


def test_what_a_value_binds_is_no_parameter() -> None:
    found = definition("resize")
    types = [TensorType((1, 2, 4, 5), DataType("float32"))]
    generic = found.generic(types, (-1,), found.completed({"shape": (1, 2, 8, 9)}))
    assert len(emit(generic, "resize", DimEnv()).params) == 2
