"""What each thread knows to be over: vector clocks of the threads of a block and of the copies that they start.

The threads of a block have slots, and so has each stream of asynchronous operations (the copies of one thread, or those
that one barrier counts). A thread counts its own time, which goes on where it meets others; what it knows of the others
is a list of their times, by slot, which threads that met share until one of them learns more. An event of slot ``s`` at
time ``t`` is over for a thread that knows ``s`` to have reached ``t``. (Vector clocks: Mattern 1988, Fidge 1988; one
time per access instead of a vector: Flanagan and Freund, FastTrack, PLDI 2009.)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

__all__ = ["Agent", "BlockClocks", "Clock", "Meeting", "meet"]


class BlockClocks:
    """The slots of one block. ``era`` counts the barriers of the whole grid that it has passed."""

    __slots__ = ("clocks", "era", "key", "streams", "width")

    def __init__(self, key: tuple[int, ...]) -> None:
        self.key = key
        self.era = 0
        self.width = 0
        self.clocks: dict[frozenset[tuple[str, int]], Clock] = {}
        self.streams: dict[Hashable, Stream] = {}

    def new_slot(self) -> int:
        """A slot that nobody has."""
        self.width += 1
        return self.width - 1


class Stream:
    """Asynchronous operations that end in the order in which they start."""

    __slots__ = ("count", "slot")

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.count = 0


class Clock:
    """What a thread knows. ``base`` may be shared with other threads and is never changed in place.

    ``extra`` is what it has learnt since of single slots; ``others`` is what it knows of other blocks. ``axes`` are the
    indices by which it is told from other threads of its block: of a frame from which threads fork later, some of theirs.
    """

    __slots__ = ("axes", "base", "block", "extra", "forks", "key", "others", "slot", "threads", "time")

    def __init__(self, block: BlockClocks, axes: frozenset[tuple[str, int]], threads: dict[str, int]) -> None:
        self.block = block
        self.key: Hashable = id(self)
        self.axes = axes
        self.threads = threads
        self.forks: list[Clock] = []
        self.slot = block.new_slot()
        self.time = 1
        self.base: list[int] = []
        self.extra: dict[int, int] = {}
        self.others: dict[BlockClocks, list[int]] = {}

    @property
    def issuer(self) -> Clock:
        """The thread itself."""
        return self

    @property
    def who(self) -> str:
        """The thread, for messages."""
        return "thread (" + ", ".join(f"{tag} = {index}" for tag, index in self.threads.items()) + ")"

    def reached(self, block: BlockClocks, slot: int) -> int:
        """The time that a slot is known to have reached."""
        if block is self.block:
            known, more = self.base, self.extra.get(slot, 0)
        else:
            known, more = self.others.get(block, []), 0
        return max(more, known[slot]) if slot < len(known) else more

    def full(self) -> list[int]:
        """All that it knows of its block, its own time included, as a list of its own."""
        found = self.base + [0] * (self.block.width - len(self.base))
        for slot, time in self.extra.items():
            found[slot] = max(found[slot], time)
        found[self.slot] = self.time
        return found

    def inherit(self, parent: Clock) -> None:
        """Know what the frame knew that a thread was forked from."""
        if self.base is not parent.base:
            self.base = parent.base if not self.base else _joined(self.base, parent.base)
        for slot, time in parent.extra.items():
            self.extra[slot] = max(time, self.extra.get(slot, 0))
        for block, known in parent.others.items():
            self.learn(block, known)

    def learn(self, block: BlockClocks, known: list[int]) -> None:
        """Know what somebody else knows of a block."""
        if block is self.block:
            self.base = _joined(self.base, known)
        else:
            self.others[block] = _joined(self.others.get(block, []), known)


class Agent:
    """An asynchronous operation: it knows what its thread knew when it started it, and ends later.

    It stands beside :class:`Clock` as that which makes an access.
    """

    __slots__ = ("axes", "base", "block", "engine", "extra", "issuer", "key", "others", "slot", "time", "what")

    def __init__(self, issuer: Clock, stream: Stream, what: str, engine: bool = False) -> None:
        stream.count += 1
        self.block = issuer.block
        self.issuer = issuer
        self.axes = issuer.axes
        self.slot = stream.slot
        self.time = stream.count
        self.key: Hashable = stream
        self.what = what
        self.engine = engine
        self.base = issuer.base
        self.extra = dict(issuer.extra)
        self.others = dict(issuer.others)

    @property
    def who(self) -> str:
        """The operation and its thread, for messages."""
        return f"{self.what} of {self.issuer.who}"

    def reached(self, block: BlockClocks, slot: int) -> int:
        """The time that a slot is known to have reached when it started."""
        if block is self.block:
            known, more = self.base, self.extra.get(slot, 0)
        else:
            known, more = self.others.get(block, []), 0
        return max(more, known[slot]) if slot < len(known) else more


class Meeting:
    """An object through which threads learn of each other without waiting: what was released into it."""

    __slots__ = ("_last", "known")

    def __init__(self) -> None:
        self.known: dict[BlockClocks, list[int]] = {}
        self._last: list[int] | None = None

    def release(self, clock: Clock) -> None:
        """Add all that a thread has done and knows."""
        mine = self.known.get(clock.block)
        if mine is not None and self._last is clock.base and not clock.extra:
            # Threads that come from one barrier know the same, apart from their own times.
            mine += [0] * (clock.slot + 1 - len(mine))
            mine[clock.slot] = max(mine[clock.slot], clock.time)
        else:
            self.known[clock.block] = _joined(mine or [], clock.full())
        self._last = clock.base
        for block, known in clock.others.items():
            self.known[block] = _joined(self.known.get(block, []), known)
        clock.time += 1

    def release_end(self, agent: Agent) -> None:
        """Add the end of an asynchronous operation, and of those before it in its stream."""
        mine = self.known.setdefault(agent.block, [])
        mine += [0] * (agent.slot + 1 - len(mine))
        mine[agent.slot] = max(mine[agent.slot], agent.time)

    def acquire(self, clock: Clock) -> None:
        """Let a thread know all of it."""
        for block, known in self.known.items():
            clock.learn(block, known)


def _joined(a: list[int], b: list[int]) -> list[int]:
    """The later time of each slot."""
    if a is b or not b:
        return a
    if len(a) < len(b):
        a, b = b, a
    return [*map(max, a, b), *a[len(b) :]]


def meet(clocks: Iterable[Clock]) -> None:
    """Threads of one block meet: each knows all that any of them has done and knows."""
    everyone = list(clocks)
    block = everyone[0].block
    base: list[int] = []
    others: dict[BlockClocks, list[int]] = {}
    for known in {id(clock.base): clock.base for clock in everyone}.values():
        base = _joined(base, known)
    base = base + [0] * (block.width - len(base))
    for clock in everyone:
        for slot, time in clock.extra.items():
            base[slot] = max(base[slot], time)
        base[clock.slot] = clock.time
        for other, known in clock.others.items():
            others[other] = _joined(others.get(other, []), known)
    for clock in everyone:
        clock.base, clock.extra = base, {}
        clock.others = dict(others) if others else {}
        clock.time += 1
