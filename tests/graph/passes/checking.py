"""The shared check of a pass over graphs.

``check_graph(pass_, before, expected)`` asserts that

- the result is ``expected`` (when given), up to the names of values,
- the result is well formed, and the input is not changed,
- the pass returns its own result as the same object,
- the text of the result parses back to it,
- the reference computes the same before and after, at three bindings of the dims, with NaN and infinities too.
"""

from __future__ import annotations

from collections.abc import Callable

import tirlower.graph as tg
from tirlower.graph.core.nodes import Const
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.core.verify import verify
from tirlower.graph.passes.compare import bindings, compare, random_inputs
from tirlower.ir import structural_hash
from tirlower.ir.structural import assert_structural_equal

__all__ = ["check_graph", "parsed", "same_graph"]


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
    digest = structural_hash(graph)
    after = pass_(graph)
    assert structural_hash(graph) == digest, "the pass changed its input"
    verify(after)
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
                tg.interpret(graph, *inputs, said=[])
            except tg.GraphError:
                continue
            found = compare(graph, after, numerics, inputs, getattr(pass_, "keeps_debug", True))
            assert found is None, f"{found.message}\n{graph}\nbecame\n{after}"
            ran += 1
    assert ran or any(n.data.is_abstract for n in graph.nodes if isinstance(n, Const)), "no inputs fit the graph"
    return after


def same_graph(a: tg.Graph, b: tg.Graph) -> None:
    """Assert that two graphs are equal up to the names of values."""
    assert_structural_equal(a, b)
