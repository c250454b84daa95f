"""Judges many programs and reports: wrong answers with small programs, refusals by reason, slow verdicts."""

from __future__ import annotations

import functools
import json
import multiprocessing as mp
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tests.judge.generate import generate
from tests.judge.judge import SLOW_S, BoundVerdicts, Finding, judge
from tests.judge.program import Program, print_program
from tests.judge.shrink import shrink

__all__ = ["Report", "run_blocks", "run_many", "smallest"]

BLOCK = 100
"""How many programs are one line of a record."""

WRONG = ("unsound", "false witness", "crash", "error")
"""The kinds of findings that are faults; others are counted."""


@dataclass
class Report:
    """What was judged."""

    programs: int = 0
    seconds: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    found: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    slow: list[tuple[int, str, float]] = field(default_factory=list)
    slowest: float = 0.0
    first: int = 0
    revisions: Counter[str] = field(default_factory=Counter)
    """How many programs were judged at which revision of the library."""

    @property
    def wrong(self) -> int:
        """How many answers were wrong."""
        return sum(count for (kind, _), count in self.found.items() if kind in WRONG)

    def add(self, seed: int, judged: BoundVerdicts) -> None:
        """Count one program."""
        self.programs += 1
        self.asked.update(judged.asked)
        self.found.update(finding.key for finding in judged.findings)
        self.refused.update(judged.refused)
        self.slowest = max(self.slowest, judged.slowest)
        self.slow += [(seed, question, took) for question, took in judged.slow]

    def line(self) -> str:
        """Everything as one line of JSON."""
        tables = {name: [[key, n] for key, n in getattr(self, name).items()] for name in ("asked", "found", "refused")}
        return json.dumps(
            {"first": self.first, "programs": self.programs, "seconds": round(self.seconds, 3), **tables,
             "slow": self.slow, "slowest": self.slowest, "revisions": self.revisions}
        )  # fmt: skip

    @classmethod
    def read(cls, line: str) -> Report:
        """What :meth:`line` wrote."""
        data = json.loads(line)
        made = cls(data["programs"], data["seconds"], slowest=data["slowest"], first=data["first"])
        made.revisions.update(data.get("revisions", {"revisions that were not written down": made.programs}))
        made.asked.update(dict(data["asked"]))
        made.found.update({(kind, question): n for (kind, question), n in data["found"]})
        made.refused.update({(question, why): n for (question, why), n in data["refused"]})
        made.slow = [(seed, question, took) for seed, question, took in data["slow"]]
        return made

    def join(self, other: Report) -> None:
        """Count what another report has."""
        self.programs += other.programs
        self.seconds += other.seconds
        self.asked.update(other.asked)
        self.found.update(other.found)
        self.refused.update(other.refused)
        self.revisions.update(other.revisions)
        self.slow += other.slow
        self.slowest = max(self.slowest, other.slowest)

    def table(self, command: str) -> str:
        """A page of what was judged, with the command that makes it."""
        lines = [
            "# Verdicts against enumeration",
            "",
            f"Made by `{command}`: random programs, each verdict decided by enumerating every iteration (`tests/judge`).",
            f"{self.programs:,} programs (seeds from {self.first}), {sum(self.found[key] for key in self.found if key[0] in WRONG)} "
            f"wrong answers, {len(self.slow)} verdicts over {SLOW_S} s of processor time (the slowest took {self.slowest:.2f} s; of one that takes longer, the least of three times counts).",
            *(
                ["Judged were " + ", ".join(f"{n:,} at {name}" for name, n in self.revisions.items()) + "."]
                if self.revisions
                else []
            ),
            "",
            "| question | proved or accepted | refuted or refused | unknown | legal and static | of these refused |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        asked = self.asked
        for name in sorted(key.removesuffix(" legal") for key in asked if key.endswith(" legal")):
            yes, no = (
                asked[f"{name} proved"] + asked[f"{name} accepted"],
                asked[f"{name} refuted"] + asked[f"{name} refused"],
            )
            legal = asked[f"{name} legal"]
            refused = sum(count for (question, _), count in self.refused.items() if question == name)
            share = f"{refused} ({100 * refused / legal:.2f} percent)"
            lines.append(f"| {name} | {yes} | {no} | {asked[f'{name} unknown']} | {legal} | {share} |")
        lines += ["", "| refused though legal | why | times |", "| --- | --- | ---: |"]
        lines += [f"| {name} | {why} | {n} |" for (name, why), n in self.refused.most_common() if name != "parse"]
        lines += ["", "| finding | question | times |", "| --- | --- | ---: |"]
        lines += [f"| {kind} | {question} | {n} |" for (kind, question), n in self.found.most_common()]
        lines += [
            "",
            f"Accesses: {asked['access proved']} proved inside their buffers, {asked['access guarded']} guarded "
            f"({asked['access guarded for nothing']} of them though no run of a static program goes outside).",
        ]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        lines = [f"{self.programs} programs in {self.seconds:.0f} s: {self.wrong} wrong answers"]
        lines += [f"  {count} × {kind}: {question}" for (kind, question), count in self.found.most_common()]
        lines.append("asked: " + ", ".join(f"{name} {count}" for name, count in sorted(self.asked.items())))
        lines.append("refused though legal, of the static questions that are legal:")
        for name, legal in sorted(self.asked.items()):
            if name.endswith(" legal"):
                question = name.removesuffix(" legal")
                count = sum(n for (q, _), n in self.refused.items() if q == question)
                lines.append(f"  {question}: {count} of {legal} ({100 * count / legal:.2f} percent)")
                for (q, reason), n in self.refused.most_common():
                    if q == question:
                        lines.append(f"    {n} × {reason}")
        other = [(reason, n) for (q, reason), n in self.refused.most_common() if q == "parse"]
        lines += [f"not parsed: {n} × {reason}" for reason, n in other]
        lines.append(f"verdicts over {SLOW_S} s: {len(self.slow)}")
        lines += [f"  seed {seed}: {question}: {took:.2f} s" for seed, question, took in self.slow[:40]]
        return "\n".join(lines)


def smallest(program: Program, seed: int, finding: Finding, seconds: float) -> Program:
    """A small program with the same kind of finding."""

    def shows(candidate: Program) -> bool:
        return any(one.key == finding.key for one in judge(candidate, seed, finding.key).findings)

    return shrink(program, shows, seconds)


def _judged(seed: int, without: Sequence[str]) -> tuple[int, BoundVerdicts]:
    return seed, judge(generate(seed, without), seed)


def _all(seeds: range, workers: int, without: Sequence[str]) -> Iterator[tuple[int, BoundVerdicts]]:
    one = functools.partial(_judged, without=without)
    if workers == 1:
        yield from map(one, seeds)
        return
    # This pool raises BrokenProcessPool where a worker dies; that of multiprocessing would wait for its answer for good.
    pool = ProcessPoolExecutor(workers, mp_context=mp.get_context("fork"))
    try:
        yield from pool.map(one, seeds, chunksize=8)
    finally:
        pool.shutdown(cancel_futures=True)


def run_many(
    first: int,
    count: int,
    *,
    seconds: float = float("inf"),
    workers: int = 1,
    shrink_s: float = 10.0,
    each: int = 3,
    without: Sequence[str] = (),
    log: TextIO | None = None,
) -> Report:
    """Judge the programs of ``count`` seeds; write up to ``each`` small programs of a kind of fault to ``log``."""
    report = Report(first=first)
    shown: Counter[Any] = Counter()
    texts: set[str] = set()
    start = time.monotonic()
    for seed, judged in _all(range(first, first + count), workers, without):
        report.add(seed, judged)
        for finding in judged.findings:
            shown[finding.key] += 1
            if log is not None and finding.kind in WRONG and shown[finding.key] <= each:
                small = smallest(generate(seed, without), seed, finding, shrink_s)
                again = [one for one in judge(small, seed, finding.key).findings if one.key == finding.key]
                text = print_program(small).text
                if text not in texts:
                    texts.add(text)
                    print(f"seed {seed}: {again[0] if again else finding}\n{text}", file=log, flush=True)
        report.seconds = time.monotonic() - start
        if report.seconds > seconds:
            break
    return report


def revision() -> str:
    """The commit that changed the library last, and whether it was changed since."""
    root = Path(__file__).parents[2]

    def git(*args: str) -> str:
        asked = ["git", "-C", str(root), *args, "--", "tirlower"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("log", "-1", "--format=%h") + (" with changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "an unknown revision"


def run_blocks(first: int, count: int, record: Path, *, seconds: float = float("inf"), **options: Any) -> Report:
    """As :func:`run_many`, in blocks of seeds, each a line of ``record`` once it is done.

    What stands there is not judged again, so that a run that was stopped goes on; the report is of all of it.
    """
    known = [Report.read(line) for line in record.read_text().splitlines()] if record.exists() else []
    done = {one.first: one for one in known}
    total, here = Report(first=first), revision()
    start = time.monotonic()
    for at in range(first, first + count, BLOCK):
        if at not in done:
            if time.monotonic() - start > seconds:
                continue
            done[at] = run_many(at, min(BLOCK, first + count - at), **options)
            done[at].revisions[here] = done[at].programs
            with record.open("a") as lines:
                lines.write(done[at].line() + "\n")
        total.join(done[at])
    return total
