"""The nodes of a graph: values, operations, constants, and the graph that binds them.

A graph is a list of nodes in an order in which each value is made before it is used; every value is made once, by a
parameter or by one node. Nodes are built once and not changed; a graph with one node replaced makes the nodes behind it
anew, with values of their own (:class:`tirlower.graph.ops.builder.rewritten`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import Dim, Extent, Shape, as_shape, extent_expr
from tirlower.graph.core.extents import readable
from tirlower.graph.errors import GraphError
from tirlower.ir import Expr, IntImm, Node
from tirlower.ir.dtype import DataType
from tirlower.ir.node import attrs, binds, child, data, hint, node
from tirlower.ir.stmt import normalize_attrs

if TYPE_CHECKING:
    from tirlower.graph.core.effects import Global

__all__ = ["Const", "Graph", "GraphNode", "Op", "TensorType", "Value", "extent_exprs"]


class TensorType(NamedTuple):
    """The shape and the dtype of a tensor."""

    shape: Shape
    dtype: DataType

    def __str__(self) -> str:
        return f"{self.dtype!s}[{', '.join(map(readable, self.shape))}]"


def extent_exprs(values: Iterable[Extent]) -> tuple[Expr, ...]:
    """Extents as int64 expressions."""
    return tuple(extent_expr(e) for e in as_shape(tuple(values)))


@node
class Value(Node):
    """A tensor in a graph: a shape of numbers and expressions of dims, a dtype, and a name, which is a hint.

    ``node`` is the node that makes it (None for a parameter) and ``index`` its place among that node's results.
    """

    is_symbol = True
    computed_slots = ("index", "node")
    extents: tuple[Expr, ...] = child(convert=extent_exprs)
    dtype: DataType = data(convert=DataType)
    name: str = hint(default="", convert=str)

    if TYPE_CHECKING:
        # Properties to the type checker, so that they are no arguments of the constructor; slots at run time.
        @property
        def node(self) -> GraphNode | None:
            """The node that makes it; None for a parameter."""

        @node.setter
        def node(self, value: GraphNode | None) -> None: ...

        @property
        def index(self) -> int:
            """Its place among the results of that node."""

        @index.setter
        def index(self, value: int) -> None: ...

    def check(self) -> None:
        """It belongs to no node yet."""
        self.node = None
        self.index = 0

    @classmethod
    def of(cls, kind: TensorType, name: str = "") -> Value:
        """A value of a type."""
        return cls(extent_exprs(kind.shape), kind.dtype, name)

    @property
    def shape(self) -> Shape:
        """The extents: numbers where they are numbers."""
        return tuple(e.value if isinstance(e, IntImm) else e for e in self.extents)

    @property
    def type(self) -> TensorType:
        """Shape and dtype."""
        return TensorType(self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"<Value {self.name or '?'}: {self.type}>"

    def __str__(self) -> str:
        return repr(self)


@node
class GraphNode(Node):
    """Base of what makes values."""

    declares = True
    binds_symbols = True
    results: tuple[Value, ...] = binds(convert=tuple)
    origin: str = hint(default="", kw_only=True)

    def check(self) -> None:
        """Each result is made here alone."""
        for index, value in enumerate(self.results):
            if value.node is not None:
                raise GraphError(f"the value {value.name!r} is made by another node already")
            value.node = self
            value.index = index

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that it reads."""
        return ()

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs inside it."""
        return ()

    @property
    def effects(self) -> tuple[Global, ...]:
        """The globals that it reads or writes, also inside its graphs; among those of one global, order is kept."""
        return tuple(dict.fromkeys(g for inner in self.graphs for g in inner.effects))

    @property
    def writes(self) -> tuple[Global, ...]:
        """The globals that it writes: without one, and without a use of its results, it is not needed."""
        return tuple(dict.fromkeys(g for inner in self.graphs for g in inner.writes))

    def with_operands(self, results: Sequence[Value], operands: Sequence[Value]) -> Self:
        """The node on other operands, as many of them, and with results (values of no node yet) of its own."""
        self._count(operands, 0)
        return self.with_(results=tuple(results))

    def with_graphs(self, graphs: Sequence[Graph]) -> Self:
        """The node with other graphs inside, and results of its own; the same object for the same graphs."""
        if len(graphs) != len(self.graphs):
            raise GraphError(f"{self!r} has {len(self.graphs)} graphs inside, got {len(graphs)}")
        if all(a is b for a, b in zip(graphs, self.graphs, strict=True)):
            return self
        fresh = [Value.of(v.type, v.name) for v in self.results]
        return self._with_graphs(fresh, graphs)

    def _with_graphs(self, results: Sequence[Value], graphs: Sequence[Graph]) -> Self:
        raise GraphError(f"{type(self).__name__} has no graphs inside to replace")

    def _count(self, operands: Sequence[Value], wanted: int) -> None:
        if len(operands) != wanted:
            raise GraphError(f"{self!r} has {wanted} operands, got {len(operands)}")

    def _shown(self) -> str:
        return ", ".join(str(v.type) for v in self.results)

    def __str__(self) -> str:
        return repr(self)


@node
class Const(GraphNode):
    """A constant tensor."""

    data: ConstantData = data()

    def __repr__(self) -> str:
        return f"<Const {self.data!r}>"


@node
class Op(GraphNode):
    """An operation of the registry on values, with attributes.

    ``groups`` says what each parameter of the operation got: -1 for one value, None for a parameter that was left out, a
    number for so many values (the inputs of a concatenation); ``inputs`` holds the values of all of them in order.
    """

    name: str = data(convert=str)
    inputs: tuple[Value, ...] = child(convert=tuple)
    groups: tuple[int | None, ...] = data(convert=tuple)
    attrs: dict[str, object] = attrs(default=None, convert=normalize_attrs)

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that it reads."""
        return self.inputs

    def with_operands(self, results: Sequence[Value], operands: Sequence[Value]) -> Self:
        """The operation on other operands, in the same groups."""
        self._count(operands, len(self.inputs))
        return self.with_(results=tuple(results), inputs=tuple(operands))

    def __repr__(self) -> str:
        return f"<Op {self.name} -> {self._shown()}>"


