"""Conditions on narrowed values say nothing of the wide ones: either the same branch as NumPy's, or an IndexError."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

A = np.arange(100, dtype="int32") * 2 + 1
ENDS = [-(2**31), -257, -129, -128, -1, 0, 1, 99, 100, 127, 128, 255, 256, 300, 65536 + 5, 2**31 - 1]
for narrow in ("int8", "uint8", "int16", "uint16"):
    kernel = tl.build(
        parse(f"""
def f(x: T.int32, A: T.Buffer((100,), "int32"), O: T.Buffer((2,), "int32")):
    if T.Cast("{narrow}", x) >= T.Cast("{narrow}", 0) and T.Cast("{narrow}", x) < T.Cast("{narrow}", 100):
        O[0] = A[T.Cast("int32", T.Cast("{narrow}", x))]
        O[1] = A[x]
""")
    )
    for x in ENDS:
        y = int(np.array(x).astype(narrow))
        taken = 0 <= y < 100
        O = np.full(2, -9, "int32")
        try:
            kernel(x, A, O)
            assert O.tolist() == ([int(A[y]), int(A[x])] if taken else [-9, -9]), (narrow, x, O)
            assert not taken or 0 <= x < 100
        except IndexError:
            assert taken and not 0 <= x < 100, (narrow, x)
