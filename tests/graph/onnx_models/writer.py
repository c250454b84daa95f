"""Writes an ONNX model node by node, in the names and forms that exporters of torch use, with random weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["Dim", "Writer", "pick"]

T = TypeVar("T")

Dim = int | str
"""An extent of an input: a number, or the name of a dimension that is known only at a call."""

OLDEST = 9
"""The oldest opset that the models are written in: `Where`, and initializers that are no inputs."""


def pick(given: T | None, preset: T) -> T:
    """What the caller gave, or else the preset's."""
    return preset if given is None else given


class Writer:
    """A graph under construction. Values are named by strings, as ONNX names them."""

    def __init__(self, name: str, opset: int, seed: int) -> None:
        newest = onnx.defs.onnx_opset_version()
        if not OLDEST <= opset <= newest:
            raise ValueError(f"{name} is written in opsets {OLDEST} to {newest}, not in {opset}")
        self.name = name
        self.opset = opset
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}

    # What goes in

    def input(self, name: str, shape: Sequence[Dim], dtype: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def constant(self, name: str, array: np.ndarray) -> str:
        """An initializer; a second one of the same name must hold the same numbers, and is the same."""
        tensor = numpy_helper.from_array(array, name)
        known = self.initializers.setdefault(name, tensor)
        if known != tensor:
            raise ValueError(f"two initializers are named {name}")
        return name

    def ints(self, *values: int) -> str:
        """A vector of int64, as shapes, axes and limits are given; one initializer for each list of numbers."""
        return self.constant("ints_" + "_".join(map(str, values)), np.array(values, np.int64))

    def number(self, value: float) -> str:
        """A scalar of float32."""
        return self.constant(f"number_{value!r}", np.array(value, np.float32))

    def normal(self, name: str, shape: Sequence[int], deviation: float, mean: float = 0.0) -> str:
        """Random weights; the order of these calls decides which numbers they get."""
        drawn = self.rng.standard_normal(tuple(shape), dtype=np.float32)
        return self.constant(name, drawn * np.float32(deviation) + np.float32(mean))

    # Nodes

    def op(self, kind: str, *operands: str, at: str = "", attributes: dict[str, Any] | None = None) -> str:
        """A node with one result; ``at`` is the module of the exported program in which it stands."""
        (result,) = self.several(kind, *operands, at=at, attributes=attributes)
        return result

    def several(
        self, kind: str, *operands: str, at: str = "", outputs: int = 1, attributes: dict[str, Any] | None = None
    ) -> tuple[str, ...]:
        name = f"/{at.replace('.', '/')}/{kind}" if at else f"/{kind}"
        again = sum(node.name == name or node.name.startswith(name + "_") for node in self.nodes)
        if again:
            name = f"{name}_{again}"
        results = tuple(f"{name}_output_{index}" for index in range(outputs))
        self.nodes.append(helper.make_node(kind, operands, results, name=name, **(attributes or {})))
        return results

    # Layers

    def linear(self, x: str, at: str, size: tuple[int, int], gain: float = 1.0) -> str:
        """A layer on a matrix, as exporters write it: one `Gemm` over the weights as torch holds them."""
        inputs, outputs = size
        weight = self.normal(f"{at}.weight", (outputs, inputs), gain / math.sqrt(inputs))
        bias = self.normal(f"{at}.bias", (outputs,), 0.1)
        return self.op("Gemm", x, weight, bias, at=at, attributes={"alpha": 1.0, "beta": 1.0, "transB": 1})

    def projection(self, x: str, at: str, size: tuple[int, int], gain: float = 1.0) -> str:
        """A layer on the last axis of more than two: `MatMul` and `Add`, the bias first, as exporters write it."""
        inputs, outputs = size
        weight = self.normal(f"{at}.weight", (inputs, outputs), gain / math.sqrt(inputs))
        bias = self.normal(f"{at}.bias", (outputs,), 0.1)
        return self.op("Add", bias, self.op("MatMul", x, weight, at=at), at=at)

    def conv(
        self,
        x: str,
        at: str,
        channels: tuple[int, int],
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        gain: float = math.sqrt(2.0),
        bias: bool = True,
    ) -> str:
        """A convolution that keeps the extents but for its stride."""
        inputs, outputs = channels
        fan_in = inputs // groups * kernel * kernel
        shape = (outputs, inputs // groups, kernel, kernel)
        operands = [x, self.normal(f"{at}.weight", shape, gain / math.sqrt(fan_in))]
        if bias:
            operands.append(self.normal(f"{at}.bias", (outputs,), 0.1))
        attributes: dict[str, Any] = {
            "dilations": [1, 1],
            "group": groups,
            "kernel_shape": [kernel, kernel],
            "pads": [kernel // 2] * 4,
            "strides": [stride, stride],
        }
        return self.op("Conv", *operands, at=at, attributes=attributes)

    def batch_norm(self, x: str, at: str, channels: int) -> str:
        """With statistics near those of what comes in, so that the variance stays near one."""
        operands = [
            self.normal(f"{at}.weight", (channels,), 0.1, 1.0),
            self.normal(f"{at}.bias", (channels,), 0.1),
            self.normal(f"{at}.running_mean", (channels,), 0.1),
            self.constant(f"{at}.running_var", self.rng.uniform(0.5, 1.5, channels).astype(np.float32)),
        ]
        attributes: dict[str, Any] = {"epsilon": 1e-5, "momentum": 0.9}
        return self.op("BatchNormalization", x, *operands, at=at, attributes=attributes)

    def layer_norm(self, x: str, at: str, size: int, epsilon: float = 1e-5) -> str:
        """Over the last axis: one node since opset 17, nine before."""
        weight = self.normal(f"{at}.weight", (size,), 0.1, 1.0)
        bias = self.normal(f"{at}.bias", (size,), 0.1)
        if self.opset >= 17:
            attributes: dict[str, Any] = {"axis": -1, "epsilon": epsilon}
            return self.op("LayerNormalization", x, weight, bias, at=at, attributes=attributes)
        away = self.op("Sub", x, self.mean(x, at, [-1], keep=True), at=at)
        variance = self.mean(self.op("Pow", away, self.number(2.0), at=at), at, [-1], keep=True)
        deviation = self.op("Sqrt", self.op("Add", variance, self.number(epsilon), at=at), at=at)
        scaled = self.op("Mul", self.op("Div", away, deviation, at=at), weight, at=at)
        return self.op("Add", scaled, bias, at=at)

    def gelu(self, x: str, at: str, tanh: bool = False) -> str:
        """One node since opset 20; before, what the library computes: by `Erf`, or by the polynomial and `Tanh`."""
        if self.opset >= 20:
            attributes: dict[str, Any] = {"approximate": "tanh"} if tanh else {}
            return self.op("Gelu", x, at=at, attributes=attributes)
        one, half = self.number(1.0), self.number(0.5)
        if tanh:
            cube = self.op("Mul", self.op("Pow", x, self.number(3.0), at=at), self.number(0.044715), at=at)
            inner = self.op("Mul", self.op("Add", x, cube, at=at), self.number(math.sqrt(2 / math.pi)), at=at)
            risen = self.op("Add", self.op("Tanh", inner, at=at), one, at=at)
            return self.op("Mul", self.op("Mul", x, half, at=at), risen, at=at)
        error = self.op("Erf", self.op("Div", x, self.number(math.sqrt(2.0)), at=at), at=at)
        return self.op("Mul", self.op("Mul", x, self.op("Add", error, one, at=at), at=at), half, at=at)

    def mean(self, x: str, at: str, axes: list[int], keep: bool) -> str:
        attributes: dict[str, Any] = {"keepdims": int(keep)}
        if self.opset >= 18:
            return self.op("ReduceMean", x, self.ints(*axes), at=at, attributes=attributes)
        return self.op("ReduceMean", x, at=at, attributes=attributes | {"axes": axes})

    def clip(self, x: str, at: str, low: float, high: float) -> str:
        if self.opset >= 11:
            return self.op("Clip", x, self.number(low), self.number(high), at=at)
        return self.op("Clip", x, at=at, attributes={"min": low, "max": high})

    def split(self, x: str, at: str, sizes: list[int]) -> tuple[str, ...]:
        """Along the last axis."""
        if self.opset >= 13:
            return self.several("Split", x, self.ints(*sizes), at=at, outputs=len(sizes), attributes={"axis": -1})
        return self.several("Split", x, at=at, outputs=len(sizes), attributes={"axis": -1, "split": sizes})

    # Shapes at run time

    def extent(self, x: str, axis: int, at: str) -> str:
        """One extent as a vector of one: `Shape` with limits since opset 15, `Gather` and `Unsqueeze` before."""
        if self.opset >= 15:
            return self.op("Shape", x, at=at, attributes={"start": axis, "end": axis + 1})
        scalar = self.constant(f"int_{axis}", np.array(axis, np.int64))
        picked = self.op("Gather", self.op("Shape", x, at=at), scalar, at=at, attributes={"axis": 0})
        if self.opset >= 13:
            return self.op("Unsqueeze", picked, self.ints(0), at=at)
        return self.op("Unsqueeze", picked, at=at, attributes={"axes": [0]})

    def concat(self, *parts: str, at: str) -> str:
        return self.op("Concat", *parts, at=at, attributes={"axis": 0})

    # What comes out

    def finish(self, result: str, shape: Sequence[Dim], name: str = "y") -> onnx.ModelProto:
        """The model, whose last node writes the result; it has passed onnx's full check."""
        last = self.nodes[-1]
        if list(last.output) != [result]:
            raise ValueError(f"{result} is not the result of the last node, {last.name}")
        last.output[0] = name
        output = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, self.name, self.inputs, [output], list(self.initializers.values()))
        opsets = [helper.make_opsetid("", self.opset)]
        version = max(4, helper.find_min_ir_version_for(opsets))  # from 4 on an initializer need not be an input too
        model = helper.make_model(graph, opset_imports=opsets, ir_version=version, producer_name="tirlower-tests")
        onnx.checker.check_model(model, full_check=True)
        return model
