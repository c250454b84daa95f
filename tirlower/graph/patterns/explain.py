"""Why a pattern does not match: how far the best attempt came."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.patterns.match import Goal, Matcher, slots_of, subjects
from tirlower.graph.patterns.nodes import CallPattern, Constrained, DFPattern, OrPattern
from tirlower.graph.patterns.subjects import Subject, node_of, shown

__all__ = ["explain"]


class Mismatch(NamedTuple):
    """What stood in the way of an attempt, and how many operations deep."""

    depth: int
    text: str


def explain(pattern: DFPattern, value: Value, graph: Graph | None = None) -> str:
    """What was wanted and what was found where the attempt that went deepest came to its end.

    >>> import tirlower.graph as tg
    >>> from tirlower.graph.patterns import is_op, wildcard
    >>> g = tg.trace(lambda x, y: tg.nn.relu(x + y), tg.spec((4,), "float32"), tg.spec((4,), "float32"))
    >>> print(is_op("relu")(is_op("conv")(wildcard(), wildcard())).explain(g.results[0]))
    operand 0 of relu: wanted conv, found add at `add`
    """
    matcher = Matcher(graph)
    if next(matcher.matches(pattern, value), None) is not None:
        return "it matches"
    attempts = [_Explainer(matcher).deepest((pattern, s)) for s in subjects(value) if not matcher.fits(pattern, s)]
    fitting = [s for s in subjects(value) if matcher.fits(pattern, s)]
    if fitting and matcher.conflict is not None:
        _, part, first, second = matcher.conflict
        return f"one pattern stands for two values: {part.wanted} is {shown(first)} and {shown(second)}"
    if fitting:
        return f"all parts fit {shown(fitting[0])}, but not their shapes together"
    return max(attempts, key=lambda mismatch: mismatch.depth).text


class _Explainer:
    """Finds the deepest mismatch, on a stack of its own."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.known: dict[Goal, Mismatch] = {}

    def deepest(self, goal: Goal) -> Mismatch:
        """The deepest mismatch of a question whose answer is no."""
        stack = [(goal, self._of(goal))]
        sent: Mismatch | None = None
        while stack:
            asked, questions = stack[-1]
            try:
                wanted = next(questions) if sent is None else questions.send(sent)
            except StopIteration as done:
                stack.pop()
                sent = self.known[asked] = done.value
                continue
            sent = self.known.get(wanted)
            if sent is None:
                stack.append((wanted, self._of(wanted)))
        return self.known[goal]

    def _of(self, goal: Goal) -> Generator[Goal, Mismatch, Mismatch]:
        pattern, subject = goal
        ways = self.matcher.expand(pattern, subject)
        if not ways:
            if isinstance(pattern, Constrained) and not self.matcher.fits(pattern.pattern, subject):
                return (yield pattern.pattern, subject)
            return self._head(pattern, subject)
        best: Mismatch | None = None
        for way in ways:
            for number, one in enumerate(way.goals):
                if self.matcher.fits(*one):
                    continue
                found = yield one
                if isinstance(pattern, CallPattern):
                    found = self._inside(pattern, subject, number, one, found)
                if best is None or found.depth > best.depth:
                    best = found
        assert best is not None
        if isinstance(pattern, OrPattern) and best.depth == 0:
            return Mismatch(0, f"wanted {pattern.wanted}, found {shown(subject)}")
        return best

    def _inside(self, pattern: CallPattern, subject: Subject, number: int, goal: Goal, found: Mismatch) -> Mismatch:
        text = found.text
        if found.depth == 0:
            inside = number >= len(pattern.args or ())
            place = "in the graph" if inside else f"operand {self._place(subject, goal[1])}"
            where = f"{place} of {pattern.name}"
            text = f"{where}: {text}"
        return Mismatch(found.depth + 1, text)

    def _place(self, subject: Subject, operand: Subject) -> int:
        node = node_of(subject)
        slots = slots_of(node) if node is not None else []
        if operand in slots:
            return slots.index(operand)
        return node.operands.index(operand) if node is not None and isinstance(operand, Value) else 0

    def _head(self, pattern: DFPattern, subject: Subject) -> Mismatch:
        if isinstance(pattern, Constrained):
            return Mismatch(1, f"wanted {pattern.what}, found {pattern.test(subject, self.matcher.env)}")
        node = node_of(subject)
        if isinstance(pattern, CallPattern) and node is not None and pattern.accepts(node):
            wanted, given = len(pattern.args or ()), sum(slot is not None for slot in slots_of(node))
            if pattern.args is not None and pattern.shape is None:
                return Mismatch(
                    1, f"wanted {pattern.name} on {wanted} operands, found {given} at `{node.results[0].name}`"
                )
            return Mismatch(1, f"wanted {pattern.name} of another shape or graph, found {shown(subject)}")
        return Mismatch(0, f"wanted {pattern.wanted}, found {shown(subject)}")
