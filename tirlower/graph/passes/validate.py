"""Validation of passes over graphs: what a pass makes is run by the reference beside what it was made of.

Under ``PassContext(validate=True)`` the result of every pass must be well formed, and must compute what its input computes at
three bindings of its dims. A graph that would take the reference too long (:data:`WORK_LIMIT`) is only checked for its form.
What a wrong pass did is reduced to the fewest nodes and written as a file that shows it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tirlower.diagnostics import TirError, TransformError
from tirlower.graph.core.nodes import Graph
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.core.verify import verify
from tirlower.graph.errors import GraphError
from tirlower.graph.passes.compare import Difference, bindings, compare, estimated_work, random_inputs
from tirlower.graph.passes.reproducer import write_graph_reproducer
from tirlower.graph.passes.shrink import GraphCase, reduce_graph
from tirlower.ir import Var
from tirlower.rewrite.context import PassContext
from tirlower.validate.passes import REDUCE_SECONDS
from tirlower.validate.reproducer import DIRECTORY_KEY, Named

__all__ = ["WORK_LIMIT", "Rewriting", "validate_graphs"]

WORK_LIMIT = 1 << 24
"""The elements that the reference may visit: those of a second or so."""


class Rewriting(Protocol):
    """What is asked of a :class:`~tirlower.graph.passes.base.GraphPass`."""

    @property
    def info(self) -> Named:
        """Its description."""

    @property
    def numerics(self) -> Numerics:
        """What it may do to numbers."""

    @property
    def keeps_debug(self) -> bool:
        """Whether assertions and prints say what they said before."""

    def rewritten(self, program: Graph, ctx: PassContext) -> Graph:
        """The rewriting itself."""

    def construction(self) -> str | None:
        """The Python expression that makes it; None where a file of its own cannot name it."""


def validate_graphs(pass_: Rewriting, before: Graph, after: Graph, current: PassContext, numerics: Numerics) -> None:
    """Check a pass's result against its input, of which it may differ as ``numerics`` says.

    Raises :class:`TransformError` that names the pass and what differs, shows the smallest graph on which it does that could
    be found, and says in which file it was written with its inputs.
    """
    name = pass_.info.name
    if len(before.params) != len(after.params) or len(before.results) != len(after.results):
        raise TransformError(
            f"{name} changes what the graph takes or gives: {len(before.params)} inputs and {len(before.results)} results "
            f"were {len(after.params)} and {len(after.results)} afterwards",
            origin=name,
        )
    try:
        verify(after)
    except GraphError as error:
        if _is_whole(before):
            difference = Difference("ill-formed", f"makes a graph that is not whole: {error.message}")
            _guilty(pass_, GraphCase(before, ()), after, difference, numerics, current)
    for n, values in enumerate(bindings(before)):
        case = _case(before, values, n)
        if case is None:
            continue
        found = compare(before, after, numerics, case.inputs, pass_.keeps_debug)
        if found is not None:
            _guilty(pass_, case, after, found, numerics, current)


def _is_whole(graph: Graph) -> bool:
    try:
        verify(graph)
    except GraphError:
        return False
    return True


def _case(graph: Graph, values: Mapping[Var, int], seed: int) -> GraphCase | None:
    """A graph with inputs; None where it has no meaning at these extents, or would take too long."""
    try:
        if estimated_work(graph, values) > WORK_LIMIT:
            return None
        # NaN and infinities hide what is wrong with sums: half of the runs go without.
        return GraphCase(graph, tuple(random_inputs(graph, values, seed, special=seed % 2 == 1)))
    except GraphError:
        return None


def _guilty(
    pass_: Rewriting, case: GraphCase, after: Graph, difference: Difference, numerics: Numerics, current: PassContext
) -> None:
    """Reduce the case, write the file that shows it, and raise the error."""
    ctx = current.quiet()
    name = pass_.info.name

    def again(candidate: GraphCase) -> tuple[Graph, Difference] | None:
        try:
            made = pass_.rewritten(candidate.graph, ctx)
            found = (
                None
                if made is candidate.graph
                else compare(candidate.graph, made, numerics, candidate.inputs, pass_.keeps_debug)
            )
        except Exception:  # a pass that is wrong may raise anything: another failure than the one looked for
            return None
        return None if found is None else (made, found)

    def fails(candidate: GraphCase) -> bool:
        found = again(candidate)
        return found is not None and found[1].kind == difference.kind

    notes: list[str] = []
    if len(case.inputs) == len(case.graph.params) and fails(case):
        case = reduce_graph(case, fails, REDUCE_SECONDS)
        found = again(case)
        if found is not None:
            after = found[0]
            notes.append(f"reduced: it {found[1].message.splitlines()[0]}")
    shown = f", with the inputs {', '.join(repr(a.tolist()) for a in case.inputs)}" if case.inputs else ""
    notes.append(f"the smallest graph found{shown}:\n{case.graph}")
    try:
        path = write_graph_reproducer(case, pass_, after, f"{name} {difference.message.splitlines()[0]}", current)
        notes.append(f"python {path} shows it alone ({DIRECTORY_KEY} of the context says where it is written)")
    except (OSError, TirError) as error:
        notes.append(f"the file that shows it alone could not be written: {error}")
    raise TransformError(
        f"{name} {difference.message}",
        origin=name,
        notes=notes,
        help="run the pass alone on this graph to see what it did: PassContext(trace=True) shows each step",
    )
