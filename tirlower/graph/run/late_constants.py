"""Constants whose contents come after the graph was compiled: which there are, and what they were given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.nodes import Const, Graph, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.lower.driver import Lowered
from tirlower.graph.passes.constants import contents, no_constant

__all__ = ["LateConstants"]

_Key: TypeAlias = tuple[str, str, tuple[int, ...]]
"""Digest, dtype and shape: constants in which these are equal are one."""


class LateConstants:
    """The constants without contents of a graph, by the names of their values, and where the program wants them."""

    def __init__(self, graph: Graph, lowered: Lowered, given: Mapping[_Key, ConstantData] = {}) -> None:
        self.graph = graph
        self.lowered = lowered
        self.given: dict[_Key, ConstantData] = dict(given)
        self.places: dict[_Key, list[int]] = {}
        for n, node in enumerate(lowered.storage.constants):
            if node.data.is_abstract:
                self.places.setdefault(_key(node.data), []).append(n)

    def bind(self, name: str, array: object) -> list[tuple[int, ConstantData]]:
        """The places of a constant with what it is given. Raises :class:`GraphError` where it cannot be."""
        inside = (n for one in inner_graphs(self.graph) for n in one.nodes if isinstance(n, Const))
        values = [v for n in (*self.graph.nodes, *inside) for v in n.results]
        by_name: dict[str, Value] = {}
        for value in sorted(values, key=self._is_late, reverse=True):
            by_name.setdefault(value.name, value)
        found = by_name.get(name)
        if found is None:
            raise no_constant(self.graph, name, [n for n, v in by_name.items() if self._is_late(v)])
        data = contents(found, array)
        key = _key(found.node.data) if isinstance(found.node, Const) else ("", "", ())
        if key in self.given:
            raise GraphError(f"the constant {name!r} is bound already", help="a constant is bound once")
        if key not in self.places:
            raise GraphError(f"nothing that was compiled reads the constant {name!r}", help="leave it out")
        self.given[key] = data
        return [(place, data) for place in self.places[key]]

    def _is_late(self, value: Value) -> bool:
        return isinstance(value.node, Const) and value.node.data.is_abstract

    def moved(self, lowered: Lowered) -> LateConstants:
        """The same for another program of the graph."""
        return LateConstants(self.graph, lowered, self.given)

    def all_given(self) -> list[tuple[int, ConstantData]]:
        """All places with what they were given."""
        return [
            (place, self.given[key]) for key, places in self.places.items() if key in self.given for place in places
        ]

    def bound(self) -> dict[Value, ConstantData]:
        """The constants of the program with their contents. Raises :class:`GraphError` that names those without."""
        missing = [self.lowered.storage.constants[p[0]] for key, p in self.places.items() if key not in self.given]
        if missing:
            names = ", ".join(repr(node.results[0].name) for node in missing)
            raise GraphError(
                f"{self.graph.name} has constants that are not bound: {names}",
                help="exe.set_constant(name, array) gives a constant its contents",
            )
        return {
            node.results[0]: self.given[_key(node.data)]
            for node in self.lowered.graph.nodes
            if isinstance(node, Const) and node.data.is_abstract and _key(node.data) in self.given
        }


def _key(data: ConstantData) -> _Key:
    return data.digest, str(data.dtype), data.shape
