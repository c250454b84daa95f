"""Elements read in each iteration are read once where no store of the loop meets them, and each time where one may."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.llvm.codegen.invariant_loads import lift_loads
from tirlower.script import parse

HEAD = '@T.prim_func\ndef f(A: T.Buffer((256,), "int32"), B: T.Buffer((256,), "int32"), m: T.int32):\n'

LIFTED = {
    "behind": "for k in range(100):\n        for j in range(k + 1, 120):\n            B[j] = B[j] + B[k] * A[j]",
    "in front": "for k in range(50, 100):\n        for j in range(k):\n            B[j] = B[j] - B[k]",
    "another row": "for i in range(1, 16):\n        for j in range(16):\n            B[i * 16 + j] = B[i * 16 + j] + B[i * 16 - 1]",
    "a buffer of its own": (
        "kept = T.alloc_buffer((256,), 'int32')\n    for i in range(256):\n        kept[i] = A[i]\n"
        "    for i in range(8):\n        for j in range(8):\n            kept[j + 8] = kept[i] + j\n            B[j] = kept[i]"
    ),
}
KEPT = {
    "the same element": "for k in range(100):\n        for j in range(k, 120):\n            B[j] = B[j] + B[k] * A[j]",
    "a sum": "for i in range(16):\n        for j in range(16):\n            B[i] = B[i] + A[i * 16 + j]",
    "another array that may be the same": (
        "for k in range(100):\n        for j in range(k + 1, 120):\n            B[j] = B[k] + 1\n            A[k + 0 * j] = j"
    ),
    "under a condition": (
        "for k in range(100):\n        for j in range(k + 1, 120):\n"
        "            B[j] = T.if_then_else(k < m, B[k + T.max(m, 0)], 7)"
    ),
    "a place that data says": "for k in range(100):\n        for j in range(120):\n            B[j] = B[j] + B[(m + k + 121) % 200]",
    "a pointer to it": (
        "q = T.bind(B.data)\n    Q = T.decl_buffer((256,), 'int32', data=q)\n    for k in range(50):\n"
        "        for j in range(k + 1, 120):\n            B[j] = B[k] + 1\n            Q[k] = j"
    ),
}


@pytest.mark.parametrize("name", [*LIFTED, *KEPT])
def test_elements(name: str) -> None:
    func = parse(HEAD + "    " + {**LIFTED, **KEPT}[name] + "\n")
    kernel = tl.build(func, schedule="none")
    (lowered,) = [f for _, f in tl.lower(func).items()]
    assert (lift_loads(lowered, lowered.body) is not lowered.body) == (name in LIFTED)
    for m in (-3, 0, 5, 79):
        native = [np.arange(256, dtype="int32") % 7 + 1, np.arange(256, dtype="int32") % 5 - 2]
        want = [array.copy() for array in native]
        kernel(*native, m)
        tl.interpret(func, *want, m)
        for a, b in zip(native, want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_loop_that_does_not_run_reads_nothing() -> None:
    func = parse("""
@T.prim_func
def f(a: T.handle, m: T.int32):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    for k in range(n):
        for j in range(k + 1, n):
            A[j] = A[j] + A[k]
""")
    kernel = tl.build(func, schedule="none")
    for n in (0, 1, 2, 9):
        native = np.arange(1, n + 1, dtype="int32")
        want = native.copy()
        kernel(native, 0)
        for k in range(n):
            want[k + 1 :] += want[k]
        np.testing.assert_array_equal(native, want)
