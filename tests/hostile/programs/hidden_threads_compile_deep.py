"""Eight threads parse, lower and build nested programs at once, under a low recursion limit that is theirs to keep."""

# expect: ok
import gc
import sys
import threading

import numpy as np

import tirlower as tl
from tirlower.script import parse

sys.setswitchinterval(1e-5)
sys.setrecursionlimit(300)


def program(depth, factor):
    lines = ["@T.prim_func", "def f(A: T.Buffer((4,), 'int32'), n: T.int32):"]
    lines += ["    " * (k + 1) + f"if n > {k}:" for k in range(depth)]
    return "\n".join([*lines, "    " * (depth + 1) + f"A[n % 4] = n * {factor}"])


failed = []


def work(depth, factor):
    try:
        for _ in range(3):
            func = parse(program(depth, factor))
            a = np.zeros(4, "int32")
            tl.build(func)(a, depth + 1)
            want = np.zeros(4, "int32")
            want[(depth + 1) % 4] = (depth + 1) * factor
            np.testing.assert_array_equal(a, want)
    except BaseException as error:
        failed.append(repr(error)[:300])


threads = [threading.Thread(target=work, args=(depth, k + 2)) for k, depth in enumerate([40, 2, 3, 40, 1, 2, 30, 2])]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not failed, failed
assert sys.getrecursionlimit() == 300 and gc.isenabled()
