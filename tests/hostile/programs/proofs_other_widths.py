"""One memory as elements of several sizes: bytes that two iterations share."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse


def text(body: str, kind: str = "parallel") -> str:
    return f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32")):
    V = T.decl_buffer((32,), "int16", data=A.data)
    W = T.Buffer((64,), "int8", data=A.data)
    for i in T.{kind}(16):
        {body}
"""


for wrong in ("A[i] = T.Cast('int32', V[i])", "V[i] = T.Cast('int16', W[i])", "W[i + 3] = T.Cast('int8', A[i // 4])"):
    try:
        tl.build(parse(text(wrong)))
    except tl.LegalityError:
        continue
    raise SystemExit(wrong)
a = np.arange(1, 17, dtype="int32")
tl.build(parse(text("V[i * 2 + 1] = T.Cast('int16', W[i * 4])")))(a)
np.testing.assert_array_equal(a, np.arange(1, 17) * 65537)
