"""Sixty shapes a class: one, primes, tall, wide, next to multiples of tiles. Machine code has the bits of the loops as written."""

from __future__ import annotations

import random

import pytest

from tests.autoschedule.scheduled import planned, same_bits

TARGET = "llvm -num_threads=2"
ODD = (1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 100, 127, 128, 129, 131)

PROGRAMS = {
    "product": """
def f(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer(({k}, {n}), "float32"), C: T.Buffer(({m}, {n}), "float32")):
    for i, j in T.grid({m}, {n}):
        C[i, j] = T.float32(0)
        for k in range({k}):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
""",
    "product with bias": """
def f(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer(({k}, {n}), "float32"), b: T.Buffer(({n},), "float32"), D: T.Buffer(({m}, {n}), "float32")):
    C = T.alloc_buffer(({m}, {n}), "float32")
    for i, j in T.grid({m}, {n}):
        C[i, j] = T.float32(0)
        for k in range({k}):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
    for i, j in T.grid({m}, {n}):
        D[i, j] = T.max(C[i, j] + b[j], T.float32(0))
""",
    "rows": """
def f(X: T.Buffer(({m}, {n}), "float32"), Y: T.Buffer(({m}, {n}), "float32")):
    S = T.alloc_buffer(({m},), "float32")
    for i in range({m}):
        S[i] = T.float32({k})
        for j in range({n}):
            S[i] = S[i] + T.abs(X[i, j])
    for i, j in T.grid({m}, {n}):
        Y[i, j] = X[i, j] / S[i]
""",
    "columns": """
def f(A: T.Buffer(({m}, {n}), "float32"), S: T.Buffer(({n},), "float32")):
    for j in range({n}):
        S[j] = T.float32({k})
        for i in range({m}):
            S[j] = S[j] + A[i, j]
""",
    "elementwise": """
def f(A: T.Buffer(({m}, {n}), "float32"), b: T.Buffer(({n},), "float32"), Y: T.Buffer(({m}, {n}), "float32")):
    S = T.alloc_buffer(({m}, {n}), "float32")
    for i, j in T.grid({m}, {n}):
        S[i, j] = A[i, j] * T.float32({k}) + b[j]
    for i, j in T.grid({m}, {n}):
        Y[i, j] = T.max(S[i, j], T.float32(0))
""",
    "transpose": """
def f(A: T.Buffer(({m}, {n}), "float32"), Y: T.Buffer(({n}, {m}), "float32")):
    for j, i in T.grid({n}, {m}):
        Y[j, i] = A[i, j] * T.float32({k})
""",
    "window": """
def f(X: T.Buffer((3, {m} + 2, {n} + 2), "float32"), W: T.Buffer((3, 3, 3), "float32"), Y: T.Buffer((3, {m}, {n}), "float32")):
    for c, h, w in T.grid(3, {m}, {n}):
        Y[c, h, w] = T.float32({k})
        for r, s in T.grid(3, 3):
            Y[c, h, w] = Y[c, h, w] + X[c, h + r, w + s] * W[c, r, s]
""",
}


def shapes(name: str, count: int) -> list[tuple[int, int, int]]:
    """The shapes of a class: the same ones each time."""
    rng = random.Random(name)
    return [(rng.choice(ODD), rng.choice(ODD), rng.choice(ODD)) for _ in range(count)]


def check(name: str, count: int) -> int:
    """Schedule and run a class at so many shapes; how many became other programs."""
    made = 0
    for m, n, k in shapes(name, count):
        found = planned(PROGRAMS[name].format(m=m, n=n, k=k), TARGET)
        assert all(nest.exactness == "bitwise equal" for nest in found.nests), (m, n, k)
        if found.function is not found.written:
            made += 1
            same_bits(found, TARGET)
    return made


@pytest.mark.parametrize("name", ["columns", "transpose"])
def test_some_shapes(name: str):
    assert check(name, 6) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", PROGRAMS)
def test_sixty_shapes(name: str):
    assert check(name, 60) >= 3
