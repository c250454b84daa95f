"""Matching: whether a pattern fits a value, and in which ways.

What a pattern asks of a value is said once, by :meth:`Matcher.expand`: the ways in which the value can have the form, each
a list of smaller questions. Two things are made of it. ``fits`` answers every question by itself, once for each pattern and
value: what it denies cannot be matched, whatever else stands in the pattern. ``solutions`` goes through the ways in order,
with one value for one pattern object, and goes back to the next way wherever it comes to no end: nothing is missed.

Both keep their own stacks: neither the depth of a graph nor that of a pattern is a depth of Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, cast

from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.patterns.nodes import (
    AndPattern,
    CallPattern,
    ConstantPattern,
    Constrained,
    DataflowVarPattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    NotPattern,
    OrPattern,
    SameShapePattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    VarPattern,
    WildcardPattern,
)
from tirlower.graph.patterns.subjects import Subject, attributes, equal_shapes, node_of, shown

__all__ = ["Goal", "Match", "Matcher", "Way", "same_shape"]

Goal: TypeAlias = tuple[DFPattern, Subject]
"""A question: does this pattern fit this value?"""
Bound: TypeAlias = Mapping[DFPattern, Subject]
"""The values that patterns stand for."""


class Way(NamedTuple):
    """One way in which a value can have a form: the questions that are left, and the nodes that this takes."""

    goals: tuple[Goal, ...] = ()
    covers: tuple[GraphNode, ...] = ()


YES: tuple[Way, ...] = (Way(),)
NO: tuple[Way, ...] = ()


@dataclass(frozen=True, eq=False)
class Match:
    """How a pattern matches a value: ``match[p]`` is the value that a part of it stands for.

    ``nodes`` are the nodes that the pattern names, in an order in which they can run; what only a wildcard matches is among
    ``inputs``, in the order of its first use.
    """

    pattern: DFPattern
    value: Value
    bindings: Bound = field(repr=False)
    nodes: tuple[GraphNode, ...]

    def __getitem__(self, pattern: DFPattern) -> Value:
        subject = self._subject(pattern)
        if isinstance(subject, tuple):
            raise GraphError(f"the pattern stands for {len(subject)} values", help="match.group(pattern) has them all")
        return subject

    def __contains__(self, pattern: object) -> bool:
        return pattern in self.bindings

    def group(self, pattern: DFPattern) -> tuple[Value, ...]:
        """The values that a part of the pattern stands for: the operands of a variadic parameter, the results of a node."""
        subject = self._subject(pattern)
        return subject if isinstance(subject, tuple) else (subject,)

    def _subject(self, pattern: DFPattern) -> Subject:
        if pattern not in self.bindings:
            raise GraphError(
                f"the pattern of {pattern.wanted} stands for nothing in this match",
                help="an arm of `|` or `optional` that was not taken: ask `p in match`",
            )
        return self.bindings[pattern]

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The values that the nodes of the match read and do not make."""
        own = set(self.nodes)
        if not own:
            return (self.value,)
        return tuple(dict.fromkeys(v for n in self.nodes for v in n.operands if v.node not in own))


