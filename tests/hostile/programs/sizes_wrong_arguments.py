"""Arrays of other sizes, dimensions, types and byte orders, read-only outputs, None, lists: refused before anything runs."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
def f(k: T.int32, A: T.Buffer(("n", 4), "float32"), B: T.Buffer(("n",), "float32")):
    for i in range(n):
        B[i] = A[i, 3] + T.Cast("float32", k)
""")
)
A, B = np.arange(20, dtype="float32").reshape(5, 4), np.zeros(5, "float32")
fixed = B.copy()
fixed.flags.writeable = False
WRONG = [
    (1, A[:, :3].copy(), B),
    (1, A, B[:4].copy()),
    (1, A.reshape(4, 5), B),
    (1, A.ravel(), B),
    (1, A.astype("float64"), B),
    (1, A.astype(">f4"), B),
    (1, A, fixed),
    (1, None, B),
    (1, A.tolist(), B),
    (1, A, 5),
    ("x", A, B),
    (2**31, A, B),
    (1.5, A, B),
    (None, A, B),
    (1, A),
    (1, A, B, B),
    (),
]
for args in WRONG:
    try:
        kernel(*args)
    except (TypeError, ValueError, OverflowError) as error:
        assert len(str(error)) > 20, error
    else:
        raise AssertionError(args)
    assert not B.any()
for named in ({"C": B}, {"k": 1}, {"n": 5}):
    try:
        kernel(1, A, B, **named)
    except TypeError:
        assert not B.any()
    else:
        raise AssertionError(named)
kernel(B=B, A=A, k=np.int8(3))
np.testing.assert_array_equal(B, A[:, 3] + 3)
