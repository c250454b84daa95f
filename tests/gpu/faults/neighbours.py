"""Mistakes at the edges of tiles that neighbouring threads share."""

from __future__ import annotations

import numpy as np

from tests.gpu.faults.case import Case, ints

__all__ = ["CASES"]

CONVOLVE = """
@T.prim_func
def convolve(A: T.Buffer((70,), "int32"), W: T.Buffer((7,), "int32"), B: T.Buffer((64,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            tile = T.alloc_buffer((38,), "int32", scope="shared")
            for p in range(2):
                if p * 32 + tx < 38:
                    tile[p * 32 + tx] = A[bx * 32 + p * 32 + tx]
            T.tvm_storage_sync("shared")
            B[bx * 32 + tx] = 0
            for k in range(7):
                B[bx * 32 + tx] = B[bx * 32 + tx] + tile[tx + k] * W[k]
"""

SORT = """
@T.prim_func
def sort(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((32,), "int32", scope="shared")
        s[tx] = A[tx]
        s[tx + 16] = A[tx + 16]
        T.tvm_storage_sync("shared")
        for phase in range(32):
            if tx * 2 + phase % 2 + 1 < 32:
                low = T.alloc_buffer((1,), "int32", scope="local")
                low[0] = T.min(s[tx * 2 + phase % 2], s[tx * 2 + phase % 2 + 1])
                s[tx * 2 + phase % 2 + 1] = T.max(s[tx * 2 + phase % 2], s[tx * 2 + phase % 2 + 1])
                s[tx * 2 + phase % 2] = low[0]
            T.tvm_storage_sync("shared")  # of the phase
        B[tx] = s[tx]
        B[tx + 16] = s[tx + 16]
"""


def _convolve(rng: np.random.Generator) -> list[np.ndarray]:
    return [ints(rng, 70), ints(rng, 7), np.zeros(64, np.int32)]


def _convolved(a: np.ndarray, w: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.correlate(a, w, "valid").astype(np.int32)


def _sort(rng: np.random.Generator) -> list[np.ndarray]:
    return [ints(rng, 32), np.zeros(32, np.int32)]


def _sorted(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.sort(a)


CASES = [
    Case(
        "convolve: a halo that is one element short",
        CONVOLVE,
        ("p * 32 + tx < 38", "p * 32 + tx < 37"),
        "read before it is written",
        _convolve,
        _convolved,
    ),
    Case(
        "convolve: a tile without room for its halo",
        CONVOLVE,
        ("T.alloc_buffer((38,)", "T.alloc_buffer((37,)"),
        r"tile\[37\] is out of bounds",
        _convolve,
        _convolved,
    ),
    Case(
        "sort: the last pair of odd phases reaches beyond the array",
        SORT,
        ("phase % 2 + 1 < 32", "phase % 2 < 32"),
        r"s\[32\] is out of bounds",
        _sort,
        _sorted,
    ),
    Case(
        "sort: phases that do not wait for each other",
        SORT,
        ('            T.tvm_storage_sync("shared")  # of the phase\n', ""),
        "data race on 's'",
        _sort,
        _sorted,
    ),
    Case(
        "sort: pairs that overlap",
        SORT,
        ("s[tx * 2 + phase % 2] = low[0]", "s[tx * 2 + phase] = low[0]"),
        r"data race on 's'|out of bounds",
        _sort,
        _sorted,
    ),
]
