"""A pattern with a name: what a backend asks for, with a check of each match and the attributes of its composite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from tirlower.graph.core.analysis import analysis
from tirlower.graph.core.nodes import Graph, GraphNode, Value
from tirlower.graph.patterns.match import Match
from tirlower.graph.patterns.nodes import DFPattern

__all__ = ["FusionPattern", "PatternCheckContext", "fusion_pattern"]


class PatternCheckContext:
    """What a check sees of a match: ``matched`` is the value, ``annotated`` the values of the annotation patterns by name.

    Names of patterns that stand for nothing in this match (an arm that was not taken) are no keys of ``annotated``.
    """

    def __init__(self, graph: Graph, match: Match, patterns: Mapping[str, DFPattern]) -> None:
        self.graph = graph
        self.match = match
        self.matched = match.value
        self.annotated: Mapping[str, Value] = {n: match.group(p)[0] for n, p in patterns.items() if p in match}

    @property
    def matched_expr(self) -> Value:
        """The value that is matched."""
        return self.matched

    @property
    def annotated_expr(self) -> Mapping[str, Value]:
        """The values of the annotation patterns."""
        return self.annotated

    @cached_property
    def matched_bindings(self) -> Mapping[Value, GraphNode]:
        """The nodes of the match by their results."""
        return {value: node for node in self.match.nodes for value in node.results}

    @cached_property
    def var_usages(self) -> Mapping[Value, tuple[GraphNode, ...]]:
        """The nodes of the whole graph that read each value of the match."""
        known = analysis(self.graph)
        return {v: tuple(dict.fromkeys(user for user, _ in known.users(v))) for v in self.matched_bindings}

    @cached_property
    def value_to_bound_var(self) -> Mapping[GraphNode, Value]:
        """The first result of each node of the match."""
        return {node: node.results[0] for node in self.match.nodes}


Check = Callable[[PatternCheckContext], bool]
AttrsGetter = Callable[[Mapping[str, Value]], Mapping[str, object]]


@dataclass(frozen=True)
class FusionPattern:
    """A pattern that becomes a composite: its name (``backend.what``), patterns whose values ``check`` and ``attrs_getter``
    see by name, a check that refuses matches, and a function that gives attributes of the composite.

    >>> from tirlower.graph.patterns import is_op, wildcard
    >>> x = wildcard()
    >>> wide = FusionPattern("lib.matmul", is_op("matmul")(x, wildcard()), {"x": x}, lambda c: c.annotated["x"].shape[-1] >= 16)
    """

    name: str
    pattern: DFPattern
    annotation_patterns: Mapping[str, DFPattern] = field(default_factory=dict)
    check: Check | None = None
    attrs_getter: AttrsGetter | None = None


def fusion_pattern(given: object) -> FusionPattern:
    """A fusion pattern, or one of a tuple of its fields: ``(name, pattern[, annotations[, check[, attrs_getter]]])``, or
    ``(name, pattern, check)``. Raises :class:`ValueError` for anything else.
    """
    if isinstance(given, FusionPattern):
        return given
    if isinstance(given, tuple) and 2 <= len(given) <= 5:
        name, pattern, *rest = given
        annotations: object = {}
        if rest and isinstance(rest[0], Mapping):
            annotations = rest.pop(0)
        elif rest and rest[0] is None:
            rest.pop(0)
        check = rest[0] if rest else None
        getter = rest[1] if len(rest) > 1 else None
        named = isinstance(name, str) and isinstance(pattern, DFPattern) and len(rest) <= 2
        marked = isinstance(annotations, Mapping) and all(
            isinstance(k, str) and isinstance(p, DFPattern) for k, p in annotations.items()
        )
        if named and marked and all(f is None or callable(f) for f in (check, getter)):
            return FusionPattern(
                cast(str, name),
                cast(DFPattern, pattern),
                cast("Mapping[str, DFPattern]", annotations),
                cast("Check | None", check),
                cast("AttrsGetter | None", getter),
            )
    raise ValueError(
        f"Invalid pattern: {given!r}: it is a FusionPattern, or (name, pattern, annotations, check, attrs_getter)"
    )
