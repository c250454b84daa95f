"""What is true of a run: the conflicts of a loop's iterations, the order of two runs, whether a witness happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.judge.evaluate import Event, Run

__all__ = ["happened", "keeps_order", "parallel_conflict", "vector_conflict"]

Cells = dict[Any, list[Any]]


def _groups(events: Iterable[Event], var: str) -> Iterable[list[tuple[int, Event]]]:
    """The accesses inside each execution of a loop, with the count of their iteration."""
    groups: dict[Any, list[tuple[int, Event]]] = {}
    for event in events:
        for depth, (name, _, count) in enumerate(event.loops):
            if name == var:
                groups.setdefault(event.path[: 2 * depth + 1], []).append((count, event))
                break
    return groups.values()


def _cells(group: Iterable[tuple[int, Event]]) -> Cells:
    found: Cells = {}
    for count, event in group:
        for at in range(event.low, event.low + event.size):
            found.setdefault((event.memory, at), []).append((count, event))
    return found


def _commute(a: Event, b: Event) -> bool:
    """Updates of one element by one operation."""
    return bool(a.update) and a.update == b.update and a.low == b.low and a.size == b.size


def _shared(cells: Cells) -> Iterable[list[Any]]:
    for accesses in cells.values():
        if len(accesses) > 1 and any(event.write for _, event in accesses):
            yield accesses


def parallel_conflict(run: Run, var: str, reductions: bool, inside: bool = True) -> tuple[Event, Event] | None:
    """Two iterations of one execution of a loop that touch one byte, one of them writing.

    With ``reductions`` the updates of an element by one operation do not conflict. Without ``inside`` accesses outside
    their buffers count too.
    """
    for group in _groups(run.events, var):
        for accesses in _shared(_cells(pair for pair in group if pair[1].inside or not inside)):
            for count, event in accesses:
                if event.write:
                    for other, more in accesses:
                        if other != count and not (reductions and _commute(event, more)):
                            return event, more
    return None


def vector_conflict(run: Run, var: str, reductions: bool, inside: bool = True) -> tuple[Event, Event] | None:
    """A dependence from a lane to a later lane's textually earlier, or same, statement instance."""
    for group in _groups(run.events, var):
        for accesses in _shared(_cells(pair for pair in group if pair[1].inside or not inside)):
            for count, event in accesses:
                for other, more in accesses:
                    if count < other and (event.write or more.write) and not (reductions and _commute(event, more)):
                        if _in_step(more, var) <= _in_step(event, var):
                            return event, more
    return None


def _in_step(event: Event, var: str) -> tuple[int, ...]:
    """The place of an instance when the iterations of a loop run in step."""
    for depth, (name, _, _) in enumerate(event.loops):
        if name == var:
            return tuple(event.path[2 * depth + 2 :])
    raise AssertionError


def keeps_order(before: Run, after: Run, renamed: Mapping[str, str]) -> bool:
    """Whether two runs have the same accesses and each pair that meets, one writing, comes in the same order.

    Updates of one element by one operation may change places (all elements are integers). ``renamed`` gives variables
    of loops other names.
    """
    place: dict[Any, int] = {}
    for at, event in enumerate(after.events):
        place.setdefault(_identity(event, renamed), at)
    if len(place) != len(before.events) or len(before.events) != len(after.events):
        return False
    for accesses in _shared(_cells(enumerate(before.events))):
        for n, (_, event) in enumerate(accesses):
            for _, more in accesses[n + 1 :]:
                if (event.write or more.write) and not _commute(event, more):
                    one, two = place.get(_identity(event, renamed)), place.get(_identity(more, renamed))
                    if one is None or two is None or one > two:
                        return False
    return True


def _identity(event: Event, renamed: Mapping[str, str]) -> Any:
    loops = frozenset((renamed.get(name, name), count) for name, _, count in event.loops)
    return event.number, loops, event.low, event.memory


def happened(runs: Sequence[Run], points: Sequence[tuple[int, tuple[tuple[str, int], ...], tuple[int, ...]]]) -> bool:
    """Whether some run has the accesses of a witness (number, loops, subscripts), and two of them meet in a byte, one
    writing."""
    for run in runs:
        hits = [_matching(run, *point) for point in points]
        if not all(hits):
            continue
        if len(hits) == 1:
            return True
        for a in hits[0]:
            for b in hits[1]:
                if a.memory == b.memory and (a.write or b.write):
                    if a.low < b.low + b.size and b.low < a.low + a.size:
                        return True
    return False


def _matching(run: Run, number: int, loops: tuple[tuple[str, int], ...], subscripts: tuple[int, ...]) -> list[Event]:
    found = []
    for event in run.events:
        if event.number == number and (not subscripts or event.subscripts == subscripts):
            mine = tuple((name, value) for name, value, _ in event.loops if not name.startswith("while"))
            given = tuple((name, value) for name, value in loops if not name.startswith("while"))
            if mine == given:
                found.append(event)
    return found
