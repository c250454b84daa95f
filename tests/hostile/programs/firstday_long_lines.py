"""Long expressions and conditions: thousand-term sums, hundreds of comparisons, deep choices."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

SIGNATURE = "A: T.Buffer((64,), 'int32'), B: T.Buffer((64,), 'int32')"
A = (np.arange(64, dtype="int32") * 37) % 61 - 20


def run(line, value, index="i"):
    func = parse(f"def f({SIGNATURE}):\n    for i in range(64):\n        {line}\n")
    B = np.full(64, -7, "int32")
    tl.build(func)(A, B)
    expected = np.full(64, -7, "int32")
    for i in range(64):
        found = value(i)
        if found is not None:
            expected[index(i) if callable(index) else i] = found
    np.testing.assert_array_equal(B, expected)


terms = [(k % 7, k % 64) for k in range(1000)]
run("B[i] = " + " + ".join(f"A[{at}] * {c}" for c, at in terms), lambda i: sum(int(A[at]) * c for c, at in terms))
run(
    "B[(" + " + ".join(f"i * {k % 7}" for k in range(1000)) + ") % 64] = i",
    lambda i: i,
    lambda i: sum(i * (k % 7) for k in range(1000)) % 64,
)
run("if " + " and ".join(f"i != {k}" for k in range(0, 300)) + ":\n            B[i] = 1", lambda i: None)
run(
    "if " + " or ".join(f"i == {k}" for k in range(3, 300, 2)) + ":\n            B[i] = A[i]",
    lambda i: A[i] if i % 2 and i > 1 else None,
)
choice = "i"
for k in range(60):
    choice = f"T.if_then_else(A[{k}] > i, {choice}, {k})"
table = A.tolist()


def chosen(i):
    found = i
    for k in range(60):
        found = found if table[k] > i else k
    return found


run(f"B[{choice}] = i", lambda i: i, chosen)
