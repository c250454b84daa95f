"""Data that cancels out of an index is data still: what is shifted, negated or divided out of it wraps, and the access
behind such a comparison is checked."""
# expect: ok

import functools

import numpy as np

import tirlower as tl
from tirlower.script import parse

LEAST = "((T.int32(-2147483648) + s) - s)"
# Exactly, none of these holds.
CONDITIONS = (
    f"T.shift_left({LEAST}, 1) >= 0",
    f"{LEAST} // -1 < 0",
    f"T.Div({LEAST}, -1) < 0",
    f"0 - {LEAST} < 0",
    f"{LEAST} * 2 >= 0",
    f"{LEAST} // T.min(k, -1) < 0",
)
for condition in CONDITIONS:
    func = parse(f"""
def f(s: T.int32, k: T.int32, A: T.Buffer(("n",), "float32"), O: T.Buffer(("n",), "float32")):
    if {condition}:
        O[1] = A[s]
""")
    values, kernel = np.arange(16, dtype="float32"), tl.build(func)
    for s in (15, 16, -1, 2147483647, -2147483648):
        for k in (-1, -2, 5):
            ended = []
            for run in (functools.partial(tl.interpret, func), kernel):
                out = np.zeros(16, "float32")
                try:
                    run(s, k, values, out)
                    ended.append(out.tolist())
                except IndexError:
                    ended.append("IndexError")
            assert ended[0] == ended[1], (condition, s, k, ended)
