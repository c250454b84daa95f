"""Matrix products and transposes whose result is one of their operands, or shares rows with it."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T

N = 24


@T.prim_func
def matmul(A: T.Buffer((24, 24), "int32"), B: T.Buffer((24, 24), "int32"), C: T.Buffer((24, 24), "int32")):
    for i in T.parallel(24):
        for j, k in T.grid(24, 24):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]


@T.prim_func
def transpose(A: T.Buffer((24, 24), "int32"), C: T.Buffer((24, 24), "int32")):
    for i in T.parallel(24):
        for j in T.vectorized(24):
            C[i, j] = A[j, i]


def product(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    for i in range(N):
        for j in range(N):
            for k in range(N):
                c[i, j] += a[i, k] * b[k, j]


def transposed(a: np.ndarray, c: np.ndarray) -> None:
    for i in range(N):
        c[i] = a[:, i].copy()


np.seterr(over="ignore")
kernel, turned = tl.build(matmul), tl.build(transpose)
rows = [(0, 60, 120), (0, 60, 0), (0, 60, 60), (0, 0, 0), (0, 30, 5), (10, 60, 0), (0, 1, 2)]
for a, b, c in rows:
    memory = np.random.default_rng(2).integers(-9, 9, (150, N)).astype("int32")
    right = memory.copy()
    product(right[a : a + N], right[b : b + N], right[c : c + N])
    kernel(memory[a : a + N], memory[b : b + N], memory[c : c + N])
    assert np.array_equal(memory, right), (a, b, c)
    memory, right = right.copy(), right
    transposed(right[a : a + N], right[c : c + N])
    turned(memory[a : a + N], memory[c : c + N])
    assert np.array_equal(memory, right), (a, c)
