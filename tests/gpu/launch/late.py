"""What CUDA promises of order and no more: streams, events and the pool of a driver whose work runs late, by seed.

Work that was given to a stream stays *pending* until the driver is asked to wait for it, or until chance runs it: any
pending work may run whose predecessors are done. These are: what its stream was given before; for the legacy default
stream all that the blocking streams of its context were given before; for those, what the legacy stream was given
before; and the events that its stream waits for. Memory of the pool is handed out again as early as the driver may:
a program that gives it back too soon reads and writes another's.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LEGACY, PER_THREAD = 1, 2
"""The names of the legacy default stream (0 is another) and of the calling thread's."""

INVALID_HANDLE = 400


@dataclass(eq=False)
class Work:
    """Something given to a stream; ``after`` is what must be done before."""

    run: Callable[[], None] | None
    after: set[Work]
    what: str = ""
    done: bool = False

    def waiting(self) -> list[Work]:
        """What is not done of all that comes before, and this."""
        found: dict[Work, None] = {}
        rest = [self]
        while rest:
            work = rest.pop()
            if not work.done and work not in found:
                found[work] = None
                rest += work.after
        return list(found)


@dataclass(eq=False)
class Queue:
    """A stream: its context, whether it keeps order with the legacy default stream, and what it was given last."""

    context: int
    blocking: bool
    last: Work | None = None


@dataclass(eq=False)
class Event:
    """A mark: the work that recorded it last."""

    context: int
    work: Work | None = None


@dataclass(eq=False)
class Place:
    """A piece of memory of the pool; ``owner`` is the allocation that has it now, as the device sees it."""

    address: int
    raw: Any
    context: int
    owner: Allocation | None = None
    freed: Work | None = None
    """What gave it back last; None while the host has it."""


@dataclass(eq=False)
class Allocation:
    """What one call allocated."""

    place: Place
    size: int


