"""One expression of two thousand terms, as a sum in a row and as a balanced one, of floats and of integers."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

N = 2000


def balanced(low: int, high: int) -> str:
    if high - low == 1:
        return f"A[{low}] * {low % 17}"
    middle = (low + high) // 2
    return f"({balanced(low, middle)} + {balanced(middle, high)})"


body = "    B[0] = " + balanced(0, N) + "\n    B[1] = T.max(B[0], 5) + (" + balanced(0, N // 2) + ")\n"
kernel = tl.build(parse(f'@T.prim_func\ndef f(A: T.Buffer(({N},), "int32"), B: T.Buffer((2,), "int32")):\n{body}'))
a, b = np.arange(N, dtype="int32") % 101, np.zeros(2, "int32")
kernel(a, b)
terms = a * (np.arange(N) % 17)
assert b.tolist() == [terms.sum(), terms.sum() + terms[: N // 2].sum()], b
