"""The tree of loops."""

from __future__ import annotations

import pytest

import tirlower as tl
from tirlower.script import parse

pytest.importorskip("islpy")


def test_each_loop_says_what_it_carries_and_touches() -> None:
    func = parse("""
@T.prim_func
def f(n: T.int32, A: T.Buffer((n, 8), "float32"), B: T.Buffer((8,), "float32"), X: T.Buffer((n,), "int32")):
    for i in range(n):
        for j in T.vectorized(8):
            A[i, j] = T.float32(1)
    for k in range(n):
        B[0] = B[0] + A[k, 1]
    for i in range(n):
        B[X[i]] = T.float32(2)
""")
    assert (
        tl.Schedule(func).tree()
        == """i: n  independent  A 32 B
  j: 8  vectorized  independent  A 4 B
    A = constants
k: n  carries sum into B  B 4 B, A 4 B
  B = B, A
i: n  may depend  X 4 B
  B = X"""
    )
