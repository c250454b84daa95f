"""Asks the library about kernels, and decides each answer by running their texts in step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import tirlower as tl
from tests.judge_threads.evaluate import NotRead, Outside, Result, run_text
from tests.judge_threads.generate import Kernel
from tirlower.diagnostics import InterpreterError, TirError
from tirlower.script import parse

__all__ = ["WRONG", "Finding", "Verdict", "judge", "shrink"]

TARGET = "nvptx -arch=sm_80"
WRONG = ("unsound", "wrong after lowering", "missed by the simulator", "false alarm of the simulator", "crash")
"""The kinds of findings that are faults; others are counted."""


@dataclass(frozen=True)
class Finding:
    """A fault: of which kind, and what happened."""

    kind: str
    what: str


@dataclass
class Verdict:
    """All about one kernel."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def _arrays(kernel: Kernel) -> list[np.ndarray]:
    numbers = np.arange(kernel.size)
    return [
        ((numbers * 7 + 3) % 41).astype(kernel.dtype),
        ((numbers * 5 + 1) % 37).astype(kernel.dtype),
        np.full(kernel.size, -1, kernel.dtype),
    ]


def judge(kernel: Kernel, simulated: bool = True) -> Verdict:
    """Lower a kernel, run it as written and lowered, and simulate both."""
    verdict = Verdict()
    want = _arrays(kernel)
    try:
        strict = run_text(kernel.text, kernel.name, want)
    except (NotRead, Outside) as error:
        verdict.counts[f"discarded: {type(error).__name__}"] += 1
        return verdict
    try:
        program = parse(kernel.text)
    except TirError:
        verdict.counts["discarded: no program"] += 1
        return verdict
    if simulated and "T.axis.reduce" not in kernel.text:  # which races as written: threads add one after another
        _simulate(verdict, "as written", lambda: tl.simulate(program, *_arrays(kernel), name=kernel.name), strict)

    def is_legal() -> bool:
        """Whether barriers could order it as it is written."""
        free = run_text(kernel.text, kernel.name, _arrays(kernel), free=True)
        return not (free.races or free.alike or free.astray or strict.astray)

    try:
        lowered = tl.lower(program, TARGET)
    except TirError as error:
        origin = str(error.origin or type(error).__name__)
        legal = is_legal()
        verdict.counts["refused though legal" if legal else "refused"] += 1
        if legal:
            verdict.counts[f"refused though legal: {origin}: {_plain(str(error.message))}"] += 1
        return verdict
    except Exception as error:  # a fault of ours, whatever it is
        verdict.findings.append(Finding("crash", f"{type(error).__name__}: {error}"))
        return verdict
    verdict.counts["accepted"] += 1
    if "tir.unchecked" in kernel.text and not is_legal():
        verdict.counts["trusted"] += 1
        return verdict  # whoever vouched was wrong
    text, got = lowered.script(), _arrays(kernel)
    try:
        after = run_text(text, kernel.name, got)
    except NotRead as error:
        verdict.counts[f"lowered text not read: {str(error)[:60]}"] += 1
        return verdict
    except Outside as error:
        verdict.findings.append(Finding("wrong after lowering", f"the lowered kernel goes outside: {error}"))
        return verdict
    if after.astray:
        verdict.findings.append(Finding("unsound", f"accepted, and lowered it hangs: {after.astray}"))
    elif after.races or after.alike:
        what = (
            ", ".join(f"{name} ({how})" for name, how in sorted(after.races)) or f"{sorted(after.alike)} (equal writes)"
        )
        verdict.findings.append(Finding("unsound", f"accepted, and lowered it races on {what}"))
    if not verdict.findings:
        for name, x, y in zip("ACB", want, got, strict=True):
            if x.tobytes() != y.tobytes():
                at = int(np.flatnonzero(x != y)[0])
                verdict.findings.append(Finding("wrong after lowering", f"{name}[{at}] is {y[at]}, as written {x[at]}"))
                break
    if simulated:
        _simulate(verdict, "lowered", lambda: tl.simulate(lowered, *_arrays(kernel), name=kernel.name), after)
    return verdict


def _simulate(verdict: Verdict, which: str, run: Callable[[], object], truth: Result) -> None:
    """Compare what a simulation finds with what is so."""
    try:
        run()
        found = ""
    except InterpreterError as error:
        found = str(error.message)
    except Exception as error:
        verdict.findings.append(Finding("crash", f"simulated {which}: {type(error).__name__}: {error}"))
        return
    bad = bool(truth.races) or bool(truth.astray)
    verdict.counts[f"simulated {which}: {'found' if found else 'fine'}"] += 1
    if bad and not found:
        what = truth.astray or ", ".join(f"{name} ({how})" for name, how in sorted(truth.races))
        verdict.findings.append(Finding("missed by the simulator", f"{which}: {what}"))
    elif found and not bad and not truth.alike:
        verdict.findings.append(Finding("false alarm of the simulator", f"{which}: {found}"))


def _plain(message: str) -> str:
    """A message without names and numbers."""
    return " ".join(word for word in message.split()[:9] if word.isalpha())


def shrink(kernel: Kernel, kind: str, rounds: int = 6) -> Kernel:
    """A smaller kernel with a finding of the same kind: lines, with what is inside of them, are left out one by one."""

    def shows(text: str) -> bool:
        try:
            return any(each.kind == kind for each in judge(Kernel(text, kernel.size, kernel.dtype)).findings)
        except (SyntaxError, KeyError):
            return False  # the function itself is gone

    lines = kernel.text.splitlines()
    for _ in range(rounds):
        before = len(lines)
        at = len(lines) - 1
        while at >= 0:
            depth = len(lines[at]) - len(lines[at].lstrip())
            end = at + 1
            while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
                end += 1
            less = lines[:at] + lines[end:]
            if shows("\n".join(less) + "\n"):
                lines = less
            at -= 1
        if len(lines) == before:
            break
    return Kernel("\n".join(lines) + "\n", kernel.size, kernel.dtype)
