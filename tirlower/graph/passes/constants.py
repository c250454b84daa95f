"""Constants: given by name, and computed while the graph is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tirlower.diagnostics import nearest_name
from tirlower.graph.core.analysis import analysis
from tirlower.graph.core.constants import ConstantData, tensor_dtype
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, TensorType, Value
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.ops.interpret import run_nodes
from tirlower.graph.passes.base import GraphPass, policy
from tirlower.graph.passes.liveness import live
from tirlower.ir import Expr
from tirlower.ir.dtype import Array
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option

__all__ = ["FREE", "BindConstants", "FoldConstants", "Kept", "contents", "has_dims", "no_constant"]


class BindConstants(GraphPass):
    """Give constants their contents: those of a graph's text, of which only a digest is known, by the names of their values.

    Raises :class:`GraphError` for a name that is no constant's, one that has its contents already, and an array of another
    dtype or shape.

    >>> import tirlower.graph as tg
    >>> print(BindConstants(constants={"w": np.full((4,), 2, "float32")})(tg.parse('''
    ... @tg.graph
    ... def f(x: tg.Tensor((4,), "float32")):
    ...     w = tg.constant("float32", (4,), "5f3ac19e")
    ...     y: tg.Tensor((4,), "float32") = tg.add(x, w)
    ...     return y
    ... ''')))
    @tg.graph
    def f(x: tg.Tensor((4,), "float32")):
        w = tg.constant("float32", (4,), 2.0)
        y: tg.Tensor((4,), "float32") = tg.add(x, w)
        return y
    """

    name = "graph.BindConstants"
    constants: Mapping[str, object] = option(
        takes="a mapping from names to arrays", fits=lambda value: isinstance(value, Mapping), kw_only=False
    )

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph with contents."""
        by_name = {v.name: v for n in graph.nodes for v in n.results}
        bound: dict[Value, ConstantData] = {}
        for name, array in self.constants.items():
            value = by_name.get(name)
            if value is None:
                raise no_constant(graph, name, [v.name for v in by_name.values() if isinstance(v.node, Const)])
            bound[value] = contents(value, array)

        def visit(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
            data = bound.get(node.results[0]) if isinstance(node, Const) else None
            if data is None:
                return None
            builder.exact = [node.results[0].name]
            return (builder.const(data),)

        return rewritten(graph, visit)


def no_constant(graph: Graph, name: str, names: Sequence[str]) -> GraphError:
    """The error for a name that is none of these."""
    if any(p.name == name for p in graph.params):
        return GraphError(f"{name!r} is an input of {graph.name}: it is given at each call, and cannot be bound")
    near = nearest_name(name, names)
    hint = f"did you mean {near!r}?" if near else f"its constants: {', '.join(names) or 'none'}"
    return GraphError(f"{graph.name} has no constant {name!r}", help=hint)


def contents(value: Value, array: object) -> ConstantData:
    """An array as the contents of a constant. Raises :class:`GraphError`."""
    node = value.node
    if not isinstance(node, Const):
        raise GraphError(f"{value.name!r} is no constant: it is computed", help="bind what it is computed of")
    if not node.data.is_abstract:
        raise GraphError(f"the constant {value.name!r} is bound already", help="a constant is bound once")
    data = array if isinstance(array, ConstantData) else _compact(np.asarray(array))
    if data.dtype != value.dtype:
        raise GraphError(f"the constant {value.name!r} is of {value.dtype!s}, got {data.dtype!s}")
    if data.shape != value.shape:
        raise GraphError(
            f"the constant {value.name!r} has the shape {value.shape}, got {data.shape}",
            help="reshape the array, or bind another one",
        )
    return data


def _compact(array: Array) -> ConstantData:
    """An array as a constant: one number where all elements have the same bits."""
    kind = tensor_dtype(array)
    if array.size > 1:
        flat = np.ascontiguousarray(array).reshape(-1)
        raw = flat.view(np.uint8).reshape(flat.size, -1)
        if (raw == raw[0]).all() and array.reshape(-1)[0] == array.reshape(-1)[0]:
            return ConstantData.splat(flat[0].item(), array.shape, kind)
    return ConstantData(array)


_ROUND_ONCE = frozenset(
    [
        "positive",
        "identity",
        "negative",
        "abs",
        "sign",
        "square",
        "reciprocal",
        "floor",
        "ceil",
        "trunc",
        "round",
        "isnan",
        "isfinite",
        "isinf",
        "logical_not",
        "bitwise_invert",
        "sqrt",
        "add",
        "subtract",
        "multiply",
        "divide",
        "maximum",
        "minimum",
        "copysign",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "where",
        "clip",
        "cast",
        "relu",
        "reshape",
        "transpose",
        "squeeze",
        "expand_dims",
        "broadcast_to",
        "expand",
        "flip",
        "roll",
        "tile",
        "repeat",
        "trilu",
        "depth_to_space",
        "space_to_depth",
        "slice",
        "split",
        "concat",
        "stack",
        "pad",
        "full",
        "arange",
        "eye",
        "gather",
    ]
)
"""Operations on floats that have one right result: moves, conversions, and those of IEEE 754 that round once."""

FREE = 64 * 1024
"""Bytes that a folded constant may always be larger than what it was made of."""

_WORK = 1 << 24
"""Elements beyond which nothing is computed while compiling."""


@dataclass(frozen=True)
class Kept:
    """An operation on constants that was not folded, and why."""

    operation: str
    value: str
    origin: str
    reason: str


class FoldConstants(GraphPass):
    """Compute operations on constants while compiling, one at a time: one that fails stays, and no other with it.

    A result may be larger than what it is made of by 64 KB, or where that is used for nothing else; all of them together
    let the constants of the graph grow by ``growth`` of their size at most. Under the policy ``exact`` floats are computed
    only where one result is right. :meth:`kept` says what was not folded, and why.

    Constants whose contents come behind the compilation (``exe.set_constant``) are folded then, by
    ``exe.fold_constants()``, with the kernels that would have computed them in every call.

    >>> import tirlower.graph as tg
    >>> print(FoldConstants()(tg.parse('''
    ... @tg.graph
    ... def f(x: tg.Tensor((4,), "float32")):
    ...     a = tg.constant("float32", (4,), 2.0)
    ...     b = tg.constant("float32", (4,), 3.0)
    ...     c: tg.Tensor((4,), "float32") = tg.add(a, b)
    ...     y: tg.Tensor((4,), "float32") = tg.add(x, c)
    ...     return y
    ... ''')))
    @tg.graph
    def f(x: tg.Tensor((4,), "float32")):
        add = tg.constant("float32", (4,), 5.0)
        y: tg.Tensor((4,), "float32") = tg.add(x, add)
        return y
    """

    name = "graph.FoldConstants"
    reaches = Numerics.DEFAULT
    growth: float = option(default=0.05, about="by which part of their size the constants of a graph may grow")

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph with constants instead."""
        return _Folding(graph, policy(ctx), self.growth).folded()

    def kept(self, graph: Graph, ctx: PassContext | None = None) -> list[Kept]:
        """The operations on constants that are not folded, each with the reason."""
        ctx = ctx or PassContext.current()
        folding = _Folding(graph, policy(ctx), self.under(ctx).growth)
        folding.folded()
        return folding.kept


class _Folding:
    def __init__(self, graph: Graph, numerics: Numerics, growth: float) -> None:
        self.graph = graph
        self.numerics = numerics
        self.kept: list[Kept] = []
        self.env = DimEnv(graph.dims)
        held = sum(n.data.nbytes for n in graph.nodes if isinstance(n, Const))
        self.room = int(held * growth) + FREE
        """The bytes by which constants may still grow."""

    def folded(self) -> Graph:
        """The graph with constants instead."""
        after = rewritten(self.graph, self._visit)
        return after if after is self.graph else after.with_(nodes=live(after.nodes, after.results))

    def _visit(self, builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not isinstance(node, Op) or any(not isinstance(v.node, Const) for v in operands):
            return None
        reason = self._unfit(node, operands)
        if reason is None:
            try:
                made = self._computed(node, operands)
            except GraphError as error:
                reason = error.message
            else:
                grows = sum(d.nbytes for d in made) - self._dying(node, operands)
                if grows <= self.room:
                    self.room -= max(grows, 0)
                    return [builder.const(data, name=node.name) for data in made]
                reason = f"the constants would grow by {grows} bytes, and may by {self.room}"
        self.kept.append(Kept(node.name, node.results[0].name, node.origin, reason))
        return None

    def _unfit(self, node: Op, operands: tuple[Value, ...]) -> str | None:
        """Why an operation on constants is not computed; None where it may be."""
        if any(isinstance(e, Expr) for v in node.results for e in v.shape) or has_dims(node.attrs.values()):
            return "its shape or an attribute has dims"
        for value in operands:
            if isinstance(value.node, Const) and value.node.data.is_abstract:
                return f"the contents of {value.name!r} are not here"
        floats = any(v.dtype.is_float for v in (*operands, *node.results))
        if self.numerics is Numerics.EXACT and floats and node.name not in _ROUND_ONCE:
            return "results of it may round in more than one way, and no bit may change"
        size = sum(_elements(v.type) for v in node.results)
        read = max((_elements(v.type) for v in operands), default=0)
        if size + read > _WORK:
            return f"it has {size} elements: that would take too long"
        return None

    def _computed(self, node: Op, operands: tuple[Value, ...]) -> list[ConstantData]:
        values = {v: v.node.data.numpy() for v in operands if isinstance(v.node, Const)}
        # The node reads its own operands, which may have been replaced.
        fresh = node.with_operands([Value.of(v.type, v.name) for v in node.results], operands)
        run_nodes([fresh], values, self.env, {}, False, keep=fresh.results)
        return [_compact(np.asarray(values[v])) for v in fresh.results]

    def _dying(self, node: Op, operands: tuple[Value, ...]) -> int:
        """The bytes of operands that nothing else uses."""
        known = analysis(self.graph)
        return sum(
            new.node.data.nbytes
            for old, new in dict(zip(node.inputs, operands, strict=True)).items()
            if isinstance(new.node, Const) and known.uses(old) == node.inputs.count(old)
        )


def _elements(kind: TensorType) -> int:
    size = 1
    for extent in kind.shape:
        size *= extent if isinstance(extent, int) else 1
    return size


def has_dims(values: Iterable[object]) -> bool:
    """Whether an extent that a call brings is among values, or in tuples of them."""

    def each(value: object) -> Iterator[object]:
        if isinstance(value, (tuple, list)):
            for part in value:
                yield from each(part)
        else:
            yield value

    return any(isinstance(part, Expr) for part in each(tuple(values)))
