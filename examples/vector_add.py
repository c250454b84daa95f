"""Vector addition with a dynamic size: the smallest whole program."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@tl.jit
@T.prim_func
def vector_add(a: T.handle, b: T.handle, c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        C[i] = A[i] + B[i]


def main() -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 17, 1_000_000):
        a, b = rng.random(size, dtype=np.float32), rng.random(size, dtype=np.float32)
        c = np.empty_like(a)
        vector_add(a, b, c)
        np.testing.assert_array_equal(c, a + b)
    print("vector_add agrees with NumPy at sizes 0, 1, 17 and 1,000,000")


if __name__ == "__main__":
    main()
