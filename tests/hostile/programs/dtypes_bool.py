"""Arrays of bool: any byte of NumPy's is 0 or 1, logic and sums of truths are Python's."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
def f(A: T.Buffer(("n",), "bool"), B: T.Buffer(("n",), "bool"), O: T.Buffer((4, "n"), "bool"), C: T.Buffer((2,), "int32")):
    for i in range(n):
        O[0, i] = A[i] and B[i]
        O[1, i] = A[i] or B[i]
        O[2, i] = not A[i]
        O[3, i] = A[i] != B[i]
        if A[i]:
            C[0] += 1
        C[1] += T.Cast("int32", A[i]) * 3 - T.Cast("int32", B[i])
""")
)
random = np.random.default_rng(5)
for n in (0, 1, 4, 33, 257):
    A, B = random.random(n) < 0.7, random.random(n) < 0.4
    O, C = np.zeros((4, n), "bool"), np.zeros(2, "int32")
    kernel(A, B, O, C)
    np.testing.assert_array_equal(O, np.stack([A & B, A | B, ~A, A ^ B]))
    assert C.tolist() == [A.sum(), 3 * int(A.sum()) - int(B.sum())]
