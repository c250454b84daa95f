"""Sums and products of sizes and loop variables that leave 32 bits: exact where they decide what is touched, or refused."""

# expect: ok
# parts: 3
import shutil
import sys

import numpy as np
import pytest

import tirlower as tl
from tirlower.script import parse

# Of all i only 0 makes the subscript less than 4; the last 32 bits of 65536 * 65536 are 0 too.
N = 65540
SCALARS = {
    "a select": "B[T.Select(i * m < 4, i * m, 0)] = 1",
    "a choice": "B[T.if_then_else(i * m < 4, i * m, 0)] = 1",
    "a choice of quotients": "B[T.if_then_else(i * m < 4, i * m // (n - i), 0)] = 1",
    "a least and greatest": "B[T.max(T.min(i * m * m, 3), 0) * (1 - T.min(i, 1))] = 1",
    "a remainder": "B[(i * m) % 5 % 4 * 0] = 1",
    "a product": "if i * m < 4:\n            B[i * m] = 1",
    "a variable": "x: T.let[T.int32] = i * m\n        if x < 4:\n            B[x] = 1",
    "a shift": "if m - 65536 + (i << 16) < 4:\n            B[i << 16] = 1",
    "a sum on both sides": "if i * m + 3 < i + 4:\n            B[i * m] = 1",
    "masked": "if i * m + (i & 255) < 4:\n            B[i * m + (i & 255)] = 1",
    "bits": "if (i * m) ^ 1 < 4:\n            B[((i * m) ^ 1) - 1] = 1",
    "a conversion": "if T.Cast('int64', i * m) < T.int64(4):\n            B[i * m] = 1",
    "equal": "if i * m == 0:\n            B[i * m] = 1",
    "not equal": "if not i * m != 0:\n            B[i * m] = 1",
}
TASKS = "x: T.let[T.int32] = i * m\n        for j in T.parallel(4):\n            if x + j < 1:\n                B[x + j] = 1"
IN_LANES = {
    "a line": "if i * m + j < 4:\n                B[i * m + j] = 1",
    "a falling line": "if i * m - j > -4 and i * m - j < 1:\n                B[j - i * m] = 1",
    "no line": "if i * m + j // 2 < 2:\n                B[i * m + j] = 1",
    "gathered": "if i * m + j * j < 16:\n                B[j] = T.Cast('int32', A[i * m + j * j]) + 1",
}


def kernel(body: str, loop: str = "range(n)", target: str = "llvm") -> tl.Kernel:
    return tl.build(
        parse(f"""
@T.prim_func
def f(A: T.Buffer(("n",), "int8"), C: T.Buffer(("m",), "int8"), B: T.Buffer((4,), "int32")):
    for i in {loop}:
        {body}
"""),
        target,
    )


def run(f: tl.Kernel, n: int = N, m: int = 65536) -> list[int]:
    B = np.zeros(4, "int32")
    f(np.zeros(n, "int8"), np.zeros(m, "int8"), B)
    return B.tolist()


def every_form(target: str) -> None:
    for name, body in SCALARS.items():
        assert run(kernel(body, target=target)) == [1, 0, 0, 0], (name, target)
    # Fewer loops over tasks: each waits for threads, which other processes may keep from running.
    assert run(kernel(TASKS, target=target), 4100, 1 << 20) == [1, 0, 0, 0], target
    for name, body in IN_LANES.items():
        lanes = f"for j in T.vectorized(4):\n            {body}"
        assert run(kernel(lanes, target=target)) == [1, 1, 1, 1], (name, target)


def loops_and_the_end_of_64_bits() -> None:
    # A loop whose extent, or whose start, is no number of its type.
    cubes = kernel("if i < 4:\n            B[i] = 1", "range(n * n * n)")
    assert run(cubes, 2) == [1, 1, 1, 1]
    for n in (1291, 1300, 1626, 3_000_000):
        with pytest.raises((IndexError, OverflowError)):
            run(cubes, n)
    starts = kernel("for j in range(i * m, i * m + 2):\n            if j < 4:\n                B[j] = 1")
    with pytest.raises(IndexError):
        run(starts)
    assert run(starts, 100) == [1, 1, 0, 0]

    # Past 64 bits nothing is exact: such a call is refused.
    clamped = kernel("B[T.max(T.min(i * i * i, 3), 0)] = 1")
    assert run(clamped, 1300) == [1, 1, 0, 1]
    with pytest.raises(OverflowError, match="its index arithmetic may leave int64"):
        run(clamped, 3_000_000)


if sys.argv[1] == "0":
    every_form("llvm")
elif sys.argv[1] == "1":
    if shutil.which("cc"):
        every_form("c")
else:
    loops_and_the_end_of_64_bits()
