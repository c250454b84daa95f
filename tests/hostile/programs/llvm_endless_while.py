"""Loops that never end, with and without effects: they hang until they are killed, and are not taken to have ended."""

# expect: ok
import subprocess
import sys

HEAD = """
import numpy as np, tirlower as tl
from tirlower.script import parse
program = parse('''
BODY
''')
kernel = tl.build(program)
kernel = kernel["f"] if "g" in program.script() and "def g" in program.script() else kernel
print("built", flush=True)
kernel(np.array([1, 2, 3, 4], "int32"))
print("ended", flush=True)
"""
BODIES = (
    '@T.prim_func\ndef f(A: T.Buffer((4,), "int32")):\n    while A[0] > 0:\n        T.evaluate(0)',
    '@T.prim_func\ndef f(A: T.Buffer((4,), "int32")):\n    while T.bool(True):\n        T.evaluate(0)',
    '@T.prim_func\ndef f(A: T.Buffer((4,), "int32")):\n'
    '    x = T.alloc_buffer((1,), "int32", scope="local")\n    x[0] = 0\n'
    "    while x[0] >= 0:\n        x[0] = (x[0] + 1) % 7",
    "@I.ir_module\nclass M:\n    @T.prim_func(private=True)\n    def g(n: T.int32) -> T.int32:\n"
    '        x = T.alloc_buffer((1,), "int32", scope="local")\n        x[0] = 0\n'
    "        while x[0] >= 0:\n            x[0] = (x[0] + n) & 7\n        return x[0]\n\n"
    '    @T.prim_func\n    def f(A: T.Buffer((4,), "int32")):\n        A[1] = M.g(A[0])',
)
started = [
    subprocess.Popen([sys.executable, "-c", HEAD.replace("BODY", body)], stdout=subprocess.PIPE, text=True)
    for body in BODIES
]
for process, body in zip(started, BODIES, strict=True):
    assert process.stdout.readline() == "built\n", body
    try:
        out, _ = process.communicate(timeout=0.7)
        raise AssertionError(f"ended with {process.returncode}, {out!r}:\n{body}")
    except subprocess.TimeoutExpired:
        pass
for process in started:
    process.kill()
    process.wait()
