"""Kernels sent to processes started anew: built there by function and options, right, with defaults and outputs."""

# expect: ok
import multiprocessing

import numpy as np

import tirlower as tl
from tirlower.script import parse

func = parse(
    "def f(A: T.Buffer(('n',), 'float64'), B: T.Buffer(('n',), 'float64'), by: T.float64 = 2.5):\n    for i in range(n):\n        B[i] = A[i] * by\n"
)

if __name__ == "__main__":
    a = np.array([1.0, -2.0, 4.0])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for kernel in (tl.build(func, outputs=["B"]), tl.jit(outputs=["B"])(func)):
            np.testing.assert_array_equal(pool.apply(kernel, (a,)), a * 2.5)
