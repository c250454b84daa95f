"""Runs one hostile program in a process of its own and says how it ended.

A program is a file in ``programs/`` that a user could have written: a module docstring that says what it tries, the
line ``# expect: ok`` or ``# expect: ErrorClass``, and code that imports what a user installs and nothing of the tests.
A program too long for one process has a line ``# parts: N`` and is run N times, with the number of its part as its
argument. With ``ok`` the program asserts its own right values and ends with 0; with a class, an exception of that name, or of a
class derived from it, must end it: nothing else may, least of all a signal or the clock.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.process import ENDED_BY, limit

__all__ = ["PROGRAMS", "Outcome", "expected_of", "is_plain", "parts_of", "run_program"]

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
SECONDS = 30.0

_EXPECT = re.compile(r"^# expect: (\w+)$", re.MULTILINE)
_PARTS = re.compile(r"^# parts: (\d+)$", re.MULTILINE)
_IMPORTS = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)
_PLAIN = {"functools", "math", "ml_dtypes", "numpy", "tirlower", "warnings"}


@dataclass(frozen=True)
class Outcome:
    """How a program ended: ``ok``, the classes of an exception, ``signal NAME``, or ``time``; and what it printed."""

    how: tuple[str, ...]
    output: str

    def matches(self, expected: str) -> bool:
        """Whether this is the end that the program announces."""
        return expected in self.how


def expected_of(program: Path) -> str:
    """What a program's ``# expect:`` line says; ValueError where there is none, or more than one."""
    found = _EXPECT.findall(program.read_text())
    if len(found) != 1:
        raise ValueError(f"{program.name} has {len(found)} lines '# expect: ok' or '# expect: ErrorClass', not one")
    return str(found[0])


def parts_of(program: Path) -> int:
    """In how many processes a program is run."""
    found = _PARTS.search(program.read_text())
    return int(found[1]) if found else 1


def is_plain(program: Path) -> bool:
    """Whether a program computes and nothing else: one that asks for files, threads, signals or modules starts afresh."""
    text = program.read_text()
    return set(_IMPORTS.findall(text)) <= _PLAIN and "__import__" not in text


class _Forks:
    """A process that has imported the package, and forks for each program that it is given."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.process"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        atexit.register(self.process.kill)

    def run(self, argv: Sequence[str], seconds: float) -> tuple[int | None, str, str]:
        """The exit status as `subprocess` gives it, None for the clock; standard output, standard error."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
            order = {"argv": [*argv], "seconds": seconds, "to": [out.name, err.name]}
            print(json.dumps(order), file=self.process.stdin, flush=True)
            status = json.loads(self.process.stdout.readline())
            return None if status is None else os.waitstatus_to_exitcode(status), out.read(), err.read()


@functools.cache
def _forks() -> _Forks:
    return _Forks()


def _alone(argv: Sequence[str], seconds: float) -> tuple[int | None, str, str]:
    """As :meth:`_Forks.run`, in a process that has imported nothing."""
    command = [sys.executable, "-m", "tests.hostile.process", *argv]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, preexec_fn=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return None, "", ""
    return ended.returncode, ended.stdout, ended.stderr


def run_program(program: Path, seconds: float = SECONDS, part: int = 0) -> Outcome:
    """Run a program, or a part of it, under its limits of memory and time."""
    run = _forks().run if is_plain(program) else _alone
    status, out, err = run([str(program), str(part)], seconds)
    if status is None:
        return Outcome(("time",), f"still running after {seconds} s\n{out}{err}")
    if status == 0:
        return Outcome(("ok",), out + err)
    if status < 0:
        return Outcome((f"signal {signal.Signals(-status).name}",), out + err)
    ending = re.search(rf"^{ENDED_BY} (.*)$", err, re.MULTILINE)
    return Outcome(tuple(ending[1].split()) if ending else (f"status {status}",), out + err)
