"""Loops with steps near the ends of int32 run as often as Python's range, and stop."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

TOP = 2**31 - 1
for step in (1, 2, 3, 7, 1000):
    kernel = tl.build(
        parse(f"""
def f(lo: T.int32, hi: T.int32, O: T.Buffer((3,), "int64")):
    for i in range(lo, hi, {step}):
        O[0] += 1
        O[1] += T.Cast("int64", i)
        O[2] = T.Cast("int64", i)
""")
    )
    for lo, hi in (
        (TOP - 9, TOP),
        (TOP - 1, TOP),
        (TOP, TOP),
        (-(2**31), -(2**31) + 11),
        (5, -5),
        (-20, 20),
        (0, 900001),
    ):
        if (hi - lo) // step > 10**6:
            continue
        run = range(lo, hi, step)
        O = np.zeros(3, "int64")
        try:
            kernel(lo, hi, O)
        except IndexError:
            assert lo + len(run) * step > TOP, (lo, hi, step)  # counting past the type is refused
            continue
        assert O.tolist() == [len(run), sum(run), run[-1] if len(run) else 0], (lo, hi, step, O)
