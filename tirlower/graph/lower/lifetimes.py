"""When each place of a compiled graph is used: from the first step that names it to the last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tirlower.graph.core.nodes import Value
from tirlower.graph.lower.steps import Choice, DebugStep, ExternStep, KernelStep, Part, Step

__all__ = ["lifetimes"]


def lifetimes(steps: Sequence[Step]) -> dict[Value, tuple[int, int]]:
    """The first and the last step at which each place is used. What a loop uses, it uses from its first step to its last.

    Steps are counted in the order of the text: a call of a kernel is one, and so is to ask for a condition.

    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> b = GraphBuilder()
    >>> x, y, z = (b.param(name, (4,), "float32") for name in "xyz")
    >>> copy = lambda a, b: KernelStep(None, "copy", (a, b))
    >>> [*lifetimes([copy(x, y), copy(y, z), copy(x, z)]).values()]
    [(0, 2), (0, 1), (1, 2)]
    """
    clock = _Clock()
    clock.walk(steps)
    return clock.spans


class _Clock:
    def __init__(self) -> None:
        self.now = 0
        self.spans: dict[Value, tuple[int, int]] = {}

    def use(self, places: Iterable[Value]) -> None:
        """A step that uses places."""
        for place in places:
            self.spans[place] = self.spans.get(place, (self.now, 0))[0], self.now
        self.now += 1

    def walk(self, steps: Sequence[Step]) -> list[Value]:
        """Steps in order; gives the places that they use."""
        used: dict[Value, None] = {}
        for step in steps:
            used |= dict.fromkeys(self._step(step))
        return list(used)

    def _step(self, step: Step) -> list[Value]:
        if isinstance(step, (KernelStep, ExternStep)):
            work = step.workspace if isinstance(step, ExternStep) else None
            places = [*step.places, *([] if work is None else [work])]
            self.use(places)
            return places
        if isinstance(step, DebugStep):
            self.use([step.place])
            return [step.place]
        if isinstance(step, Choice):
            self.use([step.condition])
            return [step.condition, *self.walk(step.then), *self.walk(step.otherwise)]
        if isinstance(step, Part):
            return self.walk(step.steps)
        before = self.walk(step.again)
        begin = self.now
        self.use([step.condition])
        inside = [step.condition, *self.walk((*step.body, *step.again))]
        for place in inside:
            first, last = self.spans[place]
            self.spans[place] = min(first, begin), max(last, self.now - 1)
        return [*before, *inside]
