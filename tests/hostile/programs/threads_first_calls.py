"""Eight threads make the first call of one jit function, build functions of their own, and look at sources."""

# expect: ok
import threading

import numpy as np

import tirlower as tl
from tirlower.script import parse


def source(k):
    return parse(f"""
def f{k}(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
    for i in range(n):
        B[i] = A[i] * {k} + i
""")


shared = tl.jit(source(3))
start, failures, done = threading.Barrier(8), [], []


def work(k):
    try:
        start.wait()
        A = np.arange(50, dtype="int32")
        for func, factor in ((shared, 3), (tl.build(source(k + 10)), k + 10), (shared, 3)):
            B = np.zeros(50, "int32")
            func(A, B)
            assert (B == A * factor + A).all()
        assert "f3" in shared.source("tir") and f"* {k + 10}" in source(k + 10).script()
        done.append(k)
    except BaseException as error:
        failures.append(error)


threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures and len(done) == 8, failures
