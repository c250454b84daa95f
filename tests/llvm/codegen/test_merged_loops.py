"""Nests that walk along memory become one loop; the others stay, and all keep their order."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.llvm.codegen import generate
from tirlower.script import parse

MERGED = {
    "a split": ("for o in range(30):\n        for i in range(7):\n            B[o * 7 + i] = A[o * 7 + i] + 1", 1),
    "in the order of the nest": (
        "for o in range(30):\n        for i in range(7):\n            B[o * 7 + i + 1] = B[o * 7 + i] * 3 + A[i + o * 7]",
        1,
    ),
    "three levels": (
        "for a in range(5):\n        for b in range(6):\n            for c in range(7):\n"
        "                B[a * 42 + b * 7 + c] = A[a * 42 + b * 7 + c] + 1",
        1,
    ),
    "under a guard": (
        "for o in range(31):\n        for i in range(7):\n            if o * 7 + i < 209:\n"
        "                B[o * 7 + i] = A[o * 7 + i] - i * 0",
        1,
    ),
}
KEPT = {
    "the outer variable alone": ("for o in range(30):\n        for i in range(7):\n            B[o * 7 + i] = A[o]", 2),
    "the inner variable alone": ("for o in range(30):\n        for i in range(7):\n            B[o * 7 + i] = A[i]", 2),
    "another stride": ("for o in range(30):\n        for i in range(7):\n            B[o * 8 + i] = A[o * 8 + i]", 2),
    "a jump": (
        "for o in range(30):\n        for i in range(7):\n            if A[o * 7 + i] > 40:\n                break\n"
        "            B[o * 7 + i] = 1",
        2,
    ),
    "a number of times that a call gives": (
        "for o in range(n):\n        for i in range(7):\n            B[o * 7 + i] = A[o * 7 + i]",
        2,
    ),
    "another beginning": (
        "for o in range(30):\n        for i in range(1, 7):\n            B[o * 6 + i] = A[o * 6 + i]",
        2,
    ),
}


@pytest.mark.parametrize("name", [*MERGED, *KEPT])
def test_nests(name: str) -> None:
    body, loops = {**MERGED, **KEPT}[name]
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((256,), "int32"), B: T.Buffer((256,), "int32"), n: T.int32):
    {body}
""")
    kernel = tl.build(func, schedule="none")
    assert kernel.source("llvm").count("= phi i64 ") == loops
    a = np.arange(256, dtype="int32") % 50
    native, want = np.zeros(256, "int32"), np.zeros(256, "int32")
    kernel(a, native, 29)
    tl.interpret(func, a, want, 29)
    np.testing.assert_array_equal(native, want)


def test_loops_over_small_arrays_and_loops_that_are_asked_for_stay() -> None:
    """A tile in registers is unrolled by both of its loops; of annotated loops the user decides."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    tile = T.alloc_buffer((64,), "float32", scope="local")
    for o in range(8):
        for i in range(8):
            tile[o * 8 + i] = A[o * 8 + i]
    for o in range(8):
        for i in T.serial(8, annotations={"tir.llvm_interleave": 1}):
            B[o * 8 + i] = A[o * 8 + i]
    for o in range(8):
        B[o] = B[o] + tile[o * 7]
""")
    assert generate(func).text.count("= phi i64 ") == 5


def test_a_product_that_leaves_the_variables_type_stays() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((1024,), "uint8")):
    for o in range(T.uint8(100)):
        for i in range(T.uint8(10)):
            A[o * T.uint8(10) + i] = A[o * T.uint8(10) + i] + T.uint8(1)
""")
    kernel = tl.build(func, schedule="none")
    native, want = np.zeros(1024, "uint8"), np.zeros(1024, "uint8")
    kernel(native)
    for o in range(100):
        for i in range(10):
            want[(o * 10 + i) % 256] += 1
    np.testing.assert_array_equal(native, want)
