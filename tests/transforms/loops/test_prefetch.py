from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.transforms import StripPrefetches

PARAMS = 'A: T.Buffer((300,), "float32"), B: T.Buffer((300,), "float32"), I: T.Buffer((300,), "int32"), n: T.int32'

#: loops that become strips, and how often one line after the other is fetched in front of a strip
STRIPPED = {
    "a copy": ("for i in range(200):\n    HINT(A[i + 64])\n    B[i] = A[i]", "i_p in range(4)"),
    "of unknown length": ("for i in range(n):\n    HINT(A[i + 64])\n    B[i] = A[i]", "i_p in range(4)"),
    "from a place": ("for i in range(n, 300):\n    HINT(A[i + 64])\n    B[i] = A[i]", "i_p in range(4)"),
    "behind the work": ("for i in range(200):\n    B[i] = A[i]\n    HINT(A[i + 64])", "i_p in range(4)"),
    "backwards": ("for i in range(300):\n    HINT(A[199 - i])\n    B[299 - i] = A[i]", "i_p in range(4)"),
    "every other one": ("for i in range(100):\n    HINT(A[i * 2 + 64])\n    B[i] = A[i * 2]", "i_p in range(8)"),
    "a line each": ("for i in range(128):\n    HINT(A[i * 20])\n    B[i] = A[i]", "i_p in range(64)"),
    "one element": ("for i in range(200):\n    HINT(A[n])\n    B[i] = A[i]", "T.prefetch(T.address_of(A[n])"),
    "a short loop": ("for i in range(20):\n    HINT(A[i + 64])\n    B[i] = A[i]", "i_p in range(2)"),
    "two arrays": (
        "for i in range(200):\n    HINT(A[i + 64])\n    HINT(I[i * 4])\n    B[i] = A[i]",
        "i_p in range(16)",
    ),
    "a bound": ("for i in range(n):\n    if i + 64 < n:\n        HINT(A[i + 64])\n    B[i] = A[i]", "i_p in range(4)"),
    "once a line": (
        "for i in range(n):\n    if i % 16 == 0:\n        HINT(A[i + 64])\n    B[i] = A[i]",
        "i_p in range(64)",
    ),
    "a sum": ("for i in range(n):\n    HINT(A[i + 64])\n    B[0] = B[0] + A[i]", "i_p in range(4)"),
    "a shift": ("for i in range(n - 1):\n    HINT(A[i + 64])\n    B[i] = B[i + 1] + 1.0", "i_p in range(4)"),
    "branches": ("for i in range(n):\n    HINT(A[i + 64])\n    if A[i] > 2.0:\n        B[i] = 2.0", "i_p in range(4)"),
    "past the caches": (
        'for i in T.serial(200, annotations={"tir.nontemporal": True}):\n    HINT(A[i + 64])\n    B[i] = A[i]',
        "i_p in range(4)",
    ),
}

STAYING = {
    "a place in memory": "for i in range(200):\n    HINT(A[I[i]])\n    B[i] = A[i]",
    "a place of the body": "for i in range(200):\n    at: T.let[T.int32] = I[i] % 8\n    HINT(A[at])\n    B[i] = A[at]",
    "a division that may fail": "for i in range(200):\n    HINT(A[i // n])\n    B[i] = A[i]",
    "a condition on memory": "for i in range(200):\n    if A[i] > 1.0:\n        HINT(A[i + 64])\n    B[i] = A[i]",
    "loops": "for i in range(10):\n    HINT(A[i * 16 + 64])\n    for j in range(20):\n        B[i * 20 + j] = A[j]",
    "nothing else": "for i in range(20):\n    HINT(A[i * 16])",
    "a way out": "for i in range(200):\n    HINT(A[i + 64])\n    if A[i] > 1.0:\n        break\n    B[i] = A[i]",
    "lanes": "for i in T.vectorized(64):\n    HINT(A[i + 64])\n    B[i] = A[i]",
    "a hint of its own": 'for i in T.serial(200, annotations={"tir.no_unroll": True}):\n    HINT(A[i + 64])\n    B[i] = A[i]',
    "a length that it changes": "for i in range(I[0] % 256):\n    HINT(A[i + 64])\n    I[0] = 3\n    B[i] = A[i]",
    "one in a branch": "for i in range(200):\n    if A[i] > 1.0:\n        HINT(A[i + 64])\n        B[i] = A[i]\n    HINT(A[i])",
}


def program(body: str) -> PrimFunc:
    lines = body.replace("HINT(", "T.prefetch(T.address_of(").replace("])\n", "]), 0, 3, 1)\n")
    if lines.endswith("])"):
        lines = lines[:-1] + "), 0, 3, 1)"
    func = parse(f"@T.prim_func\ndef f({PARAMS}):\n" + "".join(f"    {line}\n" for line in lines.split("\n")))
    assert isinstance(func, PrimFunc)
    return func


def arguments(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    rng = np.random.default_rng(n)
    return rng.random(300, np.float32) * 4, np.zeros(300, np.float32), rng.integers(0, 300, 300).astype("int32"), n


@pytest.mark.parametrize("name", STRIPPED)
def test_loops_that_fetch_ahead_become_strips(name: str) -> None:
    body, fetches = STRIPPED[name]
    before = program(body)
    after = check(StripPrefetches(), before, inputs=[arguments(n) for n in (1, 63, 64, 65, 150, 192, 300)])
    text = after.script()
    assert fetches in text and "for i_o in" in text, text
    work = text[text.index("for i_i in") :]
    assert "prefetch" not in work, text
    kernel = tl.build(before, "llvm -num_threads=1", schedule="none")
    for n in (1, 64, 150, 300):
        native, expected = arguments(n), arguments(n)
        kernel(*native)
        tl.interpret(before, *expected)
        np.testing.assert_array_equal(native[1], expected[1])


@pytest.mark.parametrize("name", STAYING)
def test_other_loops_stay(name: str) -> None:
    before = program(STAYING[name])
    assert StripPrefetches()(before) is before
