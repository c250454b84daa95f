"""Strides under which two subscripts are one element: a constant, a view's, and an array's at the call."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for strides in ("(0, 1)", "(1, 1)", "(3, 1)", "(1, 3)"):
    for declared in (
        f'def f(A: T.Buffer((4, 4), "int32", strides={strides})):\n    pass\n',
        f'def f(B: T.Buffer((64,), "int32")):\n    A = T.decl_buffer((4, 4), "int32", data=B.data, strides={strides})\n',
    ):
        try:
            tl.build(
                parse(
                    f"@T.prim_func\n{declared}    for i, j in T.grid(4, 4):\n        A[i, j] = i * 10 + j".replace(
                        "for i, j in T.grid(4, 4):\n        A",
                        "for i in T.parallel(4):\n        for j in range(4):\n            A",
                    )
                )
            )
        except tl.LegalityError:
            continue
        raise SystemExit(declared)

kernel = tl.build(
    parse("""
@T.prim_func
def f(a: T.handle):
    n = T.int32()
    s = T.int32()
    A = T.match_buffer(a, (n,), "int32", strides=(s,))
    for i in T.parallel(n):
        A[i] = i + 1
""")
)
base = np.zeros(40, "int32")
kernel(base[::4])
np.testing.assert_array_equal(base[::4], np.arange(1, 11))
try:
    kernel(np.lib.stride_tricks.as_strided(base, (10,), (0,)))
except ValueError:
    pass
else:
    raise SystemExit("one element for all was taken")
