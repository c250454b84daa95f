"""Choices and loops in one form: what does not depend on the choice, or on the round, stands outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tirlower.graph.core.control import If, While
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Value
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.passes.base import GraphPass
from tirlower.graph.passes.composites import OPAQUE, spliced
from tirlower.graph.passes.cse import CSE
from tirlower.graph.passes.liveness import live
from tirlower.ir.structural import structural_equal
from tirlower.rewrite.context import PassContext

__all__ = ["CanonicalizeControl"]


class CanonicalizeControl(GraphPass):
    """Bring choices and loops into one form.

    A choice whose condition is known, or whose ways are equal, is what it chooses. A loop that never runs is what it
    begins with. Of what a loop carries, a value that no round changes is read where it came from, and one that nobody needs
    or that always equals another is not carried; the same holds for the results and operands of a choice.

    >>> import tirlower.graph as tg
    >>> print(CanonicalizeControl()(tg.parse('''
    ... @tg.graph
    ... def f(x: tg.Tensor((4,), "float32")):
    ...     @tg.graph
    ...     def again(a: tg.Tensor((4,), "float32"), b: tg.Tensor((4,), "float32")):
    ...         c: tg.Tensor((4,), "bool") = tg.less(a, b)
    ...         d: tg.Tensor((), "bool") = tg.all(c)
    ...         return d
    ...     @tg.graph
    ...     def body(a: tg.Tensor((4,), "float32"), b: tg.Tensor((4,), "float32")):
    ...         c: tg.Tensor((4,), "float32") = tg.add(a, 1.0)
    ...         return c, b
    ...     y = tg.constant("float32", (4,), 9.0)
    ...     u: tg.Tensor((4,), "float32")
    ...     v: tg.Tensor((4,), "float32")
    ...     u, v = tg.while_loop(again, body, x, y)
    ...     return u, v
    ... ''')))
    @tg.graph
    def f(x: tg.Tensor((4,), "float32")):
    <BLANKLINE>
        @tg.graph
        def again(a: tg.Tensor((4,), "float32")):
            b = tg.constant("float32", (4,), 9.0)
            c: tg.Tensor((4,), "bool") = tg.less(a, b)
            d: tg.Tensor((), "bool") = tg.all(c)
            return d
    <BLANKLINE>
        @tg.graph
        def body(a: tg.Tensor((4,), "float32")):
            c: tg.Tensor((4,), "float32") = tg.add(a, 1.0)
            return c,
    <BLANKLINE>
        y = tg.constant("float32", (4,), 9.0)
        carried: tg.Tensor((4,), "float32") = tg.while_loop(again, body, x)
        return carried, y
    """

    name = "graph.CanonicalizeControl"

    def rewritten(self, program: Graph, ctx: PassContext) -> Graph:
        """The graph rewritten until nothing changes: what a graph inside no longer is given changes those inside of it."""
        before = None
        while program is not before:
            before, program = program, super().rewritten(program, ctx)
        return program

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph with fewer and smaller choices and loops."""
        before = None
        while graph is not before and any(isinstance(node, (If, While)) for node in graph.nodes):
            before, graph = graph, _once(graph, ctx)
        return graph


