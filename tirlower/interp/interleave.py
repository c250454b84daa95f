"""Threads in other orders than lockstep: each runs as far as it can, in an order drawn from a seed.

The threads of a block (each alone, or warp by warp) become threads of Python of which one runs at a time. A thread
gives way where it ends, at a call that threads make together (a barrier, a shuffle, a reduction), at a wait for what
others do (a barrier object), and in each turn of a loop that polls memory. When all of them wait or have ended, those
that wait at one call make it; a barrier only when nobody waits at anything else. What a program computes under every
seed depends on no order of its threads; a missing barrier shows as a different result. Where nobody can go on, or all
only poll, the threads and their places are named.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import numpy as np

from tirlower.diagnostics import InterpreterError, Label
from tirlower.interp.scope import Collective, Frame, Place, State, Team

__all__ = ["POLLS", "Interleaver"]

Runner = Callable[[Team], Team]

POLLS = 20_000
"""The turns of polling loops, with nothing else happening, after which threads count as stuck."""

_WARP_SIZE = 32
_STACK = 16 << 20
"""Bytes of stack for a thread of Python: closures nest with the statements of a program."""


class _Abandoned(BaseException):
    """Ends a thread of a block in which another one failed."""


class _Carrier:
    """A thread of Python that runs one worker after another, each until it gives way, while somebody waits for that."""

    def __init__(self) -> None:
        self.worker: _Worker | None = None
        self.go = threading.Lock()
        self.gave_way = threading.Lock()
        self.go.acquire()
        self.gave_way.acquire()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with np.errstate(all="ignore"):
            while True:
                self.go.acquire()
                if self.worker is None:
                    return
                self.worker.run()
                self.worker = None
                self.gave_way.release()

    def end(self) -> None:
        """End it; it has no worker."""
        self.go.release()
        self.thread.join()


class _Worker:
    """A thread or warp of a block."""

    def __init__(self, body: Runner, team: Team, carrier: _Carrier) -> None:
        self.team = team
        self.body = body
        self.carrier = carrier
        self.waiting: Collective | None = None
        self.waiters: Team = []
        self.polling: Place | None = None
        self.ended = False
        self.unchanged = False
        self.error: BaseException | None = None
        self.abandoned = False
        carrier.worker = self

    def run(self) -> None:
        """All of it, on its carrier."""
        try:
            if not self.abandoned:
                self.unchanged = self.body(self.team) is self.team
        except _Abandoned:
            pass
        except BaseException as error:  # handed to the thread that runs the block
            self.error = error
        self.ended = True

    def resume(self) -> None:
        """Run it until it gives way."""
        self.waiting, self.waiters, self.polling = None, [], None
        self.carrier.go.release()
        self.carrier.gave_way.acquire()

    def give_way(self, call: Collective | None, team: Team, polling: Place | None = None) -> None:
        """Let others run, on its own thread: until the call is made, or could be, or (without one) until its turn."""
        self.waiting, self.waiters, self.polling = call, team, polling
        self.carrier.gave_way.release()
        self.carrier.go.acquire()
        if self.abandoned:
            raise _Abandoned

    @property
    def can_go_on(self) -> bool:
        """Whether it waits for nothing, or for something that has happened."""
        call = self.waiting
        return call is None or (call.ready is not None and any(call.ready(frame) for frame in self.waiters))


class Interleaver:
    """Runs the threads of blocks in orders that a seed decides; without one, in order of their numbers.

    >>> Interleaver(1).seed
    1
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self._random = random.Random(seed)
        self._current: _Worker | None = None
        self._idle: list[_Carrier] = []

    def _carriers_for(self, count: int) -> list[_Carrier]:
        idle = self._idle
        if len(idle) < count:
            before = threading.stack_size(_STACK)
            try:
                idle += [_Carrier() for _ in range(count - len(idle))]
            finally:
                threading.stack_size(before)
        found, self._idle = idle[:count], idle[count:]
        return found

    def close(self) -> None:
        """End the threads of Python that it has."""
        for carrier in self._idle:
            carrier.end()
        self._idle.clear()

    def order(self, count: int) -> list[int]:
        """An order of things whose order is the device's choice."""
        found = list(range(count))
        if self.seed is not None:
            self._random.shuffle(found)
        return found

    def run(self, body: Runner, team: Team, warps: bool = False) -> Team:
        """Run a body for each frame of a team, or each warp; what lockstep's ``body(team)`` would return."""
        outer, parts = self._current, [[frame] for frame in team]
        if warps:
            found: dict[tuple[int, int], Team] = {}
            for frame in team:
                state: State = frame[0]
                found.setdefault((id(state.group), state.linear_thread() // _WARP_SIZE), []).append(frame)
            parts = list(found.values())
        carriers = self._carriers_for(len(parts))
        workers = [_Worker(body, part, carrier) for part, carrier in zip(parts, carriers, strict=True)]
        try:
            self._drive(workers)
        finally:
            for worker in workers:
                if not worker.ended:
                    worker.abandoned = True
                    worker.resume()
            self._idle += carriers
            self._current = outer
        if all(worker.unchanged for worker in workers):
            return team
        return [frame for frame in team if frame[0].signal is None]

    def _drive(self, workers: list[_Worker]) -> None:
        polls = 0
        ready = list(workers)
        while True:
            ready = [ready[at] for at in self.order(len(ready))]
            for worker in ready:
                self._current = worker
                worker.resume()
                if worker.error is not None:
                    raise worker.error
            left = [worker for worker in workers if not worker.ended]
            if not left:
                return
            polls = polls + 1 if all(worker.polling is not None and not worker.ended for worker in ready) else 0
            ready = [worker for worker in left if worker.can_go_on]
            if not ready or (polls and all(worker.polling is not None for worker in ready)):
                met = self._meeting(left)
                if met:
                    ready, polls = met, 0
                elif not ready or polls > POLLS // len(left):
                    raise _stuck(left)

    def _meeting(self, left: list[_Worker]) -> list[_Worker]:
        """Threads that wait at one call, which they make; none where nobody can."""
        places: dict[int, list[_Worker]] = {}
        for worker in left:
            if worker.waiting is not None and worker.waiting.ready is None:
                places.setdefault(id(worker.waiting), []).append(worker)
        if not places:
            return []
        of_warps = [part for group in places.values() if not _is_barrier(group) for part in _whole_warps(group, left)]
        free = of_warps or [group for group in places.values() if not _is_barrier(group)]
        if not free and len(left) > sum(len(group) for group in places.values()):
            return []  # a barrier for which some cannot come
        group = (free or list(places.values()))[self.order(len(free or places))[0]]
        call = group[0].waiting
        assert call is not None
        call.run([frame for worker in group for frame in worker.waiters])
        return group

    def make(self, call: Collective, team: Team) -> None:
        """A call that threads make together, or a wait: of a part of a block, give way to the others meanwhile."""
        worker = self._current
        if call.ready is None:
            if worker is None:
                call.run(team)
            else:
                worker.give_way(call, team)
            return
        left = team
        while left:
            now = [frame for frame in left if call.ready(frame)]
            if now:
                call.run(now)
                left = [frame for frame in left if not any(frame is other for other in now)]
            elif worker is None:
                raise _deadlock([(call, call.place, left)])
            else:
                worker.give_way(call, left)

    def poll(self, place: Place, team: Team) -> None:
        """One turn of a loop that polls memory: let others run."""
        if self._current is not None:
            self._current.give_way(None, team, place)


def _is_barrier(group: list[_Worker]) -> bool:
    call = group[0].waiting
    return call is not None and call.of_block


def _whole_warps(group: list[_Worker], left: list[_Worker]) -> list[list[_Worker]]:
    """The parts of a group that are all that is left of their warps, or of the warps that make the call together."""
    call = group[0].waiting
    size = _WARP_SIZE if call is None else call.size
    waiting: dict[object, list[_Worker]] = {}
    for worker in group:
        waiting.setdefault(_warp(worker.team[0], size), []).append(worker)
    counts: dict[object, int] = {}
    for worker in left:
        counts[_warp(worker.team[0], size)] = counts.get(_warp(worker.team[0], size), 0) + 1
    whole = [part for warp, part in waiting.items() if counts[warp] == len(part)]
    # Together, for calls of several warps.
    return [[worker for part in whole for worker in part]] if whole else []


def _warp(frame: Frame, size: int) -> tuple[int, int]:
    state: State = frame[0]
    return id(state.group), state.linear_thread() // size


def _stuck(left: list[_Worker]) -> InterpreterError:
    groups: dict[int, tuple[Collective | None, Place | None, Team]] = {}
    for worker in left:
        call = worker.waiting
        place = worker.polling if call is None else call.place
        groups.setdefault(id(place if call is None else call), (call, place, []))[2].extend(worker.waiters)
    return _deadlock(list(groups.values()))


def _deadlock(groups: list[tuple[Collective | None, Place | None, Team]]) -> InterpreterError:
    """The error for threads of which none can go on."""
    parts: list[str] = []
    labels: list[Label] = []
    notes: list[str] = []
    for call, place, team in groups:
        what = "poll memory"
        if call is not None:
            what = "wait at a barrier" if call.of_block else "wait for the other threads of a call"
            if call.ready is not None:
                what = "wait for a phase of a barrier object"
        state: State = team[0][0]
        who = ", ".join(f"{tag} = {index}" for tag, index in state.threads.items())
        parts.append(f"{len(team)} {what}")
        if place is not None:
            labels.append(Label(place.span, f"{len(team)} threads {what} here, thread ({who}) among them"))
            notes += place.notes(team[0])
        if call is not None and call.describe is not None:
            notes.append(call.describe(team[0]))
    return InterpreterError(
        f"deadlock: no thread of a block can go on: {', '.join(parts)}",
        origin="interpret",
        labels=[label for label in labels if label.span is not None],
        notes=notes,
        help="let every thread come to each barrier, and see that who is waited for arrives as often, and in the "
        "phase, that is waited for (blocks run one after another here, so none can wait for a later one)",
    )
