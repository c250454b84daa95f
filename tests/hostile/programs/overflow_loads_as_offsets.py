"""Elements as offsets, alone and in sums and differences, near the ends of their types: a value or an IndexError."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

whole = np.full(64, 77, "int32")
whole[16:32] = np.arange(16) * 3 + 2
A = whole[16:32]
for dtype in ("int8", "uint8", "int16", "uint16", "int32", "int64"):
    info = np.iinfo(dtype)
    for text in ("X[0]", "X[0] + X[1]", "X[0] - X[1]", "X[0] * X[1]"):
        kernel = tl.build(
            parse(f"""
def f(X: T.Buffer((2,), "{dtype}"), A: T.Buffer((16,), "int32"), O: T.Buffer((1,), "int32")):
    O[0] = A[{text}]
    A[{text}] = 5
""")
        )
        for x in (info.min, info.min + 3, 0, 1, 7, 15, 16, info.max - 2, info.max):
            for y in (info.min, 0, 1, 4, info.max):
                X = np.array([x, y], dtype)
                with np.errstate(over="ignore"):
                    at = int(eval(text, {"X": X}))
                O = np.zeros(1, "int32")
                try:
                    kernel(X, A, O)
                    assert 0 <= at < 16, (dtype, text, x, y)
                    assert O[0] == at * 3 + 2 and A[at] == 5
                    A[at] = at * 3 + 2
                except IndexError:
                    assert not 0 <= at < 16, (dtype, text, x, y)
                assert (whole[:16] == 77).all() and (whole[32:] == 77).all()
