"""Masked lanes of arrays on the stack: what lies beside them, and behind their end, stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.sampling import in_pairs
from tirlower.script import parse

#: Bodies of a function of A (64), n and C (64): X, Y and Z are arrays that lie beside each other.
BODIES = {
    "a whole array": "for l in T.vectorized(16):\n    if l < n:\n        Y[l] = A[l]",
    "lanes behind the end": "for l in T.vectorized(32):\n    if l < T.min(n, 16):\n        Y[l] = A[l] + Y[l]",
    "lanes in front of it": "for l in T.vectorized(16):\n    if l >= 4:\n        Y[l - 4] = A[l] + Y[l - 4]",
    "a part": "for k in range(2):\n    for l in T.vectorized(8):\n        if k * 8 + l < n:\n            Y[k * 8 + l] += A[k + l]",
    "parts that reach over": "for k in range(3):\n    for l in T.vectorized(8):\n        if k * 7 + l < 16:\n            Y[k * 7 + l] += A[k + l]",
    "a place that is data": "for l in T.vectorized(8):\n    if m + l < 16 and m + l >= 0:\n        Y[m + l] += A[l]",
    "lanes by their values": "for l in T.vectorized(16):\n    if A[l] > 0.5:\n        Y[l] = Y[l] * 2.0 + A[l + 16]",
    "backwards": "for l in T.vectorized(16):\n    if l < n:\n        Y[15 - l] = A[l] - Y[15 - l]",
    "other elements": "for l in T.vectorized(8):\n    if l < n:\n        Y[l * 2] = A[l] + Y[l * 2 + 1]",
    "choices": "for l in T.vectorized(16):\n    Y[l] = T.if_then_else(l < n, Y[l] + A[l], T.if_then_else(A[l] > 0.5, X[l], Z[l]))",
}


@pytest.mark.parametrize(
    ("name", "dtype", "threads"), in_pairs(BODIES, ["float32", "int8", "float64", "int64"], [False, True])
)
def test_masked_lanes(name: str, dtype: str, threads: bool) -> None:
    lines = "".join(f"        {line}\n" for line in BODIES[name].split("\n"))
    if not dtype.startswith("float"):
        lines = lines.replace("2.0", "2").replace("0.5", "0")
    arrays = "".join(f'        {array} = T.alloc_buffer((16,), "{dtype}", scope="local")\n' for array in "XYZ")
    func = parse(
        f'@T.prim_func\ndef f(A: T.Buffer((64,), "{dtype}"), n: T.int32, m: T.int32, C: T.Buffer((2, 48), "{dtype}")):\n'
        f"    for t in T.{'parallel' if threads else 'serial'}(2):\n{arrays}"
        "        for i in range(16):\n            X[i] = A[i]\n            Y[i] = A[i + 16]\n            Z[i] = A[i + 32]\n"
        f"{lines}        for i in range(16):\n            C[t, i] = X[i]\n            C[t, i + 16] = Y[i]\n            C[t, i + 32] = Z[i]\n"
    )
    kernel = tl.build(func, schedule="none")  # type: ignore[call-overload]
    rng = np.random.default_rng(0)
    for n, m in ((0, 0), (1, 3), (7, 8), (16, 15), (-3, -7), (12, 12)):
        a = rng.integers(-4, 5, 64).astype(dtype)
        got, wanted = np.zeros((2, 48), dtype), np.zeros((2, 48), dtype)
        kernel(a, n, m, got)
        tl.interpret(func, a, n, m, wanted)  # type: ignore[arg-type]
        assert got.tolist() == wanted.tolist()


def test_an_array_that_threads_share_is_stored_lane_by_lane() -> None:
    func = parse(
        '@T.prim_func\ndef f(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):\n'
        '    X = T.alloc_buffer((16,), "float32", scope="local")\n'
        "    for t in T.parallel(2):\n        for l in T.vectorized(16):\n            if l % 2 == t:\n                X[l] = A[l]\n"
        "    for i in range(16):\n        C[i] = X[i]\n"
    )
    kernel = tl.build(func, schedule="none")  # type: ignore[call-overload]
    assert "llvm.masked.store" in kernel.source("llvm")
    a, c = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    kernel(a, c)
    assert c.tolist() == a.tolist()