class Matcher:
    """Matches patterns on the values of a graph, and remembers what it found out.

    Nodes in ``closed`` are never part of a match. ``limit`` is the number of steps after which a match, or a search for the
    next one, is given up with a :class:`GraphError`.
    """

    def __init__(
        self, graph: Graph | None = None, limit: int = 1_000_000, closed: Collection[GraphNode] = frozenset()
    ) -> None:
        self.env = DimEnv(graph.dims if graph is not None else ())
        self.limit = limit
        self.closed = closed
        self.conflict: tuple[int, DFPattern, Subject, Subject] | None = None
        """Where the longest attempt of the last match ended, if it ended because one pattern stood for two values."""
        self._steps = 0
        self._fits: dict[Goal, bool] = {}
        self._alone: dict[Goal, tuple[GraphNode, ...] | None] = {}
        self._shapes: dict[DFPattern, tuple[SameShapePattern, ...]] = {}
        self._operands: dict[CallPattern, TuplePattern] = {}
        self._rest: dict[tuple[TuplePattern, int], TuplePattern] = {}
        self._ways: Mapping[type[DFPattern], object] = {
            WildcardPattern: self._wildcard,
            VarPattern: self._var,
            DataflowVarPattern: self._made,
            ExprPattern: self._expr,
            ConstantPattern: self._constant,
            ShapePattern: self._shape,
            CallPattern: self._call,
            TuplePattern: self._tuple,
            TupleGetItemPattern: self._item,
            OrPattern: self._or,
            AndPattern: self._and,
            NotPattern: self._not,
            Constrained: self._constrained,
            SameShapePattern: self._same_shape,
            DominatorPattern: self._dominator,
        }

    # Matching

    def matches(self, pattern: DFPattern, value: Value) -> Iterator[Match]:
        """All ways in which a pattern matches a value. Raises :class:`GraphError` after too many steps."""
        self.conflict = None
        for subject in subjects(value):
            self._steps = 0
            for bound, nodes in self.solutions([(pattern, subject)]):
                yield Match(pattern, value, bound, nodes)
                self._steps = 0

    def fits(self, pattern: DFPattern, subject: Subject) -> bool:
        """Whether each part of a pattern, by itself, fits: where not, nothing matches."""
        asked = (pattern, subject)
        known = self._fits.get(asked)
        if known is not None:
            return known
        answer = False
        stack = [(asked, self._questions(asked))]
        value: bool | None = None
        while stack:
            goal, questions = stack[-1]
            try:
                wanted = next(questions) if value is None else questions.send(value)
            except StopIteration as done:
                stack.pop()
                answer = value = self._fits[goal] = bool(done.value)
                continue
            value = self._fits.get(wanted)
            if value is None:
                stack.append((wanted, self._questions(wanted)))
        return answer

    def _questions(self, goal: Goal) -> Generator[Goal, bool, bool]:
        """The questions on which the answer to one depends; each is answered where it is asked."""
        self.step(goal)
        for way in self.expand(*goal):
            for one in way.goals:
                if not (yield one):
                    break
            else:
                return True
        return False

    def step(self, goal: Goal) -> None:
        """Count a step. Raises :class:`GraphError` where there were too many."""
        self._steps += 1
        if self._steps > self.limit:
            raise GraphError(
                f"the match of {goal[0].wanted} at {shown(goal[1])} was given up after {self.limit} steps",
                help="a pattern of fewer alternatives: unordered tuples, and objects that many operands share, have many",
            )

    def solutions(
        self, goals: Sequence[Goal], bound: Bound | None = None
    ) -> Iterator[tuple[Bound, tuple[GraphNode, ...]]]:
        """The ways to answer some questions together: what each pattern stands for, and the nodes that are taken."""
        search = _Search(self, goals, bound or {})
        same = [s for pattern, _ in goals for s in self._same_shapes(pattern)]
        for known, covered in search.run():
            if all(same_shape([known[p] for p in s.parts if p in known], self.env) for s in same):
                yield known, in_order(covered)

    def alone(self, pattern: DFPattern, subject: Subject) -> tuple[GraphNode, ...] | None:
        """The nodes that a pattern takes where it matches by itself, whatever stands around it; None where it does not."""
        goal = (pattern, subject)
        if goal not in self._alone:
            found = next(self.solutions([goal]), None) if self.fits(pattern, subject) else None
            self._alone[goal] = None if found is None else found[1]
        return self._alone[goal]

    def _same_shapes(self, pattern: DFPattern) -> tuple[SameShapePattern, ...]:
        if pattern not in self._shapes:
            self._shapes[pattern] = tuple(p for p in parts_of(pattern) if isinstance(p, SameShapePattern))
        return self._shapes[pattern]

    # What patterns ask

    def expand(self, pattern: DFPattern, subject: Subject) -> Sequence[Way]:
        """The ways in which a subject can have the form of a pattern; none where its head is another."""
        ways = cast("Callable[[DFPattern, Subject], Sequence[Way]]", self._ways[type(pattern)])
        return ways(pattern, subject)

    def _wildcard(self, pattern: WildcardPattern, subject: Subject) -> Sequence[Way]:
        return YES

    def _var(self, pattern: VarPattern, subject: Subject) -> Sequence[Way]:
        is_input = isinstance(subject, Value) and subject.node is None and pattern.name in (None, subject.name)
        return YES if is_input else NO

    def _made(self, pattern: DataflowVarPattern, subject: Subject) -> Sequence[Way]:
        node = subject.node if isinstance(subject, Value) else node_of(subject)
        return NO if node is None or isinstance(node, Const) else YES

    def _expr(self, pattern: ExprPattern, subject: Subject) -> Sequence[Way]:
        return YES if subject is pattern.value else NO

    def _constant(self, pattern: ConstantPattern, subject: Subject) -> Sequence[Way]:
        node = node_of(subject)
        return (Way((), (node,)),) if isinstance(node, Const) and pattern.holds(node.data) else NO

    def _shape(self, pattern: ShapePattern, subject: Subject) -> Sequence[Way]:
        has = isinstance(subject, Value) and equal_shapes(pattern.shape, subject.shape, self.env)
        return YES if has else NO

    def _call(self, pattern: CallPattern, subject: Subject) -> Sequence[Way]:
        node = node_of(subject)
        if node is None or not pattern.accepts(node) or node in self.closed:
            return NO
        if pattern.shape is not None:
            shape = attributes(node).get("shape")
            if not isinstance(shape, tuple) or not equal_shapes(pattern.shape, shape, self.env):
                return NO
        inside: tuple[Goal, ...] = ()
        if pattern.inside is not None:
            called = node.graphs[0]
            params, results = pattern.inside
            if len(params) != len(called.params) or len(results) != len(called.results):
                return NO
            inside = tuple(zip((*params, *results), (*called.params, *called.results), strict=True))
        if pattern.args is None:
            return (Way(inside, (node,)),)
        if pattern.associative:
            return self._chain(pattern, node)
        slots = slots_of(node)
        orders = [slots, slots[::-1]] if pattern.commutative and len(slots) == 2 else [slots]
        ways = dict.fromkeys(goals for order in orders for goals in _aligned(pattern, order))
        return [Way((*goals, *inside), (node,)) for goals in ways]

    def _chain(self, pattern: CallPattern, root: GraphNode) -> Sequence[Way]:
        """The ways in which operands of a chain of nodes are as many as the arguments."""
        args = pattern.args or ()
        fields = self._operands.get(pattern)
        if fields is None:
            given = tuple(arg for arg in args if arg is not None)
            fields = self._operands[pattern] = TuplePattern(given, unordered=pattern.commutative)
        kind = root.results[0].dtype
        ways: dict[Way, None] = {}
        # What is an operand already, what is one or is opened, and the nodes that are opened.
        stack: list[tuple[tuple[Value, ...], tuple[Value, ...], tuple[GraphNode, ...]]] = [((), root.operands, (root,))]
        while stack:
            taken, open_, nodes = stack.pop()
            self.step((pattern, root.results[0]))
            if not open_:
                if len(taken) == len(args):
                    ways[Way(((fields, taken),), nodes)] = None
                continue
            first, rest = open_[0], open_[1:]
            node = first.node
            spare = len(args) - len(taken) - len(open_)
            if (
                spare > 0
                and node is not None
                and node not in self.closed
                and pattern.accepts(node)
                and first.dtype == kind
            ):
                stack.append((taken, (*node.operands, *rest), (*nodes, node)))
            stack.append(((*taken, first), rest, nodes))
        return tuple(ways)

    def _tuple(self, pattern: TuplePattern, subject: Subject) -> Sequence[Way]:
        if not isinstance(subject, tuple):
            return NO
        fields = pattern.fields
        if fields is None:
            return YES
        if len(fields) != len(subject):
            return NO
        if not pattern.unordered or len(fields) < 2:
            return (Way(tuple(zip(fields, subject, strict=True))),)
        key = pattern, len(fields)
        rest = self._rest.setdefault(key, TuplePattern(fields[1:], unordered=True))
        choices = dict.fromkeys((value, (*subject[:n], *subject[n + 1 :])) for n, value in enumerate(subject))
        return [Way(((fields[0], value), (rest, others))) for value, others in choices]

    def _item(self, pattern: TupleGetItemPattern, subject: Subject) -> Sequence[Way]:
        if not isinstance(subject, Value) or subject.node is None or pattern.index not in (None, subject.index):
            return NO
        whole = subject.node.results
        return (Way(((pattern.pattern, whole if len(whole) > 1 else subject),)),)

    def _or(self, pattern: OrPattern, subject: Subject) -> Sequence[Way]:
        return Way(((pattern.left, subject),)), Way(((pattern.right, subject),))

    def _and(self, pattern: AndPattern, subject: Subject) -> Sequence[Way]:
        return (Way(((pattern.left, subject), (pattern.right, subject))),)

    def _not(self, pattern: NotPattern, subject: Subject) -> Sequence[Way]:
        return YES if self.alone(pattern.pattern, subject) is None else NO

    def _constrained(self, pattern: Constrained, subject: Subject) -> Sequence[Way]:
        return (Way(((pattern.pattern, subject),)),) if pattern.test(subject, self.env) is None else NO

    def _same_shape(self, pattern: SameShapePattern, subject: Subject) -> Sequence[Way]:
        return (Way(((pattern.pattern, subject),)),)

    def _dominator(self, pattern: DominatorPattern, subject: Subject) -> Sequence[Way]:
        node = node_of(subject)
        if node is None:
            return NO
        met, _ = self._upwards(pattern.path, node, None)
        ways = []
        for value in met:
            for top in subjects(value):
                if self.fits(pattern.parent, top):
                    ends, covered = self._upwards(pattern.path, node, value)
                    if list(ends) == [value]:
                        ways.append(Way(((pattern.child, subject), (pattern.parent, top)), covered))
        return ways

    def _upwards(
        self, path: DFPattern, start: GraphNode, stop: Value | None
    ) -> tuple[Mapping[Value, None], tuple[GraphNode, ...]]:
        """Go up from a node through what a path matches.

        Gives the values at which the ways end (all that are met, where ``stop`` is None), and the nodes on them. Results of
        the node of ``stop`` are where ways stop.
        """
        ends: dict[Value, None] = {}
        covered: dict[GraphNode, None] = {}
        seen: set[Value] = set()
        queue = list(start.operands)
        for value in queue:
            if value in seen:
                continue
            seen.add(value)
            self.step((path, value))
            if isinstance(value.node, Const):
                continue
            nodes = None if value is stop else self._on_path(path, value)
            if nodes is None or stop is None:
                ends[value] = None
            if nodes is not None and value.node is not None:
                covered.update(dict.fromkeys(nodes))
                queue += value.node.operands
        return ends, tuple(covered)

    def _on_path(self, path: DFPattern, value: Value) -> tuple[GraphNode, ...] | None:
        if value.node is None:
            return None
        found = (self.alone(path, subject) for subject in subjects(value))
        return next((nodes for nodes in found if nodes is not None), None)


