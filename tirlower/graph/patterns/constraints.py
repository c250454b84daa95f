"""Patterns of several values at once: who reads whom, and who alone does.

In a context, patterns are joined by edges: ``a ^ b`` says that ``b`` reads ``a``, ``a >> b`` that nothing else does. All
patterns that edges name stand for values of their own.

>>> import tirlower.graph as tg
>>> from tirlower.graph.patterns import PatternContext, is_op
>>> g = tg.trace(lambda x: tg.exp(x) * tg.sin(x), tg.spec((4,), "float32"))
>>> with PatternContext() as context:
...     exp, times, sin = is_op("exp"), is_op("multiply"), is_op("sin")
...     _ = exp >> times
...     _ = sin >> times
>>> {p.wanted: v.name for p, v in context.match_dfb(g).items()}
{'exp': 'exp', 'multiply': 'multiply', 'sin': 'sin'}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType

from tirlower.graph.core.nodes import Graph, GraphNode, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.patterns.match import Bound, Matcher, same_shape
from tirlower.graph.patterns.nodes import DFPattern
from tirlower.graph.patterns.subjects import Subject

__all__ = ["PatternContext", "PatternSeq", "current"]

_CURRENT: ContextVar[PatternContext | None] = ContextVar("the context whose constraints are being stated", default=None)


def current() -> PatternContext | None:
    """The context that is entered, if one is."""
    return _CURRENT.get()


@dataclass(frozen=True)
class Edge:
    """One pattern's value is read by another's node: as some operand or as that of a number, and by others or not."""

    source: DFPattern
    target: DFPattern
    index: int
    only: bool


@dataclass(frozen=True)
class PatternSeq:
    """Patterns that follow each other; edges go from the last of one sequence to the first of the next."""

    patterns: tuple[DFPattern, ...]

    def used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The other one reads the last of these."""
        return self._joined(other, index, only=False)

    def only_used_by(self, other: DFPattern | PatternSeq, index: int = -1) -> PatternSeq:
        """The other one, and nothing else, reads the last of these."""
        return self._joined(other, index, only=True)

    def __xor__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.used_by(other)

    def __rshift__(self, other: DFPattern | PatternSeq) -> PatternSeq:
        return self.only_used_by(other)

    def dup(self) -> PatternSeq:
        """The same of new patterns, with the same edges between them in the context."""
        context = _entered("a sequence")
        new = {p: p.dup() for p in self.patterns}
        for edge in list(context.edges):
            if edge.source in new and edge.target in new:
                context.edge(Edge(new[edge.source], new[edge.target], edge.index, edge.only))
        return PatternSeq(tuple(new[p] for p in self.patterns))

    def _joined(self, other: DFPattern | PatternSeq, index: int, only: bool) -> PatternSeq:
        behind = other.patterns if isinstance(other, PatternSeq) else (other,)
        _entered("an edge").edge(Edge(self.patterns[-1], behind[0], index, only))
        return PatternSeq((*self.patterns, *behind))


def _entered(what: str) -> PatternContext:
    context = current()
    if context is None:
        raise GraphError(f"{what} between patterns belongs to a context", help="with PatternContext() as context: ...")
    return context


class PatternContext:
    """Constraints among patterns, stated while it is entered; ``incremental`` begins with those of the context around it."""

    def __init__(self, incremental: bool = False) -> None:
        self.incremental = incremental
        self.edges: list[Edge] = []
        self.shapes: list[tuple[DFPattern, ...]] = []
        self._tokens: list[Token[PatternContext | None]] = []

    def __enter__(self) -> PatternContext:
        around = current()
        if self.incremental:
            if around is None:
                raise GraphError("an incremental context stands inside another one")
            self.edges[:0] = [e for e in around.edges if e not in self.edges]
            self.shapes[:0] = [s for s in around.shapes if s not in self.shapes]
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _CURRENT.reset(self._tokens.pop())

    def edge(self, edge: Edge) -> None:
        """State that one pattern's value is read by another's node."""
        if edge not in self.edges:
            self.edges.append(edge)

    def same_shape(self, patterns: Sequence[DFPattern]) -> None:
        """State that the values of patterns have one shape."""
        self.shapes.append(tuple(patterns))

    @property
    def patterns(self) -> tuple[DFPattern, ...]:
        """The patterns that constraints name, each connected to one before it where that is possible."""
        named = dict.fromkeys(p for e in self.edges for p in (e.source, e.target))
        named.update(dict.fromkeys(p for several in self.shapes for p in several))
        beside: dict[DFPattern, list[DFPattern]] = {p: [] for p in named}
        for e in self.edges:
            beside[e.source].append(e.target)
            beside[e.target].append(e.source)
        order: dict[DFPattern, None] = {}
        for first in named:
            queue = [first]
            for p in queue:
                if p not in order:
                    order[p] = None
                    queue += beside[p]
        return tuple(order)

    def match_dfb(
        self, graph: Graph, start_hint: Value | None = None, must_include_hint: bool = False
    ) -> dict[DFPattern, Value] | None:
        """Values of a graph for all patterns of the context, different ones for different patterns; None where there are none.

        Of an operation with several results it is the first. ``start_hint`` is a value to try first, or to include. Raises
        :class:`GraphError` for a context without constraints, and where it takes too many steps.
        """
        return next(self.matches(graph, start_hint, must_include_hint), None)

    def matches(
        self, graph: Graph, start_hint: Value | None = None, must_include_hint: bool = False
    ) -> Iterator[dict[DFPattern, Value]]:
        """All ways to find values for all patterns."""
        order = self.patterns
        if not order:
            raise GraphError("the context has no constraints", help="a ^ b: b reads a; a >> b: nothing else does")
        for found in _ContextSearch(self, graph, start_hint).run(order):
            made = {p: s if isinstance(s, Value) else s[0] for p, s in found.items()}
            if not must_include_hint or start_hint in made.values():
                yield made


