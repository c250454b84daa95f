"""Lanes of data wrap each on its own: two vectors that start at data are not compared by their first lanes."""
# expect: ok

import numpy as np

import tirlower as tl
from tirlower.script import parse

CONDITIONS = (
    "s + i < i + t",
    "8 + i >= i + s",
    "s + i == i + t + 1",
    "(s + i) - (t + i) > 3",
    "T.max(s + i, t + i) == s + i",
)
GREATEST = 2147483647
for condition in CONDITIONS:
    for loop in ("T.vectorized(7)", "range(7)"):
        func = parse(f"""
def f(s: T.int32, t: T.int32, A: T.Buffer((8,), "int32"), O: T.Buffer((8,), "int32")):
    for i in {loop}:
        if {condition}:
            O[i] = A[i]
""")
        values, kernel = np.arange(1, 9, dtype="int32"), tl.build(func)
        for s in (0, 5, GREATEST - 3, -GREATEST - 1, GREATEST):
            for t in (0, 5, GREATEST - 2, -GREATEST - 1, GREATEST):
                wanted, got = np.zeros(8, "int32"), np.zeros(8, "int32")
                tl.interpret(func, s, t, values, wanted)
                kernel(s, t, values, got)
                assert wanted.tolist() == got.tolist(), (condition, loop, s, t, wanted, got)
