"""Loops that never end, with and without effects: they hang until they are killed, and are not taken to have ended."""

# expect: ok
import os
import signal
import time

import numpy as np

import tirlower as tl
from tirlower.script import parse

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
started = []
for body in BODIES:
    program = parse(body)
    kernel = tl.build(program)
    kernel = kernel["f"] if "I.ir_module" in body else kernel
    child = os.fork()
    if not child:
        try:
            kernel(np.array([1, 2, 3, 4], "int32"))
        finally:
            os._exit(7)
    started.append(child)
time.sleep(0.5)
ended = [body for child, body in zip(started, BODIES, strict=True) if os.waitpid(child, os.WNOHANG)[0]]
for child, body in zip(started, BODIES, strict=True):
    if body not in ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
assert not ended, ended