class _ContextSearch:
    """The search for values of all patterns of a context: pattern by pattern, with one more edge held at each."""

    def __init__(self, context: PatternContext, graph: Graph, hint: Value | None) -> None:
        self.context = context
        self.matcher = Matcher(graph)
        self.readers: dict[Value, list[GraphNode]] = {}
        for node in graph.nodes:
            for value in dict.fromkeys(node.operands):
                self.readers.setdefault(value, []).append(node)
        self.results = frozenset(graph.results)
        made = [node.results if len(node.results) > 1 else node.results[0] for node in graph.nodes if node.results]
        self.subjects: list[Subject] = [*graph.params, *made]
        if hint is not None:
            self.subjects.sort(key=lambda s: s is not hint and not (isinstance(s, tuple) and hint in s))

    def run(self, order: Sequence[DFPattern]) -> Iterator[dict[DFPattern, Subject]]:
        """The subjects of the patterns, for each way."""
        chosen: dict[DFPattern, Subject] = {}
        stack = [self._choices(order[0], chosen, {})]
        while stack:
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
                chosen.pop(order[len(stack)], None)
                continue
            subject, bound = found
            chosen[order[len(stack) - 1]] = subject
            if len(stack) == len(order):
                yield dict(chosen)
            else:
                stack.append(self._choices(order[len(stack)], chosen, bound))

    def _choices(
        self, pattern: DFPattern, chosen: Mapping[DFPattern, Subject], bound: Bound
    ) -> Iterator[tuple[Subject, Bound]]:
        taken = {p: s for p, s in chosen.items() if p is not pattern}
        for subject in self._candidates(pattern, taken):
            self.matcher.step((pattern, subject))
            if subject in taken.values() or not self._holds(pattern, subject, taken):
                continue
            if not self.matcher.fits(pattern, subject):
                continue
            for found, _ in self.matcher.solutions([(pattern, subject)], bound):
                yield subject, found

    def _candidates(self, pattern: DFPattern, chosen: Mapping[DFPattern, Subject]) -> Sequence[Subject]:
        for edge in self.context.edges:
            if edge.target is pattern and edge.source in chosen:
                nodes = dict.fromkeys(n for v in _values(chosen[edge.source]) for n in self.readers.get(v, ()))
                return [n.results if len(n.results) > 1 else n.results[0] for n in nodes if n.results]
            if edge.source is pattern and edge.target in chosen:
                node = _node(chosen[edge.target])
                read = dict.fromkeys(node.operands if node is not None else ())
                return list(
                    dict.fromkeys(s for v in read for s in (v, v.node.results if v.node else (v,)) if _whole(s))
                )
        return self.subjects

    def _holds(self, pattern: DFPattern, subject: Subject, chosen: Mapping[DFPattern, Subject]) -> bool:
        known = {**chosen, pattern: subject}
        for edge in self.context.edges:
            if pattern in (edge.source, edge.target) and edge.source in known and edge.target in known:
                if not self._joined(edge, known[edge.source], known[edge.target]):
                    return False
        for several in self.context.shapes:
            if pattern in several and not same_shape([known[p] for p in several if p in known], self.matcher.env):
                return False
        return True

    def _joined(self, edge: Edge, source: Subject, target: Subject) -> bool:
        node = _node(target)
        if node is None:
            return False
        read = node.operands if edge.index < 0 else node.operands[edge.index : edge.index + 1]
        values = _values(source)
        if not any(v in read for v in values):
            return False
        return not edge.only or all(
            v not in self.results and all(n is node for n in self.readers.get(v, ())) for v in values
        )


def _whole(subject: Subject) -> bool:
    return isinstance(subject, Value) or len(subject) > 1


def _values(subject: Subject) -> tuple[Value, ...]:
    return (subject,) if isinstance(subject, Value) else subject


def _node(subject: Subject) -> GraphNode | None:
    return _values(subject)[0].node
