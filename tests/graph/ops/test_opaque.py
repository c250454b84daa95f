"""Opaque operations: their reference is asked as that of others, and they say that they have no loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.ops.checking import built
from tirlower.graph.core.dims import dim
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.opaque import run_reference
from tirlower.graph.ops.registry import definition, names
from tirlower.ir import structural_equal
from tirlower.ir.dtype import DataType

FLOAT32 = DataType("float32")


def test_what_is_opaque_says_so() -> None:
    assert [n for n in names() if definition(n).is_opaque] == [
        "argsort",
        "cumprod",
        "cumsum",
        "nonzero_places",
        "scatter_elements",
        "scatter_nd",
    ]
    found = definition("argsort")
    types = [TensorType((3,), FLOAT32)]
    assert found.opaque(types, (-1,), found.completed({})).classify() == "opaque"
    with pytest.raises(GraphError, match="argsort returns what compute makes, got Opaque"):
        found.generic(types, (-1,), found.completed({}))
    with pytest.raises(GraphError, match="exp returns no opaque operation, got Generic"):
        definition("exp").opaque(types, (-1,), {})


def test_the_reference_wants_the_stated_dtype_and_binds_dims() -> None:
    n = dim("N")
    found = definition("cumsum")
    made = found.opaque([TensorType((n.var, 2), FLOAT32)], (-1,), found.completed({"axis": 0}))
    (sums,) = run_reference(made, [np.ones((3, 2), "float32")])
    assert sums.tolist() == [[1, 1], [2, 2], [3, 3]]
    with pytest.raises(GraphError, match="takes x of float32, got int32"):
        run_reference(made, [np.ones((3, 2), "int32")])
    with pytest.raises(GraphError, match="axis 1 has the extent 2, got 4"):
        run_reference(made, [np.ones((3, 4), "float32")])
    (precise,) = run_reference(made, [np.full((3, 2), 0.1, "float32")], precise=True)
    assert precise.dtype == np.float64
    np.testing.assert_array_equal(precise[2], np.cumsum(np.full(3, np.float32(0.1), np.float64))[2])


def test_a_constant_operand_of_one_number_is_read_too() -> None:
    from tirlower.graph.api import compile
    from tirlower.graph.core.constants import ConstantData
    from tirlower.graph.core.options import Options
    from tirlower.graph.ops.builder import GraphBuilder

    for optimize in (False, True):
        b = GraphBuilder()
        x = b.param("x", (5,), "float32")
        ones = b.const(ConstantData.splat(2.0, (5,), FLOAT32))
        exe = compile(b.finish(b.op("add", x, b.op("cumsum", ones, axis=0))), options=Options(optimize=optimize))
        assert exe(np.zeros(5, "float32")).tolist() == [2, 4, 6, 8, 10]


def test_text_of_opaque_operations_parses_back() -> None:
    import tirlower.graph as tg

    for name, attrs in (("argsort", {"descending": True}), ("topk", {"k": 2}), ("unique", {"size": 3})):
        graph = built(name, [np.zeros((5,), "float32")], {5: dim("N", 2)}, dict(attrs))
        assert structural_equal(tg.parse(str(graph)), graph)
