"""NaN, infinities, the least and largest numbers, -0.0: arithmetic and comparisons bit for bit as in NumPy."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

OPS = ["A[i] + B[i]", "A[i] - B[i]", "A[i] * B[i]", "A[i] / B[i]", "-A[i]", "T.abs(A[i])"]
TESTS = ["A[i] < B[i]", "A[i] == B[i]", "A[i] != B[i]", "A[i] >= B[i]", "not (A[i] < B[i])"]


class T:
    abs = staticmethod(np.abs)


for dtype in ("float16", "float32", "float64"):
    info = np.finfo(dtype)
    ends = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1.0,
        -1.5,
        info.max,
        info.min,
        info.tiny,
        -info.smallest_subnormal,
        info.eps,
    ]
    n = len(ends) ** 2
    A = np.array([x for x in ends for _ in ends], dtype)
    B = np.array([y for _ in ends for y in ends], dtype)
    body = [f"        O[{k}, i] = {text}" for k, text in enumerate(OPS)]
    body += [f"        C[{k}, i] = {text}" for k, text in enumerate(TESTS)]
    kernel = tl.build(
        parse(
            f'def f(A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}"), '
            f'O: T.Buffer(({len(OPS)}, {n}), "{dtype}"), C: T.Buffer(({len(TESTS)}, {n}), "bool")):\n'
            f"    for i in range({n}):\n" + "\n".join(body) + "\n"
        )
    )
    O, C = np.zeros((len(OPS), n), dtype), np.zeros((len(TESTS), n), "bool")
    kernel(A, B, O, C)
    with np.errstate(all="ignore"):
        for k, text in enumerate(OPS):
            expected = eval(text.replace("[i]", ""), {"A": A, "B": B, "T": T})
            np.testing.assert_array_equal(O[k], expected, f"{dtype} {text}")
            numbers = ~np.isnan(expected)
            assert (np.signbit(O[k]) == np.signbit(expected))[numbers].all(), (dtype, text)
        for k, text in enumerate(TESTS):
            text = text.replace("[i]", "").replace("not ", "~")
            np.testing.assert_array_equal(C[k], eval(text, {"A": A, "B": B}), f"{dtype} {text}")
