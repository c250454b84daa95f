"""The order of instances: textual positions, loops in common, and the ways in which one instance precedes another.

A :data:`Position` says when an instance runs: numbers and forms over its iteration, compared one after another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tirlower.ir import Var
from tirlower.poly.affine import Space
from tirlower.poly.digit_test import Sign
from tirlower.poly.forms import Dim, Div, Form, constant, single
from tirlower.poly.scop import Access, Loop, Statement

__all__ = [
    "Position",
    "Way",
    "common_loops",
    "distances",
    "in_step_violations",
    "place_of",
    "precedes_in_text",
    "ways_before",
    "ways_related",
]

Position: TypeAlias = tuple[Form, ...]
"""When an instance runs, as a function of its iteration. The lesser in the first that differs is the earlier."""


def common_loops(a: Access, b: Access) -> tuple[Loop, ...]:
    """The loops around both, outermost first."""
    mine, other = a.loops, b.loops
    if mine is other:
        return mine
    count = 0
    for x, y in zip(mine, other, strict=False):
        if x is not y:
            break
        count += 1
    return mine[:count]


def precedes_in_text(a: Access, b: Access) -> bool:
    """Whether ``a`` comes before ``b`` where the loops around both are in one iteration: a statement's loads come
    before its store."""
    return (a.order, a.phase) < (b.order, b.phase)


def ways_before(a: Access, b: Access, loops: Sequence[Loop]) -> Iterator[dict[Loop, Sign]]:
    """The disjoint ways in which an instance of ``a`` precedes one of ``b`` in the order of the script, by the signs of
    the given common loops: equal up to one, less in that one; or all equal, and first in the text."""
    signs: dict[Loop, Sign] = {}
    for loop in loops:
        yield {**signs, loop: "<"}
        signs[loop] = "="
    if precedes_in_text(a, b):
        yield signs


def in_step_violations(a: Access, b: Access, loops: Sequence[Loop]) -> Iterator[dict[Loop, Sign]]:
    """The ways in which ``a`` does not precede ``b`` when statements run in step inside ``loops``: some outer steps
    equal and the next of ``a`` later, or all equal and ``a`` not first in the text."""
    signs: dict[Loop, Sign] = {}
    for loop in loops:
        yield {**signs, loop: ">"}
        signs[loop] = "="
    if not precedes_in_text(a, b):
        yield signs


def place_of(owner: Statement | Loop, inside: int = 0) -> Position:
    """When the instances of a statement run, or the first of a loop: the loops around it, from that of a number on, each by
    its place in the text and its iteration, and the place of its own."""
    loops = owner.loops if isinstance(owner, Statement) else owner.outer
    made: list[Form] = []
    for loop in loops[inside:]:
        made += (constant(loop.order), single(loop.var))
    return (*made, constant(owner.order))


class Way(NamedTuple):
    """How two positions may relate: signs of common loops, further forms of source and sink with the sign between them;
    ``ended`` says that all of the coordinates that both have are equal."""

    signs: dict[Loop, Sign]
    relations: tuple[tuple[Form, Form, Sign], ...]
    ended: bool


def ways_related(
    space: Space, mine: Position, other: Position, sign: Sign, signs: Mapping[Loop, Sign], common: Sequence[Loop]
) -> Iterator[Way]:
    """The disjoint ways in which the source's position is less ("<") or greater (">") than the sink's where the loops relate
    as ``signs`` say; last, if it is possible, the way in which one position is the beginning of the other."""
    known = dict(signs)
    relations: tuple[tuple[Form, Form, Sign], ...] = ()
    bare = {loop.var: loop for loop in common}
    same: set[Dim] = set()  # of one value on both sides by the coordinates so far, as `i // 8` before `i % 8`
    for x, y in zip(mine, other, strict=False):
        by_var = {loop.var: sign for loop, sign in known.items()}
        possible = _signs_between(space, x, y, by_var, same)
        loop = bare.get(_lone_var(x)) if x.key == y.key else None  # type: ignore[arg-type]
        if sign in possible:
            if len(possible) == 1:
                yield Way(known, relations, False)
            elif loop is not None:
                yield Way({**known, loop: sign}, relations, False)
            else:
                yield Way(known, (*relations, (x, y, sign)), False)
        if "=" not in possible:
            return
        if len(possible) > 1:
            if loop is not None:
                known = {**known, loop: "="}
            else:
                relations = (*relations, (x, y, "="))
                moving = [dim for dim in x.terms if not _settled(space, dim, by_var, same)]
                if x.key == y.key and len(moving) == 1:
                    same.add(moving[0])
    yield Way(known, relations, True)


def _lone_var(form: Form) -> Dim | None:
    if len(form.terms) != 1 or form.const:
        return None
    ((dim, c),) = form.terms.items()
    return dim if c == 1 else None


def _signs_between(space: Space, x: Form, y: Form, signs: Mapping[Var, Sign], same: Collection[Dim]) -> str:
    """How a form of the source may relate to one of the sink, from bounds and from the signs of loops alone."""
    if x.key == y.key and x.terms:
        trend = _trend(space, x, signs, same)
        if len(trend) == 1:
            return trend
    else:
        trend = "<=>"
    (low, high), (least, most) = space.interval(x), space.interval(y)
    possible = ("<" if low < most else "") + ("=" if low <= most and least <= high else "")
    possible += ">" if high > least else ""
    return "".join([sign for sign in possible if sign in trend])


def _trend(space: Space, form: Form, signs: Mapping[Var, Sign], same: Collection[Dim]) -> str:
    """How the source's value of a form relates to the sink's, where it rises or falls with loops whose signs are known."""
    strict, weak = set[Sign](), set[Sign]()
    for dim, c in form.terms.items():
        if _settled(space, dim, signs, same):
            continue
        if isinstance(dim, Div):
            inner = _trend(space, dim.of, signs, same)
            found = {sign for sign in inner if sign != "="}
            if len(found) != 1:
                return "<=>"
            weak |= found if c > 0 else {_TURNED[sign] for sign in found}
        elif isinstance(dim, Var) and signs.get(dim) in ("<", ">"):
            strict.add(signs[dim] if c > 0 else _TURNED[signs[dim]])
        else:
            return "<=>"
    if len(strict | weak) > 1:
        return "<=>"
    return "".join(strict) or "".join(["=", *weak])


def _settled(space: Space, dim: Dim, signs: Mapping[Var, Sign], same: Collection[Dim]) -> bool:
    """Whether a dim has one value on both sides."""
    return dim in same or all(signs.get(var) == "=" for var in space.deps(single(dim)))


def distances(forms: Iterable[tuple[Form, Form]], common: Sequence[Loop]) -> dict[Loop, Sign] | None:
    """The signs of common loops without which source and sink cannot be in one element: of ``A[i + 1]`` and ``A[i]`` the source
    comes before. None where there are none."""
    bare = {loop.var: loop for loop in common}
    found: dict[Loop, Sign] = {}
    for x, y in forms:
        if len(x.terms) != 1 or x.terms != y.terms:
            continue
        ((dim, c),) = x.terms.items()
        loop = bare.get(dim)  # type: ignore[arg-type]
        if loop is None:
            continue
        ahead = (y.const - x.const) * (1 if c > 0 else -1)
        sign = "=" if not ahead else ">" if ahead > 0 else "<"
        if ahead % c or found.setdefault(loop, sign) != sign:
            return None
    return found


_TURNED: dict[Sign, Sign] = {"<": ">", ">": "<"}
