"""Each hostile program ends as it announces: with the right value or with the right error, never with a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.run import PROGRAMS, expected_of, parts_of, run_program

RUNS = [(program, part) for program in sorted(PROGRAMS.glob("*.py")) for part in range(parts_of(program))]


@pytest.mark.parametrize(("program", "part"), RUNS, ids=lambda value: getattr(value, "stem", value))
def test_a_program_ends_as_it_announces(program: Path, part: int) -> None:
    expected = expected_of(program)
    outcome = run_program(program, part=part)
    assert outcome.matches(expected), f"expected {expected}, ended with {outcome.how}\n{outcome.output[-4000:]}"


def test_a_crash_a_hang_and_a_wrong_class_are_told_apart(tmp_path: Path) -> None:
    def ends(text: str, seconds: float = 30.0) -> tuple[str, ...]:
        program = tmp_path / "program.py"
        program.write_text(text)
        return run_program(program, seconds).how

    assert ends("x = 1") == ("ok",)
    assert ends("import sys\nassert sys.argv[1:] == ['0'] and sys.argv[0].endswith('program.py')") == ("ok",)
    assert "ValueError" in ends("raise UnicodeError('x')")
    assert ends("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)") == ("signal SIGSEGV",)
    assert ends("import os\nos._exit(7)") == ("status 7",)
    assert ends("while True: pass", seconds=0.5) == ("time",)
