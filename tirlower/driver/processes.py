"""Units compiled by several processes, where many are to be compiled and there are cores for it.

The processes are Python started anew, so nothing of this one is run or held there: a script needs no guard around its
main part, and a daemonic process of ``multiprocessing`` may have them. Here a thread for each does nothing but hand out
units and take machine code; this thread compiles too, from its first moment on. Whatever goes wrong over there, a process
that cannot be started included, the unit is compiled here, where its error is raised as if there were no processes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final

from tirlower.driver.compile_process import Answer, Question, receive, send
from tirlower.driver.result import BuildResult
from tirlower.llvm.cache import CacheEntry, versions
from tirlower.machine.cpu import effective_cpu_count

__all__ = ["PROCESSES_VARIABLE", "can_start_python", "compile_together", "processes_for"]

PROCESSES_VARIABLE: Final = "TIRLOWER_COMPILE_PROCESSES"
SECONDS_A_BYTE: Final = 12e-6
"""What a byte of a unit's JSON takes to compile, about: a matrix product of 3 KB took 40 ms."""
SECONDS_A_PROCESS: Final = 1.0
"""The work for which it pays to start a process, which takes 0.4 s to be ready."""
MOST: Final = 8
_PLAIN: Final = (str, int, float, bool, bytes, type(None))
_START: Final = "import sys; sys.path[:] = {path!r}; from tirlower.driver.compile_process import serve; serve()"

_busy: Final = threading.Lock()
"""Held by the one thread that has processes: another compiles alone meanwhile."""


def processes_for(units: int, size: int) -> int:
    """How many processes to start for units whose JSON has so many bytes; 0 where it does not pay, or may not be."""
    work = int(size * SECONDS_A_BYTE / SECONDS_A_PROCESS)
    if units < 2 or work < 1 or not can_start_python():
        return 0
    return min(effective_cpu_count(PROCESSES_VARIABLE) - 1, units - 1, work, MOST)


def compile_together(
    units: Sequence[BuildResult],
    size: int,
    compile_here: Callable[[int], CacheEntry],
    keep: Callable[[int, CacheEntry], None],
) -> list[CacheEntry]:
    """The machine code of units, in their order.

    Given a unit's number, ``compile_here`` makes it in this process; ``keep`` is told of it, in this thread, whether or not
    the others are made. Raises what ``compile_here`` raises of the first unit of which it raises anything.
    """
    count = processes_for(len(units), size) if all(_is_plain(dict(unit.spec.choices)) for unit in units) else 0
    has_processes = count > 0 and _busy.acquire(blocking=False)
    try:
        return _Batch(units, compile_here, keep).run(count if has_processes else 0)
    finally:
        if has_processes:
            _busy.release()


class _Batch:
    """Units to be compiled, and what became of them."""

    def __init__(
        self,
        units: Sequence[BuildResult],
        compile_here: Callable[[int], CacheEntry],
        keep: Callable[[int, CacheEntry], None],
    ) -> None:
        self.units = units
        self.compile_here = compile_here
        self.keep = keep
        self.made: dict[int, CacheEntry] = {}
        self.kept: dict[int, CacheEntry] = {}
        self._next = 0
        self._lock = threading.Lock()

    def run(self, count: int) -> list[CacheEntry]:
        """The machine code of each unit, with so many processes beside this one."""
        helpers: list[_Helper] = []
        failed: tuple[int, Exception] | None = None
        try:
            with contextlib.suppress(OSError, RuntimeError):  # no more processes, or threads: fewer will do
                for _ in range(count):
                    helpers.append(_Helper(self))
                    helpers[-1].thread.start()
            while (number := self.take()) is not None:
                try:
                    self.made[number] = self.compile_here(number)
                except Exception as error:
                    failed = number, error
                    self.close()
                self.keep_made()
            for helper in helpers:
                helper.finish()
        finally:
            for helper in helpers:
                helper.stop()
            self.keep_made()
        for number in range(len(self.units)):
            if failed is not None and number == failed[0]:
                raise failed[1]
            if number not in self.made:
                self.made[number] = self.compile_here(number)
                self.keep_made()
        return [self.made[number] for number in range(len(self.units))]

    def keep_made(self) -> None:
        """Keep what was made since the last time."""
        for number in [number for number in list(self.made) if number not in self.kept]:
            self.kept[number] = self.made[number]
            self.keep(number, self.made[number])

    def take(self, helper: _Helper | None = None) -> int | None:
        """The next unit to compile, noted as the helper's; None where there is none."""
        with self._lock:
            number = self._next if self._next < len(self.units) else None
            self._next += 1
            if helper is not None:
                helper.is_busy = number is not None
            return number

    def close(self) -> None:
        """There are no more units to compile."""
        with self._lock:
            self._next = len(self.units)


class _Helper:
    """A process, and the thread that feeds it."""

    def __init__(self, batch: _Batch) -> None:
        self.batch = batch
        self.is_busy = False
        # A session of its own: Ctrl-C is for this process, which then ends the other.
        self.process = subprocess.Popen(
            [sys.executable, *(["-I"] if sys.flags.isolated else []), "-c", _START.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.thread = threading.Thread(target=self._feed, name="tirlower-compile", daemon=True)

    def _feed(self) -> None:
        questions, answers = self.process.stdin, self.process.stdout
        assert questions is not None and answers is not None
        # A process that ends, or answers with something else, leaves its unit to us; so does what cannot be pickled.
        with contextlib.suppress(Exception):
            if receive(answers) != dict(versions()):
                return
            while (number := self.batch.take(self)) is not None:
                unit = self.batch.units[number]
                send(questions, Question.of(unit))
                answer = receive(answers)
                if isinstance(answer, Answer):
                    unit.timings, unit.passes = answer.timings, answer.passes
                    self.batch.made[number] = answer.entry
        self.is_busy = False

    def finish(self) -> None:
        """Wait for the unit that the process has, if any."""
        while self.is_busy and self.thread.is_alive():
            self.thread.join(0.1)  # Ctrl-C is heard in between, on Windows too

    def stop(self) -> None:
        """End the process, and the thread with it."""
        self.process.kill()
        if self.thread.ident is not None:
            self.thread.join()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self.process.wait()


def can_start_python() -> bool:
    """Whether this program is a Python that can be started once more: not one inside another program."""
    name = os.path.basename(sys.executable or "").lower()
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def _is_plain(value: object) -> bool:
    """Whether a value is text, numbers, and collections of such: no object of the user's, which only this process knows."""
    if isinstance(value, dict):
        return all(_is_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(_is_plain(part) for part in value)
    return type(value) in _PLAIN
