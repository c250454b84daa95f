"""A variable that holds an index past its type, compared beside data: what the type holds of it decides, and the access is checked."""
# expect: ok

import functools

import numpy as np

import tirlower as tl
from tirlower.script import parse

CONDITIONS = (
    "T.max(e, s) < 16",
    "e + s < 16",
    "(e ^ s) < 16",
    "T.min(s, e) < 16",
    "T.min(e, s) + 1 < 16",
    "s // e < 16",
)
for condition in CONDITIONS:
    func = parse(f"""
def f(s: T.int32, B: T.Buffer((16,), "int32"), O: T.Buffer((16,), "int32")):
    e: T.int32 = 2147483647 + T.Select(s, 3, 1)
    if {condition}:
        O[11] = B[e]
""")
    values, kernel = np.arange(16, dtype="int32"), tl.build(func)
    for s in (15, 16, 1, 2147483647, -2147483647):
        ended = []
        for run in (functools.partial(tl.interpret, func), kernel):
            out = np.zeros(16, "int32")
            try:
                run(s, values, out)
                ended.append(out.tolist())
            except IndexError:
                ended.append("IndexError")
        assert ended[0] == ended[1], (condition, s, ended)
