"""Each hostile program ends as it announces: with the right value or with the right error, never with a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.run import PROGRAMS, Outcome, expected_of, is_plain, parts_of, run_program
from tests.sampling import by_day

RUNS = [
    run
    for program in sorted(PROGRAMS.glob("*.py"))
    for run in by_day(((program, part) for part in range(parts_of(program))), 3)
]
"""Each program, and of one that has many parts every third one by day."""


@pytest.mark.parametrize(("program", "part"), RUNS, ids=lambda value: getattr(value, "stem", value))
def test_a_program_ends_as_it_announces(program: Path, part: int) -> None:
    expected = expected_of(program)
    outcome = run_program(program, part=part)
    assert outcome.matches(expected), f"expected {expected}, ended with {outcome.how}\n{outcome.output[-4000:]}"


FORKED = "import warnings\nimport tirlower as tl\n"
ALONE = "import os, signal, sys\n"


@pytest.mark.parametrize("start", [FORKED, ALONE], ids=["forked", "alone"])
def test_a_crash_a_hang_and_a_wrong_class_are_told_apart(start: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"

    def ends(text: str, seconds: float = 30.0) -> tuple[str, ...]:
        program.write_text(start + text)
        assert is_plain(program) is (start is FORKED)
        return run_program(program, seconds).how

    system = "warnings.sys.modules['os']" if start is FORKED else "os"  # what only tests do: a program would import it
    assert ends("x = 1") == ("ok",)
    arguments = f"{system}.sys.argv"
    assert ends(f"assert {arguments}[1:] == ['0'] and {arguments}[0].endswith('program.py')") == ("ok",)
    assert "ValueError" in ends("raise UnicodeError('x')")
    assert ends(f"{system}.kill({system}.getpid(), 11)") == ("signal SIGSEGV",)
    assert ends(f"{system}._exit(7)") == ("status 7",)
    assert ends("while True: pass", seconds=0.5) == ("time",)


def test_programs_that_share_imports_share_nothing_else(tmp_path: Path) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(FORKED + "print('said')\ntl.left_behind = True\nraise ValueError('one')")
    second.write_text(FORKED + "assert not hasattr(tl, 'left_behind')\nassert 'tl' in globals()\nprint('too')")
    one, two = run_program(first), run_program(second)
    assert one.how[0] == "ValueError" and "said" in one.output and "ValueError: one" in one.output
    assert two == Outcome(("ok",), "too\n")


def test_what_asks_for_the_process_has_one_of_its_own() -> None:
    plain = {program.stem for program in PROGRAMS.glob("*.py") if is_plain(program)}
    assert 100 < len(plain) < len(list(PROGRAMS.glob("*.py")))
    assert not plain & {"imports_rooms", "hidden_fork_among_threads", "llvm_ctrl_c", "threads_first_calls"}
