"""Expressions that hold their parts many times over: meta variables doubled forty times, nested divisions of data."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

steps = "\n".join(f"        x{k + 1} = T.meta_var(x{k} // 2 + {k})" for k in range(40))
meta = parse(
    f"def f(B: T.Buffer((64,), 'int32')):\n    for i in range(64):\n        x0 = T.meta_var(i)\n{steps}\n        B[x40 % 64] = i\n"
)
B = np.full(64, -1, "int32")
tl.build(meta)(B)
expected = np.full(64, -1, "int32")
for i in range(64):
    x = i
    for k in range(40):
        x = x // 2 + k
    expected[x % 64] = i
np.testing.assert_array_equal(B, expected)

value = "A[i]"
for k in range(40):
    value = f"({value} - {k}) // {k % 5 + 2} + (A[i] + {k}) % {k + 3}"
nested = parse(
    f"def f(A: T.Buffer((8,), 'int32'), B: T.Buffer((8,), 'int32')):\n    for i in range(8):\n        B[i] = {value}\n"
)
A = np.array([5, -3, 100, 7, -2000, 6, 2**30, 8], "int32")
B = np.zeros(8, "int32")
tl.build(nested)(A, B)
np.testing.assert_array_equal(B, [eval(value, {"A": A.tolist(), "i": i}) for i in range(8)])
