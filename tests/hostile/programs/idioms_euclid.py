"""Euclid's algorithm, Fibonacci's numbers, Collatz's steps and integer square roots, as one writes them in Python."""

# expect: ok
import math

import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
def f(A: T.Buffer(("n",), "int64"), B: T.Buffer(("n",), "int64"), O: T.Buffer((4, "n"), "int64")):
    for i in range(n):
        a = A[i]
        b = B[i]
        while b != 0:
            a, b = b, a % b
        O[0, i] = a
        x: T.int64 = 0
        y: T.int64 = 1
        for k in range(i):
            x, y = y, x + y
        O[1, i] = x
        c = A[i]
        steps: T.int64 = 0
        while c != 1:
            if c % 2 == 0:
                c = c // 2
            else:
                c = 3 * c + 1
            steps += 1
        O[2, i] = steps
        low: T.int64 = 0
        high = A[i] + 1
        while high - low > 1:
            mid = (low + high) // 2
            if mid * mid <= A[i]:
                low = mid
            else:
                high = mid
        O[3, i] = low
""")
)


def collatz(c):
    return 0 if c == 1 else 1 + collatz(c // 2 if c % 2 == 0 else 3 * c + 1)


def fibonacci(k):
    x, y = 0, 1
    for _ in range(k):
        x, y = y, x + y
    return x


random = np.random.default_rng(2)
A, B = random.integers(1, 5000, 60), random.integers(0, 5000, 60)
O = np.zeros((4, 60), "int64")
kernel(A, B, O)
for i, (a, b) in enumerate(zip(A.tolist(), B.tolist(), strict=True)):
    assert O[:, i].tolist() == [math.gcd(a, b), fibonacci(i), collatz(a), math.isqrt(a)], (i, a, b, O[:, i])
