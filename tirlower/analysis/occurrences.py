"""Computations that are equal up to structure, where they occur, and in which order they are bound."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable

from tirlower.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)

__all__ = ["TEXT_LIMIT", "Computation", "Place", "Scope", "looked_at", "measure", "meet", "operands_first", "text_of"]

TEXT_LIMIT = 100
"""Nodes beyond which a computation has no text: those of a long chain would be as long as its square."""
_SIGNS = {
    Add: " + ",
    Sub: " - ",
    Mul: "*",
    Div: "/",
    Mod: " % ",
    EQ: " == ",
    NE: " != ",
    LT: " < ",
    LE: " <= ",
    GT: " > ",
    GE: " >= ",
    And: " && ",
    Or: " || ",
}
_WORDS = {FloorDiv: "floordiv", FloorMod: "floormod", Min: "min", Max: "max", Select: "select", Not: "!"}


class Scope:
    """A list of statements; ``parent`` and ``at`` say in which statement of which scope it stands."""

    __slots__ = ("at", "depth", "number", "parent")

    def __init__(self, parent: Scope | None, at: int, number: int) -> None:
        self.parent = parent
        self.at = at
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.number = number


Place = tuple[Scope, int]
"""In front of which statement of which scope."""


def meet(places: Iterable[Place]) -> Place:
    """The innermost place in front of all: in the lowest common scope, at the first statement that holds one."""
    result: Place | None = None
    for scope, at in places:
        if result is None:
            result = (scope, at)
            continue
        other, first = result
        while scope is not other:
            if scope.depth >= other.depth:
                assert scope.parent is not None
                at, scope = scope.at, scope.parent
            else:
                assert other.parent is not None
                first, other = other.at, other.parent
        result = (scope, min(at, first))
    assert result is not None
    return result


class Computation:
    """An expression up to structure (and, where asked, up to what it simplifies to)."""

    __slots__ = ("eligible", "expr", "faults", "height", "operands", "order", "pure", "rounds", "size", "text", "uses")

    def __init__(self, expr: Expr, order: int) -> None:
        self.expr = expr
        self.order = order
        self.size = self.height = 1
        self.operands: list[tuple[Computation, bool]] = []
        # Arithmetic on variables and constants throughout; and such that is bound.
        self.pure = self.eligible = self.faults = False
        # How often it is evaluated at a place (2 stands for more), and whether it certainly is.
        self.uses: dict[Place, tuple[int, bool]] = {}
        # Those two of its occurrences that are seen first: 0 for one in the function itself, k + 1 for one in the
        # value of a variable of round k. It is bound in the round that sees the second.
        self.rounds: tuple[int, ...] = ()
        self.text = ""

    def use(self, place: Place, count: int, certain: bool) -> None:
        known = self.uses.get(place)
        if known is not None:
            count, certain = min(count + known[0], 2), certain or known[1]
        self.uses[place] = (count, certain)

    def seen(self, rounds: tuple[int, ...]) -> None:
        self.rounds = tuple(sorted((*self.rounds, *rounds))[:2])

    def reaches(self, other: Computation) -> bool:
        """Whether a class is this one, or part of it."""
        stack, known = [self], {id(self)}
        while stack:
            one = stack.pop()
            if one is other:
                return True
            for part, _ in one.operands:
                if id(part) not in known:
                    known.add(id(part))
                    stack.append(part)
        return False


def measure(classes: list[Computation]) -> None:
    """Heights anew, where expressions of equal value took each other's place."""
    done: set[int] = set()
    for root in classes:
        stack = [root]
        while stack:
            one = stack[-1]
            waiting = [part for part, _ in one.operands if id(part) not in done]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            done.add(id(one))
            one.height = 1 + max((part.height for part, _ in one.operands), default=0)


def operands_first(ones: list[Computation], bound: Container[Computation]) -> list[Computation]:
    """What is bound at one place: last named first, but each after those that it is computed from.

    ``bound`` has all that is bound anywhere: what is inside of one that is bound elsewhere is of no concern here.
    """
    if len(ones) == 1:
        return ones
    own = set(ones)
    done: dict[Computation, None] = {}
    opened: set[Computation] = set()
    for first in reversed(ones):
        stack = [first]
        while stack:
            one = stack[-1]
            if one not in opened:
                opened.add(one)
                inside = [part for part, _ in one.operands if part not in opened]
                stack += [part for part in inside if part in own or part not in bound]
                continue
            stack.pop()
            if one in own:
                done.setdefault(one)
    return list(done)


def text_of(op: Expr, parts: list[str]) -> str:
    """What orders computations of one size: TIR's plain notation, which is compared as text."""
    sign = _SIGNS.get(op.__class__)
    if sign is not None:
        return f"({parts[0]}{sign}{parts[1]})"
    name = _WORDS.get(op.__class__)
    if name is not None:
        return f"{name}({', '.join(parts)})"
    if isinstance(op, Cast):
        return f"{op.dtype}({parts[0]})"
    if isinstance(op, IntImm):
        return str(op.value) if op.dtype == "int32" else f"({op.dtype}){op.value}"
    return f"{op.__class__.__name__}({', '.join(parts)})" if parts else op.name if isinstance(op, Var) else str(op)


def looked_at(roots: Iterable[Computation]) -> dict[Computation, int]:
    """When each class is looked at, where all are taken from the largest to the smallest.

    The list starts with the computations that are part of no larger one, by their text; each one taken from it
    adds its operands behind those of their size.
    """
    starts: dict[Computation, None] = {}
    stack = list(reversed(tuple(roots)))
    seen: set[Computation] = set(stack)
    while stack:
        one = stack.pop()
        if one.eligible:
            starts.setdefault(one)
            continue
        for part, _ in reversed(one.operands):
            if part not in seen:
                seen.add(part)
                stack.append(part)
    queue = [(-one.size, index, one) for index, one in enumerate(sorted(starts, key=lambda c: c.text))]
    listed = set(starts)
    heapq.heapify(queue)
    met: dict[Computation, int] = {}
    while queue:
        one = heapq.heappop(queue)[2]
        met[one] = len(met)
        for part, _ in one.operands:
            if part not in listed:
                listed.add(part)
                heapq.heappush(queue, (-part.size, len(listed), part))
    return met
