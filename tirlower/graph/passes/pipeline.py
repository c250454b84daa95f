"""Pipelines as values: passes in order, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tirlower.diagnostics import nearest_name
from tirlower.graph.core.nodes import Graph
from tirlower.graph.errors import GraphError
from tirlower.graph.passes.base import GraphPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.registry import short_name
from tirlower.rewrite.running import run_pass

__all__ = ["Fixpoint", "Pipeline", "Step"]


@dataclass(frozen=True)
class Step:
    """A pass in a pipeline, and why it stands where it does."""

    pass_: GraphPass
    why: str

    @property
    def name(self) -> str:
        """The pass's name without its prefix."""
        return short_name(self.pass_.info.name)

    def lines(self) -> Iterator[str]:
        """The step as text."""
        yield f"{self.pass_!r:<28} # {self.why}"


@dataclass(frozen=True)
class Fixpoint:
    """Steps that run round after round, until none of them changes anything; at most ``limit`` rounds."""

    steps: tuple[Step, ...]
    why: str
    limit: int = 8

    def lines(self) -> Iterator[str]:
        """The steps as text."""
        yield f"{'until nothing changes:':<28} # {self.why}"
        for step in self.steps:
            yield from (f"    {line}" for line in step.lines())


@dataclass(frozen=True)
class Pipeline:
    """Steps in order; ``print`` shows them with their reasons.

    >>> from tirlower.graph.passes.expand import Expand
    >>> print(Pipeline((Step(Expand(), "kernels are made of operations, not of macros"),)))
    Expand()                     # kernels are made of operations, not of macros
    """

    steps: tuple[Step | Fixpoint, ...] = ()

    def __iter__(self) -> Iterator[Step]:
        """The steps, those that are repeated once."""
        for entry in self.steps:
            yield from entry.steps if isinstance(entry, Fixpoint) else (entry,)

    def names(self) -> list[str]:
        """The names of the passes, in order."""
        return [step.name for step in self]

    def with_step(self, step: Step, before: str) -> Pipeline:
        """The pipeline with one more step, before the first entry that runs a pass; at the end where none does.

        >>> from tirlower.graph.passes.dce import DCE
        >>> from tirlower.graph.passes.default import PLAIN
        >>> PLAIN.with_step(Step(DCE(), "for an example"), before="Expand").names()
        ['DCE', 'Expand']
        """
        short = short_name(before)
        several = [[s.name for s in (e.steps if isinstance(e, Fixpoint) else (e,))] for e in self.steps]
        at = next((n for n, names in enumerate(several) if short in names), len(several))
        return Pipeline((*self.steps[:at], step, *self.steps[at:]))

    def run(self, graph: Graph, ctx: PassContext | None = None, until: str | None = None) -> Graph:
        """The graph after all passes that the context enables, or after the first run of ``until``.

        Raises :class:`GraphError` where ``until`` is no pass of the pipeline, and what its passes raise.
        """
        ctx = ctx or PassContext.current()
        stop = None if until is None else short_name(until)
        if stop is not None and stop not in self.names():
            near = nearest_name(stop, self.names())
            hint = f"did you mean {near!r}?" if near else f"its passes: {', '.join(self.names())}"
            raise GraphError(f"no pass {until!r} in the pipeline", help=hint)
        for entry in self.steps:
            graph, stopped = _run(entry, graph, ctx, stop)
            if stopped:
                break
        return graph

    def trace(self, graph: Graph, ctx: PassContext) -> dict[str, Graph]:
        """The graph after each pass, by the pass's name; a name that comes again is numbered (``CSE.2``)."""
        tracing = ctx.child()
        tracing.trace = True
        self.run(graph, tracing)
        return {name: made for name, made in tracing.programs_after.items() if isinstance(made, Graph)}

    def __str__(self) -> str:
        return "\n".join(line for entry in self.steps for line in entry.lines())


def _run(entry: Step | Fixpoint, graph: Graph, ctx: PassContext, stop: str | None) -> tuple[Graph, bool]:
    """The graph after an entry, and whether the pass at which to stop has run."""
    steps = entry.steps if isinstance(entry, Fixpoint) else (entry,)
    unchanged = 0
    for _ in range(entry.limit if isinstance(entry, Fixpoint) else 1):
        for step in steps:
            before = graph
            if ctx.pass_enabled(step.pass_.info):
                graph = run_pass(step.pass_, graph, ctx)
            if step.name == stop:
                return graph, True
            unchanged = unchanged + 1 if graph is before else 0
            if unchanged == len(steps):  # each has seen what the last change left
                return graph, False
    return graph, False
