"""What is true of a run: the conflicts of a loop's iterations, the order of two runs, whether a witness happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.judge.evaluate import Event, Run
from tests.judge.translate import INIT

__all__ = ["forgotten", "happened", "keeps_order", "parallel_conflict", "vector_conflict"]

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


def _met(run: Run, var: str, inside: bool) -> list[list[tuple[int, Event]]]:
    """The accesses of each byte that several iterations of one execution of a loop touch, one writing."""
    key = var, inside
    if key not in run.shared:
        met = []
        for group in _groups(run.events, var):
            for accesses in _shared(_cells(pair for pair in group if pair[1].inside or not inside)):
                first = accesses[0][0]
                if any(count != first for count, _ in accesses):
                    met.append(accesses)
        run.shared[key] = met
    found: list[list[tuple[int, Event]]] = run.shared[key]
    return found


def _cells(group: Iterable[tuple[int, Event]]) -> Cells:
    found: Cells = {}
    for pair in group:
        event = pair[1]
        for at in range(event.low, event.low + event.size):
            found.setdefault((event.memory, at), []).append(pair)
    return found


def _commute(a: Event, b: Event) -> bool:
    """Updates of one element by one operation, and what the init of their block sets."""
    one, other = a.update.removeprefix(INIT), b.update.removeprefix(INIT)
    return bool(one) and one == other and a.low == b.low and a.size == b.size


def forgotten(run: Run, var: str, inside: bool = True) -> tuple[Event, Event] | None:
    """An update that an init forgets, in an execution of a loop which carries updates of the same memory."""
    for group in _groups(run.events, var):
        pairs = [pair for pair in group if pair[1].inside or not inside]
        lost: dict[int, tuple[Event, Event]] = {}
        carried: set[int] = set()
        for accesses in _shared(_cells(pairs)):
            first, updated = accesses[0][0], None
            for count, event in accesses:
                if event.update and count != first:
                    carried.add(event.memory)
                if event.update.startswith(INIT):
                    if updated is not None:
                        lost.setdefault(event.memory, (updated, event))
                elif event.update:
                    updated = event
        for memory, found in lost.items():
            if memory in carried:
                return found
    return None


def _shared(cells: Cells) -> Iterable[list[Any]]:
    for accesses in cells.values():
        if len(accesses) > 1 and any(event.write for _, event in accesses):
            yield accesses


def parallel_conflict(run: Run, var: str, reductions: bool, inside: bool = True) -> tuple[Event, Event] | None:
    """Two iterations of one execution of a loop that touch one byte, one of them writing.

    With ``reductions`` the updates of an element by one operation do not conflict. Without ``inside`` accesses outside
    their buffers count too.
    """
    for accesses in _met(run, var, inside):
        for count, event in accesses:
            if event.write:
                for other, more in accesses:
                    if other != count and not (reductions and _commute(event, more)):
                        return event, more
    return None


def vector_conflict(run: Run, var: str, reductions: bool, inside: bool = True) -> tuple[Event, Event] | None:
    """A dependence from a lane to a later lane's textually earlier, or same, statement instance."""
    for accesses in _met(run, var, inside):
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
    if len(before.events) != len(after.events):
        return False
    place: dict[Any, int] = {}
    for at, identity in enumerate(_identities(after.events, renamed)):
        place.setdefault(identity, at)
    if len(place) != len(before.events):
        return False
    later = [place.get(identity) for identity in _identities(before.events, renamed)]
    for accesses in _shared(_cells(enumerate(before.events))):
        if len({_kind(event) for _, event in accesses}) == 1 and _kind(accesses[0][1])[0]:
            continue  # updates of one element by one operation
        writes: dict[Any, int] = {}
        reads: dict[Any, int] = {}
        """Of each kind of update ("" of none), the last place so far."""
        for at, event in accesses:
            now, kind = later[at], _kind(event)
            if now is None:
                return False
            for known in (writes, reads) if event.write else (writes,):
                for other, last in known.items():
                    if last > now and not (kind[0] and other == kind):
                        return False
            known = writes if event.write else reads
            known[kind] = max(now, known.get(kind, now))
    return True


def _kind(event: Event) -> tuple[str, int, int]:
    """Which accesses may change places with it: updates of the same element, by the same operation."""
    return "" if event.update.startswith(INIT) else event.update, event.low, event.size


def _identities(events: Iterable[Event], renamed: Mapping[str, str]) -> Iterable[Any]:
    iterations: dict[int, Any] = {}
    for event in events:
        loops = iterations.get(id(event.loops))
        if loops is None:
            loops = frozenset([(renamed.get(name, name), count) for name, _, count in event.loops])
            iterations[id(event.loops)] = loops
        yield event.number, loops, event.low, event.memory


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
