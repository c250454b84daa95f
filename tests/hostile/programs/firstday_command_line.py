"""Functions and modules given to `python -c` and as standard input; what `exec` runs says what to do."""

# expect: ok
import os
import subprocess
import sys
import tempfile

PROGRAM = """
import numpy as np, tirlower as tl
from tirlower.script import tir as T
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        A[i] = i * 3 + 1
A = np.zeros(8, "int32")
tl.build(f)(A)
assert A.tolist() == [i * 3 + 1 for i in range(8)]
print("right")
"""
environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}


def run(*arguments, **options):
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, **options)
    return done.stdout + done.stderr


assert run("-c", PROGRAM) == "right\n"
with tempfile.TemporaryFile("w+") as file:
    file.write(PROGRAM)
    file.flush()
    file.seek(0)
    assert run(stdin=file) == "right\n"
try:
    exec(PROGRAM)
except SyntaxError as error:
    assert "tirlower.script.parse(" in str(error) and "tirlower.script.parse(" in error.msg
else:
    raise AssertionError("exec keeps no text")
