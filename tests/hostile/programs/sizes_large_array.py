"""An array of 150 million bytes: its first and last elements are written, in lanes, threads and backwards."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

n = 150_000_001
A = np.zeros(n, "uint8")
tl.build(
    parse("""
def f(A: T.Buffer(("n",), "uint8")):
    for i in T.parallel(n):
        A[i] = T.Cast("uint8", i % 251)
""")
)(A)
tail = np.arange(n - 1000, n)
assert (A[-1000:] == tail % 251).all() and (A[:1000] == np.arange(1000) % 251).all()
count = tl.build(
    parse("""
def g(A: T.Buffer(("n",), "uint8")) -> T.int64:
    total: T.int64 = 0
    for i in range(n):
        total += T.Cast("int64", A[n - 1 - i])
    return total
""")
)
assert count(A) == int(A.sum(dtype="int64"))
