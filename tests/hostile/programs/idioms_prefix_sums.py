"""Running sums, maxima with positions, differences and moving averages: names that live from iteration to iteration."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
def f(A: T.Buffer(("n",), "float64"), O: T.Buffer((4, "n"), "float64"), W: T.Buffer((2,), "int64")):
    total = 0.0
    best = -1e300
    before = 0.0
    for i in range(n):
        total += A[i]
        O[0, i] = total
        if A[i] > best:
            best = A[i]
            W[0] = T.Cast("int64", i)
        O[1, i] = best
        O[2, i] = A[i] - before
        before = A[i]
        window = 0.0
        for k in range(T.max(0, i - 2), i + 1):
            window += A[k]
        O[3, i] = window / T.Cast("float64", T.min(i + 1, 3))
    W[1] = T.Cast("int64", n)
""")
)
random = np.random.default_rng(9)
for n in (0, 1, 2, 5, 64, 101):
    A = random.integers(-40, 40, n) / 8
    O, W = np.zeros((4, n)), np.full(2, -1)
    kernel(A, O, W)
    np.testing.assert_array_equal(O[0], np.cumsum(A))
    np.testing.assert_array_equal(O[1], np.maximum.accumulate(A))
    np.testing.assert_array_equal(O[2], np.diff(A, prepend=0.0))
    expected = [A[max(0, i - 2) : i + 1].sum() / min(i + 1, 3) for i in range(n)]
    np.testing.assert_allclose(O[3], expected, rtol=1e-15)
    assert W.tolist() == [int(A.argmax()) if n else -1, n]
