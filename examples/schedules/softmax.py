"""Softmax of each row in two passes over it: maxima and sums in the lanes of vectors, exponentials where they are summed up."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def naive(rows: int, cols: int) -> PrimFunc:
    """``Y[i, :] = exp(X[i, :] - max(X[i, :])) / sum(…)``, each part in a nest of its own."""

    @T.prim_func
    def softmax(X: T.Buffer((rows, cols), "float32"), Y: T.Buffer((rows, cols), "float32")):
        M = T.alloc_buffer((rows,), "float32")
        E = T.alloc_buffer((rows, cols), "float32")
        S = T.alloc_buffer((rows,), "float32")
        for i, j in T.grid(rows, cols):
            with T.block("M"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], X[vi, vj])
        for i, j in T.grid(rows, cols):
            with T.block("E"):
                vi, vj = T.axis.remap("SS", [i, j])
                E[vi, vj] = T.exp(X[vi, vj] - M[vi])
        for i, j in T.grid(rows, cols):
            with T.block("S"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] += E[vi, vj]
        for i, j in T.grid(rows, cols):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = E[vi, vj] / S[vi]

    return softmax


def scheduled(rows: int, cols: int, lanes: int = 16) -> tl.Schedule:
    """The same, a row after the other; the sums are up to the order of their terms."""
    sch = tl.Schedule(naive(rows, cols))
    row, j = sch.loops("Y")
    for name in ("M", "S"):
        sch.rfactor(sch.split(sch.loops(name)[1], [None, lanes])[1], 1)
    for name in ("S", "S_rf"):
        sch.compute_at(name, row)
    lane, steps = sch.get_loops("S_rf")[-2:]
    sch.reorder(steps, lane)
    sch.compute_at("E", steps)
    sch.vectorize(sch.get_loops("E")[-1])
    sch.vectorize(lane)
    for name in ("M", "M_rf"):
        sch.compute_at(name, row)
    lane, steps = sch.get_loops("M_rf")[-2:]
    sch.reorder(steps, lane)
    sch.vectorize(lane)
    sch.vectorize(sch.split(j, [None, lanes])[1])
    return sch


def main() -> None:
    x = np.random.default_rng(0).standard_normal((64, 256), dtype=np.float32)
    y = np.empty_like(x)
    tl.build(scheduled(64, 256))(x, y)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    print("the scheduled softmax agrees with NumPy")


if __name__ == "__main__":
    main()
