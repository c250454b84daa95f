"""Definitions by name: signatures, operands and attributes as they are given, and every operation's page."""

from __future__ import annotations

import pytest

from tirlower.graph.core.nodes import TensorType
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.compute import Formal, compute
from tirlower.graph.ops.registry import common_dtype, definition, macro, names, op
from tirlower.ir.dtype import DataType


def test_signatures() -> None:
    assert definition("matmul").signature == "matmul(a, b)"
    assert definition("softmax").signature == "softmax(x, *, axis=-1)"
    assert definition("concat").signature == "concat(*xs, axis=0)"
    assert definition("clip").signature == "clip(x, lo=None, hi=None)"
    assert definition("cast").signature == "cast(x, *, dtype)"
    assert definition("full").signature == "full(*, shape, value, dtype='float32')"


def test_every_operation_says_what_it_does() -> None:
    assert len(names()) > 150
    assert names() == sorted(names())
    for name in names():
        first = definition(name).doc.partition("\n")[0]
        assert first.endswith(".") and len(first) < 130, name


def test_what_commutes() -> None:
    commutative = {name for name in names() if definition(name).commutative}
    assert {"add", "multiply", "maximum", "minimum", "equal", "logical_and", "bitwise_xor"} <= commutative
    assert not {"subtract", "divide", "matmul", "less", "power", "copysign"} & commutative


def test_operands_as_given() -> None:
    concat, clip = definition("concat"), definition("clip")
    assert concat.arranged([1, 2, 3]) == ([1, 2, 3], (3,))
    assert concat.arranged([[1, 2]]) == ([1, 2], (2,))
    assert clip.arranged([1, None, 3]) == ([1, 3], (-1, None, -1))
    assert clip.arranged([1]) == ([1], (-1, None, None))
    with pytest.raises(GraphError, match="matmul lacks its operand 'b'"):
        definition("matmul").arranged([1])
    with pytest.raises(GraphError, match="matmul got 1 operands too many"):
        definition("matmul").arranged([1, 2, 3])


def test_attributes_as_given() -> None:
    assert definition("softmax").completed({"axis": 0}) == {"axis": 0}
    with pytest.raises(GraphError, match="softmax has no attribute 'axes'") as caught:
        definition("softmax").completed({"axes": 0})
    assert "did you mean 'axis'?" in str(caught.value)
    with pytest.raises(GraphError, match="cast lacks its attribute 'dtype'"):
        definition("cast").completed({})


def test_names_that_are_none() -> None:
    with pytest.raises(GraphError, match="there is no operation 'matmull'") as caught:
        definition("matmull")
    assert "did you mean 'matmul'?" in str(caught.value)
    with pytest.raises(GraphError, match="an operation 'add' is defined already"):
        op("add")(lambda a: compute(a.shape, lambda *i: a[i]))


def test_definitions_that_return_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    from tirlower.graph.ops import registry

    definition("add")
    monkeypatch.setattr(registry, "_DEFINITIONS", dict(registry._DEFINITIONS))

    @op("strange")
    def strange(x: Formal) -> object:
        return x.shape

    @macro("stranger")
    def stranger(b: GraphBuilder, x: object) -> object:
        return 3

    b = GraphBuilder()
    x = b.param("x", (2,), "float32")
    with pytest.raises(GraphError, match="strange returns what compute makes, got tuple"):
        b.op("strange", x)
    with pytest.raises(GraphError, match="stranger returns values, got int"):
        b.op("stranger", x)


def test_common_dtypes() -> None:
    def common(*kinds: str) -> str:
        return str(common_dtype(*[TensorType((), DataType(k)) for k in kinds]))

    assert common("int8", "uint8") == "int16"
    assert common("float16", "bfloat16") == "float32"
    assert common("bfloat16", "bfloat16") == "bfloat16"
    assert common("bfloat16", "float32") == "float32"
    assert common("int64", "float32") == "float64"
