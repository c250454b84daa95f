"""Partitioning: what patterns match becomes composites, each a graph that is exactly one match, called in its place.

Patterns are taken in order: what an earlier one took is closed to later ones. Two systems of the field decide six questions
differently; ``compat="relax"`` and ``compat="relay"`` set all six, a keyword beside it wins (:class:`Conflicts`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, TypeVar, cast

from tirlower.diagnostics import nearest_name
from tirlower.graph.core.analysis import analysis
from tirlower.graph.core.control import Call
from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.passes.base import GraphPass
from tirlower.graph.passes.composites import (
    CODEGEN,
    COMPOSITE,
    GLOBAL_SYMBOL,
    PARTITIONED,
    PRIMITIVE,
    flat_form,
    mapped,
)
from tirlower.graph.passes.grouping import Grouping, Outlined
from tirlower.graph.patterns.fusion import FusionPattern, PatternCheckContext, fusion_pattern
from tirlower.graph.patterns.match import Match, Matcher
from tirlower.graph.patterns.nodes import DFPattern
from tirlower.graph.patterns.subjects import shown_node
from tirlower.ir import Var, structural_equal, structural_hash
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option

__all__ = [
    "Conflicts",
    "ConvertToDataflow",
    "FuseOpsByPattern",
    "MergeComposite",
    "Skipped",
    "partition",
    "partition_pattern",
]

Program = TypeVar("Program", Graph, Module)


@dataclass(frozen=True)
class Conflicts:
    """Six choices.

    - ``escape``: of an interior value that is used outside: ``"tuple"`` one more result, ``"reject"`` no composite;
    - ``scan``: ``"forward"`` from the first node, ``"outputs"`` from the last;
    - ``overlap``: of matches of one pattern: ``"largest"`` a later one takes the place of those that it contains whole,
      ``"first"`` it does not;
    - ``on_cycle``: where grouping would make a cycle: ``"error"``, or ``"skip"``;
    - ``dedup``: whether equal composites are one graph;
    - ``constants``: ``"embed"`` inside, ``"lift"`` as inputs, ``"pattern"`` inside if the pattern says that it is a constant,
      ``"flag"`` as ``bind_constants`` says.
    """

    escape: str = "tuple"
    scan: str = "forward"
    overlap: str = "largest"
    on_cycle: str = "skip"
    dedup: bool = True
    constants: str = "flag"


PRESETS: Final[Mapping[str | None, Conflicts]] = {
    None: Conflicts(),
    "relax": Conflicts(on_cycle="error"),
    "relay": Conflicts("reject", "outputs", "first", "skip", False, "pattern"),
}
CHOICES: Final[Mapping[str, tuple[object, ...]]] = {
    "escape": ("tuple", "reject"),
    "scan": ("forward", "outputs"),
    "overlap": ("largest", "first"),
    "on_cycle": ("error", "skip"),
    "dedup": (True, False),
    "constants": ("flag", "embed", "lift", "pattern"),
}


@dataclass(frozen=True)
class Skipped:
    """A match that did not become a composite, and why."""

    pattern: str
    value: str
    origin: str
    reason: str

    def __str__(self) -> str:
        where = f" ({self.origin})" if self.origin else ""
        return f"{self.pattern} at `{self.value}`{where}: {self.reason}"


def conflicts(compat: str | None, given: Mapping[str, object]) -> Conflicts:
    """The choices of a preset, with those that are given. Raises :class:`GraphError` for others."""
    if compat not in PRESETS:
        raise GraphError(f"compat is 'relax', 'relay' or None, got {compat!r}")
    for name, value in given.items():
        if name not in CHOICES:
            near = nearest_name(name, CHOICES)
            hint = f"did you mean {near!r}?" if near else ", ".join(CHOICES)
            raise GraphError(f"partitioning has no choice {name!r}", help=hint)
        if not any(value is c or (isinstance(c, str) and value == c) for c in CHOICES[name]):
            words = ", ".join(map(repr, CHOICES[name]))
            raise GraphError(f"{name} is one of {words}, got {value!r}")
    chosen = {f.name: given[f.name] for f in fields(Conflicts) if f.name in given}
    return replace(PRESETS[compat], **cast("dict[str, str]", chosen))  # type: ignore[arg-type]


def partition(
    program: Program,
    patterns: Iterable[object],
    compat: str | None = None,
    *,
    bind_constants: bool = True,
    annotate_codegen: bool = False,
    entry_functions: Sequence[str] | None = None,
    skipped: list[Skipped] | None = None,
    **choices: object,
) -> Program:
    """A graph or a module with what patterns match as composites; the same object where nothing does.

    Each composite is a graph, with the attributes ``Composite`` (the pattern's name), ``PartitionedFromPattern`` (its
    operations), ``Primitive``, and those of the pattern's ``attrs_getter``, under a call. Graphs inside nodes are partitioned
    too; ``entry_functions`` says which graphs of a module are. ``annotate_codegen`` puts each composite into one more graph,
    with ``Codegen`` and ``global_symbol``. ``skipped`` gets the matches that could not become composites, with reasons.

    >>> import tirlower.graph as tg
    >>> from tirlower.graph.patterns import is_op, wildcard
    >>> g = tg.trace(lambda x, w: tg.relu(x @ w) + 1, *[tg.spec((4, 4), "float32")] * 2)
    >>> parted = partition(g, [("lib.dense", is_op("relu")(is_op("matmul")(wildcard(), wildcard())))])
    >>> call = parted.nodes[0]
    >>> call.graph.attrs["Composite"], [op.name for op in call.graph.ops], [op.name for op in parted.ops]
    ('lib.dense', ['matmul', 'relu'], ['add'])

    Raises :class:`GraphError` for unknown choices and names, and under ``on_cycle="error"`` for groups that would need each
    other; :class:`ValueError` for what is no pattern.
    """
    wanted = [fusion_pattern(p) for p in patterns]
    chosen = conflicts(compat, choices)
    if chosen.constants == "flag":
        chosen = replace(chosen, constants="embed" if bind_constants else "lift")
    run = _Partition(wanted, chosen, annotate_codegen, [] if skipped is None else skipped)
    if isinstance(program, Graph):
        _known(entry_functions, [program.name])
        return mapped(program, run.graph) if wanted else program
    _known(entry_functions, list(program.graphs))
    if not wanted:
        return program
    names = program.graphs if entry_functions is None else entry_functions
    return program.with_(graphs={n: mapped(g, run.graph) if n in names else g for n, g in program.graphs.items()})


def _known(entry_functions: Sequence[str] | None, names: Sequence[str]) -> None:
    for name in entry_functions or ():
        if name not in names:
            raise GraphError(f"there is no graph {name!r} to partition", help=f"there are {', '.join(names)}")


def partition_pattern(
    pattern: DFPattern,
    graph: Graph,
    attrs: Mapping[str, object] | None = None,
    check: Callable[[PatternCheckContext], bool] | None = None,
) -> Graph:
    """A graph with the matches of one pattern as composites of these attributes, under the preset ``relay``.

    Matches are looked for from the outputs; one of which an interior value is used outside is none.
    """
    run = _Partition([FusionPattern("", pattern, {}, check)], PRESETS["relay"], False, [], attrs or {})
    return mapped(graph, run.graph)


@dataclass(frozen=True)
class _Group:
    pattern: FusionPattern
    match: Match
    annotated: Mapping[str, Value]


class _Partition:
    """One run over graphs that share composites."""

    def __init__(
        self,
        patterns: Sequence[FusionPattern],
        chosen: Conflicts,
        annotate: bool,
        skipped: list[Skipped],
        attrs: Mapping[str, object] | None = None,
    ) -> None:
        self.patterns = patterns
        self.chosen = chosen
        self.annotate = annotate
        self.skipped = skipped
        self.attrs = attrs or {}
        self.known: dict[tuple[int, tuple[Var, ...]], list[Graph]] = {}
        self.flat: dict[Hashable, Graph] = {}
        self.names: dict[str, int] = {}
        self.outer: dict[Graph, Graph] = {}

    def graph(self, graph: Graph) -> Graph:
        """A graph with composites."""
        grouping = Grouping(graph)
        groups: dict[int, _Group] = {}
        for pattern in self.patterns:
            _Scan(self, graph, grouping, groups, pattern).run()
        if not groups:
            return graph
        for number, group in groups.items():  # the invariant: each is exactly one match
            taken = {graph.nodes[n] for n in grouping.members[number]}
            assert taken == {n for n in group.match.nodes if not isinstance(n, Const)}, group.pattern.name
        matched = {n: frozenset(g.match.nodes) for n, g in groups.items()}

        def embedded(number: int, constant: Const) -> bool:
            wanted = self.chosen.constants
            return wanted == "embed" or (wanted == "pattern" and constant in matched[number])

        return grouping.outlined(lambda number, made: self.composite(groups[number], made), embedded)

    def composite(self, group: _Group, made: Outlined) -> Graph:
        """The graph of a group, with its attributes: one that is known already where it is equal."""
        operations = "_".join(n.name for n in group.match.nodes if isinstance(n, Op))
        attrs: dict[str, object] = {PRIMITIVE: True, PARTITIONED: operations, **self.attrs}
        if group.pattern.name:
            attrs[COMPOSITE] = group.pattern.name
        if group.pattern.attrs_getter is not None:
            attrs.update(group.pattern.attrs_getter(group.annotated))
        graph = made.graph.with_attr(attrs)
        return self._annotated(self._shared(graph))

    def _shared(self, graph: Graph) -> Graph:
        if not self.chosen.dedup:
            return self._named(graph)
        form = flat_form(graph)  # several times cheaper than a digest and a comparison
        if form is not None:
            if form not in self.flat:
                self.flat[form] = self._named(graph)
            return self.flat[form]
        # Equal up to the names of dims is not enough: graphs inside others have the dims of those.
        key = structural_hash(graph), tuple(d.var for d in graph.dims)
        several = self.known.setdefault(key, [])
        for one in several:
            if structural_equal(one, graph):
                return one
        several.append(self._named(graph))
        return several[-1]

    def _named(self, graph: Graph) -> Graph:
        count = self.names[graph.name] = self.names.get(graph.name, -1) + 1
        return graph.with_(name=f"{graph.name}_{count}") if count else graph

    def _annotated(self, graph: Graph) -> Graph:
        if not self.annotate:
            return graph
        if graph not in self.outer:
            inside = _call_of(graph)
            backend = str(graph.attrs.get(COMPOSITE, "")).split(".")[0]
            symbol = f"{graph.name}_{backend}"
            self.outer[graph] = inside.with_(name=symbol).with_attr({CODEGEN: backend, GLOBAL_SYMBOL: symbol})
        return self.outer[graph]


def _call_of(graph: Graph) -> Graph:
    """A graph that calls a graph on its own parameters."""
    params = [Value.of(v.type, v.name) for v in graph.params]
    fresh = [Value.of(v.type, v.name) for v in graph.results]
    call = Call(tuple(fresh), graph, tuple(params))
    return Graph(graph.name, graph.dims, tuple(params), (call,), tuple(fresh), (), graph.structure)


class _Scan:
    """The search for the matches of one pattern in one graph."""

    def __init__(
        self,
        run: _Partition,
        graph: Graph,
        grouping: Grouping,
        groups: dict[int, _Group],
        pattern: FusionPattern,
    ) -> None:
        self.chosen = run.chosen
        self.skipped = run.skipped
        self.graph = graph
        self.known = analysis(graph)
        self.grouping = grouping
        self.groups = groups
        self.pattern = pattern
        self.closed = frozenset(n for g in grouping.members.values() for n in g)
        self.matcher = Matcher(graph, closed=frozenset(graph.nodes[n] for n in self.closed))

    def run(self) -> None:
        """Group all matches."""
        places: Iterable[int] = range(len(self.graph.nodes))
        if self.chosen.scan == "outputs":
            places = reversed(range(len(self.graph.nodes)))
        for n in places:
            node = self.graph.nodes[n]
            if not isinstance(node, Const) and n not in self.closed:
                self._at(node)

    def _at(self, node: GraphNode) -> None:
        """Group the first acceptable match at a node."""
        reasons: dict[str, None] = {}
        for match in self._matches(node):
            annotated = PatternCheckContext(self.graph, match, self.pattern.annotation_patterns)
            members = frozenset(self.known.index[n] for n in match.nodes if not isinstance(n, Const))
            if not members:
                continue
            contained = self._contained(members)
            if contained is None:
                continue
            why = self._refused(match, members)
            if why is None and self.pattern.check is not None and not self.pattern.check(annotated):
                continue
            why = why or self._cycle(match, members)
            if why is not None:
                reasons[why] = None
                continue
            for group in contained:
                self.grouping.remove(group)
                del self.groups[group]
            group = self.grouping.add(members)
            self.groups[group] = _Group(self.pattern, match, annotated.annotated)
            return
        value = node.results[0].name if node.results else ""
        self.skipped += [Skipped(self.pattern.name, value, node.origin, why) for why in reasons]

    def _matches(self, node: GraphNode) -> Iterator[Match]:
        seen: set[frozenset[GraphNode]] = set()
        for value in node.results:
            for match in self.matcher.matches(self.pattern.pattern, value):
                nodes = frozenset(match.nodes)
                if self.pattern.check is None and nodes in seen:
                    continue  # without a check, nothing tells it from the one before
                seen.add(nodes)
                yield match

    def _contained(self, members: frozenset[int]) -> Sequence[int] | None:
        """The groups whose place a match may take; None where it may not."""
        several = self.grouping.overlapping(members)
        if not several:
            return several
        whole = all(self.grouping.members[g] < members for g in several)
        return several if self.chosen.overlap == "largest" and whole else None

    def _refused(self, match: Match, members: frozenset[int]) -> str | None:
        for node in match.nodes:
            if node.effects:
                return f"{shown_node(node)} has an effect"
        if self.chosen.escape == "reject":
            root = match.value.node
            for node in match.nodes:
                if node is root or isinstance(node, Const):
                    continue
                for value in node.results:
                    users = [user for user, _ in self.known.users(value) if self.known.index[user] not in members]
                    if users or self.known.is_result(value):
                        where = f"by {shown_node(users[0])}" if users else "as a result"
                        return f"`{value.name}` is used outside, {where}"
        return None

    def _cycle(self, match: Match, members: frozenset[int]) -> str | None:
        path = self.grouping.way_back(members)
        if path is None:
            return None
        names = [self._group_name(self.grouping.owner[n]) for n in path if self.grouping.owner[n] is not None]
        through = f" (through {', '.join(dict.fromkeys(names))})" if names else ""
        steps = " -> ".join(shown_node(self.graph.nodes[n]) for n in path)
        why = f"grouping would make a cycle: {steps}{through}"
        if self.chosen.on_cycle == "error":
            raise GraphError(
                f"{self.pattern.name} at `{match.value.name}`: {why}", help="on_cycle='skip' leaves such a match alone"
            )
        return why

    def _group_name(self, group: int | None) -> str:
        return self.groups[group].pattern.name if group is not None else ""


def _chosen(pass_: GraphPass) -> Mapping[str, str]:
    """The choices that a pass was given."""
    given = {name: getattr(pass_, name) for name in CHOICES}
    return {name: value for name, value in given.items() if value is not None}


class FuseOpsByPattern(GraphPass):
    """Put what patterns match into composites, each a graph of its own under a call.

    ``patterns`` is a list of :class:`~tirlower.graph.patterns.fusion.FusionPattern` or tuples; its order is priority.

    >>> import tirlower.graph as tg
    >>> from tirlower.graph.patterns import is_op, wildcard
    >>> g = tg.trace(lambda x: tg.relu(tg.exp(x)), tg.spec((4,), "float32"))
    >>> fused = FuseOpsByPattern([("lib.relu", is_op("relu")(is_op("exp")(wildcard())))])(g)
    >>> fused.nodes[0].graph.attrs["Composite"]
    'lib.relu'
    """

    name = "graph.FuseOpsByPattern"
    patterns: object = option(default=(), kw_only=False)
    bind_constants: bool = option(default=True, kw_only=False)
    annotate_codegen: bool = option(default=False, kw_only=False)
    entry_functions: object = option(default=None, kw_only=False)
    compat: str | None = None
    escape: str | None = None
    scan: str | None = None
    overlap: str | None = None
    on_cycle: str | None = None
    dedup: bool | None = None
    constants: str | None = None

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph with composites."""
        return partition(
            graph,
            cast("Iterable[object]", self.patterns),
            self.compat,
            bind_constants=self.bind_constants,
            annotate_codegen=self.annotate_codegen,
            entry_functions=cast("Sequence[str] | None", self.entry_functions),
            skipped=None,
            **_chosen(self),
        )


