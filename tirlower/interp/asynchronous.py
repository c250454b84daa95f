"""Work that goes on by itself: copies and products between their issue and the wait for them, and barrier objects.

Nothing is done when it is issued. Without a seed a piece of work is done as late as it may be: when a thread waits for
it, so that a missing wait finds the old contents. With a seed the work under way in a block is done at moments that the
seed decides. Work of a thread is waited for in groups, in the order of their commits, or through a barrier object: its
phase completes when all expected arrivals and all expected bytes have come.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from tirlower.interp.clocks import Agent
from tirlower.interp.scope import Frame, State
from tirlower.interp.values import Datum, Fault

__all__ = [
    "Barrier",
    "Groups",
    "Work",
    "barrier_of",
    "create_barriers",
    "groups_of",
    "init_barrier",
    "start",
    "stir",
]

_SOON = 0.25
"""Under a seed, the chance of a piece of work to be done at each event of its block."""


class Work:
    """One operation under way: ``run`` does it, after those that it follows."""

    __slots__ = ("_follows", "_run", "agent", "done")

    def __init__(self, run: Callable[[], None], agent: Agent | None = None, follows: Iterable[Work] = ()) -> None:
        self.done = False
        self._run = run
        self._follows: tuple[Work, ...] = tuple([work for work in follows if not work.done])
        self.agent = agent

    def finish(self) -> None:
        """Do it, unless it is done."""
        if not self.done:
            self.done = True
            for work in self._follows:
                work.finish()
            self._follows = ()
            self._run()


class Groups:
    """The work of a thread that it waits for in groups."""

    __slots__ = ("_committed", "_open")

    def __init__(self) -> None:
        self._open: list[Work] = []
        self._committed: list[list[Work]] = []

    def add(self, work: Work) -> None:
        """Work of the group that the next commit ends."""
        self._open.append(work)

    def commit(self) -> None:
        """End a group, empty or not."""
        self._committed.append(self._open)
        self._open = []

    def wait(self, newest: int) -> list[Work]:
        """Finish all groups but the newest ones; the work that is over."""
        if newest < 0:
            raise Fault(f"a wait for all groups but {newest}")
        count = max(len(self._committed) - newest, 0)
        over = [work for group in self._committed[:count] for work in group]
        del self._committed[:count]
        for work in over:
            work.finish()
        return over

    def under_way(self) -> list[Work]:
        """The work that is not known to be over, oldest first."""
        return [work for group in (*self._committed, self._open) for work in group]


class Barrier:
    """A barrier object: a phase completes when ``expected`` arrivals and the bytes announced have come.

    >>> barrier = Barrier(0, 2)
    >>> barrier.arrive(); barrier.phase
    0
    >>> barrier.arrive(); barrier.phase
    1
    """

    __slots__ = ("bytes_left", "expected", "number", "pending", "phase", "used", "work")

    def __init__(self, number: int, expected: int) -> None:
        self.number = number
        self.expected = self.pending = expected
        self.bytes_left = 0
        self.phase = 0
        self.used = False
        self.work: list[Work] = []

    def arrive(self) -> None:
        """One of the expected arrivals. Raises Fault for one too many."""
        self.used = True
        if self.pending == 0:
            raise Fault(
                f"more than the expected {self.expected} arrivals at barrier {self.number} in its phase {self.phase}, "
                f"of which {self.bytes_left} bytes have not come"
            )
        self.pending -= 1
        self._advance()

    def expect(self, count: int) -> None:
        """Announce bytes that belong to this phase."""
        self.used = True
        self.bytes_left += count

    def complete(self, count: int) -> None:
        """Bytes have come."""
        self.bytes_left -= count
        self._advance()

    def _advance(self) -> None:
        if self.pending == 0 and self.bytes_left == 0:
            self.phase += 1
            self.pending = self.expected

    def passed(self, parity: int) -> bool:
        """Whether the phase of that parity has completed, after the work that it may take is done."""
        self.used = True
        while self.phase % 2 == parity:
            if not self.work:
                return False
            self.work.pop(0).finish()
        return True

    def state(self) -> str:
        """What has come, for messages."""
        came = f"{self.expected - self.pending} of {self.expected} arrivals have come"
        if self.bytes_left > 0:
            came += f", {self.bytes_left} bytes that were announced have not"
        if self.bytes_left < 0:
            came += f", and {-self.bytes_left} bytes that nobody announced"
        return f"phase {self.phase} of barrier {self.number} is not complete: {came}"


def _shared(frame: Frame) -> dict[object, Datum]:
    state: State = frame[0]
    return state.own if state.group is None else state.group.block.shared


def groups_of(frame: Frame, kind: str) -> Groups:
    """The groups of a kind of work of a thread."""
    own: dict[object, Datum] = frame[0].own
    found: Groups | None = own.get(kind)
    if found is None:
        found = own[kind] = Groups()
    return found


def create_barriers(frame: Frame, count: int) -> None:
    """Let the block of a thread have that many barriers; those that it has stay as they are."""
    table = _shared(frame).setdefault("barriers", {})
    for number in range(count):
        table.setdefault(number, None)


def barrier_of(frame: Frame, number: int) -> Barrier:
    """An initialised barrier of the block. Raises Fault when there is none."""
    table = _shared(frame).get("barriers", {})
    if number not in table:
        raise Fault(f"there is no barrier {number}: create_barriers made {len(table)}")
    found: Barrier | None = table[number]
    if found is None:
        raise Fault(
            f"barrier {number} is used before ptx_init_barrier_thread_count, "
            "or before a block barrier behind the thread that initialises it"
        )
    return found


def init_barrier(frame: Frame, number: int, expected: int) -> Barrier:
    """Initialise a barrier of the block. Raises Fault where it is not there, or in use."""
    table = _shared(frame).get("barriers", {})
    if number not in table:
        raise Fault(f"there is no barrier {number}: create_barriers made {len(table)}")
    if expected < 1:
        raise Fault(f"barrier {number} expects {expected} arrivals")
    old: Barrier | None = table[number]
    if old is not None and (old.used or old.expected != expected):
        raise Fault(f"barrier {number} is initialised again while threads may use it")
    if old is None:
        old = table[number] = Barrier(number, expected)
    return old


def start(frame: Frame, work: Work, seed: int | None) -> None:
    """Let work be under way in the block of a thread; under a seed some of what is under way is done now."""
    if seed is not None:
        shared = _shared(frame)
        shared.setdefault("dice", random.Random(2 * seed + 1))
        shared.setdefault("under way", []).append(work)
        stir(frame)


def stir(frame: Frame) -> None:
    """Do some of the work under way in a block, as a seed has it; none without one."""
    shared = _shared(frame)
    flying: list[Work] = shared.get("under way", [])
    if flying:
        dice: random.Random = shared["dice"]
        for work in flying:
            if dice.random() < _SOON:
                work.finish()
        shared["under way"] = [work for work in flying if not work.done]
