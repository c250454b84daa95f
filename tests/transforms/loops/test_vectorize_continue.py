"""Lanes that end their iteration early: what is behind a ``continue`` runs in the other lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.script import parse

BODIES = {
    "a bound": "if i > 5:\n            T.continue_loop()\n        A[i] = i",
    "data": "if B[i] > 5:\n            T.continue_loop()\n        A[i] = B[i] * 2",
    "in the other branch": (
        "if B[i] > 5:\n            A[i] = 7\n        else:\n            A[i] = 3\n            T.continue_loop()\n"
        "        B[i] = A[i]"
    ),
    "in part of a branch": (
        "if B[i] > 3:\n            if B[i] > 8:\n                T.continue_loop()\n            A[i] = 1\n"
        "        x: T.int32 = B[i] + 1\n        B[i] = x * A[i]"
    ),
    "twice": (
        "A[i] = 9\n        if B[i] > 8:\n            T.continue_loop()\n        A[i] = 1\n        if B[i] < 4:\n"
        "            T.continue_loop()\n        A[i] = 5"
    ),
    "always": "A[i] = 9\n        T.continue_loop()\n        A[i] = 1",
    "after a store to what it reads": "if B[i] > 4:\n            B[i] = 0\n            T.continue_loop()\n        A[i] = B[i]",
    "of an inner loop": (
        "for j in range(4):\n            if (i + j) % 3 == 0:\n                T.continue_loop()\n            A[i] = A[i] * 2 + j"
    ),
    "with memory of its own": (
        't = T.alloc_buffer((1,), "int32")\n        t[0] = B[i]\n        if t[0] > 4:\n            T.continue_loop()\n'
        "        t[0] = t[0] + 1\n        A[i] = t[0]"
    ),
}  # fmt: skip


@pytest.mark.parametrize("extent", ["1", "7", "16", "n"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_as_the_serial_loop(body: str, extent: str) -> None:
    text = f"""
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for i in T.vectorized({extent}):
        T.assume(i < n)
        {body}
"""
    func: Any = parse(text)
    serial: Any = parse(text.replace("T.vectorized", "T.serial"))
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 12, 16).astype("int32"), rng.integers(0, 12, 16).astype("int32")
    wanted = a.copy(), b.copy()
    tl.interpret(serial, *wanted)
    tl.build(func, schedule="none")(a, b)
    np.testing.assert_array_equal(a, wanted[0])
    np.testing.assert_array_equal(b, wanted[1])
