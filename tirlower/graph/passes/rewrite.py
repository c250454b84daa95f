"""Rewriting: what a pattern matches is replaced by what a rule makes of it, until no rule applies.

A rule is two small graphs, or a pattern and a function of the match and a builder. All nodes are gone through in order; what
a rule makes is gone through at once. What is unused in the end is dropped; operations with effects stay, in their order.

>>> import tirlower.graph as tg
>>> before = tg.trace(lambda x: tg.exp(tg.log(x)), tg.spec((), "float32"))
>>> after = tg.trace(lambda x: x, tg.spec((), "float32"))
>>> g = tg.trace(lambda x: tg.exp(tg.log(x)) + 1, tg.spec((4,), "float32"))
>>> [op.name for op in rewrite(g, [(before, after)]).ops]
['add']
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.passes.composites import mapped
from tirlower.graph.passes.liveness import live
from tirlower.graph.passes.rule import DFPatternCallback, Replace, Rule, RuleLike, rule_of
from tirlower.graph.patterns.constraints import PatternContext
from tirlower.graph.patterns.match import Match, Matcher
from tirlower.graph.patterns.nodes import DFPattern
from tirlower.graph.patterns.subjects import shown_node

__all__ = [
    "DFPatternCallback",
    "PatternMatchingRewriter",
    "Replace",
    "Rule",
    "RuleLike",
    "rewrite",
    "rewrite_bindings",
    "rewrite_call",
    "rule_of",
]


def rewrite(graph: Graph, rules: RuleLike | Iterable[RuleLike], max_iter: int = 100) -> Graph:
    """The graph after rules, to a fixpoint, with the graphs inside its nodes; the same object where none applies.

    Composites are left as they are: each is what its pattern matched. Rules are tried in order, each on all ways in which its pattern matches. Raises :class:`GraphError` where what rules make
    is rewritten more than ``max_iter`` times, with the last two forms, and for rules that give values of another type.
    """
    several = _listed(rules)
    return mapped(graph, lambda one: _fixpoint(one, several, max_iter))


def _fixpoint(graph: Graph, several: Sequence[Rule], max_iter: int) -> Graph:
    ages: dict[GraphNode, int] = {}
    for count in range(max_iter + 1):
        active = several if count == 0 else [r for r in several if not r.once]
        new = _Round(graph, active, ages, max_iter).run() if active else graph
        if new is graph:
            return graph
        graph = new
    raise GraphError(f"{graph.name} is still rewritten after {max_iter} rounds by {_names(several)}")


def _listed(rules: RuleLike | Iterable[RuleLike]) -> list[Rule]:
    pair = isinstance(rules, tuple) and len(rules) == 2 and isinstance(rules[0], (Graph, DFPattern))
    if pair or isinstance(rules, (Rule, DFPatternCallback)):
        return [rule_of(cast(RuleLike, rules))]
    return [rule_of(r) for r in cast("Iterable[RuleLike]", rules)]


def _names(rules: Sequence[Rule]) -> str:
    return ", ".join(dict.fromkeys(r.name for r in rules))


class _Round:
    """One way through the nodes of a graph."""

    def __init__(self, graph: Graph, rules: Sequence[Rule], ages: dict[GraphNode, int], limit: int) -> None:
        self.graph = graph
        self.rules = rules
        self.ages = ages
        """How often the way to a node was rewritten."""
        self.limit = limit
        self.builder = GraphBuilder(graph.name, graph.dims)
        self.builder.env.assumed += graph.assumed
        self.builder.params += graph.params
        for value in (*graph.params, *(v for n in graph.nodes for v in n.results)):
            self.builder.named(value.name)
        self.new: dict[Value, Value] = {}
        """What stands for a value; what stands for that one, in turn, is looked up."""
        self.matcher = Matcher(graph)
        self.forms: dict[GraphNode, tuple[str, str]] = {}
        """Of a node that a rule made: the rule, and the form that it was made of."""
        self.changed = False
        used = {*graph.results, *(v for n in graph.nodes for v in n.operands)}
        self.unused = {v for n in graph.nodes for v in n.results if v not in used}

    def run(self) -> Graph:
        """The graph afterwards; the same one where no rule applied."""
        queue = deque(self.graph.nodes)
        while queue:
            old = queue.popleft()
            operands = tuple(self.value(v) for v in old.operands)
            node = old
            if any(a is not b for a, b in zip(operands, old.operands, strict=True)):
                node = _with_operands(old, operands)
                if old in self.ages:
                    self.ages[node] = self.ages[old]
                if old in self.forms:
                    self.forms[node] = self.forms[old]
            self.builder.origin = node.origin
            made = self._rewritten(node, old)
            if made is not None:
                queue.extendleft(reversed(made))
                continue
            self.builder.nodes.append(node)
            self._stands(old.results, node.results)
        if not self.changed:
            return self.graph
        results = tuple(self.value(v) for v in self.graph.results)
        assumed = tuple(self.builder.env.assumed)
        nodes = live(self.builder.nodes, results)
        return self.graph.with_(nodes=nodes, results=results, assumed=assumed)

    def value(self, value: Value) -> Value:
        """What stands for a value now."""
        path = []
        while value in self.new:
            path.append(value)
            value = self.new[value]
        for one in path:
            self.new[one] = value
        return value

    def _stands(self, old: Sequence[Value], new: Sequence[Value]) -> None:
        self.new.update((a, b) for a, b in zip(old, new, strict=True) if a is not b)

    def _rewritten(self, node: GraphNode, old: GraphNode) -> Sequence[GraphNode] | None:
        """The nodes that rules make in the place of one, to be gone through; None where no rule applies."""
        age = self.ages.get(node, 0)
        active = [r for r in self.rules if not (r.once and age)]
        values: dict[Value, Value] = {}
        nodes: list[GraphNode] = []
        for value, before in zip(node.results, old.results, strict=True):
            if value not in values and before not in self.unused:
                for rule in active:
                    made = self._applied(rule, node, value, age)
                    if made is not None:
                        nodes += made[0]
                        values.update(made[1])
                        break
        if not values:
            return None
        self.changed = True
        replaced = [v for v in node.results if values.get(v, v) is not v]
        if len(replaced) < len(node.results) or any(v in n.operands for n in nodes for v in replaced):
            nodes, values = self._beside(node, nodes, values)
        self._stands(old.results, [values[v] for v in node.results])
        return nodes

    def _beside(
        self, node: GraphNode, made: Sequence[GraphNode], values: Mapping[Value, Value]
    ) -> tuple[list[GraphNode], dict[Value, Value]]:
        """Keep a node of which results are still read: a copy stands before what was made, and is read by it."""
        copy = _with_operands(node, node.operands)
        self.builder.nodes.append(copy)
        own = dict(zip(node.results, copy.results, strict=True))
        nodes: list[GraphNode] = []
        for one in made:
            fresh = one
            if any(v in own for v in one.operands):
                fresh = _with_operands(one, tuple(own.get(v, v) for v in one.operands))
                own.update(zip(one.results, fresh.results, strict=True))
                self.ages[fresh], self.forms[fresh] = self.ages[one], self.forms[one]
            nodes.append(fresh)
        return nodes, {old: own.get(values.get(old, old), values.get(old, old)) for old in node.results}

    def _applied(
        self, rule: Rule, node: GraphNode, value: Value, age: int
    ) -> tuple[list[GraphNode], Mapping[Value, Value]] | None:
        builder = self.builder
        start, trusted = len(builder.nodes), len(builder.env.assumed)
        for match in self.matcher.matches(rule.pattern, value):
            given = rule.replace(match, builder)
            made = builder.nodes[start:]
            del builder.nodes[start:]
            if given is None or given is value:
                # The builder gives an array's constant again when it is asked again: constants stay.
                builder.nodes += [n for n in made if isinstance(n, Const)]
                start = len(builder.nodes)
                del builder.env.assumed[trusted:]
                continue
            values = self._checked(rule, node, value, given)
            form = _form(node, match)
            if age >= self.limit:
                raise self._cycle(rule, node, form, values)
            for one in made:
                self.ages[one] = age + 1
                self.forms[one] = rule.name, form
            return made, values
        return None

    def _checked(
        self, rule: Rule, node: GraphNode, value: Value, given: Value | Sequence[Value]
    ) -> Mapping[Value, Value]:
        made = {value: given} if isinstance(given, Value) else dict(zip(node.results, given, strict=True))
        for old, new in made.items():
            if not self.builder.env.equal_types(old, new):
                raise GraphError(
                    f"{rule.name} gives {new.type} in the place of {shown_node(node)}, which is {old.type}",
                    help="a rule gives a value of the same type, or None where it does not apply",
                )
        return made

    def _cycle(self, rule: Rule, node: GraphNode, form: str, values: Mapping[Value, Value]) -> GraphError:
        before = self.forms.get(node)
        names = dict.fromkeys([*([before[0]] if before else []), rule.name])
        after = ", ".join(_text(v.node) if v.node else v.name for v in values.values())
        return GraphError(
            f"rules turn in a circle: {self.limit} rewrites of one value by {', '.join(names)}",
            notes=[f"the last two forms: {form}", f"and: {after}"],
            help="a rule needs a direction in which it comes to an end; or a greater max_iter",
        )


def _form(node: GraphNode, match: Match) -> str:
    return "; ".join(_text(n) for n in match.nodes) or _text(node)


def _text(node: GraphNode) -> str:
    inputs = ", ".join(v.name for v in node.operands)
    return f"{node.results[0].name} = {node.name if isinstance(node, Op) else type(node).__name__}({inputs})"


def _with_operands(node: GraphNode, operands: Sequence[Value]) -> GraphNode:
    return node.with_operands([Value.of(v.type, v.name) for v in node.results], operands)


def rewrite_call(
    pattern: DFPattern, rewriter: Callable[[Value, Match, GraphBuilder], Value | Sequence[Value] | None], graph: Graph
) -> Graph:
    """The graph with the values of a pattern replaced; a rewriter that gives the value itself leaves it.

    >>> import tirlower.graph as tg
    >>> from tirlower.graph.patterns import is_op, wildcard
    >>> x = wildcard()
    >>> g = tg.trace(lambda x: tg.negative(tg.negative(x)), tg.spec((4,), "float32"))
    >>> twice = is_op("negative")(is_op("negative")(x))
    >>> len(rewrite_call(twice, lambda value, match, builder: match[x], g).ops)
    0
    """
    return rewrite(graph, Rule(pattern, lambda m, b: rewriter(m.value, m, b), getattr(rewriter, "__name__", "rule")))


def rewrite_bindings(
    context: PatternContext,
    rewriter: Callable[[Mapping[DFPattern, Value], GraphBuilder], Mapping[Value, Value]],
    graph: Graph,
    max_iter: int = 100,
) -> Graph:
    """The graph with what the patterns of a context match replaced, match by match, until there is none.

    ``rewriter`` gives for values the ones that stand for them from then on; an empty mapping leaves a match alone, and the
    next one is tried. Raises :class:`GraphError` after ``max_iter`` replacements more than the graph has nodes, with the last
    two forms, and for a value that would depend on itself.
    """
    forms: list[Graph] = [graph]
    for _ in range(max_iter + len(graph.nodes)):
        new = _rebound(context, rewriter, forms[-1])
        if new is forms[-1]:
            return new
        forms = [forms[-1], new]
    raise GraphError(
        f"{graph.name} is still rewritten after {max_iter} replacements more than it has nodes",
        notes=["the last two forms:", *(str(form) for form in forms)],
        help="a rewriter gives an empty mapping for what is to stay",
    )


def _rebound(
    context: PatternContext,
    rewriter: Callable[[Mapping[DFPattern, Value], GraphBuilder], Mapping[Value, Value]],
    graph: Graph,
) -> Graph:
    builder = GraphBuilder(graph.name, graph.dims)
    builder.env.assumed += graph.assumed
    for value in (*graph.params, *(v for n in graph.nodes for v in n.results)):
        builder.named(value.name)
    for found in context.matches(graph):
        made = {a: b for a, b in rewriter(found, builder).items() if a is not b}
        if made:
            return _substituted(graph, builder, made)
        builder.nodes.clear()
    return graph


def _substituted(graph: Graph, builder: GraphBuilder, made: Mapping[Value, Value]) -> Graph:
    """The graph with other values in the place of some, and the nodes of a builder that make them."""
    for old, new in made.items():
        if not builder.env.equal_types(old, new):
            raise GraphError(f"{new.type} stands in the place of `{old.name}`, which is {old.type}")
    fresh = set(builder.nodes)
    # What a new node reads is what was there; all others read what stands for it.
    instead: dict[Value, Value] = {}
    waiting: dict[GraphNode, Iterable[GraphNode]] = {}
    order: dict[GraphNode, GraphNode] = {}

    def reads(node: GraphNode) -> tuple[Value, ...]:
        return node.operands if node in fresh else tuple(made.get(v, v) for v in node.operands)

    for first in (*graph.nodes, *builder.nodes):
        stack = [first]
        while stack:
            node = stack[-1]
            if node in order:
                stack.pop()
                continue
            if node not in waiting:
                waiting[node] = [v.node for v in reads(node) if v.node is not None and v.node not in order]
                missing = [n for n in waiting[node] if n not in order]
                if any(n in waiting for n in missing):
                    raise GraphError(f"after the replacement {shown_node(node)} would depend on itself")
                stack += reversed(missing)
                continue
            stack.pop()
            operands = tuple(instead.get(v, v) for v in reads(node))
            same = all(a is b for a, b in zip(operands, node.operands, strict=True))
            order[node] = node if same else _with_operands(node, operands)
            instead.update(zip(node.results, order[node].results, strict=True))
    before = [n for n in graph.nodes if n.effects]
    if [n for n in order if n.effects and n not in fresh] != before:
        raise GraphError(f"after the replacement accesses of states in {graph.name} would change places")
    results = tuple(instead.get(made.get(v, v), made.get(v, v)) for v in graph.results)
    nodes = live(list(order.values()), results)
    return graph.with_(nodes=nodes, results=results, assumed=tuple(builder.env.assumed))


@dataclass(frozen=True)
class PatternMatchingRewriter:
    """Rules that are called on a graph; ``a | b`` has the rules of both, those of ``a`` first.

    >>> import tirlower.graph as tg
    >>> from tirlower.graph.patterns import is_op, wildcard
    >>> x = wildcard()
    >>> undone = PatternMatchingRewriter.from_pattern(is_op("exp")(is_op("log")(x)), lambda m, b: m[x])
    >>> squared = PatternMatchingRewriter.from_pattern(is_op("multiply")(x, x), lambda m, b: b.op("square", m[x]))
    >>> g = tg.trace(lambda x: tg.exp(tg.log(x * x)), tg.spec((4,), "float32"))
    >>> [op.name for op in (undone | squared)(g).ops]
    ['square']
    """

    rules: tuple[RuleLike, ...]
    max_iter: int = 100

    @classmethod
    def from_pattern(cls, pattern: DFPattern, replace: Replace) -> PatternMatchingRewriter:
        """The rule of a pattern and a function."""
        return cls(((pattern, replace),))

    @classmethod
    def from_graphs(cls, before: Graph, after: Graph) -> PatternMatchingRewriter:
        """The rule of two graphs."""
        return cls(((before, after),))

    def __or__(self, other: PatternMatchingRewriter) -> PatternMatchingRewriter:
        return PatternMatchingRewriter((*self.rules, *other.rules), max(self.max_iter, other.max_iter))

    def __call__(self, graph: Graph) -> Graph:
        """The graph after the rules."""
        return rewrite(graph, self.rules, self.max_iter)
