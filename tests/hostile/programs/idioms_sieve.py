"""The sieve of Eratosthenes, a binary search, run lengths, a histogram: nested loops, breaks, flags."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

sieve = tl.build(
    parse("""
def sieve(P: T.Buffer(("n",), "bool")):
    for i in range(n):
        P[i] = i >= 2
    for i in range(2, n):
        if P[i]:
            for j in range(2 * i, n, i):
                P[j] = False
""")
)
for n in (0, 1, 2, 3, 30, 1009):
    P = np.zeros(n, "bool")
    sieve(P)
    assert np.flatnonzero(P).tolist() == [p for p in range(2, n) if all(p % d for d in range(2, p))]

search = tl.build(
    parse("""
def search(A: T.Buffer(("n",), "int32"), X: T.Buffer(("m",), "int32"), O: T.Buffer(("m",), "int32")):
    for k in range(m):
        low = 0
        high = n
        while low < high:
            mid = (low + high) // 2
            if A[mid] < X[k]:
                low = mid + 1
            else:
                high = mid
        O[k] = low
""")
)
random = np.random.default_rng(8)
for n in (0, 1, 2, 100):
    A, X = np.sort(random.integers(-50, 50, n, "int32")), np.arange(-60, 61, dtype="int32")
    O = np.full(len(X), -1, "int32")
    search(A, X, O)
    np.testing.assert_array_equal(O, np.searchsorted(A, X))

longest = tl.build(
    parse("""
def longest(A: T.Buffer(("n",), "int32"), O: T.Buffer((2,), "int32"), H: T.Buffer((5,), "int32")):
    best = 0
    where = -1
    run = 0
    for i in range(n):
        H[A[i]] += 1
        if i > 0 and A[i] == A[T.max(i - 1, 0)]:
            run += 1
        else:
            run = 1
        if run > best:
            best = run
            where = i
    O[0] = best
    O[1] = where
""")
)
for n in (0, 1, 50, 500):
    A = random.integers(0, 5, n, "int32")
    O, H = np.zeros(2, "int32"), np.zeros(5, "int32")
    longest(A, O, H)
    best, where, run = 0, -1, 0
    for i, value in enumerate(A.tolist()):
        run = run + 1 if i and value == A[i - 1] else 1
        if run > best:
            best, where = run, i
    assert O.tolist() == [best, where] and (H == np.bincount(A, minlength=5)).all()
