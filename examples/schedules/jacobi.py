"""Ten Jacobi sweeps, skewed in time and tiled: each tile of rows goes through all sweeps while it is in the cache."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def sweeps(size: int, steps: int) -> PrimFunc:
    """So many sweeps in place, as they are written down: the means of all inner points, then these copied back."""

    @T.prim_func
    def sweeps(A: T.Buffer((size, size), "float32"), B: T.Buffer((size, size), "float32")):
        for t in range(steps):  # noqa: B007  # the schedule names it
            for i in range(1, size - 1):
                for j in range(1, size - 1):
                    B[i, j] = T.float32(0.25) * (A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1])
            for p in range(1, size - 1):
                for q in range(1, size - 1):
                    A[p, q] = B[p, q]

    return sweeps


def skewed(size: int, steps: int, rows: int = 64) -> tl.Schedule:
    """The sweeps in tiles of rows. Each step is proved; no result changes by a bit."""
    sch = tl.Schedule(sweeps(size, steps))
    t, i = sch.loop("t"), sch.loop("i")
    sch.fuse_siblings(i, "p", shift=1)  # a row is copied back when the next one is computed
    sch.skew(t, i, 2)  # what a row needs of the sweep before lies behind it then
    sch.reorder(i, t)
    outer, inner = sch.split(i, [None, rows])
    sch.reorder(outer, t, inner)
    return sch


def main() -> None:
    size, steps = 200, 10
    a, b = np.random.default_rng(0).random((2, size, size), dtype=np.float32)
    plain, scratch, expected = a.copy(), b.copy(), a.copy()
    tl.build(sweeps(size, steps))(plain, scratch)
    tl.build(skewed(size, steps, 16))(a, b)
    assert a.tobytes() == plain.tobytes() and b.tobytes() == scratch.tobytes()
    for _ in range(steps):
        inner = 0.25 * (expected[:-2, 1:-1] + expected[2:, 1:-1] + expected[1:-1, :-2] + expected[1:-1, 2:])
        expected[1:-1, 1:-1] = inner
    np.testing.assert_allclose(a, expected, rtol=1e-5)
    print("the skewed Jacobi agrees with NumPy, and with the plain one bit for bit")


if __name__ == "__main__":
    main()
