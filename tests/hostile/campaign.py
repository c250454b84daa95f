"""Runs many hostile programs in child processes: a child that dies names its program, and the next goes on after it."""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.hostile.compare import compare
from tests.hostile.generate import Hostile, generate

__all__ = ["Fault", "Report", "run_many"]

SECONDS = 30.0
BATCH = 400
"""Programs that one child runs: its machine code is never given back."""


@dataclass(frozen=True)
class Fault:
    """What went wrong with a seed."""

    seed: int
    what: str

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.what}\n{generate(self.seed).text}"


@dataclass
class Report:
    """What was run."""

    programs: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.programs} programs in {self.seconds:.0f} s: {len(self.faults)} faults"]
        lines += [f"  {count} × {what}" for what, count in self.counts.most_common()]
        return "\n".join(lines)


def _child(first: int, last: int, pipe: int, target: str) -> None:
    """Run programs; a line before each says its seed, a line after it what was found."""
    with os.fdopen(pipe, "w") as out:
        for seed in range(first, last):
            print(json.dumps({"start": seed}), file=out, flush=True)
            counts: Counter[str] = Counter()
            try:
                found = compare(generate(seed), counts, target)
            except Exception as error:  # a fault of the generator
                found = [f"generator: {type(error).__name__}: {error}"]
            print(json.dumps({"done": seed, "found": found, "counts": counts}), file=out, flush=True)


def run_many(first: int, count: int, *, seconds: float = float("inf"), log: Any = None, target: str = "llvm") -> Report:
    """Run the programs of ``count`` seeds, each call of each natively and in the interpreter."""
    report = Report()
    begin = time.monotonic()
    seed, last = first, first + count
    while seed < last and time.monotonic() - begin < seconds:
        seed = _batch(seed, min(seed + BATCH, last), report, begin + seconds, log, target)
    report.seconds = time.monotonic() - begin
    return report


def _batch(first: int, last: int, report: Report, until: float, log: Any, target: str) -> int:
    """Run programs in one child; returns the seed after the last that was run."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.close(reading)
            faulthandler.disable()
            _child(first, last, writing, target)
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    at, left = first, b""
    ended = ""

    def fault(what: str) -> None:
        found = Fault(at, what)
        report.faults.append(found)
        if log is not None:
            print(found, file=log, flush=True)

    while True:
        ready, _, _ = select.select([reading], [], [], SECONDS)
        if not ready or time.monotonic() > until:
            os.kill(process, signal.SIGKILL)
            ended = "" if ready else f"still running after {SECONDS} s"
        chunk = os.read(reading, 1 << 16)
        if not chunk:
            break
        *lines, left = (left + chunk).split(b"\n")
        for line in lines:
            told = json.loads(line)
            if "start" in told:
                at = told["start"]
                continue
            report.programs += 1
            report.counts.update(told["counts"])
            for what in told["found"]:
                fault(what)
            at = told["done"] + 1
    os.close(reading)
    _, status = os.waitpid(process, 0)
    if at >= last or time.monotonic() > until:
        return last if at >= last else at
    if not ended:
        ended = f"signal {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else f"status {status}"
    report.programs += 1
    fault(ended)
    return at + 1


def one(program: Hostile) -> list[str]:
    """What a single program shows, in a child of its own."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(reading)
            faulthandler.disable()
            signal.alarm(int(SECONDS))
            with os.fdopen(writing, "w") as out:
                out.write(json.dumps(compare(program, Counter())))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as given:
        text = given.read()
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return [f"signal {signal.Signals(os.WTERMSIG(status)).name}"]
    return list(json.loads(text)) if text else ["died"]