class MergeComposite(GraphPass):
    """Put what a table of patterns matches into composites, looking from the outputs: ``(name, pattern[, check])`` in order.

    >>> import tirlower.graph as tg
    >>> from tirlower.graph.patterns import is_op, wildcard
    >>> g = tg.trace(lambda x: tg.relu(tg.exp(x)), tg.spec((4,), "float32"))
    >>> merged = MergeComposite([("lib.relu", is_op("relu")(is_op("exp")(wildcard())))])(g)
    >>> merged.nodes[0].graph.attrs["PartitionedFromPattern"]
    'exp_relu'
    """

    name = "graph.MergeComposite"
    table: object = option(default=(), kw_only=False)
    escape: str | None = None
    scan: str | None = None
    overlap: str | None = None
    on_cycle: str | None = None
    dedup: bool | None = None
    constants: str | None = None

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The graph with composites."""
        table = cast("Iterable[object]", self.table)
        return partition(
            graph,
            table,
            "relay",
            bind_constants=True,
            annotate_codegen=False,
            entry_functions=None,
            skipped=None,
            **_chosen(self),
        )


class ConvertToDataflow(GraphPass):
    """Leave a graph as it is: all of it is pure, and no part has to be marked so. ``min_size`` means nothing.

    >>> import tirlower.graph as tg
    >>> print(ConvertToDataflow()(tg.parse('''
    ... @tg.graph
    ... def f(x: tg.Tensor((4,), "float32")):
    ...     y: tg.Tensor((4,), "float32") = tg.exp(x)
    ...     return y
    ... ''')))
    @tg.graph
    def f(x: tg.Tensor((4,), "float32")):
        y: tg.Tensor((4,), "float32") = tg.exp(x)
        return y
    """

    name = "graph.ConvertToDataflow"
    min_size: int = option(default=2, kw_only=False)

    def transform(self, graph: Graph, ctx: PassContext) -> Graph:
        """The same graph."""
        return graph