class _Search:
    """The search for all ways to answer some questions together, with one value for one pattern."""

    def __init__(self, matcher: Matcher, goals: Sequence[Goal], bound: Bound) -> None:
        self.matcher = matcher
        self.bound: dict[DFPattern, Subject] = dict(bound)
        self.trail: list[DFPattern] = []
        """The patterns in the order in which they got their values."""
        self.covered: list[GraphNode] = []
        self.choices: list[tuple[Iterator[Way], _Goals, int, int]] = []
        self.first = _pushed(goals, None)

    def run(self) -> Iterator[tuple[Bound, Sequence[GraphNode]]]:
        """What the patterns stand for, and the nodes that are taken, for each way."""
        goals: _Goals | None = self.first
        failed = False
        while True:
            if failed:
                if not self.choices:
                    return
                ways, rest, bindings, nodes = self.choices.pop()
                for pattern in self.trail[bindings:]:
                    del self.bound[pattern]
                del self.trail[bindings:]
                del self.covered[nodes:]
            elif goals is None:
                yield dict(self.bound), tuple(self.covered)
                failed = True
                continue
            else:
                (pattern, subject), rest = goals
                self.matcher.step((pattern, subject))
                if pattern in self.bound:
                    known = self.bound[pattern]
                    failed = known != subject
                    if failed:
                        self._conflict(pattern, known, subject)
                    goals = rest
                    continue
                if not self.matcher.fits(pattern, subject):
                    failed = True
                    continue
                self.bound[pattern] = subject
                self.trail.append(pattern)
                ways = iter(self.matcher.expand(pattern, subject))
            way = next(ways, None)
            failed = way is None
            if way is not None:
                self.choices.append((ways, rest, len(self.trail), len(self.covered)))
                self.covered += way.covers
                goals = _pushed(way.goals, rest)

    def _conflict(self, pattern: DFPattern, known: Subject, subject: Subject) -> None:
        before = self.matcher.conflict
        if before is None or len(self.trail) > before[0]:
            self.matcher.conflict = len(self.trail), pattern, known, subject


