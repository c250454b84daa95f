"""``unflatten``: arrays that programs flattened by themselves, in their dimensions again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable, NotFound
from tirlower.ir.stmt import Block

HEAD = """
@T.prim_func
def f(m: T.int32, n: T.int32, k: T.int32, A: T.Buffer((m * n,), "int32"), B: T.Buffer((m * n * k,), "int32")):
"""


def program(body: str) -> str:
    return HEAD + "\n".join(f"    {line}" for line in body.strip().split("\n")) + "\n"


def arguments(m: int, n: int, k: int) -> list[Any]:
    rng = np.random.default_rng(abs(m * 100 + n * 10 + k))
    draw = rng.integers
    return [m, n, k, draw(-9, 9, m * n).astype("int32"), draw(-9, 9, m * n * k).astype("int32")]


SIZES = [arguments(*sizes) for sizes in ((3, 4, 5), (1, 1, 1), (2, 7, 1), (0, 5, 2), (4, 0, 3), (3, 2, 0), (-2, -3, 2))]

#: a body, the array, its shape, and an access as it is then
TAKEN = {
    "rows": ("for i, j in T.grid(m, n):\n    A[i * n + j] = A[i * n + j] + 1", "A", "m, n", "A_nd[i, j]"),
    "the sum turned": ("for i, j in T.grid(m, n):\n    A[j + n * i] = i - j", "A", "m, n", "A_nd[i, j]"),
    "rows of the other size": ("for i, j in T.grid(n, m):\n    A[i * m + j] = i - j", "A", "n, m", "A_nd[i, j]"),
    "neighbours": (
        "for i, j in T.grid(m - 2, n - 2):\n"
        "    A[(i + 1) * n + j + 1] = A[i * n + j + 1] + A[(i + 2) * n + (j + 1)] + A[(i + 1) * n + j + 2]",
        "A", "m, n", "A_nd[i + 2, j + 1]",
    ),
    "loops from one": (
        "for i in range(1, m):\n    for j in range(1, n):\n        A[i * n + j] = A[(i - 1) * n + j - 1]",
        "A", "m, n", "A_nd[i - 1, j - 1]",
    ),
    "a triangle": (
        "for i in range(m):\n    for j in range(i, n):\n        A[i * n + j] = i", "A", "m, n", "A_nd[i, j]",
    ),
    "under a condition": (
        "for i, j in T.grid(m, n + 3):\n    if j < n:\n        A[i * n + j] = j", "A", "m, n", "A_nd[i, j]",
    ),
    "three dimensions": (
        "for i, j, p in T.grid(m, n, k):\n    B[(i * n + j) * k + p] = B[i * n * k + j * k + p] + A[i * n + j]",
        "B", "m, n, k", "B_nd[i, j, p]",
    ),
    "two of three": (
        "for i, p in T.grid(m * n, k):\n    B[i * k + p] = i - p", "B", "m * n, k", "B_nd[i, p]",
    ),
    "a first column": ("for i in range(m):\n    if n > 0:\n        A[i * n] = i", "A", "m, n", "A_nd[i, 0]"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "array", "shape", "access"), TAKEN.values(), ids=TAKEN)
def test_subscripts_are_taken_apart(body: str, array: str, shape: str, access: str) -> None:
    sch = taken(program(body), lambda sch: sch.unflatten(array, shape), inputs=SIZES)
    assert access in str(sch.mod["main"])
    if shape == "m, n, k":
        steps = taken(program(body), lambda sch: (sch.unflatten("A", "m, n"), sch.unflatten("B", shape)), inputs=SIZES)
        assert "A_nd[i, j]" in str(steps.mod["main"])


ROWS = "for i, j in T.grid(m, n):\n    A[i * n + j] = i"
REFUSED = {
    "a row too long": ("for i, j in T.grid(m, n + 1):\n    A[i * n + j] = i", "m, n"),
    "a row too short to be sure": ("for i, j in T.grid(m, k):\n    A[i * n + j] = i", "m, n"),
    "a step back": ("for i, j in T.grid(m, n):\n    A[i * n + j - 1] = i", "m, n"),
    "a row too many": ("for i, j in T.grid(m + 1, n):\n    A[i * n + j] = i", "m, n"),
    "columns as rows": (ROWS, "n, m"),
    "a size that moves": ("for i in range(m):\n    A[B[i] * n] = i", "m, n"),
    "whole vectors": ("for i in range(m):\n    A[T.Ramp(i * n, 1, 4)] = T.Broadcast(i, 4)", "m, n"),
    "another view": ('V = T.decl_buffer((m * n,), "int32", data=A.data)\n' + ROWS + "\nV[0] = 1", "m, n"),
    "a pointer": (ROWS + "\nT.evaluate(T.address_of(A[0]))", "m, n"),
    "a block's regions": (
        "for i, j in T.grid(m, n):\n    with T.block('b'):\n        vi, vj = T.axis.remap('SS', [i, j])\n        A[vi * n + vj] = vi", "m, n",
    ),
    "too few elements": (ROWS, "m, n, 2"),
    "too many elements": (ROWS, "m - 1, n"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "shape"), REFUSED.values(), ids=REFUSED)
def test_refused(body: str, shape: str) -> None:
    refused(program(body), lambda sch: sch.unflatten("A", shape), NotApplicable)


def test_wrong_arguments() -> None:
    refused(program(ROWS), lambda sch: sch.unflatten("A", "m * n"), BadArgument, "one dimension")
    refused(program(ROWS), lambda sch: sch.unflatten("A", "m, q"), BadArgument, "'q' is no expression")
    refused(program(ROWS), lambda sch: sch.unflatten("A", "m,"), BadArgument, "is no expression")
    refused(program(ROWS), lambda sch: sch.unflatten("Q", "m, n"), NotFound, "'Q'")
    own = 'C = T.alloc_buffer((12,), "int32")\nfor i in range(12):\n    C[i] = i\n' + ROWS
    refused(program(own), lambda sch: sch.unflatten("C", "3, 4"), NotApplicable, "is no parameter")
    two = ROWS.replace("A[i * n + j]", "M[i, j]")
    text = program(two).replace("A: T.Buffer((m * n,)", "M: T.Buffer((m, n)")
    refused(text, lambda sch: sch.unflatten("M", "n, m"), NotApplicable, "several dimensions")


def test_names_that_there_are_already() -> None:
    text = program(ROWS).replace("B: T.Buffer((m * n * k,)", "A_nd: T.Buffer((m * n * k,)")
    sch = taken(text, lambda sch: sch.unflatten("A", "m, n"), inputs=SIZES)
    assert "A_nd1[i, j] = i" in str(sch.mod["main"])


def test_loads_in_subscripts_of_others() -> None:
    body = "for i, j in T.grid(m, n):\n    if A[i * n + j] >= 0 and A[i * n + j] < k:\n        B[A[i * n + j]] = A[i * n + j]"
    sch = taken(program(body), lambda sch: sch.unflatten("A", "m, n"), inputs=[s for s in SIZES if s[0] * s[1] > 1])
    assert "B[A_nd[i, j]] = A_nd[i, j]" in str(sch.mod["main"])


def test_the_view_stands_in_the_root_block() -> None:
    text = """
@T.prim_func
def f(m: T.int32, n: T.int32, A: T.Buffer((m * n,), "int32"), X: T.Buffer((m, n), "int32")):
    C = T.alloc_buffer((m, n), "int32")
    for i, j in T.grid(m, n):
        C[i, j] = A[i * n + j] * 2
    for i, j in T.grid(m, n):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = C[vi, vj] + 1
"""

    def steps(sch: Any) -> None:
        root = sch.get_block("root")
        loop = sch.loop("i#1")
        sch.unflatten("A", "m, n")
        assert sch.get(root).name == "root" and sch.get(loop).loop_var.name == "i"
        sch.parallel(loop)

    sch = taken(text, steps)
    assert isinstance(sch.mod["main"].body, Block)
