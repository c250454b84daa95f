"""The table of the kernels by hand: a process for each number of threads, all candidates and the limit taking turns."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

import tirlower as tl
from bench.by_hand import CLASSES, cases
from bench.by_hand.case import Maker
from bench.by_hand.limits import LIMITS, Limit
from bench.by_hand.machine import Machine
from bench.measure import SETTLED, Candidate, human, interleave
from bench.worker import worker_rows

__all__ = ["report"]

_OURS, _LIMIT = "tirlower", "limit"
PEERS = ("numpy", "numba", "jax")


class Row(TypedDict):
    """What was measured of a kernel on a number of threads: seconds a call, and the part of the limit."""

    seconds: float
    peers: dict[str, float]
    limit: str
    rate: float
    part: float
    reached: float


def measured(make: Maker, machine: Machine, threads: int, limits: dict[str, Limit], rounds: int) -> Row:
    """One kernel beside its peers and its limit; every result is compared with NumPy's first."""
    case = make(machine)
    kernel = tl.build(case.func, f"llvm -num_threads={threads} {case.target}", schedule="none")
    case.args[-1].fill(0)
    kernel(*case.args)
    case.check()
    for peer in case.peers.values():
        case.args[-1].fill(0)
        case.check(peer())
    if case.limit not in limits:
        limits[case.limit] = LIMITS[case.limit](machine, threads)
    limit = limits[case.limit]
    candidates: dict[str, Candidate] = {_OURS: lambda: kernel(*case.args), _LIMIT: limit.call, **case.peers}
    # On one thread what counts is the processor's time, of whatever thread: others may have the machine as well.
    clock = time.process_time if threads == 1 else time.perf_counter
    timings = interleave(candidates, rounds, 0.01, 0.0 if threads == 1 else SETTLED, clock)
    ours, best = timings[_OURS].least, timings[_LIMIT].least
    return {
        "seconds": ours,
        "peers": {name: timings[name].least for name in case.peers},
        "limit": case.limit,
        "rate": limit.work / best,
        "part": best / ours * case.work / limit.work,
        "reached": case.reached,
    }


def worker(threads: int, rounds: int, only: list[str]) -> None:
    """Measure on so many threads; a line of JSON a kernel."""
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        # XLA has a thread for each CPU that it may use.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    machine, limits = replace(Machine.host(), threads=threads), dict[str, Limit]()
    for name, make in cases(only).items():
        print(json.dumps({"name": name, **measured(make, machine, threads, limits, rounds)}), flush=True)


def _cells(row: Row | None) -> list[str]:
    if row is None:
        return ["–"] * 3
    cells = [
        human(row["seconds"]),
        "–",
        f"{row['part']:.2f} of {row['rate'] / 1e9:.4g} ({row['part'] / row['reached']:.2f})",
    ]
    if row["peers"]:
        name, best = min(row["peers"].items(), key=lambda item: item[1])
        cells[1] = f"{name} {human(best)} ({best / row['seconds']:.2f})"
    return cells


def table(by_threads: Mapping[int, Mapping[str, Row]]) -> str:
    """Markdown: a line a kernel."""
    head = ["kernel", "limit (GFLOP/s, GB/s)", "asked"]
    for threads in by_threads:
        on = f"{threads} thread{'s' * (threads > 1)}"
        head += [on, "best peer (peer / ours)", f"of the limit, {on} (part / asked)"]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    rows = next(iter(by_threads.values()))
    for name, row in rows.items():
        cells = [name, row["limit"], f"{row['reached']:.2f}"]
        for found in by_threads.values():
            cells += _cells(found.get(name))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _versions() -> str:
    found = []
    for name in PEERS:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def report(only: list[str] | None = None, rounds: int = 61) -> str:
    """The least times on one thread and on two, the best peer of each, and the part of the limit that binds.

    A limit is what the machine does while nothing else runs on it, and so are the times that are compared with it: the
    least of many short turns.
    ``asked`` is the part that schedules by hand were measured to reach on another machine, and what is in brackets behind
    a part of the limit is how much of that. JAX is taken where it is installed.
    """
    if not cases(only or []):
        raise SystemExit(f"no kernel by hand is named {', '.join(only or [])}; the classes are {', '.join(CLASSES)}")
    found = {threads: worker_rows("bench.by_hand.report", threads, rounds, only or []) for threads in (1, 2)}
    cpu = Machine.host().cpu
    title = f"by hand ({cpu.name}, vectors of {cpu.vector_bits} bits; {_versions()}; the least of {rounds} rounds)"
    return f"{title}\n\n{table(found)}"


if __name__ == "__main__":
    worker(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
