"""Runs one hostile program in a process of its own and says how it ended.

A program is a file in ``programs/`` that a user could have written: a module docstring that says what it tries, the
line ``# expect: ok`` or ``# expect: ErrorClass``, and code that imports what a user installs and nothing of the tests.
A program too long for one process has a line ``# parts: N`` and is run N times, with the number of its part as its
argument. With ``ok`` the program asserts its own right values and ends with 0; with a class, an exception of that name, or of a
class derived from it, must end it: nothing else may, least of all a signal or the clock.
"""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PROGRAMS", "Outcome", "expected_of", "parts_of", "run_program"]

PROGRAMS = Path(__file__).parent / "programs"
MEMORY = 16 << 30
SECONDS = 30.0

_EXPECT = re.compile(r"^# expect: (\w+)$", re.MULTILINE)
_PARTS = re.compile(r"^# parts: (\d+)$", re.MULTILINE)
_RUNNER = """
import runpy, sys
del sys.argv[0]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except Exception as error:
    import traceback
    traceback.print_exc()
    print("ended by:", *(kind.__name__ for kind in type(error).__mro__), file=sys.stderr)
    sys.exit(3)
"""


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


def run_program(program: Path, seconds: float = SECONDS, part: int = 0) -> Outcome:
    """Run a program, or a part of it, under its limits of memory and time."""

    def limit() -> None:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # what runs in the background of a shell ignores Ctrl-C, and so would this
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", _RUNNER, str(program), str(part)]
    try:
        ended = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=seconds, preexec_fn=limit, check=False
        )
    except subprocess.TimeoutExpired as error:
        return Outcome(("time",), f"still running after {seconds} s: {error}")
    output = ended.stdout + ended.stderr
    if ended.returncode == 0:
        return Outcome(("ok",), output)
    if ended.returncode < 0:
        return Outcome((f"signal {signal.Signals(-ended.returncode).name}",), output)
    ending = re.search(r"^ended by: (.*)$", ended.stderr, re.MULTILINE)
    return Outcome(tuple(ending[1].split()) if ending else (f"status {ended.returncode}",), output)
