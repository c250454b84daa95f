"""A case: one ONNX operator with its attributes and operands, the model of that one node, and what a judge makes of it.

Operands are written as what they are to be, and drawn by a generator that the case's own name seeds, so that no case
depends on another one. A list is an initializer of int64; ``Const`` makes an initializer of anything, ``Shaped`` a
vector that the model computes from the shape of its first input; everything else is an input of the model.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

__all__ = [
    "Case",
    "Const",
    "Draw",
    "Judgement",
    "Shaped",
    "bools",
    "case",
    "floats",
    "ints",
    "judge",
    "judged",
    "of",
    "specials",
    "uniform",
]

Array = np.ndarray
Draw = Callable[[np.random.Generator], Array]
Judge = Literal["onnxruntime", "onnx.reference"]
Role = Literal["input", "initializer", "computed"]

# Operands


@dataclass(frozen=True)
class Const:
    """An initializer: what an importer knows while it imports."""

    value: Array | Draw


@dataclass(frozen=True)
class Shaped:
    """A vector of int64 that the model computes by `Shape`, `Gather` and `Add` from the shape of its first input."""

    values: Sequence[int]


def of(values: object, dtype: str = "float32") -> Array:
    """Exactly these numbers."""
    return np.array(values, dtype=_dtype(dtype))


def floats(*shape: int, dtype: str = "float32") -> Draw:
    """Of a normal distribution."""
    return lambda rng: rng.standard_normal(shape).astype(_dtype(dtype))


def uniform(low: float, high: float, *shape: int, dtype: str = "float32") -> Draw:
    return lambda rng: rng.uniform(low, high, shape).astype(_dtype(dtype))


def ints(*shape: int, dtype: str = "int64", low: int = -5, high: int = 6) -> Draw:
    """At least ``low``, less than ``high``."""
    return lambda rng: rng.integers(low, high, shape).astype(_dtype(dtype))


def bools(*shape: int) -> Draw:
    return lambda rng: rng.integers(0, 2, shape) == 1


def specials(*shape: int, dtype: str = "float32", nan: bool = True) -> Draw:
    """Among normal numbers both infinities and zeros, the largest finite number and, unless told otherwise, NaN."""

    def draw(rng: np.random.Generator) -> Array:
        array = rng.standard_normal(shape).astype(_dtype(dtype))
        flat = array.reshape(-1)
        values = [np.inf, -np.inf, 0.0, -0.0, np.finfo(array.dtype).max, *([np.nan] * nan)]
        places = rng.permutation(flat.size)[: len(values)]
        flat[places] = np.array(values, array.dtype)[: len(places)]
        return array

    return draw


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name))


# The case


@dataclass(frozen=True, eq=False)
class Case:
    """One node. An input that is None is left out; ``skipped`` names results that the node does not give."""

    op: str
    opset: int
    attributes: dict[str, Any]
    inputs: tuple[Array | None, ...]
    outputs: int = 1
    note: str = ""
    roles: tuple[Role, ...] = ()
    skipped: tuple[int, ...] = ()
    captured: int = 0
    """How many of the inputs, the last ones, are no operands: the node's graphs read them by their names, `x3`."""
    dynamic: tuple[tuple[int, int, str], ...] = ()
    """Dimensions that the model does not know: input, axis, name."""
    trust: Judge = "onnxruntime"
    """The judge that is asked first."""
    why: str = ""
    """Why that is not onnxruntime."""

    @property
    def name(self) -> str:
        return f"{self.op}-{self.opset}-{self.note}".replace(" ", "_")

    def feeds(self) -> dict[str, Array]:
        """What the model is called with."""
        roles = zip(self.inputs, self.roles, strict=True)
        return {f"x{i}": x for i, (x, role) in enumerate(roles) if x is not None and role == "input"}

    def model(self) -> onnx.ModelProto:
        """The node, what computes its operands from shapes, and results typed by onnx's inference."""
        nodes: list[onnx.NodeProto] = []
        inputs: list[onnx.ValueInfoProto] = []
        initializers: list[onnx.TensorProto] = []
        names: list[str] = []
        for i, (x, role) in enumerate(zip(self.inputs, self.roles, strict=True)):
            names.append("" if x is None else f"x{i}")
            if x is None:
                continue
            if role == "initializer":
                initializers.append(numpy_helper.from_array(x, f"x{i}"))
            elif role == "computed":
                self._compute(x, f"x{i}", nodes, initializers)
            else:
                shape: list[int | str] = list(x.shape)
                for operand, axis, dim in self.dynamic:
                    if operand == i:
                        shape[axis] = dim
                inputs.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), shape))
        results = ["" if i in self.skipped else f"y{i}" for i in range(self.outputs)]
        operands = names[: len(names) - self.captured]
        nodes.append(helper.make_node(self.op, operands, results, name=f"the_{self.op}", **self.attributes))
        outputs = [onnx.ValueInfoProto(name=name) for name in results if name]
        opsets = [helper.make_opsetid("", self.opset)]
        version = max(4, helper.find_min_ir_version_for(opsets))
        graph = helper.make_graph(nodes, f"one_{self.op}", inputs, outputs, initializers)
        model = helper.make_model(graph, opset_imports=opsets, ir_version=version)
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        del inferred.graph.value_info[:]
        return inferred

    def _compute(
        self, value: Array, name: str, nodes: list[onnx.NodeProto], initializers: list[onnx.TensorProto]
    ) -> None:
        """``value`` from the extents of the first input: of each axis in turn, plus what is missing."""
        source = self.inputs[0]
        if source is None or not source.ndim or self.roles[0] != "input":
            raise ValueError(f"{self.name}: the first input has no shape from which {name} could be computed")
        axes = np.arange(value.size, dtype=np.int64) % source.ndim
        missing = value - np.array(source.shape, np.int64)[axes]
        initializers.append(numpy_helper.from_array(axes.reshape(value.shape), f"{name}_axes"))
        initializers.append(numpy_helper.from_array(missing.reshape(value.shape), f"{name}_missing"))
        nodes.append(helper.make_node("Shape", ["x0"], [f"{name}_shape"], name=f"{name}_of_shape"))
        gathered = [f"{name}_shape", f"{name}_axes"], [f"{name}_extents"]
        nodes.append(helper.make_node("Gather", *gathered, name=f"{name}_of_extents", axis=0))
        added = [f"{name}_extents", f"{name}_missing"], [name]
        nodes.append(helper.make_node("Add", *added, name=f"{name}_added"))


