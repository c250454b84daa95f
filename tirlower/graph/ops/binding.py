"""The values of a graph's dims in a call: what the shapes of its inputs say, checked against all that is stated of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tirlower.diagnostics import TirError
from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.dims import Dim, DimEnv
from tirlower.graph.core.extents import readable
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.evaluate import extent_value
from tirlower.ir import Expr, IntImm, Var
from tirlower.ir.query import each
from tirlower.ir.structural import expr_digest

__all__ = ["bound_dims", "check_extents", "maybe_negative"]

_Shaped: TypeAlias = "list[tuple[Value, tuple[int, ...]]]"


def bound_dims(
    graph: Graph, shapes: Sequence[tuple[int, ...] | None], error: type[TirError] = GraphError, whole: bool = False
) -> dict[Var, int]:
    """The values of the dims, by the shapes of the inputs, of which None is one that is not known.

    Extents, what is stated of dims, and what is taken for equal is checked; ``whole``: each dim has to have a value. Raises
    ``error``, which names the input and the dim.

    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> b = GraphBuilder("f")
    >>> from tirlower.graph.core.dims import dim
    >>> N = dim("N", 1, 4)
    >>> b.env.add(N)
    >>> g = b.finish(b.op("exp", b.param("x", (N, 2), "float32")))
    >>> bound_dims(g, [(3, 2)])[N.var]
    3
    """
    values: dict[Var, int] = {}
    shaped = [(v, tuple(s)) for v, s in zip(graph.params, shapes, strict=True) if s is not None]
    for value, shape in shaped:
        if len(shape) != len(value.extents):
            raise error(f"input {value.name!r} has {len(value.extents)} axes, got shape {shape}")
        for extent, got in zip(value.extents, shape, strict=True):
            if isinstance(extent, Var):
                values.setdefault(extent, int(got))
    for value, shape in shaped:
        for axis, (extent, got) in enumerate(zip(value.extents, shape, strict=True)):
            if not whole and any(var not in values for var in each(Var, extent)):
                continue
            wanted = extent_value(extent, values)
            if wanted != got:
                raise error(
                    f"input {value.name!r}: axis {axis} has extent {got}, expected "
                    + (f"{wanted}" if isinstance(extent, IntImm) else f"{readable(extent)} = {wanted}"),
                    help=_told(values, graph.params) or None,
                )
    for one in graph.dims:
        _check(one, values, graph.params, error, whole)
    for a, b in graph.assumed:
        x, y = extent_value(a, values), extent_value(b, values)
        if x != y:
            raise error(
                f"{graph.name} needs {readable(a)} and {readable(b)} to be equal, got {x} and {y}",
                help=_told(values, graph.params) or None,
            )
    return values


def maybe_negative(graph: Graph) -> list[tuple[Value, Expr]]:
    """The extents that what is stated of the dims does not keep from being negative, each once, with a value that has it.

    >>> from tirlower.graph.core.dims import dim
    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> b = GraphBuilder("f")
    >>> x = b.param("x", (dim("N"),), "float32")
    >>> g = b.finish([b.op("pad", x, pads=((-3, 0),)), b.op("pad", x, pads=((3, 0),))])
    >>> [(value.name, str(extent)) for value, extent in maybe_negative(g)]
    [('pad', 'N - T.int64(3)')]
    """
    analyzer = DimEnv(graph.dims).analyzer
    found: dict[object, tuple[Value, Expr] | None] = {}
    for one in (graph, *inner_graphs(graph)):
        for value in (v for n in one.nodes for v in n.results):
            for extent in value.extents:
                if isinstance(extent, (IntImm, Var)):
                    continue
                key = expr_digest(extent)
                if key not in found:
                    found[key] = None if analyzer.can_prove_greater_equal(extent, 0) else (value, extent)
    return [pair for pair in found.values() if pair is not None]


def check_extents(several: Sequence[tuple[Value, Expr]], values: Mapping[Var, int], error: type[TirError]) -> None:
    """Raise ``error``, which names the value, where one of these extents is negative."""
    for value, extent in several:
        number = extent_value(extent, values)
        if number < 0:
            at = ", ".join(f"{var.name} = {values[var]}" for var in dict.fromkeys(each(Var, extent)))
            raise error(
                f"an extent of {value.name!r} is negative: {readable(extent)} is {number} where {at}",
                notes=[f"at {value.node.origin}"] if value.node is not None and value.node.origin else [],
                help="state a range of the dim in which it is not: tg.dim(name, low)",
            )


def _check(one: Dim, values: Mapping[Var, int], params: Sequence[Value], error: type[TirError], whole: bool) -> None:
    value = values.get(one.var)
    if value is None:
        if whole:
            raise error(
                f"no input says what the dim {one.name} is",
                help="give one input a shape with it as an extent of its own",
            )
        return
    if not one.admits(value):
        raise error(
            f"dim {one.name} = {value} ({_place(one.var, params)}): stated is {one.facts}",
            help="give an input in that range, or state another range: tg.dim(name, low, high)",
        )


def _place(var: Var, params: Sequence[Value]) -> str:
    """Which input gives a dim its value."""
    return next(f"axis {n} of input {v.name!r}" for v in params for n, e in enumerate(v.extents) if e is var)


def _told(values: Mapping[Var, int], params: Sequence[Value]) -> str:
    return "; ".join(f"{var.name} = {value} from {_place(var, params)}" for var, value in values.items())
