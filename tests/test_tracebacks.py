"""What a traceback shows of an error in a script: the caller's frames, the place, all that the error says."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import tirlower as tl
from tests.sampling import by_day
from tirlower.diagnostics import ScriptError, Source, Span, TirError, user_frames
from tirlower.transforms import prim_func_pass

ROOT = Path(__file__).resolve().parents[1]
HEAD = "import numpy as np\nimport tirlower as tl\nfrom tirlower.script import ir as I, parse, tir as T\n"
SUM = 'def f(A: T.Buffer((8,), "float32")):\n    for i in T.parallel(8):\n        A[0] += A[i]\n'
GUARDED = 'def f(n: T.int32, A: T.Buffer((8,), "float32")):\n    for i in range(n):\n        A[i] = 1.0\n'
WRONG = 'def f(A: T.Buffer((8,), "float32")):\n    A[0] = T.maxx(1, 2)\n'

# The program, how many frames inside the package may be shown, what must be.
PROGRAMS = {
    "decorated": ("@T.prim_func\n" + WRONG, 1, ["A[0] = T.maxx(1, 2)", "^^^^^^", "did you mean `T.max`?"]),
    "options": ("@T.prim_func(private=True)\n" + WRONG, 0, ["did you mean `T.max`?"]),
    "parsed": (f"parse({WRONG!r})", 0, ["did you mean `T.max`?"]),
    "a module": ("@I.ir_module\nclass M:\n    def f():\n        pass\n", 1, ["is decorated with @T.prim_func"]),
    "built": (f"tl.build(parse({SUM!r}))", 0, ["iteration i = 0 reads A[0]", "help: keep the loop serial"]),
    "lowered": (f"tl.lower(parse({SUM!r}))", 0, ["iteration i = 0 reads A[0]"]),
    "jit": (f"tl.jit(parse({SUM!r}))(np.zeros(8, 'float32'))", 0, ["iteration i = 0 reads A[0]"]),
    "jit of a plain function": ("@tl.jit\ndef f():\n    pass\n", 1, ["write @T.prim_func below @tl.jit"]),
    "guarded": (f"tl.build(parse({GUARDED!r}))(9, np.zeros(8, 'float32'))", 0, ["A[8] is out of bounds", "at i = 8"]),
    "an argument": (f"tl.build(parse({GUARDED!r}))(9, np.zeros(8))", 0, ["got dtype float64", "x.astype(np.float32)"]),
    "a keyword": (f"tl.build(parse({GUARDED!r}))(9, B=np.zeros(8))", 0, ["B"]),
}


@pytest.mark.parametrize("name", by_day(PROGRAMS))
def test_a_traceback_shows_the_frames_of_the_caller(name: str, tmp_path: Path) -> None:
    text, most, shown = PROGRAMS[name]
    file = tmp_path / "program.py"
    file.write_text(HEAD + text + "\n")

    def run(**more: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TIRLOWER_TRACEBACK": "", **more}
        done = subprocess.run(
            [sys.executable, str(file)], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1
        return done.stderr

    output = run()
    assert output.count(f'File "{ROOT / "tirlower"}') <= most, output
    assert f'File "{file}", line' in output
    assert "During handling" not in output
    for part in shown:
        assert part in output
    assert run(TIRLOWER_TRACEBACK="full").count(f'File "{ROOT / "tirlower"}') > most


def test_frames_of_the_callers_code_inside_stay() -> None:
    def callback() -> None:
        raise TirError("no", notes=["a note"])

    @prim_func_pass(opt_level=0, name="mine")
    def mine(func, mod, ctx):
        callback()
        return func

    with pytest.raises(TirError) as caught, user_frames():
        mine(tl.ir.IRModule({"f": tl.script.parse(GUARDED)}))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["mine", "callback"]
    assert not [f for f in traceback.extract_tb(caught.value.__traceback__) if str(ROOT / "tirlower") in f.filename]
    assert "= note: a note" in str(caught.value)


def test_other_errors_and_causes_stay_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError) as plain, user_frames():
        [1 // value for value in (1, 0)]
    assert plain.value.__traceback__ is not None
    cause = KeyError("the cause")
    with pytest.raises(TirError) as caught, user_frames():
        raise TirError("no") from cause
    assert caught.value.__cause__ is cause


def test_a_script_error_keeps_its_details_in_what_python_prints() -> None:
    source = Source("for i in range(7):\n    A[i] = B\n", "f.py")
    label = tl.diagnostics.Label(Span(source, 1, 4, 1, 5), "this loop", primary=False)
    error = ScriptError("wrong", span=Span(source, 2, 11, 2, 12), labels=[label], notes=["a note"], help="do this")
    printed = "".join(traceback.format_exception_only(error))
    for part in ("this loop", "= note: a note", "= help: do this", 'File "f.py", line 2'):
        assert printed.count(part) == 1, printed
    bare = "".join(traceback.format_exception_only(ScriptError("wrong", help="do this")))
    assert bare == "tirlower.diagnostics.ScriptError: wrong\n  = help: do this\n"
