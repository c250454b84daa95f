"""Functions and modules whose source Python does not keep: the prompt, `-c`, standard input, exec."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tirlower.diagnostics import ScriptError
from tirlower.script import tir as T
from tirlower.script.unkept import lines_of

ROOT = Path(__file__).resolve().parents[2]
IMPORTS = "import numpy as np, tirlower as tl\nfrom tirlower.script import tir as T, ir as I\n"
FUNCTION = """@T.prim_func
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        A[i] = 2.5
"""
MODULE = """@I.ir_module
class M:
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = 2.5
"""
NESTED = """def outer():
    @T.macro
    def put(A, i):
        A[i] = 2.5
    @T.prim_func(
        private=True
    )
    def f(A: T.Buffer((8,), "float32")):
        for i in range(8):
            put(A, i)
    return f
"""
USES = {
    "f": "A = np.ones(8, 'float32'); tl.build(f)(A); print(f'sum {A.sum():.1f}')",
    "M": "A = np.ones(8, 'float32'); tl.build(M['f'])(A); print(f'sum {A.sum():.1f}')",
    "outer": "A = np.ones(8, 'float32'); tl.build(outer())(A); print(f'sum {A.sum():.1f}')",
}
TEXTS = {"f": FUNCTION, "M": MODULE, "outer": NESTED}
SUM = "sum 20.0"


def ran(*arguments: str, stdin: Any = None, text: str | None = None) -> str:
    """What a process of this Python printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        stdin=stdin,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def typed(statements: list[str], home: Path) -> str:
    """What the prompt of this Python shows when statements are typed at a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    # The plain prompt of every version; that of 3.13 with colours keeps what is typed in linecache.
    more = {"PYTHONPATH": str(ROOT), "HOME": str(home), "TERM": "dumb", "PYTHON_BASIC_REPL": "1"}
    process = subprocess.Popen(
        [sys.executable, "-q"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **more},
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""

    def until(*marks: bytes) -> None:
        nonlocal shown
        start, end = len(shown), time.monotonic() + 30
        while time.monotonic() < end and not any(mark in shown[start:] for mark in marks):
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 4096)

    with contextlib.suppress(OSError):  # the terminal is gone when the prompt has ended
        until(b">>> ")
        for statement in statements:
            for line in statement.split("\n"):
                os.write(ours, line.encode() + b"\n")
                until(b">>> ", b"... ")
        os.write(ours, b"exit()\n")
        until(b"nothing")
    process.wait(30)
    os.close(ours)
    return shown.decode(errors="replace")


def test_what_is_typed_at_the_prompt_works(tmp_path: Path) -> None:
    pytest.importorskip("readline")
    statements = IMPORTS.strip().split("\n")
    for name, text in TEXTS.items():
        # A function of the name that was typed before is not the one; the empty line ends the statement.
        statements += [text.replace("2.5", "7.0"), text, USES[name]]
    assert typed(statements, tmp_path).count(SUM) == 3


@pytest.mark.parametrize("name", TEXTS)
def test_the_command_line_works(name: str) -> None:
    program = IMPORTS + TEXTS[name] + USES[name]
    assert ran("-c", program).endswith(SUM + "\n")
    assert ran("-Bc" + program).endswith(SUM + "\n")


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_as_standard_input_works(name: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(IMPORTS + TEXTS[name] + USES[name])
    with file.open() as stdin:
        assert ran(stdin=stdin).endswith(SUM + "\n")


@pytest.mark.parametrize("name", TEXTS)
def test_a_pipe_and_exec_say_what_works(name: str) -> None:
    program = IMPORTS + TEXTS[name] + USES[name]
    for shown in (ran("-", text=program), ran("-c", f"text = {program!r}\nexec(text)")):
        assert "cannot be read" in shown
        assert "tirlower.script.parse(" in shown, "the remedy is part of what a traceback shows"


def test_a_text_under_the_name_of_another_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # Python 3.13 puts the text of `-c` into linecache under the name that every exec has.
    scope: dict[str, Any] = {"T": T}
    text = "def f(A: T.Buffer((8,), 'float32')):\n    A[0] = 1.0\n"
    exec(text, scope)
    code = scope["f"].__code__
    others = [text.replace("1.0", "2.0"), text.replace("A[0]", "A[1]"), "\n" + text, text.replace("A", "B"), "def f("]
    for other in others:
        monkeypatch.setattr("linecache.getlines", lambda *_, kept=other: kept.splitlines(keepends=True))
        assert lines_of(code, "f", scope) == []
        with pytest.raises(ScriptError, match="the source of 'f' cannot be read"):
            T.prim_func(scope["f"])
    monkeypatch.setattr("linecache.getlines", lambda *_: text.splitlines(keepends=True))
    assert "".join(lines_of(code, "f", scope)) == text
    assert T.prim_func(scope["f"]).name == "f"


def test_an_exec_with_lines_in_linecache_works(monkeypatch: pytest.MonkeyPatch) -> None:
    import linecache

    scope: dict[str, Any] = {}
    program = IMPORTS + FUNCTION
    monkeypatch.setitem(linecache.cache, "<cell 1>", (len(program), None, program.splitlines(True), "<cell 1>"))
    exec(compile(program, "<cell 1>", "exec"), scope)
    assert scope["f"].name == "f"
