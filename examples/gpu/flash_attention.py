"""Attention without its matrix of scores: one pass over the keys, the softmax corrected as it goes.

For devices from ``sm_80`` on. The algorithm is that of Dao et al., FlashAttention (2022), and FlashAttention-2 (2023):
a block of threads has some rows of queries and takes the keys and values tile by tile. It keeps for each row the
greatest score so far, the sum of exponentials relative to it and the weighted sum of values; whenever the greatest
score grows, the two sums are scaled down. So the scores live in registers only, and the memory read is linear in the
length of the sequence.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from examples.gpu._running import launch
from examples.gpu._tiles import CHUNK, swizzled
from examples.gpu._warps import EVERY_LANE, WARP
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

D = 64
"""The size of a head. A row of a tile is then one line of shared memory's banks."""


def flash_attention(
    heads: int, length: int, *, causal: bool = False, warps: int = 4, BK: int = 64, out: str = "bfloat16"
) -> PrimFunc:
    """``O = softmax(Q @ K.T / 8) @ V`` for each head; Q, K, V ``(heads, length, 64)`` in bfloat16, O of dtype ``out``.

    ``heads`` counts those of all sequences of a batch. With ``causal`` a query sees the keys up to its own position.
    Each of the ``warps`` warps has 16 queries: a row's scores then lie in four lanes, and no warp waits for another one
    but for the copies. ``BK`` keys (a multiple of 16) are taken at a time, while the next ones are copied. Any length:
    keys beyond the last weigh nothing, queries beyond it are not stored. Raises ValueError for a BK that does not fit.
    """
    threads = WARP * warps
    BQ = 16 * warps
    if BK % 16 or (BK * D) % (CHUNK * threads):
        raise ValueError(f"{BK} keys are not 16 at a time, or not whole chunks for {threads} threads")
    NK, ND, steps_d, steps_k = BK // 8, D // 8, D // 16, BK // 16
    q_blocks, tiles_k = -(-length // BQ), -(-length // BK)
    q_size, kv_size = BQ * D, BK * D
    row_chunks = D // CHUNK
    rows_at_once = threads // row_chunks  # that the threads copy
    edge_q, edge_k = length % BQ != 0, length % BK != 0
    # Powers of two instead of e: the hardware's exponential is to base 2, and the factor costs nothing in the fused
    # multiply-add that scales the score.
    scale = math.log2(math.e) / math.sqrt(D)
    # The lowest finite number: a difference of two infinities would be no number.
    lowest = float(np.finfo(np.float32).min)

    @T.macro
    def copy_rows(source, tiles, tx, head, first, base, count, guarded):
        at, chunk = tx // row_chunks, tx % row_chunks
        for i in T.unroll(count // rows_at_once):
            row = i * rows_at_once + at
            T.ptx_cp_async(
                "bfloat16", tiles.data, base + swizzled(row, chunk, D),
                source.data, (head * length + first + row) * D + chunk * CHUNK, 16,
                first + row < length if guarded else True,
            )  # fmt: skip

    @T.macro
    def copy_keys(K, V, tiles, tx, head, tile, stage):
        # Rows beyond the end become zeros: what lies in shared memory then is no number that could spoil 0 * V.
        copy_rows(K, tiles, tx, head, tile * BK, q_size + stage * (2 * kv_size), BK, edge_k)
        copy_rows(V, tiles, tx, head, tile * BK, q_size + stage * (2 * kv_size) + kv_size, BK, edge_k)

    @T.macro
    def of_quad(value, at, combine):
        """Fold a row's value over the four lanes that share the row."""
        for step in T.unroll(2):
            value[at] = combine(
                value[at], T.tvm_warp_shuffle_xor(T.uint32(EVERY_LANE), value[at], T.shift_left(1, step), WARP, WARP)
            )

    @T.prim_func
    def flash_attention(
        Q: T.Buffer((heads, length, D), "bfloat16"),
        K: T.Buffer((heads, length, D), "bfloat16"),
        V: T.Buffer((heads, length, D), "bfloat16"),
        O: T.Buffer((heads, length, D), out),
    ):
        T.func_attr({"tir.noalias": True})
        for bx in T.thread_binding(q_blocks, thread="blockIdx.x"):
            for head in T.thread_binding(heads, thread="blockIdx.y"):
                for tx in T.thread_binding(threads, thread="threadIdx.x"):
                    tiles = T.alloc_buffer((q_size + 4 * kv_size,), "bfloat16", scope="shared.dyn")
                    q_frag = T.alloc_buffer((steps_d * 8,), "bfloat16", scope="local")
                    kv_frag = T.alloc_buffer((8,), "bfloat16", scope="local")
                    p_frag = T.alloc_buffer((8,), "bfloat16", scope="local")
                    score = T.alloc_buffer((NK * 4,), "float32", scope="local")
                    acc = T.alloc_buffer((ND * 4,), "float32", scope="local")
                    # A thread has parts of two rows, r and r + 8.
                    top = T.alloc_buffer((2,), "float32", scope="local")
                    new_top = T.alloc_buffer((2,), "float32", scope="local")
                    total = T.alloc_buffer((2,), "float32", scope="local")

                    # A causal row of blocks has the more work the later it is; the longest begin first, so that the
                    # short ones fill the gaps at the end.
                    q0 = (q_blocks - 1 - bx if causal else bx) * BQ
                    lane = tx % WARP
                    warp_row = tx // WARP * 16
                    count = T.min(tiles_k, (q0 + BQ + BK - 1) // BK) if causal else tiles_k

                    copy_rows(Q, tiles, tx, head, q0, 0, BQ, edge_q)
                    copy_keys(K, V, tiles, tx, head, 0, 0)
                    T.ptx_commit_group()
                    for i in T.unroll(ND * 4):
                        acc[i] = T.float32(0)
                    for r in T.unroll(2):
                        top[r] = T.float32(lowest)
                        total[r] = T.float32(0)

                    for tile in range(count):
                        # This tile is here, for all threads, and all are done with the one before, whose place the
                        # next one takes.
                        T.ptx_wait_group(0)
                        T.tvm_storage_sync("shared")
                        if tile + 1 < count:
                            copy_keys(K, V, tiles, tx, head, tile + 1, (tile + 1) % 2)
                        T.ptx_commit_group()
                        if tile == 0:
                            # The queries stay in registers from here on.
                            for d in T.unroll(steps_d):
                                T.ptx_ldmatrix(
                                    "bfloat16", False, 4, ".b16", q_frag.data, d * 8, tiles.data,
                                    swizzled(warp_row + lane % 16, d * 2 + lane // 16, D),
                                )  # fmt: skip

                        for i in T.unroll(NK * 4):
                            score[i] = T.float32(0)
                        for d in T.unroll(steps_d):
                            for j in T.unroll(NK // 2):
                                # Rows of K run along d, as B fragments do: no transposition. Matrices: the left and
                                # right half of 8 keys, then of the next 8.
                                T.ptx_ldmatrix(
                                    "bfloat16", False, 4, ".b16", kv_frag.data, 0, tiles.data,
                                    q_size + tile % 2 * (2 * kv_size)
                                    + swizzled(j * 16 + lane // 16 * 8 + lane % 8, d * 2 + lane // 8 % 2, D),
                                )  # fmt: skip
                                for h in T.unroll(2):
                                    T.ptx_mma(
                                        "float32", "m16n8k16", "row", "col", "bf16", "bf16", "fp32",
                                        q_frag.data, d * 8, kv_frag.data, h * 4, score.data, (j * 2 + h) * 4, False,
                                    )  # fmt: skip

                        # Only the last tiles hold keys that some row must not see.
                        if edge_k or causal:
                            if tile * BK + BK > (T.min(q0 + warp_row + 1, length) if causal else length):
                                for j in T.unroll(NK):
                                    for e in T.unroll(4):
                                        key = tile * BK + j * 8 + lane % 4 * 2 + e % 2
                                        query = q0 + warp_row + e // 2 * 8 + lane // 4
                                        if key > query or key >= length if causal else key >= length:
                                            score[j * 4 + e] = T.float32(lowest)

                        for r in T.unroll(2):
                            new_top[r] = top[r]
                            for j in T.unroll(NK):
                                for v in T.unroll(2):
                                    new_top[r] = T.max(new_top[r], score[j * 4 + r * 2 + v])
                            of_quad(new_top, r, T.max)
                            shrink = T.exp2((top[r] - new_top[r]) * T.float32(scale))
                            total[r] = total[r] * shrink
                            for j in T.unroll(ND):
                                for v in T.unroll(2):
                                    acc[j * 4 + r * 2 + v] = acc[j * 4 + r * 2 + v] * shrink
                            top[r] = new_top[r]
                            for j in T.unroll(NK):
                                for v in T.unroll(2):
                                    at = j * 4 + r * 2 + v
                                    score[at] = T.exp2(score[at] * T.float32(scale) - new_top[r] * T.float32(scale))
                                    # Each lane sums its own part; the four parts of a row are added at the end.
                                    total[r] = total[r] + score[at]

                        for k in T.unroll(steps_k):
                            # The sums of two neighbouring 16 x 8 products lie as the A fragment of one of depth 16
                            # does: weights go from one product to the next without leaving the registers.
                            for e in T.unroll(4):
                                for v in T.vectorized(2):
                                    p_frag[e * 2 + v] = T.cast(score[k * 8 + e * 2 + v], "bfloat16")
                            for j in T.unroll(ND // 2):
                                T.ptx_ldmatrix(
                                    "bfloat16", True, 4, ".b16", kv_frag.data, 0, tiles.data,
                                    q_size + tile % 2 * (2 * kv_size) + kv_size
                                    + swizzled(k * 16 + lane % 16, j * 2 + lane // 16, D),
                                )  # fmt: skip
                                for h in T.unroll(2):
                                    T.ptx_mma(
                                        "float32", "m16n8k16", "row", "col", "bf16", "bf16", "fp32",
                                        p_frag.data, 0, kv_frag.data, h * 4, acc.data, (j * 2 + h) * 4, False,
                                    )  # fmt: skip

                    for r in T.unroll(2):
                        of_quad(total, r, lambda x, y: x + y)
                        query = q0 + warp_row + r * 8 + lane // 4
                        inverse = T.float32(1) / total[r]
                        if query < length if edge_q else True:
                            for j in T.unroll(ND):
                                for v in T.vectorized(2):
                                    O[head, query, j * 8 + lane % 4 * 2 + v] = T.cast(
                                        acc[j * 4 + r * 2 + v] * inverse, out
                                    )

    return flash_attention


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    """Attention of each head in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(D)
    if causal:
        scores[:, ~np.tri(q.shape[1], dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    return weights / weights.sum(axis=2, keepdims=True) @ v


def main() -> None:
    rng = np.random.default_rng(0)
    length = 72  # the third tile of keys is partial
    q, k, v = (rng.standard_normal((1, length, D)).astype(ml_dtypes.bfloat16) for _ in range(3))
    for causal in (False, True):
        o = np.empty((1, length, D), np.float32)
        func = flash_attention(1, length, causal=causal, warps=2, BK=32, out="float32")
        where = launch(func, q, k, v, o)
        # Weights are rounded to bfloat16, by at most 2**-8 of themselves, before they meet the values; the float32
        # errors of scores and exponentials are far smaller.
        bound = 1.125 * 2.0**-8 * reference(q, k, abs(v), causal)
        np.testing.assert_array_less(abs(o - reference(q, k, v, causal)), bound)
        print(f"{func.name}{' (causal)' if causal else ''} {where} agrees with NumPy")


if __name__ == "__main__":
    main()
