"""Matrix products: a tile of C in registers, B packed in panels as wide as the tile, A's rows copied beside each other.

Sums keep the order of the formula: a later block of K goes on with what stands in C. Where the processor multiplies and
adds pairs or fours of short elements, a step of K is such a group, packed into 32 bits.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from bench import peers
from bench.by_hand.case import Array, Case, Maker
from bench.by_hand.limits import PAIRS
from bench.by_hand.machine import Machine
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "product", "rows_of_tile"]

GROUPS: dict[tuple[str, int], str] = {
    ("bfloat16", 2): "llvm.x86.avx512bf16.dpbf16ps.512",
    ("int8", 4): "llvm.x86.avx512.vpdpbusd.512",
}
"""Instructions that add the products of a group to a vector, by type and elements of the group."""


def rows_of_tile(machine: Machine, vectors: int, rows: int) -> int:
    """As many rows as leave registers for a row of B and an element of A; of those down to six that which wastes least."""
    most = (machine.registers - vectors - 1) // vectors
    return min(range(most, min(most, 6) - 1, -1), key=lambda count: -rows % count)


def group_of(machine: Machine, dtype: str) -> int:
    """How many elements of K an instruction takes at once."""
    if dtype == "bfloat16":
        return 2 if machine.cpu.has("avx512bf16") else 1
    return 1 if dtype == "float32" else 4 if machine.cpu.has("avx512vnni") else 2


def product(machine: Machine, M: int, N: int, K: int, dtype: str = "float32", depth: int | None = None) -> PrimFunc:
    """``C = A @ B`` of float32; of bfloat16 with float32 out, of int8 with int32 out.

    Blocks of B of half the second cache are packed, padded with zeros to whole panels; each stripe of A's rows, copied to
    stand beside each other, meets all panels of such a block, and comes from the first cache. ``depth`` steps of K make a block, if it says so.

    Bytes without an instruction for fours are multiplied in pairs of 16 bits, exactly (the products of pairs of bytes, one
    unsigned, saturate). Where there is one, A goes in as unsigned bytes, 128 too large, and sums begin with -128 times B's.
    """
    W, NV = machine.lanes(), 2
    NR = NV * W
    MR = rows_of_tile(machine, NV, M)
    group = group_of(machine, dtype)
    steps = -(-K // group)
    KC = min(steps, depth or (512 if machine.l2 > 512 << 10 else 256))
    panels = -(-N // NR)
    block = max(1, min(panels, machine.l2 // 2 // (KC * NR * 4)))
    whole = N // NR  # panels without padding
    stripes, tidy = -(-M // MR), M % MR == 0
    result = "int32" if dtype == "int8" else "float32"
    element = "float32" if group == 1 else "int32"
    halves, fours = f"int16x{2 * W}", f"int8x{4 * W}"

    def bits(value: Any, flip: int) -> Any:
        """An element as the low bits of 32."""
        if dtype == "bfloat16":
            return T.Cast("int32", T.reinterpret("uint16", value))
        if group == 2:
            return T.bitwise_and(T.Cast("int32", value), 0xFFFF)
        return T.bitwise_xor(T.bitwise_and(T.Cast("int32", value), 0xFF), flip)

    def step(elements: Any, flip: int) -> Any:
        """What is packed of a group; ``elements(j)`` is the j-th."""
        if group == 1:
            return T.Cast("float32", elements(0))
        joined = bits(elements(0), flip)
        for j in range(1, group):
            joined = T.bitwise_or(joined, T.shift_left(bits(elements(j), flip), 32 // group * j))
        return joined

    def of_a(A: Any, i: Any, k: Any) -> Any:
        return step(
            lambda j: A[i, k * group + j] if K % group == 0 else zero_or(k * group + j < K, A, i, k * group + j), 128
        )

    def of_b(B: Any, k: Any, j: Any) -> Any:
        return step(lambda g: zero_or(T.And(k * group + g < K, j < N), B, k * group + g, j), 0)

    def zero_or(inside: Any, X: Any, i: Any, j: Any) -> Any:
        return T.if_then_else(inside, X[i, j], T.Cast(dtype, 0))

    def updated(sums: Any, a: Any, b: Any) -> Any:
        """A vector of sums with the products of a group."""
        if dtype == "int8" and group == 2:
            a, b = T.reinterpret(halves, T.Broadcast(a, W)), T.reinterpret(halves, b)
            return sums + T.call_llvm_pure_intrin(f"int32x{W}", PAIRS[32 * W], a, b)
        kind = fours if dtype == "int8" else f"bfloat16x{2 * W}"
        a, b = T.reinterpret(kind, T.Broadcast(a, W)), T.reinterpret(kind, b)
        return T.call_llvm_pure_intrin(f"{result}x{W}", GROUPS[dtype, group], sums, a, b)

    @T.macro
    def multiply(C, rows, packed, starts, ip, j0, q, k0, masked):
        tile = T.alloc_buffer((MR, NR), result, scope="local")
        for i in T.unroll(MR):
            for l in T.vectorized(NR):
                tile[i, l] = starts[q, l] if group == 4 else T.Cast(result, 0)
        if k0 > 0:
            for i in T.unroll(MR):
                if tidy or ip * MR + i < M:
                    for l in T.vectorized(NR):
                        if not masked or j0 + l < N:
                            tile[i, l] = C[ip * MR + i, j0 + l]
        # Where a tile goes on with what stands in C, its lines are fetched while the one before is computed.
        if steps > KC:
            if j0 + 2 * NR <= N:
                for i in T.unroll(MR):
                    if tidy or ip * MR + i < M:
                        T.prefetch(T.address_of(C[ip * MR + i, j0 + 2 * NR - 1]), 1, 3, 1)
        for k in range(T.min(KC, steps - k0)):
            for i in T.unroll(MR):
                if group == 1:
                    for l in T.vectorized(NR):
                        tile[i, l] += rows[ip, i, k] * packed[q, k, l]
                else:
                    for v in T.unroll(NV):
                        tile[i, v * W : v * W + W] = updated(
                            tile[i, v * W : v * W + W], rows[ip, i, k], packed[q, k, v * W : v * W + W]
                        )
        for i in T.unroll(MR):
            if tidy or ip * MR + i < M:
                for l in T.vectorized(NR):
                    if not masked or j0 + l < N:
                        C[ip * MR + i, j0 + l] = tile[i, l]

    @T.prim_func
    def product(A: T.Buffer((M, K), dtype), B: T.Buffer((K, N), dtype), C: T.Buffer((M, N), result)):
        T.func_attr({"tir.noalias": True})
        packed = T.alloc_buffer((block, KC, NR), element)
        starts = T.alloc_buffer((block, NR), "int32")
        rows = T.alloc_buffer((stripes, MR, KC), element)
        for k0 in range(T.ceildiv(steps, KC)):
            for ip in T.parallel(stripes):
                for i in range(MR):
                    for k in range(T.min(KC, steps - k0 * KC)):
                        rows[ip, i, k] = of_a(A, T.min(ip * MR + i, M - 1), k0 * KC + k)
            for jb in range(T.ceildiv(panels, block)):
                for k in T.parallel(T.min(KC, steps - k0 * KC)):
                    for q in range(T.min(block, panels - jb * block)):
                        for l in T.vectorized(NR):
                            packed[q, k, l] = of_b(B, k0 * KC + k, (jb * block + q) * NR + l)
                if group == 4:
                    for q in T.parallel(T.min(block, panels - jb * block)):
                        for l in T.vectorized(NR):
                            starts[q, l] = 0
                        for k in range(K):
                            for l in T.vectorized(NR):
                                starts[q, l] -= 128 * T.Cast(
                                    "int32", zero_or((jb * block + q) * NR + l < N, B, k, (jb * block + q) * NR + l)
                                )
                for ip in T.parallel(stripes):
                    for q in range(T.min(block, whole - jb * block)):
                        multiply(C, rows, packed, starts, ip, (jb * block + q) * NR, q, k0 * KC, False)
                    if whole < panels and (jb + 1) * block >= panels:
                        multiply(C, rows, packed, starts, ip, whole * NR, whole - jb * block, k0 * KC, True)

    return product


def case(
    machine: Machine, M: int, N: int, K: int, dtype: str = "float32", reached: float = 0.95, depth: int | None = None
) -> Case:
    rng = np.random.default_rng(0)
    result, limit = np.dtype(np.float32), "float32 multiply-add"
    a: Array
    b: Array
    if dtype == "int8":
        a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((M, K), (K, N)))
        result, limit = np.dtype(np.int32), "16-bit multiply-add"
    else:
        kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float32
        a, b = (rng.standard_normal(shape, dtype=np.float32).astype(kind) for shape in ((M, K), (K, N)))
    c = np.empty((M, N), result)
    # NumPy has no product of the short types with a wider result: BLAS computes that of int8 in float64, exactly.
    wide = np.float64 if dtype == "int8" else np.float32
    x, y = a.astype(wide), b.astype(wide)
    z = np.empty((M, N), wide)
    return Case(
        func=product(machine, M, N, K, dtype, depth),
        args=(a, b, c),
        expected=lambda: x @ y,
        work=2.0 * M * N * K,
        limit=limit,
        reached=reached,
        tolerance=0.0 if dtype == "int8" else 1e-5,
        peers={
            "numpy": lambda: np.matmul(x, y, out=z),
            **peers.jax_call(lambda jnp, a, b: jnp.matmul(a, b, preferred_element_type=result.name), a, b),
        },
    )


CASES: dict[str, Maker] = {
    f"product {dtype} {side}³": partial(case, M=side, N=side, K=side, dtype=dtype, reached=reached)
    for dtype, side, reached in (
        ("float32", 256, 0.97), ("float32", 512, 0.95), ("float32", 1024, 0.93), ("bfloat16", 1024, 0.91), ("int8", 1024, 0.95)
    )
}  # fmt: skip
SMALL: dict[str, Maker] = {
    f"product {dtype} {M}×{N}×{K}": partial(case, M=M, N=N, K=K, dtype=dtype, depth=depth)
    for dtype, M, N, K, depth in (
        ("float32", 1, 1, 1, 8), ("float32", 12, 32, 8, 8), ("float32", 13, 33, 19, 8), ("bfloat16", 13, 17, 9, 8),
        ("int8", 7, 17, 1, 8), ("int8", 6, 33, 23, 4),
    )
}  # fmt: skip
