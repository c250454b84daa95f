"""Interleaved timing: candidates take turns, so that a change of the machine's speed meets them all."""

from __future__ import annotations

import gc
import statistics
import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Candidate = Callable[[], object]
Clock = Callable[[], float]

SETTLED = 0.05
"""Seconds after which no peer's workers spin: OpenBLAS's do for 2^26 ticks of the processor, 26 ms at 2.6 GHz."""


@dataclass(frozen=True)
class Call:
    """A call as a user writes it, ``fn(*args)``: timed in a generated loop, without a function around it."""

    fn: Callable[..., object]
    args: tuple[object, ...]

    def __call__(self) -> object:
        return self.fn(*self.args)

    def run(self, count: int, clock: Clock = time.perf_counter) -> float:
        """Seconds of ``count`` calls."""
        names = {f"x{i}": arg for i, arg in enumerate(self.args)}
        return timeit.Timer(f"fn({', '.join(names)})", timer=clock, globals={"fn": self.fn, **names}).timeit(count)


def run(candidate: Candidate, count: int, clock: Clock) -> float:
    """Seconds of ``count`` calls of a candidate."""
    if isinstance(candidate, Call):
        return candidate.run(count, clock)
    start = clock()
    for _ in range(count):
        candidate()
    return clock() - start


@dataclass(frozen=True)
class Timing:
    """Seconds a call in each round, in the order of the rounds."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def least(self) -> float:
        return min(self.rounds)

    def ratio(self, ours: Timing) -> float:
        """How many times longer than ``ours`` this takes: the median over the rounds of the two turns' ratio.

        Turns of a round stand next to each other. A shared machine changes its speed (and whose data its caches hold)
        from second to second, by more than the candidates differ: that cancels in a round, and not between medians.
        """
        return statistics.median(a / b for a, b in zip(self.rounds, ours.rounds, strict=True))


def loops_for(fn: Candidate, target: float) -> int:
    """How many calls in a row take about ``target`` seconds."""
    fn()
    start = time.perf_counter()
    fn()
    once = max(time.perf_counter() - start, 1e-8)
    if once < target / 20:
        start = time.perf_counter()
        for _ in range(20):
            fn()
        once = max((time.perf_counter() - start) / 20, 1e-9)
    return max(1, int(target / once))


def interleave(
    candidates: Mapping[str, Candidate],
    rounds: int = 15,
    slice_seconds: float = 0.02,
    pause: float = 0.0,
    clock: Clock = time.perf_counter,
) -> dict[str, Timing]:
    """Time candidates in turn, ``rounds`` times each, every turn of about ``slice_seconds``; the order turns as well.

    Before each turn of candidates with threads a ``pause`` (seconds, then one call that is not counted) lets the
    workers of the one before go to sleep: they spin for a while, and would take the next one's cores. Candidates that
    run in the calling thread alone may be timed by ``time.thread_time``, which stands still while others have the core.
    """
    counts = {name: loops_for(fn, slice_seconds) for name, fn in candidates.items()}
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(rounds):
            order = list(candidates.items())
            for name, fn in order if turn % 2 else reversed(order):
                if pause:
                    time.sleep(pause)
                    fn()
                samples[name].append(run(fn, counts[name], clock) / counts[name])
    finally:
        if collecting:
            gc.enable()
    return {name: Timing(tuple(s)) for name, s in samples.items()}


def human(seconds: float) -> str:
    """Seconds with a fitting unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def table(title: str, rows: Mapping[str, Mapping[str, Timing]], ours: str = "tirlower") -> str:
    """Rows of timings by candidate; peers with the ratio peer / ours (above 1: we are faster)."""
    names: list[str] = []
    for timings in rows.values():
        names += [n for n in timings if n not in names]
    names.sort(key=lambda n: n != ours)
    width = max(20, *(len(label) for label in rows))
    lines = [title, f"{'':<{width}}" + "".join(f"{name:>22}" for name in names)]
    for label, timings in rows.items():
        base = timings.get(ours)
        cells = []
        for name in names:
            timing = timings.get(name)
            if timing is None:
                cells.append(f"{'-':>22}")
            elif name == ours or base is None:
                cells.append(f"{human(timing.median):>22}")
            else:
                cells.append(f"{human(timing.median) + f' ({timing.ratio(base):.2f}x)':>22}")
        lines.append(f"{label:<{width}}" + "".join(cells))
    return "\n".join(lines)
