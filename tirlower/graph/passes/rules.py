"""Rules on operations: each says when it applies, what it may do to numbers, and shows both by examples.

A rule looks at an operation and at what makes its operands, and gives the value that stands for its result. What it gives
must be of the same type, or the rule does not apply: that is checked once, for all rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tirlower.graph.core.analysis import analysis
from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder, rewritten
from tirlower.graph.passes.liveness import live

__all__ = ["Rule", "RuleSet", "Site", "apply_rules", "rule_table"]

_STEPS = 64
"""How often rules may apply to one operation in a row: more is a cycle of rules."""


class Site:
    """An operation that rules look at, in the graph under construction."""

    def __init__(self, builder: GraphBuilder, env: DimEnv, graph: Graph, op: Op, inputs: tuple[Value, ...]) -> None:
        self.builder = builder
        self.env = env
        """The dims, and nothing that was assumed of them."""
        self.graph = graph
        self.op = op
        self.inputs = inputs

    @property
    def result(self) -> Value:
        """Its first result, as it was."""
        return self.op.results[0]

    def made_by(self, value: Value, *names: str) -> Op | None:
        """The operation of one of these names that makes a value."""
        node = value.node
        return node if isinstance(node, Op) and node.name in names else None

    def constant(self, value: Value) -> ConstantData | None:
        """What a value is, if it is a constant."""
        return value.node.data if isinstance(value.node, Const) else None

    def number(self, value: Value) -> bool | int | float | None:
        """The number that all elements of a value are, if it is a constant one."""
        data = self.constant(value)
        return None if data is None else data.value

    def once(self, n: int) -> bool:
        """Whether operand ``n`` is used here alone."""
        known = analysis(self.graph)
        return n < len(self.op.inputs) and known.uses(self.op.inputs[n]) <= 1


Rewriting = Callable[[Site], "Value | Sequence[Value] | None"]


@dataclass(frozen=True)
class Rule:
    """A rule: the operations at which it starts, its class, its examples, and the function that applies it.

    ``before`` becomes ``after``; ``refused`` stays as it is. The examples are graphs' texts without the decorator.
    """

    name: str
    roots: tuple[str, ...]
    apply: Rewriting
    before: str
    after: str
    refused: str
    numerics: Numerics = Numerics.EXACT
    doc: str = ""


@dataclass
class RuleSet:
    """Rules in the order in which they are tried, by the operation at which they start."""

    rules: list[Rule] = field(default_factory=list)

    def __call__(
        self, *roots: str, before: str, after: str, refused: str, numerics: Numerics = Numerics.EXACT
    ) -> Callable[[Rewriting], Rule]:
        """A decorator that makes a rule of a function, whose name and docstring it takes."""

        def made(function: Rewriting) -> Rule:
            name = getattr(function, "__name__", "rule")
            found = Rule(name, roots, function, before, after, refused, numerics, function.__doc__ or "")
            self.rules.append(found)
            return found

        return made


def rule_table(rules: Iterable[Rule], policy: Numerics) -> Mapping[str, Sequence[Rule]]:
    """The rules that a policy admits, by the operation at which they start."""
    table: dict[str, list[Rule]] = {}
    for one in rules:
        if one.numerics <= policy:
            for name in one.roots:
                table.setdefault(name, []).append(one)
    return table


def apply_rules(graph: Graph, table: Mapping[str, Sequence[Rule]]) -> Graph:
    """The graph after one sweep, the operands of each operation first; the same object where no rule applies.

    Raises :class:`GraphError` where rules undo one another.
    """
    env = DimEnv(graph.dims)

    def visit(builder: GraphBuilder, node: GraphNode, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not isinstance(node, Op) or node.name not in table:
            return None
        at, inputs, found = node, operands, None
        for _ in range(_STEPS):
            made = _first(Site(builder, env, graph, at, inputs), table.get(at.name, ()), node)
            if made is None:
                return found
            found = made
            again = made[0].node
            if len(made) != 1 or not isinstance(again, Op) or again not in builder.nodes[-8:]:
                return found
            at, inputs = again, again.inputs
        raise GraphError(
            f"rules on {node.name} undo one another: {at!r} came after {_STEPS} steps",
            notes=[f"at {node.origin}"] if node.origin else [],
        )

    after = rewritten(graph, visit)
    return after if after is graph else after.with_(nodes=live(after.nodes, after.results))


def _first(site: Site, rules: Sequence[Rule], root: Op) -> Sequence[Value] | None:
    """What the first rule that applies gives."""
    builder = site.builder
    for one in rules:
        nodes, assumed = len(builder.nodes), len(builder.env.assumed)
        made = one.apply(site)
        if made is None:
            continue
        several = (made,) if isinstance(made, Value) else tuple(made)
        fits = len(several) == len(root.results) and all(map(site.env.equal_types, several, root.results))
        if fits and len(builder.env.assumed) == assumed:
            return several
        # It would be of another type, or need something of the dims that was not needed before.
        del builder.nodes[nodes:], builder.env.assumed[assumed:]
    return None
