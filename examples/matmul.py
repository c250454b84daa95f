"""Matrix multiplication twice: as it is defined, and tiled by hand for the caches and registers of a CPU."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def naive(M: int, N: int, K: int) -> PrimFunc:
    """``C = A @ B`` as one block of three loops."""

    @T.prim_func
    def matmul(A: T.Buffer((M, K), "float32"), B: T.Buffer((K, N), "float32"), C: T.Buffer((M, N), "float32")):
        for i, j, k in T.grid(M, N, K):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vk] * B[vk, vj]

    return matmul


def tiled(M: int, N: int, K: int, *, MR: int = 8, NR: int = 32, MC: int = 128, KC: int = 256) -> PrimFunc:
    """``C = A @ B`` as Goto and van de Geijn (2008) order it.

    A ``KC x N`` slab of B is packed in panels of ``NR`` columns (it stays in the third-level cache), an ``MC x KC``
    block of A in panels of ``MR`` rows (second level), and an ``MR x NR`` tile of C is accumulated in registers over
    ``KC`` steps. M, N and K must be multiples of MC, NR and KC.
    """
    if M % MC or N % NR or K % KC or MC % MR:
        raise ValueError(f"{M} x {N} x {K} is not a multiple of the tiles {MC} x {NR} x {KC}")

    @T.prim_func
    def matmul_tiled(A: T.Buffer((M, K), "float32"), B: T.Buffer((K, N), "float32"), C: T.Buffer((M, N), "float32")):
        T.func_attr({"tir.noalias": True})
        packed_b = T.alloc_buffer((N // NR, KC, NR), "float32")
        packed_a = T.alloc_buffer((MC // MR, KC, MR), "float32")
        for k0 in range(K // KC):
            for j0, k in T.grid(N // NR, KC):
                for j in T.vectorized(NR):
                    packed_b[j0, k, j] = B[k0 * KC + k, j0 * NR + j]
            for i0 in range(M // MC):
                for i1, k, i in T.grid(MC // MR, KC, MR):
                    packed_a[i1, k, i] = A[i0 * MC + i1 * MR + i, k0 * KC + k]
                for j0, i1 in T.grid(N // NR, MC // MR):
                    tile = T.alloc_buffer((MR, NR), "float32", scope="local")
                    for i in T.unroll(MR):
                        for j in T.vectorized(NR):
                            tile[i, j] = T.float32(0)
                    for k in range(KC):
                        for i in T.unroll(MR):
                            for j in T.vectorized(NR):
                                tile[i, j] += packed_a[i1, k, i] * packed_b[j0, k, j]
                    if k0 == 0:
                        for i in T.unroll(MR):
                            for j in T.vectorized(NR):
                                C[i0 * MC + i1 * MR + i, j0 * NR + j] = tile[i, j]
                    else:
                        for i in T.unroll(MR):
                            for j in T.vectorized(NR):
                                C[i0 * MC + i1 * MR + i, j0 * NR + j] += tile[i, j]

    return matmul_tiled


def main() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((512, 512), dtype=np.float32), rng.random((512, 512), dtype=np.float32)
    expected = a @ b
    for func in (naive(512, 512, 512), tiled(512, 512, 512)):
        c = np.empty_like(expected)
        tl.build(func)(a, b, c)
        np.testing.assert_allclose(c, expected, rtol=1e-4)
        print(f"{func.name} agrees with NumPy")


if __name__ == "__main__":
    main()
