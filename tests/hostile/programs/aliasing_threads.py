"""Threads that call with overlapping arrays at once, while the version for those is compiled, and with others."""

# expect: ok
import threading

import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@tl.jit
@T.prim_func
def f(A: T.Buffer(("n",), "int64"), B: T.Buffer(("n",), "int64")):
    for i in T.parallel(n):
        B[i] = A[i] + T.int64(1)


N = 50_000
right = np.zeros(N + 1, "int64")
right[1:] = np.arange(1, N + 1)
gate = threading.Barrier(8)
wrong: list[object] = []


def work(seed: int) -> None:
    try:
        gate.wait()
        for turn in range(6):
            if (seed + turn) % 3:
                memory = np.zeros(N + 1, "int64")
                f(memory[:-1], memory[1:])
                assert np.array_equal(memory, right)
            else:
                a, b = np.full(N, seed), np.zeros(N, "int64")
                f(a, b)
                assert (b == seed + 1).all()
                f(b, b)
                assert (b == seed + 2).all()
    except BaseException as error:
        wrong.append(error)


threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