@dataclass
class Device:
    """The streams, events and memory of all contexts of a driver.

    Without a seed all work runs at once, in the order in which it is given, and any number is a stream. ``faults`` are
    the accesses to memory that its owner did not have yet or any more, and kernels whose module is gone.
    """

    seed: int | None = None
    queues: dict[Any, Queue] = field(default_factory=dict)
    retired: list[Queue] = field(default_factory=list)
    events: dict[int, Event] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    pending: list[Work] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    ran: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.chance = random.Random(self.seed)
        # A driver that lets everything wait as long as it may finds other faults than one that is sometimes ahead.
        self.haste = self.chance.choice((0.0, 0.0, 0.2, 0.6))
        self.keep = self.chance.choice((0.0, 0.1, 0.5))

    @property
    def eager(self) -> bool:
        return self.seed is None

    # -- streams -----------------------------------------------------------------------------------------------------

    def create(self, handle: int, context: int, blocking: bool) -> int:
        """A new stream; a handle that died may be given again."""
        with self.lock:
            if self.dead and self.chance.random() < 0.7:
                handle = self.dead.pop(self.chance.randrange(len(self.dead)))
            self.queues[handle] = Queue(context, blocking)
            return handle

    def destroy(self, handle: int) -> int:
        with self.lock:
            gone = self.queues.pop(handle, None)
            if gone is None:
                return 0 if self.eager else INVALID_HANDLE
            if not self.eager:
                self.dead.append(handle)
            self.retired.append(gone)  # what it was given still runs
            return 0

    def queue(self, handle: int, context: int) -> Queue | None:
        """The stream behind a handle in a context; None where there is none."""
        if handle in (0, LEGACY):
            return self.queues.setdefault(("legacy", context), Queue(context, blocking=False))
        if handle == PER_THREAD:
            return self.queues.setdefault((threading.get_ident(), context), Queue(context, blocking=True))
        found = self.queues.get(handle)
        if found is None and self.eager:
            found = self.queues[handle] = Queue(context, blocking=False)
        return found

    def before(self, queue: Queue) -> set[Work]:
        """What must be done before what the stream is given next."""
        legacy = self.queues.get(("legacy", queue.context))
        found = [queue.last]
        if queue is legacy:
            found += [
                q.last for q in (*self.queues.values(), *self.retired) if q.blocking and q.context == queue.context
            ]
        elif queue.blocking and legacy is not None:
            found.append(legacy.last)
        return {work for work in found if work is not None and not work.done}

    def give(
        self, handle: int, context: int, run: Callable[[], None] | None, what: str, after: set[Work] | None = None
    ) -> Work | None:
        """Give work to a stream. None where there is no such stream in the context of this thread."""
        with self.lock:
            queue = self.queue(handle, context)
            if queue is None or (queue.context != context and not self.eager):
                return None
            work = Work(run, self.before(queue) | (after or set()), what)
            queue.last = work
            self.pending.append(work)
            if self.eager:
                self.do(work)
            else:
                self.move()
            return work

    # -- time --------------------------------------------------------------------------------------------------------

    def do(self, work: Work) -> None:
        if work.done:  # by what the collector gave back in between
            return
        self.pending.remove(work)
        work.done = True
        work.after = set()
        self.ran += 1
        if work.run is not None:
            work.run()
            work.run = None

    def one_of(self, ready: list[Work]) -> None:
        if ready:  # what the collector gave back in between may have run the last
            self.do(self.chance.choice(ready))

    def move(self) -> None:
        """Perhaps run some of what may run."""
        with self.lock:
            while self.pending and self.chance.random() < self.haste:
                self.one_of([w for w in self.pending if all(p.done for p in w.after)])

    def finish(self, work: Work | None) -> None:
        """Run work, with what must be done before it in any order, and perhaps other work between."""
        with self.lock:
            while work is not None and not work.done:
                wanted = [w for w in work.waiting() if all(p.done for p in w.after)]
                self.one_of(wanted)
                self.move()

    def finish_all(self, context: int | None = None) -> None:
        """Run everything (of a context)."""
        with self.lock:
            for queue in [*self.queues.values(), *self.retired]:
                if context is None or queue.context == context:
                    self.finish(queue.last)

    def synchronize(self, handle: int, context: int) -> int:
        with self.lock:
            queue = self.queue(handle, context)
            if queue is None:
                return INVALID_HANDLE
            self.finish(queue.last)
            return 0

    # -- events ------------------------------------------------------------------------------------------------------

    def record(self, handle: int, stream: int, context: int) -> int:
        with self.lock:
            event = self.events.get(handle)
            queue = self.queue(stream, context)
            if event is None or queue is None or event.context != queue.context:
                return INVALID_HANDLE
            event.work = self.give(stream, queue.context, None, "event")
            return 0

    def wait(self, stream: int, handle: int, context: int) -> int:
        with self.lock:
            event, queue = self.events.get(handle), self.queue(stream, context)
            if event is None or queue is None:
                return INVALID_HANDLE
            self.give(stream, queue.context, None, "wait", {event.work} if event.work is not None else set())
            return 0

    # -- memory ------------------------------------------------------------------------------------------------------

    def place(self, size: int, context: int) -> Place:
        """Memory that the host does not have: perhaps some that was given back, done or not."""
        fitting = [p for p in self.places if p.freed is not None and len(p.raw) == size and p.context == context]
        if fitting and self.chance.random() >= self.keep:
            return self.chance.choice(fitting)
        raw = np.zeros(size + 256, np.uint8)
        start = -raw.ctypes.data % 256
        made = Place(int(raw.ctypes.data) + start, raw[start : start + size], context)
        if not self.eager:
            self.places.append(made)
        return made

    def allocate(self, size: int, stream: int, context: int) -> Allocation | None:
        """Memory in the order of a stream. None where there is no such stream."""
        with self.lock:
            place = self.place(size, context)
            made = Allocation(place, size)
            # The pool puts in an order of its own, where that of the streams does not say who was first.
            after = {place.freed} if place.freed is not None and not place.freed.done else set()

            def begin() -> None:
                if place.owner is not None:
                    self.faults.append(f"{place.address:#x} was handed out before it was given back")
                place.owner = made
                if not self.eager:
                    place.raw[:] = self.chance.randrange(256)

            freed, place.freed = place.freed, None
            if self.give(stream, context, begin, "allocate", after) is None:
                place.freed = freed
                return None
            return made

    def free(self, allocation: Allocation, stream: int, context: int) -> bool:
        """Give memory back in the order of a stream. False where there is no such stream."""
        with self.lock:
            place = allocation.place

            def end() -> None:
                if place.owner is not allocation:
                    self.faults.append(f"{place.address:#x} was given back by another than its owner")
                place.owner = None
                if not self.eager:
                    place.raw[:] = self.chance.randrange(256)

            work = self.give(stream, context, end, "free")
            if work is None:
                return False
            place.freed = work
            return True

    def touch(self, allocation: Allocation | None, what: str) -> None:
        """Note an access, when it happens."""
        if allocation is not None and allocation.place.owner is not allocation:
            self.faults.append(f"{what} reached {allocation.place.address:#x}, which it has not yet or not any more")
