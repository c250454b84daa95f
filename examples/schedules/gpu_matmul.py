"""A product on a GPU: blocks of threads, each step's tiles of both factors staged in shared memory by all threads together."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

TARGET = "nvptx -arch=sm_80"


def product(m: int, n: int, k: int) -> PrimFunc:
    """The product as it is written down."""

    @T.prim_func
    def product(A: T.Buffer((m, k), "float32"), B: T.Buffer((k, n), "float32"), C: T.Buffer((m, n), "float32")):
        for i, j, r in T.grid(m, n, k):
            with T.block("C"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vr] * B[vr, vj]

    return product


def staged(m: int, n: int, k: int, tile: int = 8) -> tl.Schedule:
    """The product by blocks of ``tile`` by ``tile`` threads. The barriers between the stages are the compiler's to put in."""
    sch = tl.Schedule(product(m, n, k))
    i, j, r = sch.loops("C")
    (i_0, j_0, r_0), (i_1, j_1, _) = sch.tile([i, j, r], [tile, tile, tile])
    copies = [sch.stage_mem(r_0, name, scope="shared", inside=True) for name in ("A", "B")]
    sch.launch(blocks=[j_0, i_0], threads=[j_1, i_1])
    for rows, columns in copies:
        sch.launch(threads=[columns, rows])
    return sch


def main() -> None:
    a, b = np.random.default_rng(0).random((2, 16, 16), dtype=np.float32)
    c = np.empty((16, 16), np.float32)
    tl.simulate(tl.lower(staged(16, 16, 16), target=TARGET), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    print("the simulated product agrees with NumPy")


if __name__ == "__main__":
    main()
