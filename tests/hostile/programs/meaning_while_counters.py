"""Loops whose end depends on a name that they assign: lost updates would never end."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def collatz(A: T.Buffer((20,), "int64"), B: T.Buffer((20,), "int32")):
    for i in range(20):
        x = A[i]
        steps = 0
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            steps += 1
        B[i] = steps


def steps_of(x):
    steps = 0
    while x != 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
    return steps


a, b = np.arange(1, 21, dtype="int64"), np.zeros(20, "int32")
tl.build(collatz)(a, b)
assert b.tolist() == [steps_of(x) for x in range(1, 21)]
