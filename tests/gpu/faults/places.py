"""Mistakes in guards, indices and extents, and between blocks."""

from __future__ import annotations

import numpy as np

from tests.gpu.faults.case import Case, floats, ints

TAIL = """
@T.prim_func
def add(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32"), C: T.Buffer((100,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            if bx * 32 + tx < 100:
                C[bx * 32 + tx] = A[bx * 32 + tx] + B[bx * 32 + tx]
"""

SYMBOLIC = """
@T.prim_func
def scale(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):
    for bx in T.thread_binding((n + 31) // 32, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            if bx * 32 + tx < n:
                B[bx * 32 + tx] = A[bx * 32 + tx] * T.float32(3)
"""

BOX = """
@T.prim_func
def box(A: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(20, thread="threadIdx.x"):
            if bx * 20 + tx > 0 and bx * 20 + tx < 39:
                B[bx * 20 + tx] = A[bx * 20 + tx - 1] + A[bx * 20 + tx + 1]
            else:
                B[bx * 20 + tx] = 0
"""

ROWS = """
@T.prim_func
def row_sums(A: T.Buffer((64, 10), "int32"), B: T.Buffer((64,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            B[bx * 32 + tx] = 0
            for k in range(10):
                B[bx * 32 + tx] = B[bx * 32 + tx] + A[bx * 32 + tx, k]
"""

HISTOGRAM = """
@T.prim_func
def histogram(A: T.Buffer((128,), "int32"), H: T.Buffer((16,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            bins = T.alloc_buffer((16,), "int32", scope="shared")
            if tx < 16:
                bins[tx] = 0
            T.tvm_storage_sync("shared")  # the bins are empty
            for i in range(2):
                T.evaluate(T.atomic_add(T.address_of(bins[A[bx * 64 + i * 32 + tx] % 16]), 1))
            T.tvm_storage_sync("shared")  # the bins are full
            if tx < 16:
                T.evaluate(T.atomic_add(T.address_of(H[tx]), bins[tx]))
"""

LAST_BLOCK = """
@T.prim_func
def last_block(A: T.Buffer((128,), "int32"), P: T.Buffer((4,), "int32"), N: T.Buffer((1,), "int32"),
               S: T.Buffer((1,), "int32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            ticket = T.alloc_buffer((1,), "int32", scope="local")
            if tx == 0:
                P[bx] = 0
                for k in range(32):
                    P[bx] = P[bx] + A[bx * 32 + k]
                ticket[0] = T.atomic_add(T.address_of(N[0]), 1, "acq_rel", "device")
                if ticket[0] == 3:
                    S[0] = P[0] + P[1] + P[2] + P[3]
"""


def _add(rng: np.random.Generator) -> list[np.ndarray]:
    return [floats(rng, 100), floats(rng, 100), np.zeros(100, np.float32)]


