"""The product of :mod:`examples.matmul`, from its definition to panels and tiles in registers by a schedule of twelve lines."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from examples.matmul import naive


def scheduled(M: int, N: int, K: int) -> tl.Schedule:
    """``C = A @ B`` as Goto and van de Geijn (2008) order it; every step is proved to keep each bit."""
    sch = tl.Schedule(naive(M, N, K))
    i, j, k = sch.loops("C")
    i0, i1, i2 = sch.split(i, [None, 16, 8])
    j0, j1 = sch.split(j, [None, 32])
    k0, k1 = sch.split(k, [None, 256])
    sch.reorder(k0, i0, j0, i1, k1, i2, j1)
    sch.pack("B", at=k0, layout=lambda k, j: [j // 32, k, j % 32])
    sch.pack("A", at=i0, layout=lambda i, k: [i // 8, k, i % 8])
    sch.register_tile("C", [i2, j1], at=i1, vector=j1)
    sch.parallel(i0)
    return sch


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((512, 512), dtype=np.float32), rng.random((512, 512), dtype=np.float32)
    c, expected = np.empty_like(a), np.empty_like(a)
    tl.build(scheduled(512, 512, 512))(a, b, c)
    tl.build(naive(512, 512, 512))(a, b, expected)
    np.testing.assert_array_equal(c, expected)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    print("the scheduled product has the bits of its definition, which agrees with NumPy")


if __name__ == "__main__":
    main()
