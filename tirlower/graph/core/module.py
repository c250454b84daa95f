"""Several graphs with what they share: globals, and kernels that are written already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tirlower.graph.core.effects import OUTSIDE, Global
from tirlower.graph.core.nodes import Graph
from tirlower.graph.errors import GraphError
from tirlower.ir import IRModule

__all__ = ["PRIVATE", "Module"]

PRIVATE: Final = "private"
"""The attribute of a graph of a module that no caller names: it is there for the graphs that call it."""


class Module:
    """Graphs by name, of which the first is the entry, their globals, and kernels that are written already.

    ``str(module)`` is text that :func:`tirlower.graph.parse_module` reads, and that Python runs to the same module;
    :func:`tirlower.graph.structural_equal` compares modules. ``graphs`` are those that a caller can name; graphs inside nodes are reached through them. A module is not changed:
    :meth:`with_` gives another.
    """

    __slots__ = ("globals", "graphs", "kernels")

    def __init__(
        self, graphs: Mapping[str, Graph], globals: Iterable[Global] = (), kernels: IRModule | None = None
    ) -> None:
        if not graphs:
            raise GraphError("a module has a graph, its entry")
        self.graphs = dict(graphs)
        reached = (g for graph in self.graphs.values() for g in graph.effects if g is not OUTSIDE)
        self.globals = tuple(dict.fromkeys((*globals, *reached)))
        self.kernels = IRModule({}) if kernels is None else kernels

    @property
    def entry(self) -> Graph:
        """The first graph."""
        return next(iter(self.graphs.values()))

    def with_(
        self,
        graphs: Mapping[str, Graph] | None = None,
        globals: Iterable[Global] | None = None,
        kernels: IRModule | None = None,
    ) -> Module:
        """The module with other parts; the same object if they are the same."""
        new = self.graphs if graphs is None else dict(graphs)
        held = self.globals if globals is None else tuple(globals)
        same = list(new) == list(self.graphs) and all(new[k] is self.graphs[k] for k in new)
        if same and held == self.globals and (kernels is None or kernels is self.kernels):
            return self
        return Module(new, held, self.kernels if kernels is None else kernels)

    def __str__(self) -> str:
        from tirlower.graph.core.module_text import module_text

        return module_text(self)

    def __repr__(self) -> str:
        return f"<Module {', '.join(self.graphs)}: {len(self.globals)} globals, {len(self.kernels.functions)} kernels>"
