"""Sums that nothing can be done beside: which are told from the others."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.autoschedule.scheduled import planned
from tirlower.ir import structural_equal
from tirlower.ir.func import PrimFunc
from tirlower.rewrite.reductions.recurrences import apart_by_memory, sums_apart, sums_of_recurrences
from tirlower.script import parse
from tirlower.transforms import FuseMultiplyAdd

HEAD = 'def f(A: T.Buffer((8, 8), "float64"), L: T.Buffer((8, 8), "float64"), x: T.Buffer((8,), "float64"), y: T.Buffer((8,), "float64")):\n'

RECURRENCES = {
    "solve": "for i in range(8):\n for j in range(i):\n  x[i] -= L[i, j] * x[j]",
    "from below": "for i in range(8):\n for j in range(i + 1, 8):\n  x[i] = x[i] + x[j] * L[i, j]",
    "factor": "for i in range(8):\n for j in range(i):\n  for k in range(j):\n   A[i, j] -= A[i, k] * A[j, k]",
    "row": "for i in range(8):\n for j in range(i):\n  for k in range(j):\n   A[i, j] -= A[i, k] * A[k, j]",
    "whole row": "for i, j in T.grid(8, 8):\n for k in range(T.min(i, j)):\n  A[i, j] -= A[i, k] * A[k, j]",
    "scalar": "for i in range(8):\n w = y[i]\n for j in range(i):\n  w -= L[i, j] * x[j]\n x[i] = w / L[i, i]",
    "through a name": "for i in range(8):\n w = T.float64(0)\n for j in range(i):\n  w += L[i, j] * x[j]\n v: T.let[T.float64] = w + 1.0\n x[i] = v",
    "through scalars": "for i in range(1, 8):\n w = T.float64(0)\n for j in range(i):\n  w += L[i, j] * x[i - j - 1]\n v = T.float64(2)\n if w > 0.0:\n  v = w\n for j in range(i):\n  x[j] = x[j] * v",
}  # fmt: skip
OTHERS = {
    "lanes": "for i in range(8):\n for j in range(i, 8):\n  for k in range(i):\n   A[i, j] -= A[i, k] * A[k, j]",
    "lanes behind": "for i in range(4):\n for j in range(i + 1, 8):\n  for k in range(1, i + 1):\n   A[i, j] -= A[i, k] * A[k, j]",
    "k outside": "for k, i in T.grid(8, 8):\n for j in range(8):\n  A[i, j] -= A[i, k] * A[k, j]",
    "another row": "for i, j in T.grid(7, 8):\n for k in range(8):\n  A[i, j] -= A[i + 1, k] * A[k, j]",
    "another array": "for i in range(8):\n for j in range(i):\n  x[i] -= L[i, j] * y[j]",
    "stored elsewhere": "for i in range(8):\n for j in range(i):\n  x[i] -= L[i, j] * y[j]\nfor i in range(8):\n y[i] = x[i]",
    "its own row": "for i in range(8):\n w = T.float64(0)\n for k in range(8):\n  w += A[i, k] * y[k]\n A[i, 0] = w",
    "no product": "for i in range(8):\n for j in range(i):\n  x[i] -= x[j]",
    "no sum": "for i in range(1, 8):\n x[i] = L[i, 0] * x[i - 1]",
    "product of matrices": "for i, j in T.grid(8, 8):\n w = T.float64(0)\n for k in range(8):\n  w += L[i, k] * L[k, j]\n A[i, j] = w",
    "step by step": "for t in range(3):\n for i in range(8):\n  w = T.float64(0)\n  for k in range(8):\n   w += L[i, k] * x[k]\n  y[i] = w\n for i in range(8):\n  x[i] = y[i]",
}  # fmt: skip


def function(body: str) -> PrimFunc:
    found = parse(HEAD + "\n".join("    " + line for line in body.split("\n")))
    assert isinstance(found, PrimFunc)
    return found


@pytest.mark.parametrize("name", RECURRENCES)
def test_sums_that_wait_for_themselves(name: str) -> None:
    func = function(RECURRENCES[name])
    assert len(sums_of_recurrences(func.body)) == 1
    assert "T.fma" not in FuseMultiplyAdd()(func).script().split("x[j] * v")[0]


@pytest.mark.parametrize("name", OTHERS)
def test_sums_that_wait_for_nothing(name: str) -> None:
    assert not sums_of_recurrences(function(OTHERS[name]).body)


def test_memory_of_the_nest_is_what_steps_made() -> None:
    """A tile that is packed in each round is read and written in it, and is no recurrence."""
    func = function("""\
