"""Slices of any length and dimension are assigned as NumPy assigns them, or refused; ends that are data stay inside."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.diagnostics import ScriptError
from tirlower.script import parse

HEAD = "def f(A: T.Buffer(('n', 'm'), 'int32'), B: T.Buffer(('n', 'm'), 'int32'), C: T.Buffer(('m',), 'int32'), k: T.int32):\n"
SAME = [
    "A[:] = B[:]",
    "A[0:k] = B[0:k]",
    "A[k:n, :] = C[:] - B[k:n, 0:1]",
    "A[:, ::-1] = B[:, :]",
    "A[:, 1::2] += B[:, 1::2] * k",
    "A[1:n, 1:m] = B[0:n - 1, 0:m - 1]",
    "A[k, :] = C[:] * C[:]",
    "A[:, k] = B[:, 0]",
    "C[:] = C[:] * 2 + 1",
    "C[k:] = A[0, k:] - C[k:]",
    "i = 0\nfor j in range(k):\n    i += j\nC[0:i] = B[1, 0:i]",
]
CHANGED = ["A[C[0]:k, :] = B[C[0]:k, :]", "C[C[1]:] = 0", "C[C[0]:C[1]] = A[0, C[0]:C[1]]"]
WRONG = [
    "A[1:n, :] = A[0:n - 1, :]",
    "C[:] = C[::-1]",
    "C[:] += C[0]",
    "A[:, :] = A[:, 0:1]",
    "A[0:k, :] = B[:, :]",
    "C[:] = B[:, 0]",
    "A[-k:-1, :] = B[-k:-1, :]",
    "A[:-1, :] = 0",
    "C[::k] = 0",
    "C[0:n] = B[:, :]",
]
rng = np.random.default_rng(3)


def arrays(n, m):
    return rng.integers(-9, 9, (n, m)).astype("int32"), rng.integers(-9, 9, (n, m)).astype("int32")


for line in SAME:
    kernel = tl.build(parse(HEAD + "    " + line.replace("\n", "\n    ")))
    for n, m, k in ((2, 3, 1), (5, 4, 2), (7, 16, 0), (3, 33, 2)):
        A, B = arrays(n, m)
        C = B[0].copy() + 5
        want = {"A": A.copy(), "B": B, "C": C.copy(), "n": n, "m": m, "k": k}
        exec(line, want)
        kernel(A, B, C, k)
        np.testing.assert_array_equal(A, want["A"], line)
        np.testing.assert_array_equal(C, want["C"], line)
for line in CHANGED:
    kernel = tl.build(parse(HEAD + "    " + line))
    for first, second in ((0, 2), (1, 3), (2, 1), (-1, 2), (-5, 9), (2**31 - 1, 0), (-(2**31), 3), (0, -(2**31))):
        A, B = arrays(4, 6)
        C = np.array([first, second, 3, 4, 5, 6], "int32")
        want = {"A": A.copy(), "B": B, "C": C.copy(), "n": 4, "m": 6, "k": 3}
        inside = 0 <= min(first, second) and max(first, second) <= 6
        try:
            kernel(A, B, C, 3)
        except (IndexError, OverflowError):
            assert not inside, (line, first, second)
            continue
        if inside:
            exec(line, want)
            np.testing.assert_array_equal(A, want["A"], line)
            np.testing.assert_array_equal(C, want["C"], line)
for line in WRONG:
    try:
        parse(HEAD + "    " + line)
    except ScriptError as error:
        assert "help" in str(error), line
    else:
        raise AssertionError(f"{line} was taken")
