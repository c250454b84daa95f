"""Damaged and hostile models get one GraphError each; nothing outside of a model's folder is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are read by the onnx package (extra `graph`)")

import onnx
from onnx import TensorProto, helper, numpy_helper

import tirlower.graph as tg
from tests.graph.onnx_cases.table import FAMILIES

Node = onnx.NodeProto
X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)


def model(
    nodes: list[Node],
    initializers: Sequence[TensorProto] = (),
    inputs: Sequence[onnx.ValueInfoProto] = (X,),
    outputs: Sequence[onnx.ValueInfoProto] = (Y,),
    opset: int = 20,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "bad", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions)


def node(op: str, inputs: list[str], outputs: Sequence[str] = ("y",), **rest: object) -> Node:
    return helper.make_node(op, inputs, outputs, name=f"the_{op}", **rest)


def tensor(name: str, values: object, dtype: str = "int64") -> TensorProto:
    return numpy_helper.from_array(np.array(values, dtype), name)


def claiming(dims: list[int], data: bytes = b"\0" * 8) -> TensorProto:
    """A tensor that says that it has other extents than its data."""
    made = TensorProto(name="w", data_type=TensorProto.FLOAT, raw_data=data)
    made.dims.extend(dims)
    return made


def calling(name: str, calls: str) -> onnx.FunctionProto:
    own = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], [helper.make_node(calls, ["a"], ["b"], domain="own")], own)


def chain(*calls: str) -> onnx.ModelProto:
    """A model of functions each of which calls the next one, as often as a letter stands in its text."""
    own = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    made: list[onnx.FunctionProto] = []
    for n, times in enumerate(calls):
        inner = f"f{n + 1}" if n + 1 < len(calls) else "Relu"
        names = ["a", *(f"t{k}" for k in range(len(times) - 1)), "b"]
        domain = "" if inner == "Relu" else "own"
        nodes = [helper.make_node(inner, [a], [b], domain=domain) for a, b in pairwise(names)]
        made.append(helper.make_function("own", f"f{n}", ["a"], ["b"], nodes, own))
    return model([helper.make_node("f0", ["x"], ["y"], domain="own")], functions=made)


def combined(op: str, shape: list[int | str], rounds: int = 40) -> onnx.ModelProto:
    """A model that combines a shape with itself again and again."""
    again = [node(op, [f"s{n}", f"s{n}"], [f"s{n + 1}"]) for n in range(rounds)]
    ends = [node("Shape", ["x"], ["s0"]), *again, node("Expand", ["x", f"s{rounds}"])]
    return model(ends, inputs=[helper.make_tensor_value_info("x", 1, shape)])


def ranged(*bounds: float, dtype: str = "float32") -> onnx.ModelProto:
    named = [tensor(name, n, dtype) for name, n in zip("abc", bounds, strict=True)]
    return model([node("Range", ["a", "b", "c"])], named, inputs=[])


ADD_W = node("Add", ["x", "w"])
BAD: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "a cycle": (
        lambda: model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["b"])]),
        "reads 'b' before it is made",
    ),
    "nodes out of order": (lambda: model([node("Relu", ["a"]), node("Relu", ["x"], ["a"])]), "out of order"),
    "a node that reads itself": (lambda: model([node("Relu", ["y"])]), "reads 'y' before"),
    "a missing initializer": (lambda: model([ADD_W]), "reads 'w', which is no input"),
    "a missing result": (lambda: model([node("Relu", ["x"], ["z"])]), "'y' of 'bad' is made by no node"),
    "no results": (lambda: model([node("Relu", ["x"])], outputs=[]), "has no results"),
    "too little data": (lambda: model([ADD_W], [claiming([2, 3])]), "has 24 bytes, the file holds 8"),
    "too few numbers": (
        lambda: model([ADD_W], [TensorProto(name="w", data_type=1, dims=[3], float_data=[1.0])]),
        "has 3 elements, the file holds 1",
    ),
    "a huge initializer": (lambda: model([ADD_W], [claiming([2**40, 2**40])]), "too large"),
    "a huge input": (
        lambda: model([node("Relu", ["x"])], inputs=[helper.make_tensor_value_info("x", 1, [2**62, 2**62])]),
        "too large",
    ),
    "a huge result": (
        lambda: model([node("Tile", ["x", "w"])], [tensor("w", [2**40, 2**40])]),
        "too large",
    ),
    "a huge constant": (lambda: model([node("ConstantOfShape", ["w"])], [tensor("w", [2**60, 2])]), "too large"),
    "a negative extent": (lambda: model([ADD_W], [claiming([-2, -1])]), "negative extent"),
    "a wrong shape": (
        lambda: model([node("MatMul", ["x", "w"])], [tensor("w", np.zeros((4, 2)), "float32")]),
        "the axes that are added up differ: 3 and 4",
    ),
    "a wrong result": (
        lambda: model([node("Relu", ["x"])], outputs=[helper.make_tensor_value_info("y", 1, [5, 3])]),
        "the shape",
    ),
    "a wrong dtype of the result": (
        lambda: model([node("Relu", ["x"])], outputs=[helper.make_tensor_value_info("y", 7, [2, 3])]),
        "stated to be of int64, and is of float32",
    ),
    "a wrong reshape": (lambda: model([node("Reshape", ["x", "w"])], [tensor("w", [4, 2])]), "number of elements"),
    "a negative reshape": (lambda: model([node("Reshape", ["x", "w"])], [tensor("w", [-2, -3])]), "at least 0"),
    "a shape that depends on data": (
        lambda: model([node("Cast", ["x"], ["s"], to=7), node("Reshape", ["x", "s"])]),
        "depends on data, but must be known",
    ),
    "an unknown attribute": (lambda: model([node("Relu", ["x"], alpha=1.0)]), "no attribute 'alpha'"),
    "an attribute of another kind": (
        lambda: model([node("Concat", ["x", "x"], axis="first")]),
        "'axis' of Concat is an integer",
    ),
    "a lacking attribute": (lambda: model([node("Concat", ["x", "x"])]), "lacks its attribute 'axis'"),
    "a lacking operand": (lambda: model([node("Add", ["x"])]), "lacks its operand 1"),
    "operands that are all left out": (lambda: model([node("Neg", [""])]), "Neg lacks its operand 0"),
    "an initializer unlike its input": (
        lambda: model([ADD_W], [tensor("w", [1.0], "float32")], [X, helper.make_tensor_value_info("w", 1, [3])]),
        "'w' has the shape (3) in the model, got (1)",
    ),
    "an initializer of another dtype than its input": (
        lambda: model([ADD_W], [tensor("w", [1.0], "float32")], [X, helper.make_tensor_value_info("w", 7, [1])]),
        "the input 'w' is of int64, got an array of float32",
    ),
    "an axis beyond": (lambda: model([node("Softmax", ["x"], axis=7)]), "no axis 7"),
    "a cast to nothing": (lambda: model([node("Cast", ["x"], to=99)]), "the ONNX dtype 99"),
    "texts": (
        lambda: model([node("Identity", ["x"])], inputs=[helper.make_tensor_value_info("x", 8, [2])]),
        "the ONNX dtype 8",
    ),
    "a name twice": (
        lambda: model([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])]),
        "two tensors are named 'y'",
    ),
    "an input's name twice": (lambda: model([node("Relu", ["x"])], inputs=[X, X]), "two inputs are named 'x'"),
    "an initializer twice": (
        lambda: model([ADD_W], [tensor("w", [1.0], "float32")] * 2),
        "two initializers are named 'w'",
    ),
    "too many results": (lambda: model([node("Relu", ["x"], ["y", "z"])]), "has 1 results, the node names 2"),
    "an opset to come": (lambda: model([node("Relu", ["x"])], opset=10_000), "of opset 10000"),
    "an opset long gone": (lambda: model([node("Relu", ["x"])], opset=3), "of opset 3"),
    "no opset": (lambda: onnx.ModelProto(graph=onnx.GraphProto(name="empty")), "names no opset"),
    "a function that calls itself": (
        lambda: model([helper.make_node("f", ["x"], ["y"], domain="own")], functions=[calling("f", "f")]),
        "calls itself",
    ),
    "functions that call each other": (
        lambda: model(
            [helper.make_node("f", ["x"], ["y"], domain="own")], functions=[calling("f", "g"), calling("g", "f")]
        ),
        "calls itself",
    ),
    "a loop that never ends": (
        lambda: model(
            [
                node(
                    "Loop",
                    ["", "", "x"],
                    body=onnx.parser.parse_graph(
                        "body (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] t) { d = Identity(c) t = Neg(s) }"
                    ),
                )
            ],
        ),
        "is not unrolled",
    ),
    "a kernel beyond its image": (
        lambda: model(
            [node("MaxPool", ["x"], kernel_shape=[9])],
            inputs=[helper.make_tensor_value_info("x", 1, [1, 2, 3])],
        ),
        "does not fit",
    ),
    "strides of none": (
        lambda: model(
            [node("MaxPool", ["x"], kernel_shape=[2], strides=[0])],
            inputs=[helper.make_tensor_value_info("x", 1, [1, 2, 3])],
        ),
        "strides are at least 1",
    ),
    "functions a thousand deep": (lambda: chain(*["1"] * 1000), "more than 100 deep"),
    "functions that double": (lambda: chain(*["11"] * 50), "more than 2000 nodes"),
    "a shape times itself": (lambda: combined("Mul", ["N"]), "of more than 1000 terms"),
    "numbers of a shape times themselves": (lambda: combined("Mul", ["N", 3]), "which is no int64"),
    "numbers of a shape added to themselves": (lambda: combined("Add", ["N", 3], 80), "which is no int64"),
    "a range without end": (lambda: ranged(0, 1e30, 1e-30), "an extent is at most"),
    "a range from end to end": (lambda: ranged(-(2**63), 2**63 - 1, 1, dtype="int64"), "an extent is at most"),
    "a range to nowhere": (lambda: ranged(0, np.nan, 1), "does not take"),
    "a range of no steps": (lambda: ranged(0, 1, 0), "the step of Range is 0"),
    "repeats that int64 counts as none": (
        lambda: model([node("Tile", ["x", "w"])], [tensor("w", [2**62])], [helper.make_tensor_value_info("x", 1, [4])]),
        "an extent is at most 9223372036854775807, got 18446744073709551616",
    ),
    "pads that int64 counts as none": (
        lambda: model([node("Pad", ["x", "w"])], [tensor("w", [2**63 - 1] * 4)]),
        "an extent is at most 9223372036854775807, got 18446744073709551616",
    ),
    "an axis resized beyond memory": (
        lambda: model([node("Resize", ["x", "", "", "w"], mode="linear")], [tensor("w", [2, 2**40])]),
        "is resized to 1099511627776",
    ),
    "a result of too many axes": (
        lambda: model([node("Unsqueeze", ["x", "w"])], [tensor("w", list(range(98)))]),
        "has 100 axes",
    ),
    "an input of too many axes": (
        lambda: model([node("Neg", ["x"])], inputs=[helper.make_tensor_value_info("x", 1, [1] * 65)]),
        "has 65 axes",
    ),
    "an initializer of too many axes": (lambda: model([ADD_W], [claiming([1] * 65, b"\0" * 4)]), "has 65 axes"),
    "a bool that is neither": (
        lambda: model([ADD_W], [TensorProto(name="w", data_type=9, dims=[2], raw_data=b"\1\7")]),
        "is of bool, and holds 7",
    ),
    "a number beyond its dtype": (
        lambda: model([ADD_W], [TensorProto(name="w", data_type=3, dims=[2], int32_data=[1, 300])]),
        "is of int8, and the file holds 300",
    ),
    "a half of more bits": (
        lambda: model([ADD_W], [TensorProto(name="w", data_type=10, dims=[1], int32_data=[-1])]),
        "of more than 16 bits",
    ),
    "a segment": (
        lambda: model(
            [ADD_W], [TensorProto(name="w", data_type=1, float_data=[1], segment=TensorProto.Segment(end=4))]
        ),
        "is a segment",
    ),
    "a dtype of 4 bits": (
        lambda: model([ADD_W], [TensorProto(name="w", data_type=22, dims=[3], raw_data=b"ab")]),
        "the ONNX dtype 22",
    ),
    "a sequence": (
        lambda: model([node("Neg", ["x"])], inputs=[helper.make_tensor_sequence_value_info("x", 1, [2])]),
        "a sequence_type is not supported",
    ),
    "a huge split": (lambda: model([node("Split", ["x"], num_outputs=2**40)]), "the node names 1"),
    "an empty graph": (lambda: model([], outputs=[]), "has no results"),
    "a result twice": (lambda: model([node("Neg", ["x"])], outputs=[Y, Y]), "two outputs are named 'y'"),
    "a dynamic extent without room": (
        lambda: model([node("Gather", ["x", "w"], axis=5)], [tensor("w", [0])]),
        "no axis 5",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_model_is_one_graph_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, message = BAD[name]
    if name == "functions that double":  # opening 200,000 nodes takes seconds
        monkeypatch.setattr("tirlower.graph.frontend.onnx._MOST_NODES", 2000)
    with pytest.raises(tg.GraphError) as caught:
        tg.from_onnx(make())
    assert message in str(caught.value)
    assert caught.value.help, "no remedy"
    assert len(str(caught.value)) < 2500


def test_all_missing_operators_are_named_at_once() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Wavelet", ["a"], ["b"]),
        helper.make_node("Wavelet", ["b"], ["c"]),
        helper.make_node("Fused", ["c"], ["y"], domain="com.example", name="fused"),
    ]
    with pytest.raises(tg.GraphError) as caught:
        tg.from_onnx(model(nodes))
    assert "not supported: Wavelet (the_Wavelet, Wavelet#2); com.example.Fused (fused)" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\x08", b"no model at all", b"\xff" * 100])
def test_a_damaged_file_is_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(tg.GraphError):
        tg.from_onnx(path)


def test_a_file_cut_anywhere_is_refused_or_whole(tmp_path: Path) -> None:
    whole = model([ADD_W], [tensor("w", np.ones((2, 3)), "float32")]).SerializeToString()
    path = tmp_path / "cut.onnx"
    refused, taken = 0, []
    for length in range(0, len(whole) - 1):
        path.write_bytes(whole[:length])
        try:
            taken.append(tg.from_onnx(path))
        except tg.GraphError:
            refused += 1
    assert refused > len(taken)
    for graph in taken:
        tg.verify(graph)


def test_bytes_turned_anywhere_give_a_graph_or_a_graph_error(tmp_path: Path) -> None:
    whole = bytearray(
        model([ADD_W, node("Relu", ["x"], ["z"])], [tensor("w", np.ones((2, 3)), "float32")]).SerializeToString()
    )
    rng = np.random.default_rng(0)
    path = tmp_path / "turned.onnx"
    refused, taken = 0, []
    for _ in range(300):
        turned = bytearray(whole)
        turned[rng.integers(len(whole))] = rng.integers(256)
        path.write_bytes(turned)
        try:
            taken.append(tg.from_onnx(path))
        except tg.GraphError:
            refused += 1
    assert refused and taken
    for graph in taken:
        tg.verify(graph)


# Operators that are given what nobody gives them

HOSTILE = (0, -1, 1, 2, -(2**63), 2**63 - 1, 2**62, 2**31, -7, 99, 2**40)
NO_NUMBERS = (np.nan, np.inf, -1.0, 0.0, 1e30)


def attacked(whole: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """A model one of whose attributes, initializers or inputs is another one."""
    bad = onnx.ModelProto()
    bad.CopyFrom(whole)
    del bad.graph.output[:]
    bad.graph.output.extend(onnx.ValueInfoProto(name=one.name) for one in whole.graph.output)
    targets = [*bad.graph.node[-1].attribute, *bad.graph.initializer, *bad.graph.input]
    if not targets:
        return bad
    target = targets[rng.integers(len(targets))]
    if isinstance(target, onnx.AttributeProto):
        for values, others in ((target.ints, HOSTILE), (target.floats, NO_NUMBERS)):
            if len(values):
                values[rng.integers(len(values))] = others[rng.integers(len(others))]
        if target.type == target.INT:
            target.i = HOSTILE[rng.integers(len(HOSTILE))]
        elif target.type == target.STRING:
            target.s = (b"", b"x", b"\xff", b"->", b"ij->kk")[rng.integers(5)]
    elif isinstance(target, TensorProto):
        array = numpy_helper.to_array(target).copy()
        others = {"float32": NO_NUMBERS, "int64": HOSTILE}.get(array.dtype.name)
        if array.size and others is not None:
            array.reshape(-1)[rng.integers(array.size)] = others[rng.integers(len(others))]
        array = (array, array[..., None], np.concatenate([array.reshape(-1)] * 3))[rng.integers(3)]
        target.CopyFrom(numpy_helper.from_array(array, target.name))
    else:
        tensor_type = target.type.tensor_type
        extents = tensor_type.shape.dim
        if rng.integers(3) == 0:
            tensor_type.elem_type = int(rng.choice([1, 2, 7, 8, 9, 10, 16]))
        elif len(extents) and rng.integers(3):
            extents[rng.integers(len(extents))].dim_value = int(rng.choice([0, 1, 7, 2**30, 2**47]))
        else:
            extents.add().dim_value = 1
    return bad


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.by_day
def test_operators_that_are_attacked_give_a_graph_or_a_graph_error(family: str) -> None:
    rng = np.random.default_rng(len(family))
    refused = 0
    for case in FAMILIES[family]:
        bad = attacked(case.model(), rng)
        try:
            with np.errstate(all="ignore"):
                tg.from_onnx(bad)
        except tg.GraphError:
            refused += 1
    assert refused  # that the attacks are any


def test_what_is_no_model_is_said() -> None:
    with pytest.raises(tg.GraphError, match="cannot be read"):
        tg.from_onnx("/nowhere/model.onnx")
    with pytest.raises(tg.GraphError, match=r"'a\\x00b' cannot be read"):
        tg.from_onnx("a\0b")
    with pytest.raises(tg.GraphError, match=r"a path or an onnx\.ModelProto, got int"):
        tg.from_onnx(3)
