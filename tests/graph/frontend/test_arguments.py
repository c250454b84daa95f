"""From the arguments of a call to operands and attributes."""

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph import GraphError
from tirlower.graph.frontend.arguments import attribute, bound, dtype_name
from tirlower.graph.ops.registry import Definition, Parameter


def definition(*parameters, **attributes):
    return Definition("some", lambda: None, False, False, "", parameters, attributes)


SUM = definition(Parameter("x"), axis=None, keepdims=False)
CLIP = definition(Parameter("x"), Parameter("low", optional=True), Parameter("high", optional=True))
CONCAT = definition(Parameter("xs", variadic=True), axis=0)


@pytest.mark.parametrize(
    ("found", "args", "kwargs", "expected"),
    [
        (SUM, ("x",), {}, (["x"], {})),
        (SUM, ("x", 1), {}, (["x"], {"axis": 1})),
        (SUM, ("x", (0, np.int64(1)), True), {}, (["x"], {"axis": (0, 1), "keepdims": True})),
        (SUM, (), {"x": "x", "axis": np.array([1, 2])}, (["x"], {"axis": (1, 2)})),
        (CLIP, ("x",), {"high": 3}, (["x", None, 3], {})),
        (CLIP, ("x", None, 3), {}, (["x", None, 3], {})),
        (CLIP, ("x",), {}, (["x"], {})),
        (CONCAT, ("x", "y"), {"axis": 1}, (["x", "y"], {"axis": 1})),
        (CONCAT, (["x", "y"], 1), {}, (["x", "y"], {"axis": 1})),
        (CONCAT, (("x",),), {}, (["x"], {})),
    ],
)
def test_bound(found, args, kwargs, expected):
    assert bound(found, args, kwargs) == expected


@pytest.mark.parametrize(
    ("found", "args", "kwargs", "message"),
    [
        (SUM, ("x", 1, True, 3), {}, "got too many arguments"),
        (SUM, ("x", 1), {"axis": 2}, "got 'axis' twice"),
        (SUM, ("x",), {"x": "y"}, "got 'x' twice"),
        (SUM, ("x",), {"axis": tg.Tensor((3,), "int32")}, "some's axis is a tensor"),
    ],
)
def test_calls_that_do_not_fit(found, args, kwargs, message):
    with pytest.raises(GraphError, match=message):
        bound(found, args, kwargs)


def test_attributes():
    n = tg.dim("N")
    assert attribute("a", n) is n.var
    assert attribute("a", [1, (n, 2.5)]) == (1, (n.var, 2.5))
    assert attribute("a", np.float32) == "float32"
    assert attribute("a", np.dtype("int8")) == "int8"


def test_dtypes():
    given = [np.float32, "float32", np.dtype("f4"), float, int, bool, "bfloat16", np.ones(1, "u1").dtype]
    assert [dtype_name(d) for d in given] == [
        "float32",
        "float32",
        "float32",
        "float64",
        "int64",
        "bool",
        "bfloat16",
        "uint8",
    ]
