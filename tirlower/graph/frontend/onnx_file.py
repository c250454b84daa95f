"""Reading models of ONNX: by the ``onnx`` package, into plain data, with every size checked before memory is taken.

Data outside the file is read by :mod:`tirlower.graph.frontend.onnx_data`, and only from the model's own folder.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_data import damaged, read_outside
from tirlower.graph.frontend.onnx_ops.model import (
    Attribute,
    Model,
    OnnxFunction,
    OnnxGraph,
    OnnxNode,
    OnnxType,
    Reference,
)
from tirlower.ir.dtype import Array, DataType

if TYPE_CHECKING:
    import onnx

__all__ = ["MOST_ELEMENTS", "OLDEST", "dtype_of", "read"]

OLDEST = 7
"""The first opset that is read."""
_MOST_AXES = 64
MOST_ELEMENTS = 2**48
"""A tensor of more elements is taken for a damaged one."""

_DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    16: "bfloat16",
}
"""ONNX's numbers of dtypes."""


def dtype_of(number: int, what: str) -> str:
    """The dtype of a number of ONNX's. Raises :class:`GraphError` for those that there are not here."""
    found = _DTYPES.get(number)
    if found is None:
        raise GraphError(f"{what} is of the ONNX dtype {number}, which is not supported", help=f"one of {_NAMES}")
    return found


_NAMES = ", ".join(_DTYPES.values())


def read(source: object) -> Model:
    """The model in a file, or a ``ModelProto``. Raises :class:`GraphError` for everything that is none."""
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise GraphError(
            "reading ONNX models takes the package onnx, which is not installed", help="pip install 'tirlower[graph]'"
        ) from None
    folder: Path | None = None
    if isinstance(source, onnx.ModelProto):
        proto = source
    elif isinstance(source, (str, os.PathLike)):
        path = Path(source)
        try:
            proto = onnx.ModelProto()
            proto.ParseFromString(path.read_bytes())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise GraphError(
                f"the model {str(path)!r} cannot be read: {why}", help="give the path of a file that can be read"
            ) from None
        except DecodeError:
            raise GraphError(
                f"{str(path)!r} is no ONNX model, or a damaged one", help="onnx.checker.check_model looks closer"
            ) from None
        folder = path.parent
    else:
        raise GraphError(
            f"a model is a path or an onnx.ModelProto, got {type(source).__name__}", help="give one of them"
        )
    opsets = _opsets(proto.opset_import, onnx.defs.onnx_opset_version())
    if "" not in opsets:
        raise GraphError("the model names no opset of ONNX", help="a damaged file, or no model")
    reader = _Reader(folder)
    functions: dict[tuple[str, str], OnnxFunction] = {}
    for function in proto.functions:
        key = (_domain(function.domain), _text(function.name))
        if key in functions:
            raise damaged(f"the model has two functions {key[1]!r}")
        functions[key] = reader.function(function, opsets, onnx.defs.onnx_opset_version())
    return Model(reader.graph(proto.graph), opsets, functions)


def _text(given: str | bytes) -> str:
    """A text of a message, which is bytes where it is damaged."""
    return given if isinstance(given, str) else given.decode("utf-8", "replace")


def _texts(given: Iterable[str | bytes]) -> tuple[str, ...]:
    return tuple(_text(each) for each in given)


def _domain(given: str | bytes) -> str:
    name = _text(given)
    return "" if name == "ai.onnx" else name


