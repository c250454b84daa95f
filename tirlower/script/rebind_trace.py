"""What a script does with its names, in the order in which it is parsed, and which assignments reach which reads.

The parser records a tree: assignments, reads and jumps in sequences, branches and loops around them. Scopes that
Python decides while parsing leave no mark in it. :func:`solve` then runs the tree as Python would, with sets of
assignments in place of values (reaching definitions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tirlower.diagnostics import Span
from tirlower.ir.dtype import DataType

__all__ = ["Assignment", "Branch", "Jump", "Loop", "Missing", "Read", "Sequence", "solve"]

if TYPE_CHECKING:
    from tirlower.script.rebind import Variable

Key: TypeAlias = tuple[int, str]
"""A name: the body that owns it (the function's, or one expansion of a macro), and its text."""
Scope: TypeAlias = "tuple[int | Scope, ...]"
"""A scope by the way to it: the statements that hold it, and which of the scopes in them it is."""
Chain: TypeAlias = tuple[tuple[Scope, int], ...]
"""The scopes around a place, outermost first, each with the number of the statement in it."""


class Missing:
    """No assignment: what a name holds on a path without one. ``path`` says which path that is."""

    __slots__ = ("path",)

    def __init__(self, path: tuple[str, Span | None] | None = None) -> None:
        self.path = path


_MISSING = Missing()


class Assignment:
    """One assignment of a name, where it was met.

    ``kind`` is "scalar", or says in words what else was assigned; ``scopes`` are the numbers of the scopes around,
    outermost first, each with the number of the statement in it.
    """

    __slots__ = ("key", "kind", "scopes", "span", "stated", "value", "variable")

    def __init__(self, key: Key, kind: str, scopes: Chain, span: Span | None) -> None:
        self.key = key
        self.kind = kind
        self.scopes = scopes
        self.span = span
        self.value: object = None
        self.stated: DataType | None = None
        """The type of an annotation."""
        self.variable: Variable | None = None


class Read:
    """One read of a name, and the assignments that reach it."""

    __slots__ = ("key", "reached", "scopes", "span")

    def __init__(self, key: Key, scopes: Chain, span: Span | None) -> None:
        self.key = key
        self.scopes = scopes
        self.span = span
        self.reached: frozenset[Assignment | Missing] = frozenset()


class Jump:
    """A jump: "break", "continue" or "return"."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind


class Sequence:
    """What happens one after the other."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[Part] = []


class Branch:
    """One of two arms runs; ``when`` says in words when each does."""

    __slots__ = ("arms", "span", "when")

    def __init__(self, arms: tuple[Sequence, Sequence], when: tuple[str, str], span: Span | None) -> None:
        self.arms = arms
        self.when = when
        self.span = span


class Loop:
    """A loop. ``runs``: at least once. ``endless``: it is left by a jump only."""

    __slots__ = ("body", "endless", "head", "leaving", "runs", "seen", "span", "test")

    def __init__(self, span: Span | None) -> None:
        self.test = Sequence()
        self.body = Sequence()
        self.span = span
        self.runs = False
        self.endless = False
        self.head: _State | None = None
        self.seen: _State | None = None
        self.leaving: _State | None = None


Part: TypeAlias = Assignment | Read | Jump | Sequence | Branch | Loop

_State = dict[Key, frozenset[Assignment | Missing]]
"""What each name may hold; a name that is not in it holds nothing. None in place of a state: no path leads here."""

_NOTHING: frozenset[Assignment | Missing] = frozenset((_MISSING,))


class _Run:
    """Runs a tree over states."""

    def __init__(self) -> None:
        self.loops: list[tuple[list[_State], list[_State]]] = []
        self.paths: dict[tuple[int, str], frozenset[Assignment | Missing]] = {}

    def path(self, node: Branch | Loop, text: str) -> frozenset[Assignment | Missing]:
        """No assignment, on that path: the same object each time, so that sets of it stop growing."""
        found = self.paths.get((id(node), text))
        if found is None:
            found = self.paths[id(node), text] = frozenset((Missing((text, node.span)),))
        return found

    def join(
        self,
        a: _State | None,
        b: _State | None,
        node: Branch | Loop | None = None,
        by_a: str | None = None,
        by_b: str | None = None,
    ) -> _State | None:
        """What holds after either. ``by_a``, ``by_b``: when the paths come by these, for what is missing there only."""
        if a is None or a is b:
            return b
        if b is None:
            return a
        found: _State = {}
        for key in a.keys() | b.keys():
            left, right = a.get(key, _NOTHING), b.get(key, _NOTHING)
            if left is right or left == right:
                found[key] = left
                continue
            if node is not None:
                if by_a is not None and _MISSING in left and _MISSING not in right:
                    left = (left - _NOTHING) | self.path(node, by_a)
                elif by_b is not None and _MISSING in right and _MISSING not in left:
                    right = (right - _NOTHING) | self.path(node, by_b)
            found[key] = left | right
        return found

    def sequence(self, node: Sequence, state: _State | None) -> _State | None:
        """The state after a sequence; reads are told what reaches them."""
        own = False
        for part in node.parts:
            if state is None:
                return None
            if part.__class__ is Read:
                part.reached |= state.get(part.key, _NOTHING)
            elif part.__class__ is Assignment:
                if not own:
                    state, own = dict(state), True
                state[part.key] = frozenset((part,))
            else:
                own = False
                if part.__class__ is Branch:
                    first, second = [self.sequence(arm, state) for arm in part.arms]
                    state = self.join(first, second, part, *part.when)
                elif part.__class__ is Loop:
                    state = self.loop(part, state)
                elif part.__class__ is Sequence:
                    state = self.sequence(part, state)
                elif part.__class__ is Jump:
                    if self.loops and part.kind != "return":
                        self.loops[-1][part.kind == "continue"].append(state)
                    return None
        return state

    def loop(self, node: Loop, state: _State) -> _State | None:
        """The state after a loop. One seen before in this state is not run again: nests stay linear."""
        seen = self.join(node.seen, state)
        assert seen is not None
        if seen == node.seen:
            return node.leaving
        node.seen = seen
        head = self.join(node.head, seen)
        assert head is not None
        while True:
            breaks: list[_State] = []
            continues: list[_State] = []
            self.loops.append((breaks, continues))
            back = self.sequence(node.body, self.sequence(node.test, head))
            self.loops.pop()
            for one in continues:
                back = self.join(one, back)
            new = self.join(head, back, node, "in the first iteration of this loop")
            assert new is not None
            if new == head:
                break
            head = new
        node.head = head
        after: _State | None = None
        if not node.endless:
            after = back if node.runs else self.join(seen, back, node, "where this loop runs 0 times")
        for one in breaks:
            after = self.join(one, after, node, "where this loop is left by `break`")
        node.leaving = after
        return after


def solve(root: Sequence) -> None:
    """Tell each read of a tree the assignments (and the paths without one) that reach it."""
    _Run().sequence(root, {})
