"""A temporary under two names, shared by the iterations of a loop or each with its own."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse


def text(outside: str, inside: str) -> str:
    return f"""
@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    {outside}
    for i in T.parallel(64):
        {inside}
        V[0] = A[i]
        A[i] = t[0] * 2
"""


names = 't = T.alloc_buffer((1,), "int32")', "q = T.bind(t.data)", 'V = T.Buffer((1,), "int32", data=q)'
try:
    tl.build(parse(text("\n    ".join(names), "pass")))
except tl.LegalityError:
    pass
else:
    raise SystemExit("a shared temporary was taken")
a = np.arange(64, dtype="int32")
tl.build(parse(text("pass", "\n        ".join(names))))(a)
np.testing.assert_array_equal(a, np.arange(64) * 2)