_Goals: TypeAlias = "tuple[Goal, _Goals | None] | None"
"""Questions that are open, the next one first."""


def _pushed(goals: Sequence[Goal], rest: _Goals) -> _Goals:
    for goal in reversed(goals):
        rest = (goal, rest)
    return rest


def subjects(value: Value) -> Sequence[Subject]:
    """What a pattern may be asked about at a value: the value, and the node where it has several results."""
    node = value.node
    return (value,) if node is None or len(node.results) == 1 else (value, node.results)


def slots_of(node: GraphNode) -> list[Subject | None]:
    """What each parameter of a node got; None for one that was left out."""
    if not isinstance(node, Op):
        return list(node.operands)
    slots: list[Subject | None] = []
    at = 0
    for group in node.groups:
        count = abs(group or 0)
        taken = node.inputs[at : at + count]
        at += count
        slots.append(None if group is None else taken[0] if group == -1 else taken)
    return slots


def _aligned(pattern: CallPattern, slots: Sequence[Subject | None]) -> Iterator[tuple[Goal, ...]]:
    """The questions that arguments ask of operands: parameter by parameter, then with the variadic one taken apart."""
    forms = [slots]
    if slots and isinstance(slots[-1], tuple):
        forms.append([*slots[:-1], *slots[-1]])
    args = pattern.args or ()
    for form in forms:
        beyond = form[len(args) :]
        if not pattern.varg_default_wildcard and any(slot is not None for slot in beyond):
            continue
        given = [*form, *[None] * (len(args) - len(form))]
        pairs = list(zip(args, given, strict=False))
        if all((arg is None) == (slot is None) for arg, slot in pairs):
            yield tuple((arg, slot) for arg, slot in pairs if arg is not None and slot is not None)


def parts_of(pattern: DFPattern) -> Iterable[DFPattern]:
    """A pattern and all that it is made of, each once."""
    met = {pattern: None}
    queue = [pattern]
    for one in queue:
        for part in one.parts:
            if part not in met:
                met[part] = None
                queue.append(part)
    return met


def same_shape(subjects: Sequence[Subject], env: DimEnv) -> bool:
    """Whether values have one shape, provably."""
    shapes = [s.shape for s in subjects if isinstance(s, Value)]
    if len(shapes) != len(subjects):
        return False
    return all(equal_shapes(shapes[0], shape, env) for shape in shapes[1:])


def in_order(nodes: Iterable[GraphNode]) -> tuple[GraphNode, ...]:
    """Nodes in an order in which they can run, which depends on their operands alone."""
    own = dict.fromkeys(nodes)
    done: dict[GraphNode, None] = {}
    for first in own:
        stack = [first]
        while stack:
            node = stack[-1]
            missing = [v.node for v in node.operands if v.node in own and v.node not in done]
            if missing:
                stack += [n for n in reversed(missing) if n is not None]
                continue
            stack.pop()
            done[node] = None
    return tuple(done)
