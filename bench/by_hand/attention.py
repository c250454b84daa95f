"""Attention: a block of rows of scores stays in the second cache, from the first product through the softmax to the second."""

from __future__ import annotations

from functools import partial

import numpy as np

from bench import peers
from bench.by_hand.case import Array, Case, Maker
from bench.by_hand.machine import Machine
from bench.by_hand.product import rows_of_tile
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["CASES", "SMALL", "attention"]


def attention(machine: Machine, heads: int, queries: int, keys: int, width: int, depth: int = 256) -> PrimFunc:
    """``O = softmax(Q @ K.T / sqrt(width)) @ V`` of each head; keys and width are multiples of two vectors.

    K, turned, and V are packed once in panels as wide as a tile. A row's sum divides its tile of the second product,
    whose sums go over ``depth`` keys at a time. Sums of a row of exponentials are in four vectors of lanes.
    """
    W, NV, chains = machine.lanes(), 2, 4
    NR = NV * W
    if keys % NR or width % NR:
        raise ValueError(f"{keys} keys of width {width} are no multiples of {NR}: pad them")
    MR = rows_of_tile(machine, NV, queries)
    stripes = max(1, min(machine.l2 // 4 // (keys * 4 * MR), -(-queries // MR)))
    BM = MR * stripes
    blocks = -(-queries // BM)
    KC = min(depth, keys)
    chains = min(chains, keys // W)
    step = chains * W
    exps = min(chains, machine.registers // 8)  # an exponential takes some eight registers
    pair = exps * W
    halves = [W >> s for s in range(1, W.bit_length())]
    scale = float(np.float32(1) / np.sqrt(np.float32(width)))

    @T.macro
    def softmax(scores, inverse, i):
        peak = T.alloc_buffer((chains, W), "float32", scope="local")
        total = T.alloc_buffer((chains, W), "float32", scope="local")
        for u in T.unroll(chains):
            for l in T.vectorized(W):
                peak[u, l] = scores[i, u * W + l]
            for l in T.vectorized(W):
                total[u, l] = T.float32(0)
        for j in range(1, keys // step):
            for u in T.unroll(chains):
                for l in T.vectorized(W):
                    peak[u, l] = T.max(peak[u, l], scores[i, j * step + u * W + l])
        for u in T.unroll(1, chains):
            for l in T.vectorized(W):
                peak[0, l] = T.max(peak[0, l], peak[u, l])
        for half in halves:
            for l in T.vectorized(half):
                peak[0, l] = T.max(peak[0, l], peak[0, l + half])
        for j in range(keys // pair):
            for u in T.unroll(exps):
                for l in T.vectorized(W):
                    scores[i, j * pair + u * W + l] = T.exp(scores[i, j * pair + u * W + l] - peak[0, 0])
                for l in T.vectorized(W):
                    total[u, l] += scores[i, j * pair + u * W + l]
        for u in T.unroll(1, chains):
            for l in T.vectorized(W):
                total[0, l] += total[u, l]
        for half in halves:
            for l in T.vectorized(half):
                total[0, l] += total[0, l + half]
        inverse[i] = T.float32(1) / total[0, 0]

    @T.prim_func
    def attention(
        Q: T.Buffer((heads, queries, width), "float32"),
        K: T.Buffer((heads, keys, width), "float32"),
        V: T.Buffer((heads, keys, width), "float32"),
        O: T.Buffer((heads, queries, width), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        packed_k = T.alloc_buffer((heads, keys // NR, width, NR), "float32")
        packed_v = T.alloc_buffer((heads, width // NR, keys, NR), "float32")
        for h in T.parallel(heads):
            for p, d, v in T.grid(keys // NR, width // W, NV):
                for i in range(W):
                    for l in T.vectorized(W):
                        packed_k[h, p, d * W + l, v * W + i] = K[h, p * NR + v * W + i, d * W + l]
            for q, s in T.grid(width // NR, keys):
                for l in T.vectorized(NR):
                    packed_v[h, q, s, l] = V[h, s, q * NR + l]
        for t in T.parallel(heads * blocks):
            # Rows that are no power of two apart do not meet in the same places of the first cache.
            scores = T.alloc_buffer((BM, keys), "float32", strides=(keys + NR, 1))
            sums = T.alloc_buffer((BM, width), "float32")
            inverse = T.alloc_buffer((BM,), "float32")
            used = T.min(stripes, T.ceildiv(queries - t % blocks * BM, MR))
            for p, m in T.grid(keys // NR, used):
                tile = T.alloc_buffer((MR, NR), "float32", scope="local")
                for i in T.unroll(MR):
                    for l in T.vectorized(NR):
                        tile[i, l] = T.float32(0)
                for d in range(width):
                    for i in T.unroll(MR):
                        row = T.meta_var(T.min(t % blocks * BM + m * MR + i, queries - 1))
                        for l in T.vectorized(NR):
                            tile[i, l] += Q[t // blocks, row, d] * packed_k[t // blocks, p, d, l]
                for i in T.unroll(MR):
                    for l in T.vectorized(NR):
                        scores[m * MR + i, p * NR + l] = tile[i, l] * T.float32(scale)
            for i in range(used * MR):
                softmax(scores, inverse, i)
            for s0 in range(T.ceildiv(keys, KC)):
                for q, m in T.grid(width // NR, used):
                    out = T.alloc_buffer((MR, NR), "float32", scope="local")
                    for i in T.unroll(MR):
                        for l in T.vectorized(NR):
                            out[i, l] = T.float32(0)
                    if s0 > 0:
                        for i in T.unroll(MR):
                            for l in T.vectorized(NR):
                                out[i, l] = sums[m * MR + i, q * NR + l]
                    for s in range(T.min(KC, keys - s0 * KC)):
                        for i in T.unroll(MR):
                            for l in T.vectorized(NR):
                                out[i, l] += scores[m * MR + i, s0 * KC + s] * packed_v[t // blocks, q, s0 * KC + s, l]
                    for i in T.unroll(MR):
                        for l in T.vectorized(NR):
                            sums[m * MR + i, q * NR + l] = out[i, l]
            for i in range(BM):
                if t % blocks * BM + i < queries:
                    for l in T.vectorized(width):
                        O[t // blocks, t % blocks * BM + i, l] = sums[i, l] * inverse[i]

    return attention


def case(
    machine: Machine, heads: int, queries: int, keys: int, width: int, depth: int = 256, reached: float = 0.76
) -> Case:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((heads, queries, width), dtype=np.float32)
    k, v = (rng.standard_normal((heads, keys, width), dtype=np.float32) for _ in "kv")
    o = np.empty_like(q)

    def formula(np: object, q: Array, k: Array, v: Array) -> Array:
        scores = np.matmul(q, k.swapaxes(1, 2)) * (1 / width**0.5)  # type: ignore[attr-defined]
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))  # type: ignore[attr-defined]
        return np.matmul(powers / powers.sum(axis=2, keepdims=True), v)  # type: ignore[attr-defined]

    return Case(
        func=attention(machine, heads, queries, keys, width, depth),
        args=(q, k, v, o),
        expected=lambda: formula(np, q, k, v),
        work=4.0 * heads * queries * keys * width,
        limit="float32 multiply-add",
        reached=reached,
        tolerance=1e-5,
        ordered=False,
        peers={"numpy": lambda: formula(np, q, k, v), **peers.jax_call(formula, q, k, v)},
    )


CASES: dict[str, Maker] = {"attention 8×1024×64": partial(case, heads=8, queries=1024, keys=1024, width=64)}
SMALL: dict[str, Maker] = {
    "attention 2×7, 32 keys×32": partial(case, heads=2, queries=7, keys=32, width=32, depth=24),
}
