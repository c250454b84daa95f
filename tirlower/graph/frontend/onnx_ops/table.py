"""The rows of the table: what an operator of ONNX becomes, and how a row reads its operands and attributes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from tirlower.graph.core.dims import Extent, Shape
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.items import Item
from tirlower.graph.frontend.onnx_ops.model import Attribute, OnnxGraph, OnnxNode
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import Expr
from tirlower.ir.dtype import Array

__all__ = ["Call", "Home", "Inside", "Made", "Row", "row", "row_of"]

Made: TypeAlias = "Value | Item"
Results: TypeAlias = "Made | Sequence[Made | None]"


class Inside(Protocol):
    """A graph of a node, imported into a graph of its own: it reads values of the graph around through parameters."""

    builder: GraphBuilder

    @property
    def captured(self) -> list[Value]:
        """The values of the graph around that it reads, in the order of its parameters."""

    def capture(self, value: Value) -> Value:
        """The parameter that stands for a value of the graph around."""

    def run(self, graph: OnnxGraph, given: Mapping[str, Item]) -> list[Item]:
        """Import a graph; gives its results, as tensors inside."""


class Home(Protocol):
    """What a node needs of the import around it."""

    @property
    def nodes(self) -> int:
        """How many nodes were imported so far."""

    def run(self, graph: OnnxGraph, given: Mapping[str, Item]) -> list[Item]:
        """Import a graph of the node where it stands, its inputs given by name; gives its results."""

    def inside(self, name: str) -> Inside:
        """A graph inside the node."""

    def room(self, name: str) -> Extent | None:
        """For how many elements the result of a name, whose extent depends on data, has room; None where nothing is said."""

    def count(self, name: str, number: Value) -> None:
        """The number of the elements that there are is one more result of the model."""


_FAMILIES = (
    "elementwise", "reductions", "linear", "quantized", "pooling", "normalization", "shaping", "making", "indexing",
    "ordering", "resizing", "recurrent", "attention", "control",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """An operator: the attributes that it may have, and the function that makes its results."""

    function: Callable[[Call], Results]
    attributes: frozenset[str]


_ROWS: dict[str, Row] = {}


def row(name: str, attributes: str = "") -> Callable[[Callable[[Call], Results]], Callable[[Call], Results]]:
    """Register what an operator becomes; ``attributes`` names those that it knows."""

    def register(function: Callable[[Call], Results]) -> Callable[[Call], Results]:
        assert name not in _ROWS, name
        _ROWS[name] = Row(function, frozenset(attributes.split()))
        return function

    return register


def row_of(name: str) -> Row | None:
    """The row of an operator, if there is one."""
    for family in _FAMILIES:
        importlib.import_module(f"tirlower.graph.frontend.onnx_ops.{family}")
    return _ROWS.get(name)


class Call:
    """A node being imported: its operands by their places, its attributes by their names, and the builder."""

    def __init__(
        self, b: GraphBuilder, node: OnnxNode, opset: int, items: Sequence[Item | None], home: Home | None = None
    ) -> None:
        self.b = b
        self.node = node
        self.opset = opset
        self.items = items
        self._home = home

    @property
    def home(self) -> Home:
        """The import around the node."""
        assert self._home is not None
        return self._home

    def room(self, n: int) -> Extent:
        """For how many elements a result has room whose extent depends on data. Raises :class:`GraphError` where nobody says."""
        name = self.node.outputs[n]
        found = self.home.room(name)
        if found is None:
            raise GraphError(
                f"the extent of {name!r}, a result of {self.node.op}, depends on data",
                help=f"say for how many elements there is room: bounds={{{name!r}: n}}; their number is one more result then",
            )
        return found

    # Operands

    def __len__(self) -> int:
        return len(self.items)

    def has(self, n: int) -> bool:
        """Whether an operand is given."""
        return n < len(self.items) and self.items[n] is not None

    def item(self, n: int) -> Item:
        """An operand. Raises :class:`GraphError` where it is left out."""
        found = self.items[n] if n < len(self.items) else None
        if found is None:
            raise GraphError(f"{self.node.op} lacks its operand {n}")
        return found

    def value(self, n: int) -> Value:
        """An operand as a value."""
        return self.item(n).as_value(self.b)

    def maybe(self, n: int) -> Value | None:
        """An operand as a value, None where it is left out."""
        return self.value(n) if self.has(n) else None

    def values(self) -> list[Value]:
        """All operands as values."""
        if not self.items:
            raise GraphError(f"{self.node.op} has no operands")
        return [self.value(n) for n in range(len(self.items))]

    def shape(self, n: int) -> Shape:
        """The shape of an operand."""
        return self.item(n).shape

    def rank(self, n: int) -> int:
        """How many axes an operand has."""
        return len(self.item(n).shape)

    def extents(self, n: int, what: str) -> list[Extent]:
        """The elements of an operand that must be known while importing: numbers (also negative) and expressions."""
        contents = self.item(n).contents
        if contents is None:
            raise GraphError(
                f"{what} of {self.node.op}, {self.node.inputs[n]!r}, depends on data, but must be known while importing",
                help="make it an initializer, compute it from shapes, or bind the input: inputs={name: array}",
            )
        found = [e for e in contents.reshape(-1).tolist() if isinstance(e, (int, Expr))]
        if len(found) != contents.size:
            raise GraphError(f"{what} of {self.node.op} must be integers, got {self.item(n).dtype}")
        return found

    def numbers(self, n: int, what: str) -> list[int]:
        """The same, where dims may not stand."""
        found = self.extents(n, what)
        made = [e for e in found if isinstance(e, int)]
        if len(made) != len(found):
            raise GraphError(
                f"{what} of {self.node.op} must be numbers, got {', '.join(map(str, found))}",
                help='bind the dims to numbers: dims={"name": 8}',
            )
        return made

    def array(self, n: int, what: str) -> Array:
        """An operand that must be a constant."""
        found = self.item(n).array
        if found is None:
            raise GraphError(
                f"{what} of {self.node.op}, {self.node.inputs[n]!r}, must be a constant",
                help="make it an initializer, or bind the input: inputs={name: array}",
            )
        return found

    # Attributes

    def given(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.node.attributes

    def _attribute(self, name: str) -> Attribute:
        found = self.node.attributes.get(name)
        if found is None:
            raise GraphError(f"{self.node.op} lacks its attribute {name!r}")
        return found

    def _wrong(self, name: str, wanted: str) -> GraphError:
        return GraphError(f"the attribute {name!r} of {self.node.op} is {wanted}, got {self.node.attributes[name]!r}")

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer."""
        if default is not None and not self.given(name):
            return default
        found = self._attribute(name)
        if not isinstance(found, int):
            raise self._wrong(name, "an integer")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        """Whether an attribute is not 0."""
        return bool(self.integer(name, default))

    def number(self, name: str, default: float | None = None) -> float:
        """A number, which a file holds in float32."""
        if default is not None and not self.given(name):
            return default
        found = self._attribute(name)
        if not isinstance(found, (int, float)):
            raise self._wrong(name, "a number")
        return float(found)

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        if default is not None and not self.given(name):
            return default
        found = self._attribute(name)
        if not isinstance(found, str):
            raise self._wrong(name, "a text")
        return found

    def ints(self, name: str) -> tuple[int, ...] | None:
        """Integers, None where the attribute is left out."""
        if not self.given(name):
            return None
        found = self._attribute(name)
        made = tuple(e for e in found if isinstance(e, int)) if isinstance(found, tuple) else None
        if made is None or not isinstance(found, tuple) or len(made) != len(found):
            raise self._wrong(name, "a list of integers")
        return made

    def floats(self, name: str) -> tuple[float, ...] | None:
        """Numbers, None where the attribute is left out."""
        if not self.given(name):
            return None
        found = self._attribute(name)
        if not isinstance(found, tuple) or any(isinstance(e, str) for e in found):
            raise self._wrong(name, "a list of numbers")
        return tuple(float(e) for e in found)

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Texts, None where the attribute is left out."""
        if not self.given(name):
            return None
        found = self._attribute(name)
        if not isinstance(found, tuple) or any(not isinstance(e, str) for e in found):
            raise self._wrong(name, "a list of texts")
        return tuple(str(e) for e in found)

    def tensor(self, name: str) -> Array:
        """An array."""
        found = self._attribute(name)
        if not isinstance(found, np.ndarray):
            raise self._wrong(name, "a tensor")
        return found

    def graph(self, name: str) -> OnnxGraph:
        """A graph."""
        found = self._attribute(name)
        if not isinstance(found, OnnxGraph):
            raise self._wrong(name, "a graph")
        return found

    # Results

    def wants(self, n: int) -> bool:
        """Whether a result is asked for."""
        return n < len(self.node.outputs) and bool(self.node.outputs[n])

    def op(self, name: str, *args: object, **attrs: object) -> Value:
        """The one result of an operation."""
        return self.b.op(name, *args, **attrs)

    def cast(self, x: Value, dtype: object) -> Value:
        """A value in a dtype."""
        return x if str(x.dtype) == str(dtype) else self.b.op("cast", x, dtype=str(dtype))

    def unsupported(self, what: str, help: str | None = None) -> GraphError:
        """The error of a form of an operator that there is not yet."""
        return GraphError(
            f"{self.node.op} {what} is not supported", help=help or "export the model with another form or operator"
        )
