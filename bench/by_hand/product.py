"""Matrix products: a tile of C in registers, B packed in panels as wide as the tile, A's rows copied beside each other.

Sums keep the order of the formula: a later block of K goes on with what stands in C.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from bench import peers
from bench.by_hand.case import Case, Maker
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "product"]


def rows_of_tile(machine: Machine, vectors: int, rows: int) -> int:
    """As many rows as leave registers for a row of B and an element of A; of those down to six that which wastes least."""
    most = (machine.registers - vectors - 1) // vectors
    return min(range(most, min(most, 6) - 1, -1), key=lambda count: -rows % count)


def product(machine: Machine, M: int, N: int, K: int, depth: int | None = None) -> PrimFunc:
    """``C = A @ B`` of float32.

    Blocks of B of half the second cache are packed, padded with zeros to whole panels; each panel of A's rows meets all
    panels of such a block, one after the other from the first cache.
    """
    W, NV = machine.lanes(), 2
    NR = NV * W
    MR = rows_of_tile(machine, NV, M)
    KC = min(K, depth or (512 if machine.l2 > 512 << 10 else 256))
    panels = -(-N // NR)
    block = max(1, min(panels, machine.l2 // 2 // (KC * NR * 4)))
    whole = N // NR  # panels without padding
    tidy = M % MR == 0

    @T.macro
    def multiply(C, rows, packed, i0, j0, q, k0, masked):
        tile = T.alloc_buffer((MR, NR), "float32", scope="local")
        for i in T.unroll(MR):
            for l in T.vectorized(NR):
                tile[i, l] = T.float32(0)
        if k0 > 0:
            for i in T.unroll(MR):
                if tidy or i0 + i < M:
                    for l in T.vectorized(NR):
                        if not masked or j0 + l < N:
                            tile[i, l] = C[i0 + i, j0 + l]
        for k in range(T.min(KC, K - k0)):
            for i in T.unroll(MR):
                for l in T.vectorized(NR):
                    tile[i, l] += rows[i, k] * packed[q, k, l]
        for i in T.unroll(MR):
            if tidy or i0 + i < M:
                for l in T.vectorized(NR):
                    if not masked or j0 + l < N:
                        C[i0 + i, j0 + l] = tile[i, l]

    @T.prim_func
    def product(A: T.Buffer((M, K), "float32"), B: T.Buffer((K, N), "float32"), C: T.Buffer((M, N), "float32")):
        T.func_attr({"tir.noalias": True})
        packed = T.alloc_buffer((block, KC, NR), "float32")
        for k0 in range(T.ceildiv(K, KC)):
            for jb in range(T.ceildiv(panels, block)):
                for q in T.parallel(T.min(block, panels - jb * block)):
                    for k in range(T.min(KC, K - k0 * KC)):
                        for l in T.vectorized(NR):
                            packed[q, k, l] = T.if_then_else(
                                (jb * block + q) * NR + l < N, B[k0 * KC + k, (jb * block + q) * NR + l], T.float32(0)
                            )
                for ip in T.parallel(T.ceildiv(M, MR)):
                    rows = T.alloc_buffer((MR, KC), "float32")
                    for i in range(MR):
                        for k in range(T.min(KC, K - k0 * KC)):
                            rows[i, k] = A[T.min(ip * MR + i, M - 1), k0 * KC + k]
                    for q in range(T.min(block, whole - jb * block)):
                        multiply(C, rows, packed, ip * MR, (jb * block + q) * NR, q, k0 * KC, False)
                    if whole < panels and (jb + 1) * block >= panels:
                        multiply(C, rows, packed, ip * MR, whole * NR, whole - jb * block, k0 * KC, True)

    return product


def float32_case(machine: Machine, M: int, N: int, K: int, reached: float = 0.95, depth: int | None = None) -> Case:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in ((M, K), (K, N)))
    c = np.empty((M, N), np.float32)
    return Case(
        func=product(machine, M, N, K, depth),
        args=(a, b, c),
        expected=lambda: a @ b,
        work=2.0 * M * N * K,
        limit="float32 multiply-add",
        reached=reached,
        tolerance=1e-5,
        peers={"numpy": lambda: np.matmul(a, b, out=c), **peers.jax_call(lambda np, a, b: np.matmul(a, b), a, b)},
    )


CASES: dict[str, Maker] = {
    f"product float32 {side}³": partial(float32_case, M=side, N=side, K=side, reached=reached)
    for side, reached in ((256, 0.97), (512, 0.95), (1024, 0.93))
}
SMALL: dict[str, Maker] = {
    f"product float32 {M}×{N}×{K}": partial(float32_case, M=M, N=N, K=K, depth=8)
    for M, N, K in ((1, 1, 1), (12, 32, 8), (13, 33, 19))
}
