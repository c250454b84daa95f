"""Threads in other orders than lockstep: each runs as far as the next barrier, in an order drawn from a seed.

The threads of a block become threads of Python of which one runs at a time. A thread gives way where it ends, or at a
call that threads make together (a barrier, a shuffle, a reduction). When all wait or have ended, those that wait at one
call make it; a barrier only when nobody waits at anything else. What a program computes under every seed depends on no
order of its threads; a missing barrier shows as a different result.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from tirlower.interp.scope import Collective, Frame, Team

__all__ = ["Interleaver"]

Runner = Callable[[Team], Team]


class _Abandoned(BaseException):
    """Ends a thread of a block in which another one failed."""


class _Worker:
    """One thread of a block, on a thread of Python that runs only while the interleaver waits for it."""

    def __init__(self, body: Runner, frame: Frame) -> None:
        self.team = [frame]
        self.body = body
        self.waiting: Collective | None = None
        self.ended = False
        self.unchanged = False
        self.error: BaseException | None = None
        self.abandoned = False
        self.go = threading.Semaphore(0)
        self.gave_way = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.go.acquire()
        try:
            if not self.abandoned:
                with np.errstate(all="ignore"):
                    self.unchanged = self.body(self.team) is self.team
        except _Abandoned:
            pass
        except BaseException as error:  # handed to the thread that runs the block
            self.error = error
        self.ended = True
        self.gave_way.release()

    def resume(self) -> None:
        """Run it until it gives way."""
        self.waiting = None
        self.go.release()
        self.gave_way.acquire()

    def wait_at(self, call: Collective) -> None:
        """Give way, on its own thread."""
        self.waiting = call
        self.gave_way.release()
        self.go.acquire()
        if self.abandoned:
            raise _Abandoned


class Interleaver:
    """Runs the threads of blocks in orders that a seed decides.

    >>> Interleaver(1).seed
    1
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._random = random.Random(seed)
        self._workers: dict[int, _Worker] = {}

    def run(self, body: Runner, team: Team) -> Team:
        """Run a body for each frame of a team; what lockstep's ``body(team)`` would return."""
        outer = self._workers
        workers = [_Worker(body, frame) for frame in team]
        self._workers = {id(worker.team[0]): worker for worker in workers}
        try:
            self._drive(workers)
        finally:
            for worker in workers:
                if not worker.ended:
                    worker.abandoned = True
                    worker.resume()
            for worker in workers:
                worker.thread.join()
            self._workers = outer
        if all(worker.unchanged for worker in workers):
            return team
        return [frame for frame in team if frame[0].signal is None]

    def _drive(self, workers: list[_Worker]) -> None:
        ready = list(workers)
        while True:
            self._random.shuffle(ready)
            for worker in ready:
                worker.resume()
                if worker.error is not None:
                    raise worker.error
            left = [worker for worker in workers if not worker.ended]
            if not left:
                return
            ready = self._meeting(left)

    def _meeting(self, left: list[_Worker]) -> list[_Worker]:
        """The threads that wait at one call, which they make."""
        places: dict[int, list[_Worker]] = {}
        for worker in left:
            places.setdefault(id(worker.waiting), []).append(worker)
        free = [group for group in places.values() if not _is_barrier(group)]
        group = self._random.choice(free or list(places.values()))
        call: Any = group[0].waiting
        call.run([worker.team[0] for worker in group])
        return group

    def make(self, call: Collective, team: Team) -> None:
        """A call that threads make together: of one thread, wait for the others; of a whole team, make it."""
        worker = self._workers.get(id(team[0])) if len(team) == 1 else None
        if worker is None:
            call.run(team)
        else:
            worker.wait_at(call)


def _is_barrier(group: list[_Worker]) -> bool:
    call = group[0].waiting
    return call is not None and call.of_block
