"""A parallel loop over arrays that are shifted by one: every call computes the serial loop."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def step(A: T.Buffer(("n",), "int64"), B: T.Buffer(("n",), "int64")):
    for i in T.parallel(n):
        B[i] = A[i] * T.int64(3) + T.Cast("int64", i)


def expected(memory: np.ndarray, a: slice, b: slice) -> np.ndarray:
    memory = memory.copy()
    source, target = memory[a], memory[b]
    for i in range(len(source)):
        target[i] = np.int64(source[i]) * np.int64(3) + i
    return memory


np.seterr(over="ignore")
kernel = tl.build(step)
start = np.arange(5, 3010, dtype="int64")
for a, b in [(slice(0, 3000), slice(1, 3001)), (slice(1, 3001), slice(0, 3000)), (slice(0, 3000), slice(5, 3005))]:
    right = expected(start, a, b)
    for _ in range(70):
        memory = start.copy()
        kernel(memory[a], memory[b])
        assert np.array_equal(memory, right), (a, b)
