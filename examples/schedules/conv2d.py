"""A 3 x 3 convolution with bias and ReLU: three nests become one, with the sums in registers and nothing in between stored."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def naive(size: int, channels_in: int, channels_out: int) -> PrimFunc:
    """``Y[h, w, o] = max(bias[o] + sum over dh, dw, c of X[h + dh - 1, w + dw - 1, c] * W[dh, dw, c, o], 0)``."""

    @T.prim_func
    def conv2d(
        X: T.Buffer((size, size, channels_in), "float32"),
        W: T.Buffer((3, 3, channels_in, channels_out), "float32"),
        bias: T.Buffer((channels_out,), "float32"),
        Y: T.Buffer((size, size, channels_out), "float32"),
    ):
        P = T.alloc_buffer((size + 2, size + 2, channels_in), "float32")
        S = T.alloc_buffer((size, size, channels_out), "float32")
        for h, w, c in T.grid(size + 2, size + 2, channels_in):
            P[h, w, c] = T.if_then_else(h >= 1 and h <= size and w >= 1 and w <= size, X[h - 1, w - 1, c], T.float32(0))
        for h, w, o, dh, dw, c in T.grid(size, size, channels_out, 3, 3, channels_in):
            with T.block("S"):
                vh, vw, vo, vi, vj, vc = T.axis.remap("SSSRRR", [h, w, o, dh, dw, c])
                with T.init():
                    S[vh, vw, vo] = T.float32(0)
                S[vh, vw, vo] += P[vh + vi, vw + vj, vc] * W[vi, vj, vc, vo]
        for h, w, o in T.grid(size, size, channels_out):
            with T.block("Y"):
                vh, vw, vo = T.axis.remap("SSS", [h, w, o])
                Y[vh, vw, vo] = T.max(S[vh, vw, vo] + bias[vo], T.float32(0))

    return conv2d


def scheduled(size: int, channels_in: int, channels_out: int) -> tl.Schedule:
    """The same: tiles of 4 pixels and 16 channels are summed up in registers, and leave them as they are to be."""
    sch = tl.Schedule(naive(size, channels_in, channels_out))
    h, w, o, dh, dw, c = sch.loops("S")
    w0, w1 = sch.split(w, [None, 4])
    o0, o1 = sch.split(o, [None, 16])
    sch.reorder(h, w0, o0, dh, dw, c, w1, o1)
    sch.reverse_compute_at("Y", o0)
    rows, lanes = sch.get_loops("Y")[-2:]
    sch.register_tile("S", [w1, o1], at=o0, vector=o1)
    sch.unroll(rows)
    sch.vectorize(lanes)
    sch.compute_at("P", h)
    sch.parallel(h)
    return sch


def main() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.random((28, 28, 16), dtype=np.float32), rng.random((3, 3, 16, 32), dtype=np.float32)
    bias = rng.random(32, dtype=np.float32) - np.float32(40)
    y, expected = np.empty((28, 28, 32), np.float32), np.empty((28, 28, 32), np.float32)
    tl.build(scheduled(28, 16, 32))(x, w, bias, y)
    tl.build(naive(28, 16, 32))(x, w, bias, expected)
    np.testing.assert_array_equal(y, expected)
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    sums = sum(padded[i : i + 28, j : j + 28] @ w[i, j] for i in range(3) for j in range(3))
    np.testing.assert_allclose(y, np.maximum(sums + bias, 0), rtol=1e-3, atol=1e-4)
    print("the scheduled convolution has the bits of its definition, which agrees with NumPy")


if __name__ == "__main__":
    main()
