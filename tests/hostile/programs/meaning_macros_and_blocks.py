"""Macros keep what they assign; blocks that share a scalar are ordered."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.macro
def norm(row, count, out, at):
    acc = 0.0
    for k in range(count):
        acc += row[at, k] * row[at, k]
    out[at] = acc


@T.prim_func
def rows(A: T.Buffer((5, 6), "float32"), B: T.Buffer((5,), "float32"), C: T.Buffer((5,), "float32")):
    acc = 100.0
    for i in range(5):
        norm(A, 6, B, i)
        with T.block("running"):
            v = T.axis.spatial(5, i)
            acc = acc + B[v]
            C[v] = acc


a = np.random.default_rng(8).integers(-4, 5, (5, 6)).astype("float32")
b, c = np.zeros(5, "float32"), np.zeros(5, "float32")
tl.build(rows)(a, b, c)
np.testing.assert_array_equal(b, (a * a).sum(1))
np.testing.assert_array_equal(c, 100 + np.cumsum((a * a).sum(1)))