def _once(graph: Graph, ctx: PassContext) -> Graph:
    needed = {*graph.results, *(v for node in graph.nodes for v in node.operands)}

    def visit(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if any(name in inner.attrs for inner in node.graphs for name in OPAQUE):
            return None
        if isinstance(node, If):
            return _choice(builder, node, operands, needed)
        if isinstance(node, While):
            return _loop(builder, node, operands, needed, lambda one: CSE().transform(one, ctx))
        return None

    return rewritten(graph, visit)


def _constant(value: Value) -> object:
    """The number that a value without axes is; None where it is not known."""
    node = value.node
    return node.data.value if isinstance(node, Const) else None


def _choice(builder: GraphBuilder, node: If, operands: Sequence[Value], needed: set[Value]) -> Sequence[Value] | None:
    """What a choice gives, with less of it; None where all of it is needed."""
    then, other = node.graphs
    given = operands[1:]
    known = _constant(operands[0])
    if isinstance(known, bool):
        return spliced(builder, then if known else other, given)
    # Equal ways: counts are compared first, as most differ there.
    if len(then.nodes) == len(other.nodes) and structural_equal(then, other):
        return spliced(builder, then, given)
    a, b = ({p: n for n, p in enumerate(g.params)} for g in (then, other))
    stands: list[Value | int] = []  # for each result a value outside, or which of the results that are left
    left: list[tuple[Value, Value]] = []
    for result, x, y in zip(node.results, then.results, other.results, strict=True):
        if x in a and y in b and given[a[x]] is given[b[y]]:
            stands.append(given[a[x]])
        elif (x, y) in left:
            stands.append(left.index((x, y)))
        elif result not in needed:
            stands.append(-1)
        else:
            stands.append(len(left))
            left.append((x, y))
    ways = [_with_results(g, [pair[n] for pair in left]) for n, g in enumerate((then, other))]
    used = {n for g in ways for n in _read(g)}
    first = {value: n for n, value in reversed([*enumerate(given)])}
    kept = [n for n, value in enumerate(given) if first[value] == n and any(given[m] is value for m in used)]
    if len(left) == len(node.results) and len(kept) == len(given):
        return None
    if not left and not node.writes:
        return [_outside(builder, s, r, ()) for s, r in zip(stands, node.results, strict=True)]
    small = [_with_params(g, kept, {n: first[v] for n, v in enumerate(given)}) for g in ways]
    made = builder.if_(operands[0], small[0], small[1], *[given[n] for n in kept])
    return [_outside(builder, s, r, made) for s, r in zip(stands, node.results, strict=True)]


def _outside(builder: GraphBuilder, stands: Value | int, result: Value, made: Sequence[Value]) -> Value:
    """What stands for a result; for one that nobody needs any value will do."""
    if isinstance(stands, Value):
        return stands
    return made[stands] if stands >= 0 else result


def _with_results(graph: Graph, results: Sequence[Value]) -> Graph:
    """A graph that gives some values, without what they do not need."""
    return graph.with_(nodes=live(graph.nodes, results), results=tuple(results), structure="tuple")


def _read(graph: Graph) -> list[int]:
    """The parameters that a graph reads, by number."""
    used = {*graph.results, *(v for node in graph.nodes for v in node.operands)}
    return [n for n, value in enumerate(graph.params) if value in used]


def _with_params(graph: Graph, kept: Sequence[int], first: Mapping[int, int]) -> Graph:
    """A graph that takes some of its parameters; each other one stands for the one that ``first`` says."""
    instead = {v: graph.params[first[n]] for n, v in enumerate(graph.params) if first[n] != n}
    return _substituted(graph, instead).with_(params=tuple(graph.params[n] for n in kept))


def _substituted(graph: Graph, instead: Mapping[Value, Value], before: Sequence[GraphNode] = ()) -> Graph:
    """A graph that reads other values in the place of some parameters, which nodes before all others may make."""
    new = dict(instead)
    nodes: list[GraphNode] = [*before]
    for node in graph.nodes:
        operands = [new.get(v, v) for v in node.operands]
        made = node
        if any(a is not b for a, b in zip(operands, node.operands, strict=True)):
            made = node.with_operands([Value.of(v.type, v.name) for v in node.results], operands)
            new.update(zip(node.results, made.results, strict=True))
        nodes.append(made)
    return graph.with_(nodes=tuple(nodes), results=tuple(new.get(v, v) for v in graph.results))


def _loop(
    builder: GraphBuilder, node: While, given: Sequence[Value], needed: set[Value], cse: Callable[[Graph], Graph]
) -> Sequence[Value] | None:
    """What a loop gives, with less of it; None where all of it is needed."""
    if _constant(node.condition.results[0]) is False and not node.condition.writes:
        return given
    body, condition = node.body, node.condition
    count = len(given)
    fixed = [body.results[n] is body.params[n] for n in range(count)]
    if _known(given, fixed):
        condition, body = (_with_constants(g, given, fixed) for g in (condition, body))
    first = _equal(given, body, cse)
    merge = {n: m for n, m in enumerate(first) if n != m}
    if merge:
        condition, body = (
            _substituted(g, {g.params[n]: g.params[m] for n, m in merge.items()}) for g in (condition, body)
        )
    # What a round needs of the values: those that the condition, the results outside, and stores read.
    wanted = {*_read(condition), *(first[n] for n, r in enumerate(node.results) if r in needed and not fixed[n])}
    while True:
        inner = _with_results(body, [body.results[n] for n in sorted(wanted)])
        more = wanted | set(_read(inner))
        if more == wanted:
            break
        wanted = more
    kept = sorted(wanted)
    made: Sequence[Value] = ()
    if len(kept) == count:
        if all(not f or r not in needed for f, r in zip(fixed, node.results, strict=True)):
            return None
        made = builder.while_(node.condition, node.body, *given)
    else:
        same = dict(enumerate(range(count)))
        condition, inner = (_with_params(g, kept, same) for g in (condition, inner))
        made = builder.while_(condition, inner, *[given[n] for n in kept])
    place = {n: made[m] for m, n in enumerate(kept)}
    return [given[n] if fixed[n] else place.get(first[n], given[n]) for n in range(count)]


def _known(given: Sequence[Value], fixed: Sequence[bool]) -> bool:
    return any(f and isinstance(v.node, Const) for v, f in zip(given, fixed, strict=True))


def _with_constants(graph: Graph, given: Sequence[Value], fixed: Sequence[bool]) -> Graph:
    """A graph that makes what it is given as a constant itself, where that never changes."""
    instead: dict[Value, Value] = {}
    made: list[GraphNode] = []
    used = set(_read(graph))
    for n, (value, param) in enumerate(zip(given, graph.params, strict=True)):
        if fixed[n] and isinstance(value.node, Const) and n in used:
            made.append(value.node.with_operands([Value.of(value.type, param.name)], ()))
            instead[param] = made[-1].results[0]
    # The body still gives back what it is given: only what computes reads the constant.
    inside = _substituted(graph, instead, made)
    kept = {p: n for n, p in enumerate(graph.params)}
    results = tuple(old if old in kept else new for old, new in zip(graph.results, inside.results, strict=True))
    return inside.with_(results=results if len(graph.results) == len(given) else inside.results)


def _equal(given: Sequence[Value], body: Graph, cse: Callable[[Graph], Graph]) -> list[int]:
    """For each carried value the first one that equals it in every round.

    Values that begin equal are taken for equal, and parted where a round makes them differ, until it does not.
    """
    groups: dict[object, int] = {}
    first = [groups.setdefault(value, n) for n, value in enumerate(given)]
    while any(first[n] != n for n in range(len(first))):
        merged = cse(_substituted(body, {body.params[n]: body.params[m] for n, m in enumerate(first)}))
        groups = {}
        new = [groups.setdefault((first[n], merged.results[n]), n) for n in range(len(first))]
        if new == first:
            break
        first = new
    return first