@node
class Graph(Node):
    """Parameters, nodes in order, results; ``dims`` are the dims of its shapes.

    ``assumed`` are pairs of extents that the operations need equal and that nothing proves: every call checks them.
    ``structure`` says how the results are given back: ``"one"``, ``"tuple"``, or the keys of a dict. A graph inside a node
    closes over nothing: each value that it reads is a parameter, and its dims are those of the graph around it.
    """

    is_closed = True
    binds_symbols = True
    computed_slots = ("effects", "writes")
    cache_slots = ("analysis",)

    name: str = hint(convert=str)
    dims: tuple[Dim, ...] = child(convert=tuple)
    params: tuple[Value, ...] = binds(convert=tuple)
    nodes: tuple[GraphNode, ...] = child(convert=tuple)
    results: tuple[Value, ...] = child(convert=tuple)
    assumed: tuple[tuple[Expr, Expr], ...] = attrs(default=(), convert=tuple)
    structure: str | tuple[str, ...] = data(default="tuple")
    attrs: dict[str, object] = attrs(default=None, convert=normalize_attrs)

    if TYPE_CHECKING:

        @property
        def effects(self) -> tuple[Global, ...]:
            """The globals that its nodes read or write, in the order in which they are met."""

        @effects.setter
        def effects(self, value: tuple[Global, ...]) -> None: ...

        @property
        def writes(self) -> tuple[Global, ...]:
            """The globals that its nodes write."""

        @writes.setter
        def writes(self, value: tuple[Global, ...]) -> None: ...

        @property
        def analysis(self) -> object:
            """What :mod:`tirlower.graph.core.analysis` keeps of it."""

        @analysis.setter
        def analysis(self, value: object) -> None: ...

    def check(self) -> None:
        """Its effects, from those of its nodes: graphs are made before the nodes that hold them."""
        several = [n for n in self.nodes if not isinstance(n, (Op, Const))]
        self.effects = tuple(dict.fromkeys(g for n in several for g in n.effects))
        self.writes = tuple(dict.fromkeys(g for n in several for g in n.writes))

    @property
    def ops(self) -> tuple[Op, ...]:
        """The operations, constants left out."""
        return tuple(n for n in self.nodes if isinstance(n, Op))

    def __call__(self, *args: object, **named: object) -> object:
        """In a traced function, a call of it on tensors; on arrays, its results by the reference."""
        from tirlower.graph.frontend.control import called

        return called(self, args, named)

    def with_attr(self, key: str | Mapping[str, object], value: object = None) -> Graph:
        """The graph with an attribute (or a mapping of them) set."""
        new = dict(key) if isinstance(key, Mapping) else {key: value}
        return self.with_(attrs={**self.attrs, **new})

    def __repr__(self) -> str:
        return (
            f"<Graph {self.name}: {len(self.params)} inputs, {len(self.ops)} operations, {len(self.results)} results>"
        )

    def __str__(self) -> str:
        from tirlower.graph.core.printer import graph_text

        return graph_text(self)
