"""What reordering, fusing and distributing loops would make of a program, in the judge's own representation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.judge.arithmetic import is_zero, known
from tests.judge.program import Program, Stmt

__all__ = ["Question", "questions"]


@dataclass(frozen=True)
class Question:
    """A question of the order of loops and the program that "yes" promises to be equal (None: there is none).

    ``structural`` says that a refusal without a witness is right: the library does not undertake to do it. ``open``:
    that nothing is decided. ``renamed`` gives loop variables the names that they have in the new program.
    """

    kind: str
    loops: tuple[str, ...]
    at: int | None
    after: Program | None
    structural: bool = False
    open: bool = False
    renamed: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As a call."""
        names = ", ".join(self.loops)
        return f"{self.kind}({names}{'' if self.at is None else f', at={self.at}'})"


def _mentions(one: Any, names: set[str]) -> bool:
    if not isinstance(one, tuple):
        return False
    if one and one[0] == "v":
        return one[1] in names
    return any(_mentions(part, names) for part in one)


def _replaced(one: Any, name: str, by: Any) -> Any:
    if one == ("v", name):
        return by
    return tuple(_replaced(part, name, by) for part in one) if isinstance(one, tuple) else one


def _declares(stmts: tuple[Stmt, ...]) -> set[str]:
    return {stmt[1] for stmt in stmts if stmt[0] in ("let", "view", "alloc", "ptr")}


def _shares(first: tuple[Stmt, ...], second: tuple[Stmt, ...]) -> bool:
    """Whether statements use what others declare. The data of a view is that of what it is of."""
    views = {stmt[1] for stmt in first if stmt[0] == "view"}
    return _accesses(second, views) or _names_used(second, _declares(first) - views)


def _accesses(one: Any, names: set[str]) -> bool:
    if not isinstance(one, tuple):
        return False
    if _is_decided(one):
        return False
    return bool(one) and ((one[0] in ("ld", "st") and one[1] in names) or any(_accesses(part, names) for part in one))


def _is_decided(one: Any) -> bool:
    """Whether the script decides a choice or a product and drops a part of it."""
    if not isinstance(one, tuple) or not one:
        return False
    if one[0] in ("and", "or"):
        return known(one) is not None
    return (one[0] in ("if", "ite", "sel") and known(one[1]) is not None) or is_zero(one)


def _names_used(one: Any, names: set[str]) -> bool:
    """Whether a let, a buffer or a pointer of these names is used."""
    if isinstance(one, str):
        return one in names
    if _is_decided(one):
        return False
    return isinstance(one, tuple) and any(_names_used(part, names) for part in one)


def _blocks(body: tuple[Stmt, ...], inside: bool = False) -> Iterator[tuple[tuple[Stmt, ...], Callable[[Any], Any]]]:
    """Every sequence of statements with a function that puts another in its place."""
    yield body, lambda new: new
    for n, stmt in enumerate(body):
        for at in {"for": (6,), "while": (2,), "if": (2, 3)}.get(stmt[0], ()):
            for inner, put in _blocks(stmt[at], True):

                def edit(new: Any, n: int = n, stmt: Stmt = stmt, at: int = at, put: Any = put) -> Any:
                    return (*body[:n], (*stmt[:at], put(new), *stmt[at + 1 :]), *body[n + 1 :])

                yield inner, edit


def questions(program: Program) -> list[Question]:
    """Each pair of nested loops in the other order and as one; adjacent loops as one; loops cut in two."""
    found: list[Question] = []
    for block, put in _blocks(program.body):

        def made(new: tuple[Stmt, ...], put: Any = put) -> Program:
            return replace(program, body=put(new))

        for n, stmt in enumerate(block):
            if stmt[0] != "for":
                continue
            found += _nested(block, n, stmt, made)
            found += _cut(block, n, stmt, made)
            follow = next((m for m in range(n + 1, len(block)) if block[m][0] == "for"), None)
            if follow is not None:
                found += _adjacent(block, n, follow, made)
    return found


def _nested(block: tuple[Stmt, ...], n: int, outer: Stmt, made: Any) -> Iterator[Question]:
    body = outer[6]
    inner = body[-1] if body else ("none",)
    if inner[0] != "for":
        return
    before = body[:-1]
    if any(stmt[0] in ("for", "if", "while", "st", "block", "break", "continue") for stmt in before):
        return
    bound = {outer[1], *_declares(before)}
    loose = not _mentions(inner[3:5], bound)
    new = (*outer[:6], (*before, *inner[6]))
    nest = (*inner[:6], (new,))
    after = made((*block[:n], nest, *block[n + 1 :])) if loose else None
    yield Question("reorder", (inner[1], outer[1]), None, after, structural=not loose or bool(before), open=not loose)
    if before and loose:
        # One loop over both: what stands between runs in each of its iterations.
        fused = (*outer[:6], ((*inner[:6], (*before, *inner[6])),))
        yield Question("fuse", (outer[1], inner[1]), None, made((*block[:n], fused, *block[n + 1 :])), structural=True)


def _cut(block: tuple[Stmt, ...], n: int, loop: Stmt, made: Any) -> Iterator[Question]:
    body = loop[6]
    # Where the script puts an arm in the place of a choice, statements have other numbers in the IR.
    moved = any(_is_decided(stmt) for stmt in body)
    for at in range(1, len(body)):
        first, second = body[:at], body[at:]
        shared = _shares(first, second)
        parts = ((*loop[:6], first), (*loop[:6], second))
        after = None if shared else made((*block[:n], *parts, *block[n + 1 :]))
        yield Question("distribute", (loop[1],), at, after, structural=shared, open=moved)


def _adjacent(block: tuple[Stmt, ...], n: int, m: int, made: Any) -> Iterator[Question]:
    one, two = block[n], block[m]
    if ("-", one[4], one[3]) != ("-", two[4], two[3]) and not _same_extent(one, two):
        return
    between = block[n + 1 : m]
    if any(stmt[0] in ("st", "block", "while", "if", "break", "continue") for stmt in between):
        return
    value = ("v", one[1]) if one[3] == two[3] else ("+", ("-", ("v", one[1]), one[3]), two[3])
    second = _replaced(two[6], two[1], value)
    fused = (*one[:6], (*one[6], *second))
    # What stands between can go in front if it does not look at what the first loop does.
    after = made((*block[:n], *between, fused, *block[m + 1 :]))
    yield Question("fuse", (one[1], two[1]), None, after, bool(between), {two[1]: one[1]})


def _same_extent(one: Stmt, two: Stmt) -> bool:
    if all(part[0] == "c" for part in (one[3], one[4], two[3], two[4])):
        return bool(one[4][1] - one[3][1] == two[4][1] - two[3][1])
    return bool(one[3:5] == two[3:5])
