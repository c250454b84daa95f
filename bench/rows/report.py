"""The table of the rows: a process for each number of threads, candidates taking turns."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

import numpy as np

import tirlower as tl
from bench.by_hand import cases
from bench.by_hand.case import Case
from bench.by_hand.machine import Machine
from bench.measure import SETTLED, Candidate, human, interleave
from bench.rows.naive import NAIVE, TARGETS
from bench.worker import worker_rows
from tirlower.ir import PrimFunc

__all__ = ["report", "rows_of", "table"]


class Row(TypedDict):
    """A form of a row on a number of threads: seconds a call of each candidate, and what was made of it."""

    recipe: str
    exactness: str
    none: float
    auto: float
    hand: float
    peers: dict[str, float]
    build: float


def rows_of(only: list[str]) -> dict[str, Mapping[str, object]]:
    """The rows with the names, or of the classes, that are asked for; all without any."""
    wanted = cases(only)
    return {name: forms for name, forms in NAIVE.items() if name in wanted}


def measured(case: Case, hand: tl.Kernel, func: PrimFunc, threads: int, rounds: int, permitted: str = "") -> Row:
    """A form of a row beside the kernel by hand and the peers of its case; results are compared first."""
    target = f"llvm -num_threads={threads} {permitted}".strip()
    # On one thread what counts is the processor's time: others may have the machine as well.
    clock = time.process_time if threads == 1 else time.perf_counter
    start = time.perf_counter()
    auto = tl.build(func, target, schedule="auto")
    build = time.perf_counter() - start
    nests = [nest for nest in auto.report().nests if nest.recipe]
    exactness = [nest.exactness for nest in nests if nest.exactness != "bitwise equal"]
    plain = tl.build(func, target, schedule="none")
    case.args[-1].fill(0)
    start = clock()
    plain(*case.args)
    written = clock() - start
    wanted = case.args[-1].copy()
    case.args[-1].fill(0)
    auto(*case.args)
    if not exactness:
        np.testing.assert_array_equal(case.args[-1], wanted)
    case.check()
    candidates: dict[str, Candidate] = {
        "auto": lambda: auto(*case.args),
        "hand": lambda: hand(*case.args),
        **case.peers,
    }
    timings = interleave(candidates, rounds, 0.01, 0.0 if threads == 1 else SETTLED, clock)
    return {
        "recipe": " + ".join(dict.fromkeys(nest.recipe for nest in nests)),
        "exactness": exactness[0] if exactness else "bitwise equal",
        "none": written,
        "auto": timings["auto"].median,
        "hand": timings["hand"].median,
        "peers": {peer: timings[peer].median for peer in case.peers},
        "build": build,
    }


def worker(threads: int, rounds: int, only: list[str]) -> None:
    """Measure on so many threads; a line of JSON a form of a row."""
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    machine = replace(Machine.host(), threads=threads)
    for name in rows_of(only):
        case = cases([])[name](machine)
        hand = tl.build(case.func, f"llvm -num_threads={threads} {case.target}", schedule="none")
        for form, make in NAIVE[name].items():
            print(
                json.dumps(
                    {"name": f"{name}, {form}", **measured(case, hand, make(), threads, rounds, TARGETS.get(name, ""))}
                ),
                flush=True,
            )


def table(rows: Mapping[str, Row]) -> str:
    """Markdown: a line a form of a row, and the geometric mean of what ours takes of the best peer's time."""
    lines = [
        "| row | class | as written | auto | by hand (auto / hand) | best peer (auto / peer) | build |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    ratios = []
    for name, row in rows.items():
        peer = "–"
        if row["peers"]:
            best, seconds = min(row["peers"].items(), key=lambda item: item[1])
            ratios.append(row["auto"] / seconds)
            peer = f"{best} {human(seconds)} ({ratios[-1]:.2f})"
        kind = row["recipe"] or "as written"
        if row["exactness"] != "bitwise equal":
            kind += ", rounded" if row["exactness"].startswith("rounded") else ", reassociated"
        hand = f"{human(row['hand'])} ({row['auto'] / row['hand']:.2f})"
        cells = [name, kind, human(row["none"]), human(row["auto"]), hand, peer, human(row["build"])]
        lines.append(f"| {' | '.join(cells)} |")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines.append(f"\ngeometric mean of auto / best peer: {mean:.2f}; the largest {max(ratios):.2f}")
    return "\n".join(lines)


def report(only: list[str] | None = None, rounds: int = 5) -> str:
    """The medians of ``rounds`` turns on one thread and on two. Results are checked against NumPy's, and, where the report of
    the schedule says "bitwise equal", against the written loops' bit by bit.
    """
    chosen = only or []
    if not rows_of(chosen):
        raise SystemExit(f"no row is named {', '.join(chosen)}; the rows are {', '.join(NAIVE)}")
    cpu = Machine.host().cpu
    parts = [f"naive programs ({cpu.name}, vectors of {cpu.vector_bits} bits; the median of {rounds} turns)"]
    for threads in (1, 2):
        parts.append(
            f"{threads} thread{'s' * (threads > 1)}\n\n{table(worker_rows('bench.rows.report', threads, rounds, chosen))}"
        )
    return "\n\n".join(parts)


if __name__ == "__main__":
    worker(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
