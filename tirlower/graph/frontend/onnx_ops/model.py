"""A model of ONNX as plain data: what the importer sees once the file is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tirlower.ir.dtype import Array

__all__ = ["Attribute", "Model", "OnnxFunction", "OnnxGraph", "OnnxNode", "OnnxType", "Reference"]


@dataclass(frozen=True)
class Reference:
    """An attribute of a node in a function that the call gives under this name."""

    name: str


Attribute: TypeAlias = "int | float | str | Array | OnnxGraph | Reference | tuple[int | float | str, ...]"


@dataclass(frozen=True)
class OnnxType:
    """The dtype and the shape that a model states of a tensor: None where it does not, or of an extent without a name."""

    dtype: str | None
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """A node: names of operands (empty: left out) and of results."""

    op: str
    domain: str
    origin: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """A graph: of the model, or in a node."""

    name: str
    nodes: tuple[OnnxNode, ...]
    inputs: Mapping[str, OnnxType]
    outputs: Mapping[str, OnnxType]
    constants: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class OnnxFunction:
    """A function of the model: nodes under names of its own, in opsets of its own."""

    name: str
    nodes: tuple[OnnxNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]
    defaults: Mapping[str, Attribute]
    opsets: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Model:
    """A model: its graph, the opset of each domain, and its functions by domain and name."""

    graph: OnnxGraph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], OnnxFunction]
