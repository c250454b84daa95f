"""Ctrl-C while a very long program is built is heard within seconds, and the next build works."""

# expect: ok
import os
import signal
import threading
import time

import numpy as np

os.environ["TIRLOWER_CACHE"] = "off"  # what is there already is not built

import tirlower as tl
from tirlower.script import parse

N = 12000
func = parse(
    f'@T.prim_func\ndef f(A: T.Buffer(({N},), "float32")):\n'
    + "".join(f"    A[{k}] = A[{(k * 7) % N}] * T.float32({k % 13 + 1}) + A[{(k * 3) % N}]\n" for k in range(N))
)
sent = []


def interrupt() -> None:
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)


for delay in (0.5, 3.0):
    timer = threading.Timer(delay, interrupt)
    timer.start()
    try:
        tl.build(func)
    except KeyboardInterrupt:
        waited = time.perf_counter() - sent[-1]
        assert waited < 4, f"heard after {waited:.1f} s"
    timer.join()
a = np.ones(4, "float32")
tl.build(parse('@T.prim_func\ndef g(A: T.Buffer((4,), "float32")):\n    A[0] = A[1] * T.float32(5)\n'))(a)
assert a[0] == 5
