"""Mistakes with warps, votes, locks and tensor cores."""

from __future__ import annotations

import numpy as np

from tests.gpu.faults.case import Case, floats, ints

WARP_SUM = """
@T.prim_func
def warp_sum(A: T.Buffer((64,), "int32"), B: T.Buffer((1,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        partial = T.alloc_buffer((2,), "int32", scope="shared")
        v = T.alloc_buffer((1,), "int32", scope="local")
        v[0] = A[tx]
        for k in range(5):
            v[0] = v[0] + T.tvm_warp_shuffle_down(T.uint32(0xFFFFFFFF), v[0], 16 >> k, 32, 32)
        if tx % 32 == 0:
            partial[tx // 32] = v[0]
        T.tvm_storage_sync("shared")
        if tx == 0:
            B[0] = partial[0] + partial[1]
"""

IN_WARP = """
@T.prim_func
def in_warp(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "int32", scope="shared")
        v = T.alloc_buffer((1,), "int32", scope="local")
        s[tx] = A[tx]
        T.ptx_syncwarp(T.uint32(0xFFFFFFFF))  # the values are there
        for k in range(5):
            v[0] = s[tx] + s[T.bitwise_xor(tx, 16 >> k)]
            T.ptx_syncwarp(T.uint32(0xFFFFFFFF))  # all have read
            s[tx] = v[0]
            T.ptx_syncwarp(T.uint32(0xFFFFFFFF))  # all have written
        B[tx] = s[tx // 32 * 32]
"""

COMPACT = """
@T.prim_func
def compact(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        votes = T.alloc_buffer((1,), "uint32", scope="local")
        votes[0] = T.ptx_vote_ballot(T.uint32(0xFFFFFFFF), A[tx] % 2 == 0)
        if A[tx] % 2 == 0:
            B[T.cast(T.popcount(votes[0] & ((T.uint32(1) << T.cast(tx, "uint32")) - T.uint32(1))), "int32")] = A[tx]
"""

LOCK = """
@T.prim_func
def lock(A: T.Buffer((8,), "int32"), L: T.Buffer((1,), "int32"), B: T.Buffer((1,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        held = T.alloc_buffer((1,), "int32", scope="local")
        held[0] = 1
        while held[0] != 0:
            held[0] = T.atomic_cas(T.address_of(L[0]), 0, 1, "acquire", "device")
        B[0] = B[0] + A[tx]
        T.evaluate(T.atomic_exchange(T.address_of(L[0]), 0, "release", "device"))
"""

MMA = """
@T.prim_func
def mma(A: T.Buffer((16, 16), "float16"), B: T.Buffer((8, 16), "float16"), C: T.Buffer((16, 8), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        a = T.alloc_buffer((16, 16), "float16", scope="shared")
        b = T.alloc_buffer((8, 16), "float16", scope="shared")
        x = T.alloc_buffer((8,), "float16", scope="local")
        y = T.alloc_buffer((4,), "float16", scope="local")
        total = T.alloc_buffer((4,), "float32", scope="local")
        for i in range(8):
            a[i * 2 + tx // 16, tx % 16] = A[i * 2 + tx // 16, tx % 16]
        for i in range(4):
            b[i * 2 + tx // 16, tx % 16] = B[i * 2 + tx // 16, tx % 16]
        T.tvm_storage_sync("shared")
        T.ptx_ldmatrix("float16", False, 4, ".b16", x.data, 0, a.data, tx % 16 * 16 + tx // 16 * 8)
        T.ptx_ldmatrix("float16", False, 2, ".b16", y.data, 0, b.data, tx % 8 * 16 + tx // 8 % 2 * 8)
        T.mma_fill("float32", 4, total.data, 0)
        T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32",
                  x.data, 0, y.data, 0, total.data, 0, False)
        for i in range(4):
            C[tx // 4 + i // 2 * 8, tx % 4 * 2 + i % 2] = total[i]
"""


def _sum(rng: np.random.Generator) -> list[np.ndarray]:
    return [ints(rng, 64), np.zeros(1, np.int32)]


def _pair(rng: np.random.Generator) -> list[np.ndarray]:
    return [ints(rng, 64), np.zeros(64, np.int32)]


