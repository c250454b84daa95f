"""Prefix sum of a vector of any length; the output is allocated and returned."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@tl.jit(outputs=["out"])
@T.prim_func
def prefix_sum(values: T.Buffer(("n",), "int64"), out: T.Buffer(("n",), "int64")):
    total = T.alloc_buffer((1,), "int64", scope="local")
    total[0] = T.int64(0)
    for i in range(n):
        total[0] += values[i]
        out[i] = total[0]


def main() -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 1000):
        values = rng.integers(-100, 100, size)
        np.testing.assert_array_equal(prefix_sum(values), np.cumsum(values))
    print("prefix_sum agrees with NumPy at sizes 0, 1 and 1000")


if __name__ == "__main__":
    main()
