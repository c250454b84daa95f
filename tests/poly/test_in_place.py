"""Which arrays may be one, row by row: a pair is given only where every read leads to the store that ends the value."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tirlower as tl
from tirlower import poly
from tirlower.script import parse

N = 'T.Buffer(("n",), "int32")'
SQUARE = 'T.Buffer((6, 6), "int32")'

ROWS = [
    # parameters, body, the pairs (read, written)
    (f"A: {N}, B: {N}, C: {N}", "for i in range(n):\n    C[i] = A[i] + B[i]", {("A", "C"), ("B", "C")}),
    (f"A: {N}, C: {N}", "for i in T.parallel(n):\n    C[i] = A[i] * A[i] + C[i]", {("A", "C")}),
    (f"A: {N}, C: {N}", "for i in T.vectorized(n):\n    C[n - 1 - i] = A[n - 1 - i]", {("A", "C")}),
    (f"A: {N}, C: {N}", "for i in range(n):\n    C[i] = T.if_then_else(A[i] > 0, A[i], -A[i])", {("A", "C")}),
    (f"A: {SQUARE}, C: {SQUARE}", "for i, j in T.grid(6, 6):\n    C[j, i] = A[j, i] + 1", {("A", "C")}),
    (f"A: {N}, C: {N}", "for i in range(n // 2):\n    for j in range(2):\n        C[i * 2 + j] = A[i * 2 + j]", {("A", "C")}),
    (f"A: {N}, C: {N}, D: {N}", "for i in range(n):\n    C[i] = A[i]\nfor i in range(n):\n    D[i] = 7", {("A", "C")}),
    # another element, another iteration
    (f"A: {N}, C: {N}", "for i in range(n - 1):\n    C[i] = A[i + 1]", set()),
    (f"A: {N}, C: {N}", "for i in range(1, n):\n    C[i] = A[i - 1]", set()),
    (f"A: {N}, C: {N}", "for i in range(n):\n    C[i] = A[n - 1 - i]", set()),
    (f"A: {N}, C: {N}", "for i in range(n):\n    C[i] = A[i] + A[0]", set()),
    (f"A: {N}, C: {N}", "for k in range(2):\n    for i in range(n):\n        C[i] = A[i] + k", set()),
    (f"A: {N}, C: {N}", "for i in range(n):\n    C[0] = A[0] + i", set()),
    (f"A: {SQUARE}, C: {SQUARE}", "for i, j in T.grid(6, 6):\n    C[j, i] = A[i, j]", set()),
    (f"A: {SQUARE}, C: {SQUARE}", "for i, j, k in T.grid(6, 6, 6):\n    C[i, j] = C[i, j] + A[i, k]", set()),
    (f"A: {N}, C: {N}, X: {N}", "for i in range(n):\n    C[i] = A[X[i] % n]", {("X", "C")}),
    # another statement: what was read is used where the store may have come first
    (f"A: {N}, C: {N}", "for i in range(n):\n    C[i] = 0\n    C[i] = A[i]", set()),
    (f"A: {N}, C: {N}, D: {N}", "for i in range(n):\n    D[i] = A[i]\n    C[i] = 1", {("A", "D")}),
    (f"A: {N}, C: {N}", "for i in range(n):\n    t: T.let[T.int32] = A[i]\n    C[i] = t", set()),
    (f"A: {N}, C: {N}", "for i in range(n):\n    if A[i] > 0:\n        C[i] = 5", set()),
    (f"A: {N}, C: {N}", "for i in range(A[0] % n):\n    C[i] = A[i]", set()),
    # both written; other shapes, types and layouts; pointers
    (f"A: {N}, C: {N}", "for i in range(n):\n    C[i] = A[i]\n    A[i] = 1", set()),
    (f'A: {N}, C: T.Buffer(("m",), "int32")', "for i in range(n):\n    if i < m:\n        C[i] = A[i]", set()),
    (f'A: {N}, C: T.Buffer(("n",), "uint32")', 'for i in range(n):\n    C[i] = T.Cast("uint32", A[i])', set()),
    (
        f'A: {N}, C: T.Buffer(("n",), "int32", strides=("s",))',
        "for i in range(n):\n    C[i] = A[i]",
        set(),
    ),
    (f"A: {N}, C: {N}", 'for i in range(n):\n    C[i] = A[i]\nT.evaluate(T.call_extern("int32", "f", A.data))', set()),
    (f"A: {N}, C: {N}", "V = T.Buffer((n,), 'int32', data=A.data)\nfor i in range(n):\n    C[i] = V[i]", set()),
]  # fmt: skip


def function(params: str, body: str) -> tl.ir.PrimFunc:
    lines = "\n".join("    " + line for line in body.split("\n"))
    return parse(f"@T.prim_func\ndef f({params}):\n{lines}")


@pytest.mark.parametrize(("params", "body", "pairs"), ROWS, ids=[row[1].replace("\n", "; ") for row in ROWS])
def test_pairs(params: str, body: str, pairs: set[tuple[str, str]]) -> None:
    func = function(params, body)
    names = [buffer.name for buffer in func.buffers]
    assert {(names[a], names[b]) for a, b in poly.in_place(func)} == pairs


@pytest.mark.parametrize(("params", "body", "pairs"), ROWS[:7], ids=[row[1].replace("\n", "; ") for row in ROWS[:7]])
def test_a_pair_in_one_array_computes_what_the_interpreter_does(
    params: str, body: str, pairs: set[tuple[str, str]]
) -> None:
    func = function(params, body)
    kernel = tl.build(func)
    names = [buffer.name for buffer in func.buffers]
    for one, other in itertools.product(pairs, repeat=2):
        shape = (6, 6) if len(func.buffers[0].shape) == 2 else (37 - 37 % 2,)
        fresh = {name: np.random.default_rng(3).integers(-50, 50, shape).astype("int32") for name in names}
        results = []
        for run in (kernel, lambda *args: tl.interpret(func, *args)):
            arrays = {name: array.copy() for name, array in fresh.items()}
            for read, written in (one, other):
                arrays[read] = arrays[written]
            run(*arrays.values())
            results.append(arrays)
        for name in names:
            np.testing.assert_array_equal(results[0][name], results[1][name])
    assert not kernel.artifact.overlap  # the version for arrays that are apart did it


def test_many_accesses_are_not_asked_about_without_end() -> None:
    body = "\n".join(f"    C[i] = A[i] + {n}" for n in range(200))
    func = function(f"A: {N}, C: {N}", "for i in range(n):\n" + body)
    assert poly.in_place(func) == ()
