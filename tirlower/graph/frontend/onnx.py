"""Importing models of ONNX: each node becomes operations of the graph, each question of a shape an answer in dims.

Operators are rows of the table in :mod:`tirlower.graph.frontend.onnx_ops`; what is missing is said at once, before
anything is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tirlower.diagnostics import TirError, nearest_name, user_frames
from tirlower.graph.core.dims import Dim, Extent, Shape, as_extent, dim
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_file import MOST_ELEMENTS, check_rank, read
from tirlower.graph.frontend.onnx_ops.contents import evaluated
from tirlower.graph.frontend.onnx_ops.items import Item
from tirlower.graph.frontend.onnx_ops.model import (
    Attribute,
    Model,
    OnnxFunction,
    OnnxGraph,
    OnnxNode,
    OnnxType,
    Reference,
)
from tirlower.graph.frontend.onnx_ops.table import Call, Made, row_of
from tirlower.graph.frontend.tensor_facts import TensorSpec
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import Expr, Var
from tirlower.ir.dtype import Array
from tirlower.ir.query import each
from tirlower.support.recursion import deep_recursion

__all__ = ["from_onnx"]

_MOST_NODES = 200_000
"""Nodes after functions are inlined and loops unrolled; more are taken for a model that never ends."""
_DEEPEST = 100
"""Functions that call functions: as deep as messages of protobuf nest."""
_MOST_PLACES = 8
"""Nodes that an error names, from the innermost on."""


def from_onnx(
    source: object,
    dims: Mapping[str, object] | None = None,
    inputs: Mapping[str, object] | None = None,
    bounds: Mapping[str, object] | None = None,
) -> Graph:
    """The graph of a model of ONNX: a path, or an ``onnx.ModelProto``.

    ``dims`` says what the model's named dimensions are: a dim (:func:`tirlower.graph.dim`), a number, or an expression;
    those that it does not name become dims of their names. ``inputs`` says what inputs are: a :func:`spec
    <tirlower.graph.spec>` for a shape that the model does not state, or an array that makes the input a constant.
    ``bounds`` says for how many elements tensors have room whose extent depends on data (the results of ``NonZero`` and
    ``Compress``, by their names): behind the elements stand zeros, and how many there are is one more result of the graph.
    Raises :class:`GraphError` for models that are damaged, or have operators that are not supported: all of them are named.
    """
    with user_frames(), deep_recursion(10_000):
        try:
            model = read(source)
            _known_operators(model)
            return _Importer(model, dims or {}, inputs or {}, bounds or {}).graph()
        except GraphError as error:
            error.help = (
                error.help or "onnx.checker.check_model(model, full_check=True) looks closer at a damaged model"
            )
            raise


# What is not supported


def _known_operators(model: Model) -> None:
    """Every operator of the model has a row or is a function of the model. Raises :class:`GraphError` naming all others."""
    missing: dict[str, list[str]] = {}
    waiting: list[tuple[OnnxNode, ...]] = [model.graph.nodes, *(f.nodes for f in model.functions.values())]
    while waiting:
        for node in waiting.pop():
            if (node.domain, node.op) not in model.functions and (node.domain or row_of(node.op) is None):
                name = f"{node.domain}.{node.op}" if node.domain else node.op
                missing.setdefault(name, []).append(node.origin)
            waiting += [value.nodes for value in node.attributes.values() if isinstance(value, OnnxGraph)]
    if missing:
        shown = "; ".join(f"{name} ({_few(nodes)})" for name, nodes in sorted(missing.items()))
        raise GraphError(
            f"the model has operators that are not supported: {shown}", help="docs/graph.md lists those that are"
        )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


# Importing


class _Scope:
    """The tensors of a graph by name; of a graph inside a node, also those around it."""

    def __init__(self, opsets: Mapping[str, int], around: _Scope | None = None, inside: _Inside | None = None) -> None:
        self.opsets = opsets
        self.around = around
        self.inside = inside
        """The graph of its own whose tensors these are, where that is another one than that of the scope around."""
        self.items: dict[str, Item] = {}
        self.captured: dict[str, Item] = {}

    def find(self, name: str) -> Item | None:
        """The tensor of a name."""
        found = self.items.get(name) or self.captured.get(name)
        if found is None and self.around is not None:
            found = self.around.find(name)
            if found is not None and self.inside is not None:
                found = self.captured[name] = self.inside.item(found)
        return found

    def put(self, name: str, item: Item) -> None:
        """Name a tensor."""
        if name in self.items:
            raise GraphError(f"two tensors are named {name!r}", help="a damaged model: names are unique")
        self.items[name] = item


class _Inside:
    """A graph inside a node: it reads values of the graph around through parameters."""

    def __init__(self, importer: _Importer, name: str, scope: _Scope) -> None:
        self.around = importer.b
        self.builder = GraphBuilder(_identifier(name) or "inner", env=self.around.env)
        self.importer = importer
        self.scope = _Scope(scope.opsets, scope, self)
        self._captured: dict[Value, Value] = {}

    @property
    def captured(self) -> list[Value]:
        """The values of the graph around that it reads, in the order of its parameters."""
        return list(self._captured)

    def capture(self, value: Value) -> Value:
        """The parameter that stands for a value of the graph around."""
        known = self._captured.get(value)
        if known is None:
            known = self._captured[value] = self.builder.param(value.name, value.shape, value.dtype)
        return known

    def item(self, item: Item) -> Item:
        """A tensor of the graph around: what is known of it stays known, large constants and values are captured."""
        if item.contents is not None:
            return Item(item.dtype, item.shape, array=item.array, exprs=item.exprs, name=item.name)
        return Item.of_value(self.capture(item.as_value(self.around)))

    def run(self, graph: OnnxGraph, given: Mapping[str, Item]) -> list[Item]:
        """Import a graph; gives its results, as tensors inside."""
        importer = self.importer
        self.builder.origin = self.around.origin
        for name, item in given.items():
            self.scope.put(name, item)
        importer.builders.append(self.builder)
        try:
            return importer.run(graph, self.scope)
        finally:
            importer.builders.pop()


@dataclass(frozen=True)
class _Home:
    """What a node needs of the import around it."""

    importer: _Importer
    scope: _Scope

    @property
    def nodes(self) -> int:
        """How many nodes were imported so far."""
        return self.importer.count

    def run(self, graph: OnnxGraph, given: Mapping[str, Item]) -> list[Item]:
        """Import a graph of the node where it stands, its inputs given by name; gives its results."""
        inner = _Scope(self.scope.opsets, self.scope)
        for name, item in given.items():
            inner.put(name, item)
        return self.importer.run(graph, inner)

    def inside(self, name: str) -> _Inside:
        """A graph inside the node."""
        return _Inside(self.importer, name, self.scope)

    def room(self, name: str) -> Extent | None:
        """For how many elements the result of a name has room; None where nothing is said."""
        return self.importer.room(name)

    def count(self, name: str, number: Value) -> None:
        """The number of the elements that there are is one more result of the model."""
        self.importer.counts[name] = number


class _Importer:
    def __init__(
        self,
        model: Model,
        dims: Mapping[str, object],
        inputs: Mapping[str, object],
        bounds: Mapping[str, object],
    ) -> None:
        self.model = model
        self.bounds = bounds
        self.counts: dict[str, Value] = {}
        self.builders = [GraphBuilder(_identifier(model.graph.name) or "main")]
        """Of the model, and of the graphs inside nodes that are being imported."""
        self.bound = dims
        self.inputs = inputs
        self.extents: dict[str, Extent] = {}
        self.count = 0
        self.calls: list[str] = []

    @property
    def b(self) -> GraphBuilder:
        """The builder of the graph that is being imported."""
        return self.builders[-1]

    def graph(self) -> Graph:
        """Import the whole."""
        graph = self.model.graph
        for what, given, known in (("input", self.inputs, graph.inputs), ("dim", self.bound, _dim_names(graph))):
            for name in given:
                if name not in known:
                    near = nearest_name(name, known)
                    has = ", ".join(map(repr, known)) or "none"
                    raise GraphError(
                        f"the model has no {what} {name!r}",
                        help=f"did you mean {near!r}?" if near else f"it has {has}",
                    )
        scope = _Scope(self.model.opsets)
        self._bind_dims()
        for name, stated in graph.inputs.items():
            if name in self.inputs or name not in graph.constants:
                scope.put(name, self._input(name, stated))
            else:
                self._stated(name, stated, graph.constants[name])
        held = {name: array for name, array in graph.constants.items() if name not in self.inputs}
        graph = replace(graph, constants=held)
        results = [item.as_value(self.b) for item in self.run(graph, scope)]
        if not results:
            raise GraphError(f"the model {graph.name!r} has no results")
        for name in self.bounds:
            if name not in self.counts:
                raise GraphError(
                    f"bounds names {name!r}, which is no tensor of the model whose extent depends on data",
                    help=f"such are {', '.join(map(repr, self.counts)) or 'none'}",
                )
        results += self.counts.values()
        return self.b.finish(results[0] if len(results) == 1 else results)

    # Results whose extent depends on data

    def room(self, name: str) -> Extent | None:
        """For how many elements the result of a name has room; None where nothing is said."""
        if name not in self.bounds:
            return None
        if name in self.counts or len(self.builders) > 1:
            raise GraphError(
                f"the number of elements of {name!r} cannot be a result: its node runs several times, or by a condition"
            )
        extent = as_extent(self.bounds[name])
        return self._known(extent, f"bounds says that {name!r} is") if isinstance(extent, Expr) else extent

    # Inputs and dims

    def _known(self, extent: Expr, what: str) -> Expr:
        known = {d.var for d in self.b.env}
        for var in each(Var, extent):
            if var not in known:
                raise GraphError(
                    f"{what} {extent}, but no dim is {var.name!r} alone",
                    help="a call could not tell its value: bind a dimension to the tg.dim itself too",
                )
        return extent

    def _bind_dims(self) -> None:
        env = self.b.env
        for given in self.bound.values():
            if isinstance(given, Dim):
                env.add(given)
        for name, given in self.bound.items():
            extent = as_extent(given)
            self.extents[name] = (
                self._known(extent, f"dims says that {name!r} is") if isinstance(extent, Expr) else extent
            )

    def _dim(self, name: str) -> Extent:
        known = self.extents.get(name)
        if known is None:
            base = _identifier(name) or "dim"
            own, count = base, 1
            while own in self.b.env.dims:
                count += 1
                own = f"{base}_{count}"
            made = dim(own)
            self.b.env.add(made)
            known = self.extents[name] = made.var
        return known

    def _input(self, name: str, stated: OnnxType) -> Item:
        given = self.inputs.get(name)
        if given is not None and not isinstance(given, TensorSpec):
            array = np.asarray(given)
            self._stated(name, stated, array)
            return Item.of_array(array, name)
        if isinstance(given, TensorSpec):
            shape = self._shape_of(given, name)
            if stated.dtype is not None and str(given.dtype) != stated.dtype:
                raise GraphError(f"the input {name!r} is of {stated.dtype}, got a spec of {given.dtype}")
            self._fits(name, stated, shape)
            return Item.of_value(self.b.param(name, shape, str(given.dtype)))
        if stated.dtype is None or stated.shape is None:
            raise GraphError(
                f"the model does not state the {'dtype' if stated.dtype is None else 'shape'} of its input {name!r}",
                help=f"inputs={{{name!r}: tg.spec((…), {stated.dtype or 'float32'!r})}}",
            )
        extents = [
            self._dim(f"{name}_{n}") if e is None else self._dim(e) if isinstance(e, str) else e
            for n, e in enumerate(stated.shape)
        ]
        return Item.of_value(self.b.param(name, tuple(extents), stated.dtype))

    def _stated(self, name: str, stated: OnnxType, array: Array) -> None:
        """An input's array is of its type. Raises :class:`GraphError` where it is not."""
        if stated.dtype is not None and array.dtype.name != stated.dtype:
            raise GraphError(f"the input {name!r} is of {stated.dtype}, got an array of {array.dtype.name}")
        self._fits(name, stated, array.shape)

    def _shape_of(self, spec: TensorSpec, name: str) -> Shape:
        shape: list[Extent] = []
        for extent in spec.extents:
            if isinstance(extent, Dim):
                self.b.env.add(extent)
            elif isinstance(extent, str):
                extent = self._dim(extent)
            shape.append(as_extent(extent))
        return tuple(shape)

    def _fits(self, name: str, stated: OnnxType, shape: Shape) -> None:
        if stated.shape is None:
            return
        numbers = [
            (s, e) for s, e in zip(stated.shape, shape, strict=False) if isinstance(s, int) and isinstance(e, int)
        ]
        if len(stated.shape) != len(shape) or any(s != e for s, e in numbers):
            raise GraphError(f"{name!r} has the shape {_shown(stated.shape)} in the model, got {_shown(shape)}")

    # Nodes

    def run(self, graph: OnnxGraph, scope: _Scope) -> list[Item]:
        """The results of a graph whose inputs the scope holds."""
        for name, array in graph.constants.items():
            scope.put(name, Item.of_array(array, name))
        self._nodes(graph.nodes, scope)
        results: list[Item] = []
        for name, stated in graph.outputs.items():
            item = scope.find(name)
            if item is None:
                raise GraphError(f"the result {name!r} of {graph.name!r} is made by no node")
            if stated.dtype is not None and str(item.dtype) != stated.dtype:
                raise GraphError(f"the result {name!r} is stated to be of {stated.dtype}, and is of {item.dtype}")
            if scope.around is None:
                self._fits(name, stated, item.shape)
            results.append(item)
        return results

    def _nodes(self, nodes: Sequence[OnnxNode], scope: _Scope) -> None:
        made = {name for node in nodes for name in node.outputs if name}
        for node in nodes:
            builder, before = self.b, self.b.origin
            builder.origin = node.origin
            try:
                self._node(node, scope, made)
            except GraphError as error:
                place = f"at the node {node.origin} ({node.op})"
                if place not in error.notes and len(error.notes) < _MOST_PLACES:
                    error.notes.append(place)
                raise
            finally:
                builder.origin = before

    def _node(self, node: OnnxNode, scope: _Scope, made: set[str]) -> None:
        self.count += 1
        if self.count > _MOST_NODES:
            raise GraphError(f"the model has more than {_MOST_NODES} nodes once functions and loops are opened")
        items: list[Item | None] = []
        for name in node.inputs:
            found = scope.find(name) if name else None
            if name and found is None:
                if name in made:
                    raise GraphError(
                        f"{node.op} reads {name!r} before it is made: the nodes are out of order, or in a cycle"
                    )
                raise GraphError(f"{node.op} reads {name!r}, which is no input, initializer or result of a node")
            items.append(found)
        function = self.model.functions.get((node.domain, node.op))
        results = self._function(function, node, items) if function else self._operator(node, items, scope)
        if len(results) < len(node.outputs):
            for name in node.outputs[len(results) :]:
                if name:
                    raise GraphError(f"{node.op} has {len(results)} results, the node names {len(node.outputs)}")
        for name, item in zip(node.outputs, results, strict=False):
            if name:
                if item is None:
                    raise GraphError(f"the result {name!r} of {node.op} is not supported")
                _reasonable(item)
                scope.put(name, item)

    def _operator(self, node: OnnxNode, items: list[Item | None], scope: _Scope) -> list[Item | None]:
        row = row_of(node.op)
        assert row is not None  # looked at before anything was built
        for name in node.attributes:
            if name not in row.attributes:
                near = nearest_name(name, row.attributes)
                raise GraphError(
                    f"{node.op} has no attribute {name!r}", help=f"did you mean {near!r}?" if near else None
                )
        call = Call(self.b, node, scope.opsets[""], items, _Home(self, scope))
        try:
            known = evaluated(call)
            results = known if known is not None else row.function(call)
        except GraphError:
            raise
        except (TirError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # Attributes and operands that fit no row: what a row asks of them is not all written down there.
            raise GraphError(f"{node.op} does not take these attributes and operands: {error}") from error
        several: Sequence[Made | None] = [results] if isinstance(results, (Value, Item)) else results
        return [each if each is None or isinstance(each, Item) else Item.of_value(each) for each in several]

    def _function(self, function: OnnxFunction, node: OnnxNode, items: Sequence[Item | None]) -> list[Item | None]:
        key = f"{node.domain}.{node.op}"
        if key in self.calls:
            raise GraphError(f"the function {node.op} calls itself", help="a damaged model: functions form no cycle")
        if len(self.calls) == _DEEPEST:
            raise GraphError(
                f"functions call each other more than {_DEEPEST} deep at {node.op}",
                help="open them before: onnx.inliner.inline_local_functions",
            )
        if len(items) > len(function.inputs):
            raise GraphError(f"the function {node.op} has {len(function.inputs)} inputs, got {len(items)}")
        scope = _Scope(function.opsets)
        for name, item in zip(function.inputs, items, strict=False):
            if item is not None:
                scope.put(name, item)
        given = {**function.defaults, **node.attributes}
        self.calls.append(key)
        try:
            self._nodes([_with_attributes(n, given, function.inputs, scope) for n in function.nodes], scope)
        finally:
            self.calls.pop()
        return [scope.find(name) for name in function.outputs]


def _with_attributes(node: OnnxNode, given: Mapping[str, Attribute], inputs: Sequence[str], scope: _Scope) -> OnnxNode:
    """A node of a function with the attributes of the call; inputs that the call leaves out are left out."""
    attributes: dict[str, Attribute] = {}
    for name, value in node.attributes.items():
        if isinstance(value, Reference):
            found = given.get(value.name)
            if found is not None:
                attributes[name] = found
        elif isinstance(value, OnnxGraph):
            inner = tuple(_with_attributes(n, given, inputs, scope) for n in value.nodes)
            attributes[name] = OnnxGraph(value.name, inner, value.inputs, value.outputs, value.constants)
        else:
            attributes[name] = value
    names = tuple("" if name in inputs and scope.find(name) is None else name for name in node.inputs)
    return OnnxNode(node.op, node.domain, node.origin, names, node.outputs, attributes)


def _reasonable(item: Item) -> None:
    check_rank(len(item.shape), f"a tensor of shape {_shown(item.shape[:4])[:-1]}, …)")
    size = 1
    for extent in item.shape:
        size *= extent if isinstance(extent, int) else 1
    if size > MOST_ELEMENTS:
        raise GraphError(f"a tensor of shape {_shown(item.shape)} is too large")


def _dim_names(graph: OnnxGraph) -> dict[str, None]:
    """The names of the dimensions of a model's inputs: those that are not named are named by input and axis."""
    return {
        f"{name}_{n}" if e is None else str(e): None
        for name, stated in graph.inputs.items()
        for n, e in enumerate(stated.shape or ())
        if not isinstance(e, int)
    }


def _identifier(name: str) -> str:
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return f"_{text}" if text[:1].isdigit() else text


def _shown(shape: Sequence[object]) -> str:
    return f"({', '.join('?' if e is None else str(e) for e in shape)})"
