"""Pointers bound anew in each iteration of a parallel loop."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse


def text(step: int, width: int) -> str:
    return f"""
@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    for i in T.parallel(8):
        q: T.handle("int32") = T.address_of(A[i * {step}])
        V = T.Buffer(({width},), "int32", data=q)
        for j in range({width}):
            V[j] = i * 10 + j
"""


a = np.zeros(64, "int32")
tl.build(parse(text(8, 8)))(a)
np.testing.assert_array_equal(a, np.add.outer(np.arange(8) * 10, np.arange(8)).ravel())
for wrong in (text(7, 8), text(0, 1), text(1, 2)):
    try:
        tl.build(parse(wrong))
    except tl.LegalityError:
        continue
    raise SystemExit(wrong)
