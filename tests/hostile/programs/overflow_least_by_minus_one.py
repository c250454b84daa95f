"""The least integer divided by -1, negated, multiplied by -1 and made absolute: it wraps to itself in every width."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for dtype in ("int8", "int16", "int32", "int64"):
    info = np.iinfo(dtype)
    kernel = tl.build(
        parse(f"""
def f(A: T.Buffer((5,), "{dtype}"), B: T.Buffer((5,), "{dtype}"), O: T.Buffer((6, 5), "{dtype}")):
    for i in range(5):
        O[0, i] = A[i] // B[i]
        O[1, i] = A[i] % B[i]
        O[2, i] = -A[i]
        O[3, i] = A[i] * B[i]
        O[4, i] = T.abs(A[i])
        O[5, i] = T.truncdiv(A[i], B[i])
""")
    )
    A = np.array([info.min, info.min + 1, info.max, -7, info.min], dtype)
    B = np.array([-1, -1, -1, 2, info.min], dtype)
    O = np.full((6, 5), 99, dtype)
    kernel(A, B, O)

    def wrapped(value, info=info):
        return (value - info.min) % (info.max - info.min + 1) + info.min

    a, b = [int(v) for v in A], [int(v) for v in B]
    expected = [
        [wrapped(x // y) for x, y in zip(a, b, strict=True)],
        [x % y for x, y in zip(a, b, strict=True)],
        [wrapped(-x) for x in a],
        [wrapped(x * y) for x, y in zip(a, b, strict=True)],
        [wrapped(abs(x)) for x in a],
        [wrapped(int(np.fix(x / y)) if y != -1 else -x) for x, y in zip(a, b, strict=True)],
    ]
    assert O.tolist() == expected, (dtype, O.tolist(), expected)
