"""Long lists of steps in parts: what takes a list's place is a list of calls of parts, each of bounded length.

LLVM, the passes and the proofs of a function take their time at once; a part is compiled by itself, several at a time,
and kept by itself on the disk. Where a list of calls of parts is long, parts have parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tirlower.graph.core.nodes import Value
from tirlower.graph.lower.steps import Choice, DebugStep, ExternStep, KernelStep, Part, Step

__all__ = ["ROOM", "in_parts", "places_of"]

ROOM: Final = 512
"""How much (see :func:`_weight`) one prim func does: 170 calls of kernels with an operand and a result.

The passes and LLVM take half a second for so many; a part costs 30 ms beside its calls. Most models stay below."""


def in_parts(
    steps: Sequence[Step], is_outside: Callable[[Value], bool] = lambda place: True, room: int = ROOM
) -> tuple[Step, ...]:
    """The same steps, those of long lists in parts; ``is_outside`` says of a place that a part is given its address.

    A step that is heavy by itself, a choice between long lists, stays; its lists have parts.

    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> b = GraphBuilder()
    >>> x, y = b.param("x", (4,), "float32"), b.param("y", (4,), "float32")
    >>> [len(part.steps) for part in in_parts([KernelStep(None, "copy", (x, y))] * 7, lambda place: False, room=9)]
    [3, 3, 1]
    """
    made = [_inside(step, is_outside, room) for step in steps]
    while sum(map(_weight, made)) > room:
        groups = list(_groups(made, room))
        if len(groups) == len(made):
            break
        made = [g[0] if len(g) == 1 and isinstance(g[0], Part) else _part(g, is_outside) for g in groups]
    return tuple(made)


def _inside(step: Step, is_outside: Callable[[Value], bool], room: int) -> Step:
    if isinstance(step, Choice):
        then, otherwise = (in_parts(s, is_outside, room) for s in (step.then, step.otherwise))
        return replace(step, then=then, otherwise=otherwise)
    if isinstance(step, (KernelStep, ExternStep, DebugStep, Part)):
        return step
    again, body = (in_parts(s, is_outside, room) for s in (step.again, step.body))
    return replace(step, again=again, body=body)


def _groups(steps: Sequence[Step], room: int) -> Iterator[list[Step]]:
    """Neighbours that fit into one part."""
    group: list[Step] = []
    left = room
    for step in steps:
        weight = _weight(step)
        if group and weight > left:
            yield group
            group, left = [], room
        group.append(step)
        left -= weight
    if group:
        yield group


def _part(group: Sequence[Step], is_outside: Callable[[Value], bool]) -> Part:
    places = dict.fromkeys(places_of(group))
    return Part(tuple(group), tuple(p for p in places if is_outside(p)), tuple(p for p in places if not is_outside(p)))


def _weight(step: Step) -> int:
    """The addresses that a step names, and itself."""
    if isinstance(step, (KernelStep, ExternStep, DebugStep)):
        return 1 + len(step.places)
    if isinstance(step, Part):
        return 2 + len(step.outside)
    lists = (step.then, step.otherwise) if isinstance(step, Choice) else (step.again, step.body, step.again)
    return 1 + sum(_weight(inner) for steps in lists for inner in steps)


def places_of(steps: Iterable[Step]) -> Iterator[Value]:
    """The places that steps name, in order."""
    for step in steps:
        if isinstance(step, (KernelStep, DebugStep)):
            yield from step.places
        elif isinstance(step, ExternStep):
            yield from step.places
            yield from () if step.workspace is None else (step.workspace,)
        elif isinstance(step, Part):
            yield from (*step.outside, *step.arena)
        elif isinstance(step, Choice):
            yield step.condition
            yield from places_of((*step.then, *step.otherwise))
        else:
            yield from places_of(step.again)
            yield step.condition
            yield from places_of(step.body)
