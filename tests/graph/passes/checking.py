"""The shared check of a pass over graphs.

``check_graph(pass_, before, expected)`` asserts that

- the result is ``expected`` (when given), up to the names of values,
- the pass returns its own result as the same object,
- the text of the result parses back to it,
- the reference computes the same before and after, at three bindings of the dims, with NaN and infinities too.
"""

from __future__ import annotations

from collections.abc import Callable

import tirlower.graph as tg
from tirlower.graph.core.nodes import Const
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.passes.compare import bindings, compare, random_inputs

__all__ = ["check_graph", "nameless", "parsed", "same_graph"]


def parsed(text: str | tg.Graph) -> tg.Graph:
    """A graph, of its text without the decorator: ``(x: tg.Tensor((4,), "float32")): ...`` too."""
    if not isinstance(text, str):
        return text
    lines = text.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    body = "\n".join(line[indent:] for line in lines)
    return tg.parse(body if body.startswith("@") else f"@tg.graph\n{body}")


def check_graph(
    pass_: Callable[[tg.Graph], tg.Graph],
    before: str | tg.Graph,
    expected: str | tg.Graph | None = None,
    *,
    numerics: Numerics = Numerics.EXACT,
    idempotent: bool = True,
) -> tg.Graph:
    """Run a pass and check everything that holds for every pass; returns the result."""
    graph = parsed(before)
    text = str(graph)
    after = pass_(graph)
    assert str(graph) == text, "the pass changed its input"
    if expected is not None:
        if expected is before:
            assert after is graph, f"nothing should change, but it became\n{after}"
        else:
            same_graph(after, parsed(expected))
    if idempotent:
        assert pass_(after) is after, f"the second run changes it again:\n{after}\nbecomes\n{pass_(after)}"
    constants = {n.data.digest[:8]: n.data for n in after.nodes if isinstance(n, Const)}
    same_graph(tg.parse(str(after), constants), after)
    ran = 0
    for seed, values in enumerate(bindings(graph)):
        for special in (False, True):
            try:
                inputs = random_inputs(graph, values, seed, special)
                tg.interpret(graph, *inputs)
            except tg.GraphError:
                continue
            found = compare(graph, after, numerics, inputs)
            assert found is None, f"{found.message}\n{graph}\nbecame\n{after}"
            ran += 1
    assert ran or any(n.data.is_abstract for n in graph.nodes if isinstance(n, Const)), "no inputs fit the graph"
    return after


def same_graph(a: tg.Graph, b: tg.Graph) -> None:
    """Assert that two graphs are equal up to the names of values."""
    assert nameless(a) == nameless(b)


def nameless(graph: tg.Graph) -> str:
    """The text of a graph with numbered values; constants written out."""
    numbers = {}
    for value in (*graph.params, *(v for n in graph.nodes for v in n.results)):
        numbers[value] = f"%{len(numbers)}"
    lines = [str(graph.dims), str(graph.assumed), str(graph.attrs), str(graph.structure)]
    lines += [f"{numbers[v]}: {v.type}" for v in graph.params]
    for node in graph.nodes:
        made = ", ".join(f"{numbers[v]}: {v.type}" for v in node.results)
        read = ", ".join(numbers[v] for v in node.operands)
        what = repr(node.data) if isinstance(node, Const) else f"{node.name} {node.groups} {node.attrs}"
        lines.append(f"{made} = {what} ({read})")
    return "\n".join([*lines, ", ".join(numbers[v] for v in graph.results)])