def _box(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    out = np.zeros_like(a)
    out[1:-1] = a[:-2] + a[2:]
    return out


def _histogram(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.bincount(a % 16, minlength=16).astype(np.int32)


def _last(rng: np.random.Generator) -> list[np.ndarray]:
    return [ints(rng, 128), np.zeros(4, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)]


def _total(a: np.ndarray, *_: np.ndarray) -> np.ndarray:
    return np.array([a.sum()], np.int32)


LINE_40 = lambda rng: [ints(rng, 40), np.zeros(40, np.int32)]
ROWS_64 = lambda rng: [ints(rng, 64, 10), np.zeros(64, np.int32)]
BINS = lambda rng: [ints(rng, 128), np.zeros(16, np.int32)]
ATOMIC = "T.evaluate(T.atomic_add(T.address_of(bins[A[bx * 64 + i * 32 + tx] % 16]), 1))"

CASES = [
    Case(
        "add: no guard on the tail",
        TAIL,
        ("if bx * 32 + tx < 100:", "if bx >= 0:"),
        r"A\[100\] is out of bounds|C\[100\] is out of bounds",
        _add,
        lambda a, b, _: a + b,
    ),
    Case(
        "add: a guard off by one",
        TAIL,
        ("tx < 100", "tx <= 100"),
        r"\[100\] is out of bounds",
        _add,
        lambda a, b, _: a + b,
    ),
    Case(
        "add: every block writes the first tile",
        TAIL,
        ("C[bx * 32 + tx] =", "C[tx] ="),
        r"data race on 'C'.*blockIdx",
        _add,
        lambda a, b, _: a + b,
    ),
    Case(
        "add: blocks that overlap by one",
        TAIL,
        ("C[bx * 32 + tx] =", "C[bx * 31 + tx] ="),
        r"data race on 'C'",
        _add,
        lambda a, b, _: a + b,
    ),
    Case(
        "scale: a symbolic guard off by one",
        SYMBOLIC,
        ("tx < n", "tx < n + 1"),
        r"\[77\] is out of bounds",
        lambda rng: [floats(rng, 77), np.zeros(77, np.float32)],
        lambda a, _: a * 3,
    ),
    Case(
        "scale: a grid one block too large, and no guard",
        SYMBOLIC,
        ("if bx * 32 + tx < n:", "if n > 0:"),
        r"\[77\] is out of bounds",
        lambda rng: [floats(rng, 77), np.zeros(77, np.float32)],
        lambda a, _: a * 3,
    ),
    Case(
        "box: no guard at the low end", BOX, ("bx * 20 + tx > 0 and ", ""), r"A\[-1\] is out of bounds", LINE_40, _box
    ),
    Case(
        "box: a guard off by one at the high end",
        BOX,
        ("tx < 39", "tx < 40"),
        r"A\[40\] is out of bounds",
        LINE_40,
        _box,
    ),
    Case(
        "row sums: one column too many",
        ROWS,
        ("range(10)", "range(11)"),
        r", 10\] is out of bounds",
        ROWS_64,
        lambda a, _: a.sum(1, dtype=np.int32),
    ),
    Case(
        "row sums: one sum for a block",
        ROWS,
        ("B[bx * 32 + tx] = B[bx * 32 + tx] +", "B[bx * 32] = B[bx * 32] +"),
        "data race on 'B'",
        ROWS_64,
        lambda a, _: a.sum(1, dtype=np.int32),
    ),
    Case(
        "histogram: plain updates",
        HISTOGRAM,
        (ATOMIC, "bins[A[bx * 64 + i * 32 + tx] % 16] = bins[A[bx * 64 + i * 32 + tx] % 16] + 1"),
        "data race on 'bins'",
        BINS,
        _histogram,
    ),
    Case(
        "histogram: bins that are not empty yet",
        HISTOGRAM,
        ('            T.tvm_storage_sync("shared")  # the bins are empty\n', ""),
        "data race on 'bins'",
        BINS,
        _histogram,
    ),
    Case(
        "histogram: bins that are not full yet",
        HISTOGRAM,
        ('            T.tvm_storage_sync("shared")  # the bins are full\n', ""),
        "data race on 'bins'",
        BINS,
        _histogram,
    ),
    Case(
        "histogram: half of the bins are never emptied",
        HISTOGRAM,
        ("if tx < 16:\n                bins", "if tx < 8:\n                bins"),
        "'bins' .* is read before it is written",
        BINS,
        _histogram,
    ),
    Case(
        "histogram: blocks add up with a plain store",
        HISTOGRAM,
        ("T.evaluate(T.atomic_add(T.address_of(H[tx]), bins[tx]))", "H[tx] = H[tx] + bins[tx]"),
        r"data race on 'H'.*blockIdx",
        BINS,
        _histogram,
    ),
    Case(
        "last block: the ticket orders nothing",
        LAST_BLOCK,
        ('"acq_rel"', '"relaxed"'),
        "data race on 'P'",
        _last,
        _total,
    ),
    Case(
        "last block: the ticket acquires, and nobody releases",
        LAST_BLOCK,
        ('"acq_rel"', '"acquire"'),
        "data race on 'P'",
        _last,
        _total,
    ),
    Case("last block: an atomic of the block", LAST_BLOCK, ('"device"', '"block"'), "data race on 'N'", _last, _total),
]