def case(
    op: str,
    opset: int,
    *operands: object,
    note: str,
    outputs: int = 1,
    skipped: tuple[int, ...] = (),
    captured: int = 0,
    dynamic: tuple[tuple[int, int, str], ...] = (),
    trust_reference: str = "",
    **attributes: Any,
) -> Case:
    """A case whose operands are drawn; ``trust_reference`` says why onnxruntime is no judge of it."""
    rng = np.random.default_rng(zlib.crc32(f"{op} {opset} {note}".encode()))
    inputs: list[Array | None] = []
    roles: list[Role] = []
    for operand in operands:
        role: Role = "input"
        if isinstance(operand, list):
            operand = Const(np.array(operand, np.int64))
        if isinstance(operand, Const):
            role, operand = "initializer", operand.value
        elif isinstance(operand, Shaped):
            role, operand = "computed", np.array(operand.values, np.int64)
        inputs.append(_drawn(operand, rng))
        roles.append(role)
    trust: Judge = "onnx.reference" if trust_reference else "onnxruntime"
    return Case(
        op,
        opset,
        attributes,
        tuple(inputs),
        outputs,
        note,
        tuple(roles),
        skipped,
        captured,
        dynamic,
        trust,
        trust_reference,
    )


def _drawn(operand: object, rng: np.random.Generator) -> Array | None:
    if operand is None:
        return None
    array = np.array(operand(rng) if callable(operand) else operand)
    array.flags.writeable = False
    return array


# The judges


@dataclass(frozen=True)
class Judgement:
    """What the node gives, and who says so."""

    results: list[Array]
    by: Judge


def judge(given: Case) -> list[Array]:
    """What the node's results are."""
    return judged(given).results


def judged(given: Case) -> Judgement:
    """By onnxruntime where it implements the operator for these types in this opset, else by onnx's own reference."""
    if given.trust == "onnxruntime":
        results = by_onnxruntime(given)
        if results is not None:
            return Judgement(results, "onnxruntime")
    return Judgement(by_reference(given), "onnx.reference")


def by_onnxruntime(given: Case) -> list[Array] | None:
    """None where it has no implementation."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    state = onnxruntime.capi.onnxruntime_pybind11_state
    model = given.model()
    ends = [*model.graph.input, *model.graph.output]
    if any(end.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 for end in ends):
        return None  # it computes with them, but takes and gives none as NumPy's
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except (state.NotImplemented, state.InvalidGraph, state.Fail):
        return None
    return list(session.run(None, given.feeds()))


def by_reference(given: Case) -> list[Array]:
    """By the evaluator of the onnx package, which is written in NumPy."""
    with np.errstate(all="ignore"):
        return [np.asarray(result) for result in ReferenceEvaluator(given.model()).run(None, given.feeds())]
