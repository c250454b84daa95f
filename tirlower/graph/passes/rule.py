"""Rules of rewriting: a pattern, and what is made of a match of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tirlower.graph.core.nodes import Const, Graph, Op, Value
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.patterns.from_graph import patterns_of
from tirlower.graph.patterns.match import Match
from tirlower.graph.patterns.nodes import DFPattern

__all__ = ["DFPatternCallback", "Replace", "Rule", "RuleLike", "rule_of"]

Replace: TypeAlias = "Callable[[Match, GraphBuilder], Value | Sequence[Value] | None]"
"""What stands for the value of a match, or for all results of its node; None, or the value itself: try the next way."""


@dataclass(frozen=True)
class Rule:
    """A pattern, and what is made of a match of it. ``once`` rules apply once to each value that was there before.

    ``numerics`` is what it may do to numbers: passes leave out rules that a policy does not admit.
    """

    pattern: DFPattern
    replace: Replace = field(repr=False)
    name: str = "rule"
    numerics: Numerics = Numerics.EXACT
    once: bool = False


RuleLike: TypeAlias = "Rule | DFPatternCallback | tuple[Graph, Graph] | tuple[DFPattern, Replace]"
"""What rewriting takes as a rule."""


class DFPatternCallback:
    """A rule as a class: ``pattern``, and ``callback``, which makes a value for a match, or None.

    ``rewrite_once`` applies it once to each value that was there before. ``require_type`` asks for nothing: all values of a
    graph have types.

    >>> import tirlower.graph as tg
    >>> from tirlower.graph.passes.rewrite import rewrite
    >>> from tirlower.graph.patterns import is_op, wildcard
    >>> class Square(DFPatternCallback):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.x = wildcard()
    ...         self.pattern = is_op("multiply")(self.x, self.x)
    ...     def callback(self, value, match, builder):
    ...         return builder.op("square", match[self.x])
    >>> g = tg.trace(lambda x: x * x, tg.spec((4,), "float32"))
    >>> [op.name for op in rewrite(g, Square()).ops]
    ['square']
    """

    pattern: DFPattern

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.require_type = require_type
        self.rewrite_once = rewrite_once

    def callback(self, value: Value, match: Match, builder: GraphBuilder) -> Value | Sequence[Value] | None:
        """What stands for the value that is matched; None to leave this match alone."""
        raise GraphError(
            f"{type(self).__name__} says not what stands for a match",
            help="define callback(self, value, match, builder)",
        )


def rule_of(given: RuleLike) -> Rule:
    """A rule from what rewriting takes as one. Raises :class:`GraphError` for what is none."""
    if isinstance(given, Rule):
        return given
    if isinstance(given, DFPatternCallback):
        made = given.callback
        return Rule(given.pattern, lambda m, b: made(m.value, m, b), type(given).__name__, once=given.rewrite_once)
    if isinstance(given, tuple) and len(given) == 2:
        before, after = given
        if isinstance(before, Graph) and isinstance(after, Graph):
            return _of_graphs(before, after)
        if isinstance(before, DFPattern) and callable(after) and not isinstance(after, Graph):
            return Rule(before, after, getattr(after, "__name__", "rule"))
    raise GraphError(
        f"this is no rule: {given!r}", help="two graphs, or a pattern and a function of a match and a builder"
    )


def _of_graphs(before: Graph, after: Graph) -> Rule:
    """The rule that what one graph computes is computed by another of the same parameters."""
    if len(before.params) != len(after.params) or len(before.results) != 1 or len(after.results) != 1:
        raise GraphError(
            f"the graphs of a rule take the same inputs and give one result: {before.name} has {len(before.params)} and"
            f" {len(before.results)}, {after.name} {len(after.params)} and {len(after.results)}"
        )
    patterns = patterns_of(before, attrs=True)
    pattern = patterns[before.results[0]]

    def replace(match: Match, builder: GraphBuilder) -> Value | None:
        new = {
            made: match[patterns[param]]
            for made, param in zip(after.params, before.params, strict=True)
            if patterns[param] in match
        }
        if any(v not in new for n in after.nodes for v in n.operands if v.node is None):
            raise GraphError(f"{after.name} reads an input that {before.name} does not")
        for node in after.nodes:
            if isinstance(node, Const):
                new[node.results[0]] = builder.const(node.data, node.results[0].name)
            elif isinstance(node, Op):
                made = _same_op(builder, node, [new[v] for v in node.inputs])
                if made is None:
                    return None
                new.update(zip(node.results, made, strict=True))
            else:
                raise GraphError(f"the graph of a rule has operations alone, got {type(node).__name__}")
        value = new[after.results[0]]
        same = builder.env.equal_types(value, match.value)
        return value if same else None

    return Rule(pattern, replace, f"{before.name} -> {after.name}")


def _same_op(builder: GraphBuilder, node: Op, inputs: Sequence[Value]) -> Sequence[Value] | None:
    """The operation of a node on other inputs; None where it is not defined on them."""
    args: list[object] = []
    rest = list(inputs)
    for group in node.groups:
        if group is None:
            args.append(None)
        elif group == -1:
            args.append(rest.pop(0))
        else:
            args.append(rest[:group])
            del rest[:group]
    try:
        return builder.ops(node.name, *args, **node.attrs)
    except GraphError:  # on tensors of these types the right side says nothing: the rule does not apply
        return None
