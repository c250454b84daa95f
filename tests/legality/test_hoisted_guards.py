"""Guards stand before the loops that do not change them, where the first iteration would meet them first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.interp import interpret
from tirlower.ir import Assert, For, PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.script import parse

pytestmark = pytest.mark.by_day


def guarded(body: str) -> PrimFunc:
    func: Any = parse(f"""
@T.prim_func
def f(n: T.int32, m: T.int32, X: T.Buffer((8,), "int32"), A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
{body}
""")
    assert isinstance(func, PrimFunc)
    return func


def depths(func: PrimFunc) -> list[int]:
    """The number of loops around each guard of the lowered function."""
    found: list[int] = []

    def walk(root: Any, depth: int) -> None:
        def look(op: Any) -> bool:
            if isinstance(op, For):
                walk(op.body, depth + 1)
                return False
            if isinstance(op, Assert):
                found.append(depth)
            return True

        pre_order_visit(root, look)

    lowered: Any = tl.lower(func)["f"]
    walk(lowered.body, 0)
    return found


NEST = "    for i in range(8):\n        for j in range(8):\n            "
# The body, and how many loops stay around each guard.
PLACES = {
    "a parameter": (NEST + "B[i, j] = A[n, j]", [0]),
    "a parameter, and the outer loop": (NEST + "B[i, j] = A[n + i, j]", [1]),
    "both loops": (NEST + "B[i, j] = A[n + (i + j) % 2, j]", [2]),
    "a value loaded before": ("    k: T.int32 = X[0]\n" + NEST + "B[i, j] = A[k, j]", [0]),
    "a value loaded inside": (NEST + "k: T.int32 = X[i]\n            B[i, j] = A[k, j]", [2]),
    "memory that may change": (NEST + "B[i, j] = A[X[0], j]", [2]),
    "two of them": (NEST + "B[i, j] = A[n, j] + A[m, j]", [0, 0]),
    "behind a store": (NEST + "B[i, j] = 1\n            B[i, j] = A[n, j]", [2]),
    "behind a guard that stays": (NEST + "B[i, j] = A[X[i], j] + A[n, j]", [2, 2]),
    "under a condition": (NEST + "if i > j:\n                B[i, j] = A[n, j]", [2]),
    "loops that may not run": (
        "    for i in range(m):\n        for j in range(n):\n            B[0, 0] = A[n, 0]",
        [0],
    ),
    "a division where none may run": ("    for i in range(m):\n        B[0, 0] = A[n // m, 0]", [1]),
    "blocks": (
        "    for i in range(8):\n        for j in range(8):\n            with T.block('b'):\n"
        "                vi, vj = T.axis.remap('SS', [i, j])\n                B[vi, vj] = A[n, vj]",
        [0],
    ),
    "a block with an init": (
        "    for i in range(8):\n        for j in range(8):\n            with T.block('b'):\n"
        "                vi, vj = T.axis.remap('SR', [i, j])\n                with T.init():\n                    B[vi, 0] = 0\n"
        "                B[vi, 0] = B[vi, 0] + A[n, vj]",
        [2],
    ),
}


@pytest.mark.parametrize(("body", "expected"), PLACES.values(), ids=PLACES)
def test_where_guards_stand(body: str, expected: list[int]) -> None:
    assert depths(guarded(body)) == expected


@pytest.mark.parametrize("body", [body for body, _ in PLACES.values()], ids=PLACES)
@pytest.mark.parametrize(("n", "m"), [(0, 3), (3, 0), (3, 9), (-1, 2), (8, 2), (-1, 0), (2, -1), (0, 0), (7, 7)])
def test_what_happened_before_an_error_has_happened(body: str, n: int, m: int) -> None:
    func = guarded(body)
    source = np.arange(64, dtype="int32").reshape(8, 8)
    for index in (np.zeros(8, "int32"), np.array([3, 1, 9, 0, 0, 0, 0, 0], "int32")):
        ends = []
        for run in (tl.build(func), lambda *args: interpret(func, *args)):
            found = np.full((8, 8), -1, "int32")
            try:
                run(n, m, index, source, found)
                ends.append(("", found.tolist()))
            except (IndexError, ZeroDivisionError) as error:
                ends.append((type(error).__name__, found.tolist()))
        assert ends[0] == ends[1]


def test_the_message_names_the_first_iteration() -> None:
    func = guarded("    for i in range(2, 8):\n        for j in range(m):\n            B[i, j] = A[n, j]")
    with pytest.raises(IndexError, match=r"A\[9, 0\] is out of bounds: .*, at i = 2, j = 0"):
        tl.build(func)(9, 4, np.zeros(8, "int32"), np.zeros((8, 8), "int32"), np.zeros((8, 8), "int32"))


def test_kernels_of_gpus_keep_their_nests() -> None:
    func = guarded(NEST + "B[i, j] = A[n + i, j]")
    text = tl.lower(func, target=tl.Target("nvptx")).script()
    assert "i_j_fused" in text


@pytest.mark.parametrize(("first", "stop"), [(2**31 - 2, -(2**31) + 5), (5, 5), (5, -3), (-(2**31), -(2**31))])
def test_a_loop_whose_extent_wraps_asks_inside(first: int, stop: int) -> None:
    func: Any = parse("""
@T.prim_func
def f(first: T.int32, stop: T.int32, n: T.int32, A: T.Buffer((8,), "int32"), B: T.Buffer((1,), "int32")):
    for i in range(first, stop):
        B[0] = A[n]
""")
    # None of these loops runs, though some extents wrap to positive numbers.
    tl.build(func)(first, stop, 100, np.zeros(8, "int32"), np.zeros(1, "int32"))
    with pytest.raises(IndexError):
        tl.build(func)(0, 2, 100, np.zeros(8, "int32"), np.zeros(1, "int32"))


@pytest.mark.parametrize(
    "body",
    [
        "q: T.int32 = X[i] // m\n        B[0, i] = A[n, 0] + q",
        "V = T.decl_buffer((2,), 'int32', data=X.data, elem_offset=X[i] % m)\n        B[0, i] = V[n]",
        "with T.block('b'):\n            v = T.axis.spatial(8, i // m)\n            B[0, v] = A[n, 0]",
    ],
)
def test_a_guard_overtakes_no_division_by_zero(body: str) -> None:
    func = guarded(f"    for i in range(8):\n        {body}")
    with pytest.raises(ZeroDivisionError):
        tl.build(func)(9, 0, np.zeros(8, "int32"), np.zeros((8, 8), "int32"), np.zeros((8, 8), "int32"))
    with pytest.raises(IndexError):
        tl.build(func)(9, 1, np.zeros(8, "int32"), np.zeros((8, 8), "int32"), np.zeros((8, 8), "int32"))