def _opsets(imports: Iterable[onnx.OperatorSetIdProto], newest: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in imports:
        domain = _domain(each.domain)
        if not domain and not OLDEST <= each.version <= newest:
            raise GraphError(
                f"the model is of opset {each.version}: {OLDEST} to {newest} are read",
                help="convert it with onnx.version_converter, or update the package onnx",
            )
        found[domain] = each.version
    return found


class _Reader:
    """Makes plain data of protobuf messages; ``folder`` is where data outside the file may be."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def graph(self, proto: onnx.GraphProto) -> OnnxGraph:
        """A graph with its constants."""
        if proto.sparse_initializer:
            raise GraphError(
                f"the graph {proto.name!r} has sparse initializers, which are not supported",
                help="save it with dense ones",
            )
        constants: dict[str, Array] = {}
        for tensor in proto.initializer:
            name = _text(tensor.name)
            if name in constants:
                raise damaged(f"two initializers are named {name!r}")
            constants[name] = self.tensor(tensor, f"the initializer {name!r}")
        nodes = self.nodes(proto.node)
        return OnnxGraph(
            _text(proto.name), nodes, self.types(proto.input, "inputs"), self.types(proto.output, "outputs"), constants
        )

    def types(self, values: Iterable[onnx.ValueInfoProto], what: str) -> dict[str, OnnxType]:
        """What is stated of values."""
        found: dict[str, OnnxType] = {}
        for value in values:
            name = _text(value.name)
            if name in found:
                raise damaged(f"two {what} are named {name!r}")
            kind = value.type.WhichOneof("value")
            if kind is not None and kind != "tensor_type":
                raise GraphError(
                    f"{name!r} of the {what} is no tensor: a {kind} is not supported",
                    help="give each tensor an input or output of its own",
                )
            tensor = value.type.tensor_type
            dtype = dtype_of(tensor.elem_type, f"{name!r}") if tensor.elem_type else None
            shape: tuple[int | str | None, ...] | None = None
            if tensor.HasField("shape"):
                shape = tuple(
                    d.dim_value if d.HasField("dim_value") else (_text(d.dim_param) or None) for d in tensor.shape.dim
                )
                for extent in shape:
                    if isinstance(extent, int) and extent < 0:
                        raise damaged(f"{name!r} of the {what} has the extent {extent}")
                _sized(tuple(e for e in shape if isinstance(e, int)), f"{name!r} of the {what}")
            found[name] = OnnxType(dtype, shape)
        return found

    def nodes(self, protos: Sequence[onnx.NodeProto]) -> tuple[OnnxNode, ...]:
        """Nodes, each with a name for messages."""
        made: list[OnnxNode] = []
        for index, proto in enumerate(protos):
            op = _text(proto.op_type)
            origin = _text(proto.name) or f"{op}#{index}"
            attributes: dict[str, Attribute] = {}
            for attribute in proto.attribute:
                name = _text(attribute.name)
                if name in attributes:
                    raise damaged(f"the node {origin} has two attributes {name!r}")
                attributes[name] = self.attribute(attribute, origin)
            made.append(
                OnnxNode(
                    op,
                    _domain(proto.domain),
                    origin,
                    _texts(proto.input),
                    _texts(proto.output),
                    attributes,
                )
            )
        return tuple(made)

    def attribute(self, proto: onnx.AttributeProto, origin: str) -> Attribute:
        """The value of an attribute."""
        if proto.ref_attr_name:
            return Reference(_text(proto.ref_attr_name))
        kind = proto.AttributeType.Name(proto.type) if proto.type in proto.AttributeType.values() else "?"
        if kind == "INT":
            return int(proto.i)
        if kind == "FLOAT":
            return float(proto.f)
        if kind == "STRING":
            return str(proto.s.decode("utf-8", "replace"))
        if kind == "INTS":
            return tuple(int(i) for i in proto.ints)
        if kind == "FLOATS":
            return tuple(float(f) for f in proto.floats)
        if kind == "STRINGS":
            return tuple(s.decode("utf-8", "replace") for s in proto.strings)
        if kind == "TENSOR":
            return self.tensor(proto.t, f"the attribute {proto.name!r} of the node {origin}")
        if kind == "GRAPH":
            return self.graph(proto.g)
        raise GraphError(
            f"the attribute {proto.name!r} of the node {origin} is of a kind that is not supported: {kind}"
        )

    def function(self, proto: onnx.FunctionProto, opsets: Mapping[str, int], newest: int) -> OnnxFunction:
        """A function of the model."""
        return OnnxFunction(
            _text(proto.name),
            self.nodes(proto.node),
            _texts(proto.input),
            _texts(proto.output),
            (*_texts(proto.attribute), *(_text(a.name) for a in proto.attribute_proto)),
            {_text(a.name): self.attribute(a, _text(proto.name)) for a in proto.attribute_proto},
            {**opsets, **_opsets(proto.opset_import, newest)},
        )

    # Tensors

    def tensor(self, proto: onnx.TensorProto, what: str) -> Array:
        """The array of a tensor, mapped where it stands outside the file."""
        kind = DataType(dtype_of(proto.data_type, what))
        dtype = kind.numpy
        shape = tuple(int(d) for d in proto.dims)
        if any(d < 0 for d in shape):
            raise damaged(f"{what} has a negative extent: {shape}")
        size = _sized(shape, what)
        if proto.HasField("segment"):
            raise GraphError(
                f"{what} is a segment of a tensor, which is not supported", help="save the model with whole tensors"
            )
        if proto.data_location == proto.EXTERNAL:
            return self.outside(proto, kind, shape, what)
        if proto.HasField("raw_data"):
            if len(proto.raw_data) != size * dtype.itemsize:
                raise damaged(
                    f"{what} of shape {shape} and dtype {dtype.name} has {size * dtype.itemsize} bytes, the file holds "
                    f"{len(proto.raw_data)}"
                )
            return _whole(np.frombuffer(proto.raw_data, dtype.newbyteorder("<")).astype(dtype), what).reshape(shape)
        return _typed(proto, kind, size, what).reshape(shape)

    def outside(self, proto: onnx.TensorProto, kind: DataType, shape: tuple[int, ...], what: str) -> Array:
        """Data of a file in the model's folder."""
        stated = {_text(entry.key): _text(entry.value) for entry in proto.external_data}
        dtype = kind.numpy
        data = read_outside(
            self.folder, stated, math.prod(shape) * dtype.itemsize, f"{what} of shape {shape} and dtype {dtype.name}"
        )
        return _whole(data.view(dtype), what).reshape(shape)


def _sized(shape: tuple[int, ...], what: str) -> int:
    """The number of elements. Raises :class:`GraphError` for one that no memory holds."""
    size = math.prod(shape)
    if size > MOST_ELEMENTS or max(shape, default=0) > MOST_ELEMENTS:
        raise damaged(f"{what} of shape {shape} is too large")
    check_rank(len(shape), what)
    return size


def check_rank(rank: int, what: str) -> None:
    """Raise :class:`GraphError` for more axes than arrays have."""
    if rank > _MOST_AXES:
        raise GraphError(f"{what} has {rank} axes, NumPy's arrays have at most {_MOST_AXES}", help="merge axes")


def _whole(array: Array, what: str) -> Array:
    """The same numbers. Raises :class:`GraphError` for bools that are neither 0 nor 1, which kernels take for granted."""
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise damaged(f"{what} is of bool, and holds {array.view(np.uint8).max()}")
    return array


_FIELDS = {
    "float32": "float_data",
    "float64": "double_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
}
"""Where numbers stand that are not raw; those of all other dtypes in ``int32_data``."""


def _typed(proto: onnx.TensorProto, kind: DataType, size: int, what: str) -> Array:
    dtype = kind.numpy
    field = _FIELDS.get(dtype.name, "int32_data")
    given = getattr(proto, field)
    if len(given) != size:
        raise damaged(f"{what} has {size} elements, the file holds {len(given)} in {field}")
    if dtype.name in ("float16", "bfloat16"):
        bits = np.array(given, np.int64)
        if bits.size and not 0 <= bits.min() <= bits.max() < 2**16:
            raise damaged(f"{what} is of {dtype.name}, and the file holds numbers of more than 16 bits")
        return bits.astype(np.uint16).view(dtype)
    wide = np.array(given, {"f": np.float64, "u": np.uint64}.get(dtype.kind, np.int64))
    made = wide.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(made, wide):
        raise damaged(f"{what} is of {dtype.name}, and the file holds {wide[made != wide][0]}")
    return made
