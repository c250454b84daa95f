"""The catalog: every pass over graphs with its summary, what it may do to numbers, and its options."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from tirlower.graph.core.numerics import Numerics
from tirlower.graph.passes.base import GraphPass
from tirlower.rewrite.registry import GRAPH_PASSES, graph_pass

__all__ = ["CatalogEntry", "catalog"]


@dataclass(frozen=True)
class CatalogEntry:
    """A pass: its name, one line about it, what it may do to numbers, its options with their defaults."""

    name: str
    summary: str
    numerics: Numerics
    options: tuple[tuple[str, object], ...]

    def __str__(self) -> str:
        return f"{self.name:<28} {self.numerics.word:<8} {self.summary}"


def catalog() -> list[CatalogEntry]:
    """All passes over graphs, by name. The summary is the first sentence of the pass's docstring.

    >>> print(next(entry for entry in catalog() if entry.name == "graph.Expand"))
    graph.Expand                 exact    Open macros: each becomes the operations of which it is made.
    """
    entries = []
    for name in sorted(GRAPH_PASSES):
        cls = graph_pass(name)
        assert isinstance(cls, type) and issubclass(cls, GraphPass)
        text = " ".join((inspect.getdoc(cls) or "").split())
        options = tuple((key, option.default) for key, option in cls.declared.items())
        entries.append(CatalogEntry(cls.name, text.split(". ")[0].rstrip(".") + ".", cls.numerics, options))
    return entries