def _warp_totals(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.repeat(a.reshape(2, 32).sum(1), 32)


def _line(rng: np.random.Generator) -> list[np.ndarray]:
    return [ints(rng, 32), np.zeros(32, np.int32)]


def _even(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    found = a[a % 2 == 0]
    return np.concatenate([found, b[len(found) :]])


def _locked(rng: np.random.Generator) -> list[np.ndarray]:
    return [ints(rng, 8), np.zeros(1, np.int32), np.zeros(1, np.int32)]


def _matrices(rng: np.random.Generator) -> list[np.ndarray]:
    a, b = floats(rng, 16, 16).astype(np.float16), floats(rng, 8, 16).astype(np.float16)
    return [a, b, np.zeros((16, 8), np.float32)]


def _product(a: np.ndarray, b: np.ndarray, _: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) @ b.astype(np.float32).T


def _added(a: np.ndarray, *_: np.ndarray) -> np.ndarray:
    return a[:1] * 0 + a.sum(dtype=np.int32)


def _without(line: str, indent: int) -> tuple[str, str]:
    return " " * indent + line + "\n", ""


WHOLE = "T.ptx_syncwarp(T.uint32(0xFFFFFFFF))  # "
BALLOT = "votes[0] = T.ptx_vote_ballot(T.uint32(0xFFFFFFFF), A[tx] % 2 == 0)"

CASES = [
    Case(
        "warp sum: no barrier between the warps",
        WARP_SUM,
        _without('T.tvm_storage_sync("shared")', 8),
        "data race on 'partial'",
        _sum,
        _added,
    ),
    Case(
        "warp sum: half of the lanes shuffle",
        WARP_SUM,
        ("            v[0] = v[0] + T", "            if tx % 32 < 16:\n                v[0] = v[0] + T"),
        "is made by lane 0, but lane 16 does not take part",
        _sum,
        _added,
    ),
    Case(
        "warp sum: the second warp leaves no sum",
        WARP_SUM,
        ("if tx % 32 == 0", "if tx == 0"),
        r"partial\[1\] is read before it is written",
        _sum,
        _added,
    ),
    Case(
        "warp sum: every lane leaves its sum",
        WARP_SUM,
        ("if tx % 32 == 0", "if tx % 32 >= 0"),
        "data race on 'partial'",
        _sum,
        _added,
    ),
    Case(
        "in a warp: no barrier before the first step",
        IN_WARP,
        _without(WHOLE + "the values are there", 8),
        "data race on 's'",
        _pair,
        _warp_totals,
    ),
    Case(
        "in a warp: no barrier before the writes",
        IN_WARP,
        _without(WHOLE + "all have read", 12),
        "data race on 's'",
        _pair,
        _warp_totals,
    ),
    Case(
        "in a warp: no barrier behind the writes",
        IN_WARP,
        _without(WHOLE + "all have written", 12),
        "data race on 's'",
        _pair,
        _warp_totals,
    ),
    Case(
        "in a warp: a barrier of half the lanes",
        IN_WARP,
        (WHOLE + "all have read", "T.ptx_syncwarp(T.uint32(0xFFFF))"),
        "lane 16 makes a barrier with the mask 0xffff, which does not name it",
        _pair,
        _warp_totals,
    ),
    Case(
        "in a warp: a barrier that half the lanes miss",
        IN_WARP,
        (WHOLE + "all have read", "if tx % 32 < 16:\n                " + WHOLE),
        "lane 16 does not take part",
        _pair,
        _warp_totals,
    ),
    Case(
        "in a warp: a partner in the other warp",
        IN_WARP,
        ("16 >> k)]", "32 >> k)]"),
        "data race on 's'",
        _pair,
        _warp_totals,
    ),
    Case(
        "compact: the vote of a branch with the mask of the warp",
        COMPACT,
        (BALLOT, "votes[0] = T.uint32(0)\n        if A[tx] % 2 == 0:\n            " + BALLOT),
        "does not take part",
        _line,
        _even,
    ),
    Case(
        "compact: the vote of half the lanes",
        COMPACT,
        ("ballot(T.uint32(0xFFFFFFFF)", "ballot(T.uint32(0xFFFF0000)"),
        "which does not name it",
        _line,
        _even,
    ),
    Case(
        "compact: two lanes for one place",
        COMPACT,
        ('- T.uint32(1))), "int32")', '- T.uint32(0))), "int32")'),
        "data race on 'B'",
        _line,
        _even,
    ),
    Case(
        "lock: it is taken, and orders nothing", LOCK, ('"acquire"', '"relaxed"'), "data race on 'B'", _locked, _added
    ),
    Case(
        "lock: it is given back, and orders nothing",
        LOCK,
        ('"release"', '"relaxed"'),
        "data race on 'B'",
        _locked,
        _added,
    ),
    Case(
        "lock: it is never given back",
        LOCK,
        ('L[0]), 0, "release"', 'L[0]), 1, "release"'),
        "deadlock: .* 7 poll memory",
        _locked,
        _added,
    ),
    Case(
        "mma: no barrier before the fragments are loaded",
        MMA,
        _without('T.tvm_storage_sync("shared")', 8),
        "data race on 'a'",
        _matrices,
        _product,
    ),
    Case(
        "mma: a row too far",
        MMA,
        ("tx % 16 * 16 + tx // 16 * 8", "(tx % 16 + 1) * 16 + tx // 16 * 8"),
        "'a' .* reach outside",
        _matrices,
        _product,
    ),
    Case("mma: half a row too far", MMA, ("tx // 8 % 2 * 8", "tx // 8 % 2 * 4"), "16", _matrices, _product),
    Case(
        "mma: a tile half loaded",
        MMA,
        ("for i in range(8):\n            a", "for i in range(4):\n            a"),
        "read before it is written",
        _matrices,
        _product,
    ),
    Case(
        "mma: sums that start from nothing",
        MMA,
        _without('T.mma_fill("float32", 4, total.data, 0)', 8),
        "'total' .* read before it is written",
        _matrices,
        _product,
    ),
    Case(
        "mma: half a warp",
        MMA,
        ("        T.ptx_mma(", "        if tx < 16:\n         T.ptx_mma("),
        "ptx_mma is made by 16 of the 32 threads",
        _matrices,
        _product,
    ),
    Case(
        "mma: rows stored twice",
        MMA,
        ("i // 2 * 8, tx % 4", "i // 2 * 4, tx % 4"),
        "data race on 'C'",
        _matrices,
        _product,
    ),
]
