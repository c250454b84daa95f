"""The order of instances: textual positions, loops in common, and the ways in which one instance precedes another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tirlower.poly.digit_test import Sign
from tirlower.poly.scop import Access, Loop

__all__ = ["common_loops", "in_step_violations", "precedes_in_text", "ways_before"]


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
