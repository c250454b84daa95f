"""A small graph as a pattern: what it computes is what is looked for."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.graph.core.nodes import Const, Graph, Op, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.patterns.build import is_const, is_op, is_tuple, wildcard
from tirlower.graph.patterns.match import slots_of
from tirlower.graph.patterns.nodes import DFPattern, TupleGetItemPattern
from tirlower.graph.patterns.subjects import Subject

__all__ = ["pattern_of", "patterns_of"]


def pattern_of(graph: Graph, attrs: bool = False) -> DFPattern:
    """The pattern of what a graph computes. Its parameters match anything, one parameter one value; ``attrs`` asks for the
    attributes of its operations too; a constant stands for an equal one, a number for that number in every element.

    Raises :class:`GraphError` for graphs of several results, and of nodes that are no operations.

    >>> import tirlower.graph as tg
    >>> square_root = tg.trace(lambda x: tg.sqrt(x * x), tg.spec((4,), "float32"))
    >>> pattern_of(square_root).match(square_root.results[0]).inputs[0].name
    'x'
    """
    if len(graph.results) != 1:
        raise GraphError(f"{graph.name} has {len(graph.results)} results", help="the graph of a pattern has one")
    return patterns_of(graph, attrs)[graph.results[0]]


def patterns_of(graph: Graph, attrs: bool = False) -> Mapping[Value, DFPattern]:
    """The patterns of all values of a graph."""
    made: dict[Value, DFPattern] = {param: wildcard() for param in graph.params}

    def of(subject: Subject | None) -> DFPattern | None:
        if subject is None:
            return None
        return made[subject] if isinstance(subject, Value) else is_tuple([made[v] for v in subject])

    for node in graph.nodes:
        if isinstance(node, Const):
            made[node.results[0]] = is_const(node.data.numpy() if node.data.value is None else node.data.value)
            continue
        if not isinstance(node, Op):
            raise GraphError(
                f"{type(node).__name__} is no part of a pattern", help="the graph of a pattern has operations"
            )
        whole: DFPattern = is_op(node.name)(*[of(slot) for slot in slots_of(node)])
        whole = whole.has_attr(node.attrs) if attrs and node.attrs else whole
        if len(node.results) == 1:
            made[node.results[0]] = whole
        else:
            made.update((v, TupleGetItemPattern(whole, n)) for n, v in enumerate(node.results))
    return made
