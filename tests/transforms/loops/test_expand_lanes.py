"""ExpandLanes: what lanes in step compute on arrays that share memory, in the interpreter before and after."""

from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.script import parse
from tirlower.transforms import ExpandLanes

PARAMS = 'A: T.Buffer((24,), "int32"), B: T.Buffer((24,), "int32"), n: T.int32'

BODIES = {
    "shift": "for i in T.vectorized(23):\n    B[i + 1] = A[i] + 1",
    "one statement after another": "for i in T.vectorized(20):\n    B[i] = A[i + 1]\n    A[i + 2] = B[i] * 2",
    "a symbolic extent": "for i in T.vectorized(n):\n    B[i + 1] = A[i]",
    "a start": "for i in T.vectorized(3, 19):\n    B[i + 1] = A[i] + i",
    "an index that is loaded": "for i in T.vectorized(20):\n    B[A[i] % 24] = A[23 - i] + i",
    "a condition that the branch changes": (
        "for i in T.vectorized(20):\n    if A[i] % 2 == 0:\n        B[i + 1] = 3\n        B[i + 2] = A[i]\n"
        "    else:\n        B[i + 3] = A[i + 1]\n    A[i] = B[i]"
    ),
    "conditions inside conditions": (
        "for i in T.vectorized(20):\n    if i > 3:\n        if A[i] > 5:\n            B[i + 1] = A[i + 2]\n"
        "        else:\n            if A[i + 1] > 2:\n                B[i] = 7"
    ),
    "a condition for all lanes": "for i in T.vectorized(20):\n    if n > 2:\n        B[i + 1] = A[i]\n    else:\n        B[i] = 1",
    "a name": "for i in T.vectorized(20):\n    t: T.let[T.int32] = A[i + 1] * 2\n    B[i] = 0\n    B[i + 2] = t + A[i]",
    "a loop in step": "for i in T.vectorized(8):\n    for k in range(2):\n        B[i + k + 1] = A[i + k] + B[i]",
    "a loop that is longer for some": "for i in T.vectorized(8):\n    for k in range(i % 3 + 1):\n        B[i + k + 1] = A[i] + k",
    "a loop of loaded bounds": "for i in T.vectorized(8):\n    for k in range(A[i] % 3, A[i + 1] % 5):\n        B[i + 1] = A[i] + k",
    "memory of each lane": (
        "for i in T.vectorized(8):\n    L = T.alloc_buffer((2,), 'int32')\n    L[0] = A[i]\n    L[1] = A[i + 1]\n"
        "    B[i + 1] = L[1] - L[0]\n    B[i + 2] = L[0]"
    ),
    "lanes in lanes": "for i in T.vectorized(4):\n    for j in T.vectorized(5):\n        B[i * 5 + j + 1] = A[i * 5 + j] + 1",
    "memory of lanes in lanes": (
        "for i in T.vectorized(4):\n    for j in T.vectorized(5):\n        L = T.alloc_buffer((1,), 'int32')\n"
        "        L[0] = A[i * 5 + j]\n        B[i * 5 + j + 1] = 4\n        A[i + j] = L[0]"
    ),
    "a while loop": (
        "for i in T.vectorized(8):\n    while A[i] < 9:\n        A[i] = A[i] + 4\n        B[i + 1] = A[i] + 1"
    ),
    "an attribute": 'for i in T.vectorized(8):\n    with T.attr("x", "mark", 1):\n        B[i + 1] = A[i]',
    "no lanes": "for i in T.vectorized(n - n):\n    B[i] = A[i + 1]",
    "in a loop around": "for k in range(3):\n    for i in T.vectorized(7):\n        B[i * 3 + k + 1] = A[i + k]",
}  # fmt: skip


def function(body: str):
    lines = "\n".join("    " + line for line in body.split("\n"))
    return parse(f"@T.prim_func\ndef f({PARAMS}):\n{lines}")


@pytest.mark.parametrize("name", BODIES)
def test_lanes_in_step(name: str) -> None:
    before = function(BODIES[name])
    inputs = [(np.arange(24, dtype="int32")[::-1].copy(), np.full(24, 5, "int32"), 9)]
    after = check(ExpandLanes(), before, inputs=inputs)
    assert "vectorized" not in after.script()
    for shift in (-2, -1, 0, 1, 2):
        memory = np.random.default_rng(shift + 9).integers(0, 12, 40).astype("int32")
        results = []
        for func in (before, after):
            got = memory.copy()
            interpret(func, got[8:32], got[8 + shift : 32 + shift], 9)
            results.append(got)
        np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for i in T.vectorized(8):\n    if A[i] > 2:\n        break\n    B[i] = 1", "may break, continue or return alone"),
        ("for i in T.vectorized(8):\n    for k in range(4):\n        if A[k] > i:\n            break\n        B[i] = k",
         "may leave loop 'k'"),
        ("for i in T.vectorized(8):\n    L = T.alloc_buffer((i + 1,), 'int32')\n    L[0] = 1\n    B[i] = L[0]",
         "the shape of 'L' differs"),
        ("for i in T.vectorized(8):\n    for j in T.vectorized(i):\n        B[i + j] = A[j]", "the bounds of loop 'j' differ"),
    ],
)  # fmt: skip
def test_what_has_no_such_form_is_named(body: str, message: str) -> None:
    with pytest.raises(TransformError, match=message):
        ExpandLanes()(function(body))
