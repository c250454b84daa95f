"""A process forks while other threads of it compile: the child compiles too, and neither hangs."""

# expect: ok
import gc
import os
import sys
import threading
import warnings

import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def affine(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = A[7 - i] * 3 + i


def right():
    """Build, run, compare; whether the machine code came from the disk."""
    a, b = np.arange(8, dtype="int32") * 7 - 5, np.zeros(8, "int32")
    made = tl.build(affine)
    made(a, b)
    np.testing.assert_array_equal(b, a[::-1] * 3 + np.arange(8))
    return made.report().cached


warnings.simplefilter("ignore")
os.environ["TIRLOWER_CACHE"] = "off"
right()
stop = threading.Event()
threads = [threading.Thread(target=lambda: [tl.lower(affine) for _ in iter(stop.is_set, True)]) for _ in range(2)]
limit = sys.getrecursionlimit()
for t in threads:
    t.start()
bad = []
for _ in range(4):
    child = os.fork()
    if not child:
        try:
            tl.lower(affine)
            os._exit(0 if gc.isenabled() and sys.getrecursionlimit() == limit else 9)
        except BaseException:
            os._exit(8)
    bad.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
for t in threads:
    t.join()
assert not any(bad), bad
assert gc.isenabled() and sys.getrecursionlimit() == limit
