"""Prim funcs and modules given to Python by -c, by standard input, by exec and by files: they work, or say what does."""

# expect: ok
import os
import subprocess
import sys
import tempfile

FUNC = """
import numpy as np
import tirlower as tl
from tirlower.script import tir as T, ir as I

@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = i * 3

"""
MODULE = """
@I.ir_module
class M:
    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = i * 3

f = M
"""
USE = """
a = np.zeros(4, "int32")
made = tl.build(f)
(made if callable(made) else made.main)(a)
print("right" if a.tolist() == [0, 3, 6, 9] else a)
"""


def run(*arguments, text=None):
    env = os.environ | {"PYTHONPATH": os.getcwd(), "PYTHON_BASIC_REPL": "1"}
    done = subprocess.run([sys.executable, *arguments], input=text, capture_output=True, text=True, env=env)
    return done.stdout + done.stderr


def fine(output, *words):
    """It worked, or the message names the way."""
    if output.strip().endswith("right"):
        return
    assert "tirlower.script.parse" in output and "Error" in output, output
    assert not any(bad in output for bad in ("IndexError", "KeyError", "AttributeError", "AssertionError")), output


for program in (FUNC + USE, FUNC + MODULE + USE):
    fine(run("-c", program))
    fine(run("-", text=program))
    fine(run("-i", "-q", text=program).replace(">>> ", "").replace("... ", "").strip())
    fine(run("-c", f"exec({program!r})"))
fine(run("-c", f"exec(compile({FUNC + USE!r}, '<made up>', 'exec'))"))
with tempfile.TemporaryDirectory() as folder:
    paths = []
    for number, text in enumerate(
        (
            FUNC + USE,
            FUNC + MODULE + USE,
            (FUNC + USE).replace("\n", "\r\n"),
            "# -*- coding: latin-1 -*-\n# \xe4\n" + FUNC + USE,
            (FUNC + USE).replace("    ", "\t"),
            FUNC.replace("@T.prim_func\n", "@T.prim_func()\n") + USE,
            FUNC.rstrip() + "\n" + USE.strip(),
            (FUNC + USE).replace("def f(", "def f( # a comment )\n    "),
        )
    ):
        paths.append(os.path.join(folder, f"program {number}.py"))
        with open(paths[-1], "w", newline="", encoding="latin-1") as file:
            file.write(text)
    output = run("-c", "import runpy, sys\nfor path in sys.argv[1:]:\n    runpy.run_path(path)", *paths)
    assert output.split() == ["right"] * len(paths), output