for k in range(2):
    P = T.alloc_buffer((4,), "float64")
    for j in range(4):
        P[j] = y[k * 4 + j]
    for i in range(8):
        for j in range(4):
            x[i] += L[i, k * 4 + j] * P[j]""")
    assert not sums_of_recurrences(func.body)


def test_nests_of_very_many_statements_are_not_looked_at() -> None:
    many = "\n ".join(f"y[{n % 8}] = y[{n % 8}] + 1.0" for n in range(300))
    assert not sums_of_recurrences(function(f"{RECURRENCES['solve']}\n {many}").body)


@pytest.mark.parametrize("name", [*RECURRENCES, "lanes", "step by step"])
def test_bits_are_the_same_however_it_is_scheduled(name: str) -> None:
    func = function({**RECURRENCES, **OTHERS}[name])
    rng = np.random.default_rng(1)
    first = [rng.random((8, 8)) + np.eye(8) * 8, rng.random((8, 8)) + np.eye(8) * 8, rng.random(8), rng.random(8)]
    results = []
    with tl.PassContext(config={"tir.auto.least": 0}):
        for schedule in ("none", "auto"):
            args = [one.copy() for one in first]
            tl.build(func, schedule=schedule)(*args)
            results.append([one.tobytes() for one in args])
    assert results[0] == results[1]


def test_views_with_other_subscripts_are_the_array_too() -> None:
    func = function("""\
F = T.decl_buffer((64,), "float64", data=A.data)
for i in range(8):
    w = T.float64(0)
    for j in range(i):
        w += F[i * 8 + j] * x[j]
    A[i, i] = w""")
    assert len(sums_of_recurrences(func.body)) == 1
    assert "T.fma" not in FuseMultiplyAdd()(func).script()


def test_dot_products_stand_apart_too() -> None:
    func = function("for i in range(8):\n y[0] += x[i] * L[0, i]")
    assert len(sums_apart(func.body)) == 1 and not sums_of_recurrences(func.body)


MIXED = """
def f(A: T.Buffer((64, 64), "float64"), x: T.Buffer((64,), "float64")):
    for k, i, j in T.grid(64, 64, 64):
        A[i, j] = A[i, j] - A[i, k] * A[k, j]
    for i in range(64):
        for j in range(i):
            x[i] -= A[i, j] * x[j]
"""


def test_sums_of_both_kinds_in_one_function_are_told_by_the_memory_that_they_go_to() -> None:
    func = parse(MIXED)
    assert apart_by_memory(func.body) == {"A": False, "x": True}
    rng = np.random.default_rng(2)
    start = rng.random((64, 64)) * 0.1 + np.eye(64), rng.random(64)
    results = []
    for schedule in ("none", "auto"):
        kernel = tl.build(func, "llvm -num_threads=1", schedule=schedule)
        if schedule == "auto":
            made = planned(MIXED, "llvm -num_threads=1").function
            assert kernel.report().nests[0].recipe == "one iteration apart"
            assert made.attrs["tir.sums_apart"] == {"A": False, "x": True}
            assert structural_equal(parse(made.script()), made)
        arrays = [array.copy() for array in start]
        kernel(*arrays)
        results.append([array.tobytes() for array in arrays])
    assert results[0] == results[1]


def test_all_sums_into_the_memory_of_a_recurrence_are_rounded_alike() -> None:
    first = "for i in range(8):\n for j in range(i):\n  for k in range(j):\n   A[i, j] -= A[i, k] * A[k, j]"
    second = "for i in range(8):\n for j in range(i, 8):\n  for k in range(i):\n   A[i, j] -= A[i, k] * A[k, j]"
    func = function(f"{first}\n{second}")
    assert len(sums_of_recurrences(func.body)) == 1 and len(sums_apart(func.body)) == 2
    assert not sums_apart(function(second).body)
