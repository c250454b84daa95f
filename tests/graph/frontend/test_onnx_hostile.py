"""Damaged and hostile models get one GraphError each; nothing outside of a model's folder is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are read by the onnx package (extra `graph`)")

import onnx
from onnx import TensorProto, helper, numpy_helper

import tirlower.graph as tg
from tirlower.graph.ops.interpret import interpret

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
    "a dynamic extent without room": (
        lambda: model([node("Gather", ["x", "w"], axis=5)], [tensor("w", [0])]),
        "no axis 5",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_model_is_one_graph_error(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(tg.GraphError) as caught:
        tg.from_onnx(make())
    assert message in str(caught.value)


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
    for length in range(0, len(whole) - 1):
        path.write_bytes(whole[:length])
        try:
            tg.from_onnx(path)
        except tg.GraphError:
            pass


def test_bytes_turned_anywhere_give_a_graph_or_a_graph_error(tmp_path: Path) -> None:
    whole = bytearray(
        model([ADD_W, node("Relu", ["x"], ["z"])], [tensor("w", np.ones((2, 3)), "float32")]).SerializeToString()
    )
    rng = np.random.default_rng(0)
    path = tmp_path / "turned.onnx"
    for _ in range(300):
        turned = bytearray(whole)
        turned[rng.integers(len(whole))] = rng.integers(256)
        path.write_bytes(turned)
        try:
            tg.from_onnx(path)
        except tg.GraphError:
            pass


def test_what_is_no_model_is_said() -> None:
    with pytest.raises(tg.GraphError, match="cannot be read"):
        tg.from_onnx("/nowhere/model.onnx")
    with pytest.raises(tg.GraphError, match=r"a path or an onnx\.ModelProto, got int"):
        tg.from_onnx(3)


# Data outside of the file


def outside(folder: Path, location: str, **entries: str) -> Path:
    """A model whose weights stand in another file."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    weights.dims.extend([2, 3])
    for key, value in {"location": location, **entries}.items():
        weights.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(model([ADD_W], [weights]).SerializeToString())
    return path


def test_data_in_the_models_folder_is_read(tmp_path: Path) -> None:
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "w.bin").write_bytes(b"\0" * 3 + w.tobytes())
    graph = tg.from_onnx(outside(tmp_path, "below/w.bin", offset="3", length="24"))
    np.testing.assert_array_equal(interpret(graph, np.ones((2, 3), np.float32)), w + 1)


@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "below/../../secret.bin", "{root}/secret.bin", "link.bin", "linked/secret.bin", "", ".", "none.bin",
     "C:/secret.bin", "..\\secret.bin", "model\0.onnx", "fifo"],
)  # fmt: skip
def test_data_elsewhere_is_not_read(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.bin").write_bytes(b"\0" * 24)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "fifo")
    path = outside(folder, location.format(root=tmp_path))
    monkeypatch.setattr(np, "memmap", lambda *args, **rest: pytest.fail("a file was read"))
    with pytest.raises(tg.GraphError, match="nothing is read"):
        tg.from_onnx(path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "8"}, "ends at byte 32"),
        ({"offset": "-4"}, "is a number of bytes"),
        ({"length": "1e9"}, "is a number of bytes"),
        ({"length": "12"}, "has 24 bytes, stated are 12"),
    ],
)
def test_places_beyond_the_data_are_refused(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 24)
    with pytest.raises(tg.GraphError, match=message):
        tg.from_onnx(outside(tmp_path, "w.bin", **entries))


def test_data_outside_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 24)
    loaded = onnx.load(outside(tmp_path, "w.bin"), load_external_data=False)
    with pytest.raises(tg.GraphError, match="has no folder"):
        tg.from_onnx(loaded)
