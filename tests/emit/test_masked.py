"""Indices that are low bits keep a loop in order only where they change in it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tirlower as tl
from tirlower import Target
from tirlower.ir import PrimFunc
from tirlower.script import parse

pytestmark = pytest.mark.by_day


def built(body: str) -> tuple[PrimFunc, tl.Kernel]:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    func = parse(
        "@T.prim_func\ndef f(A: T.Buffer((64, 200), 'float32'), B: T.Buffer((4, 200), 'float32'), s: T.int32):\n"
        f"    T.func_attr({{'tir.noalias': True}})\n{lines}"
    )
    assert isinstance(func, PrimFunc)
    kernel = tl.build(func, Target("llvm", mcpu="haswell", num_threads=1), schedule="none")
    assert isinstance(kernel, tl.Kernel)
    return func, kernel


RINGS = {
    "counter": "for i in range(64):\n    for x in range(200):\n        B[i % 4, x] = B[(i + 1) % 4, x] + A[i, x]",
    "let": (
        "for i in range(64):\n    r: T.let[T.int32] = T.bitwise_and(i + 3, 3)\n"
        "    for x in range(200):\n        B[r, x] = A[i, x] * T.float32(2)"
    ),
    "argument": "for x in range(200):\n    B[s % 4, x] = A[3, x] * T.float32(2)",
}


@pytest.mark.parametrize("name", RINGS)
def test_a_row_of_a_ring_is_filled_by_vectors(name: str) -> None:
    func, kernel = built(RINGS[name])
    text = kernel.source("asm")
    assert re.search(r"v(add|mul)ps\s.*%ymm", text), text
    check(func, kernel)


OWN = {
    "counter": "for i in range(64):\n    for x in range(200):\n        B[x % 4, x] = A[i, x]",
    "let": "for x in range(200):\n    r: T.let[T.int32] = T.bitwise_and(x, 3)\n    B[r, x] = A[5, x]",
    "narrow": 'for x in range(200):\n    B[T.Cast("int32", T.Cast("uint8", x * 3)) % 4, x] = A[x // 4, x]',
    "read": 'for x in range(200):\n    B[T.Cast("int32", A[0, x]) % 4, x] = A[1, x]',
}


@pytest.mark.parametrize("name", OWN)
def test_a_loop_in_which_the_bits_change_keeps_its_order(name: str) -> None:
    func, kernel = built(OWN[name])
    assert "vectorize.enable" in kernel.source("llvm")
    check(func, kernel)


def check(func: PrimFunc, kernel: tl.Kernel) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 100, shape).astype("float32") for shape in ((64, 200), (4, 200)))
    for s in (0, 3, -5, 2**31 - 1):
        ours, wanted = b.copy(), b.copy()
        kernel(a, ours, s)
        tl.interpret(func, a, wanted, s)
        np.testing.assert_array_equal(ours, wanted)
