"""What a call costs: three float32 arrays of 16 elements, everything checked."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from bench import peers
from bench.measure import Call, Candidate, Timing, interleave
from tirlower.script import tir as T


@T.prim_func
def add16(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    for i in T.vectorized(16):
        C[i] = A[i] + B[i]


def candidates() -> dict[str, Candidate]:
    """The same addition by everyone who can be called."""
    a, b = np.ones(16, np.float32), np.ones(16, np.float32)
    c = np.empty(16, np.float32)
    kernel = tl.build(add16, schedule="none")
    found: dict[str, Candidate] = {
        "tirlower": Call(kernel, (a, b, c)),
        "numpy": Call(np.add, (a, b, c)),
    }
    nb = peers.numba()
    if nb is not None:

        @nb.njit
        def add(x, y, z):
            for i in range(16):
                z[i] = x[i] + y[i]

        add(a, b, c)
        found["numba"] = Call(add, (a, b, c))
    th = peers.torch()
    if th is not None:
        ta, tb, tc = (th.from_numpy(x) for x in (a, b, c))
        found["torch"] = lambda: th.add(ta, tb, out=tc)
        found["tirlower (tensors)"] = Call(kernel, (ta, tb, tc))
    tvm = peers.tvm()
    if tvm is not None:
        found.update(_tvm(tvm, a, b, c))
    return found


def _tvm(tvm, a, b, c) -> dict[str, Candidate]:
    from tvm.script import tirx as S

    @S.prim_func
    def main(A: S.Buffer((16,), "float32"), B: S.Buffer((16,), "float32"), C: S.Buffer((16,), "float32")):
        for i in S.vectorized(16):
            C[i] = A[i] + B[i]

    built = tvm.compile(tvm.IRModule({"main": main}), target="llvm")
    fn = built["main"]
    x, y, z = (tvm.runtime.tensor(v) for v in (a, b, c))
    return {"tvm": Call(fn, (x, y, z))}


def measure() -> dict[str, dict[str, Timing]]:
    """The row of the table."""
    return {"3 arrays of 16": interleave(candidates())}
