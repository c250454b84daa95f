"""Mistakes with barriers and shared memory."""

from __future__ import annotations

import numpy as np

from tests.gpu.faults.case import Case, floats, ints

REVERSE = """
@T.prim_func
def reverse(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            s = T.alloc_buffer((32,), "int32", scope="shared")
            s[tx] = A[bx * 32 + tx]
            T.tvm_storage_sync("shared")
            B[bx * 32 + tx] = s[31 - tx]
"""

TWO_WARPS = """
@T.prim_func
def reverse(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "int32", scope="shared")
        s[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = s[63 - tx]
"""

TREE = """
@T.prim_func
def tree_sum(A: T.Buffer((128,), "float32"), B: T.Buffer((2,), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            s = T.alloc_buffer((64,), "float32", scope="shared")
            s[tx] = A[bx * 64 + tx]
            T.tvm_storage_sync("shared")
            for k in range(6):
                if tx < (32 >> k):
                    s[tx] = s[tx] + s[tx + (32 >> k)]
                T.tvm_storage_sync("shared")  # of this step
            if tx == 0:
                B[bx] = s[0]
"""

MATMUL = """
@T.prim_func
def matmul(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for by in T.thread_binding(2, thread="blockIdx.y"):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for ty in T.thread_binding(8, thread="threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    a = T.alloc_buffer((8, 8), "float32", scope="shared")
                    b = T.alloc_buffer((8, 8), "float32", scope="shared")
                    total = T.alloc_buffer((1,), "float32", scope="local")
                    total[0] = T.float32(0)
                    for ko in range(2):
                        a[ty, tx] = A[by * 8 + ty, ko * 8 + tx]
                        b[ty, tx] = B[ko * 8 + ty, bx * 8 + tx]
                        T.tvm_storage_sync("shared")  # tiles are there
                        for k in range(8):
                            total[0] = total[0] + a[ty, k] * b[k, tx]
                        T.tvm_storage_sync("shared")  # tiles are used
                    C[by * 8 + ty, bx * 8 + tx] = total[0]
"""

TRANSPOSE = """
@T.prim_func
def transpose(A: T.Buffer((16, 24), "float32"), B: T.Buffer((24, 16), "float32")):
    for by in T.thread_binding(2, thread="blockIdx.y"):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for ty in T.thread_binding(2, thread="threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    tile = T.alloc_buffer((8, 9), "float32", scope="shared")
                    for j in range(4):
                        tile[j * 2 + ty, tx] = A[by * 8 + j * 2 + ty, bx * 8 + tx]
                    T.tvm_storage_sync("shared")
                    for j in range(4):
                        B[bx * 8 + j * 2 + ty, by * 8 + tx] = tile[tx, j * 2 + ty]
"""

SCAN = """
@T.prim_func
def scan(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((2, 32), "int32", scope="shared")
        s[0, tx] = A[tx]
        for k in range(5):
            T.tvm_storage_sync("shared")
            if tx >= (1 << k):
                s[(k + 1) % 2, tx] = s[k % 2, tx] + s[k % 2, tx - (1 << k)]
            else:
                s[(k + 1) % 2, tx] = s[k % 2, tx]
        B[tx] = s[1, tx]
"""

STENCIL = """
@T.prim_func
def stencil(A: T.Buffer((66,), "float32"), B: T.Buffer((64,), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            s = T.alloc_buffer((34,), "float32", scope="shared")
            s[tx] = A[bx * 32 + tx]
            if tx < 2:
                s[tx + 32] = A[bx * 32 + tx + 32]
            T.tvm_storage_sync("shared")
            B[bx * 32 + tx] = s[tx] + s[tx + 1] + s[tx + 2]
"""

TWO_STAGES = """
@T.prim_func
def two_stages(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        arena = T.alloc_buffer((128,), "float32", scope="shared")
        x = T.decl_buffer((64,), "float32", data=arena.data, elem_offset=0, scope="shared")
        y = T.decl_buffer((64,), "float32", data=arena.data, elem_offset=64, scope="shared")
        x[tx] = A[tx]
        T.tvm_storage_sync("shared")
        y[tx] = x[63 - tx] * T.float32(2)
        T.tvm_storage_sync("shared")
        B[tx] = y[tx // 2]
"""

REUSE = """
@T.prim_func
def reuse(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((32,), "int32", scope="shared")
        first = T.alloc_buffer((1,), "int32", scope="local")
        s[tx] = A[tx]
        T.tvm_storage_sync("shared")
        first[0] = s[(tx + 1) % 32]
        T.tvm_storage_sync("shared")  # everybody has read
        s[tx] = first[0] * 3
        T.tvm_storage_sync("shared")  # everybody has written
        B[tx] = s[31 - tx]
"""

RAGGED = """
@T.prim_func
def ragged(A: T.Buffer((16, 16), "int32"), L: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((16,), "int32", scope="shared")
        total = T.alloc_buffer((1,), "int32", scope="local")
        total[0] = 0
        for i in range(16):
            s[tx] = A[i, tx]
            T.tvm_storage_sync("shared")
            if i < L[tx]:
                total[0] = total[0] + s[15 - tx]
            T.tvm_storage_sync("shared")  # before the next row
        B[tx] = total[0]
"""

NORMALIZE = """
@T.prim_func
def normalize(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4, 32), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            row = T.alloc_buffer((32,), "float32", scope="shared")
            top = T.alloc_buffer((1,), "float32", scope="shared")
            row[tx] = A[bx, tx]
            T.tvm_storage_sync("shared")
            if tx == 0:
                top[0] = row[0]
                for k in range(1, 32):
                    top[0] = T.max(top[0], row[k])
            T.tvm_storage_sync("shared")  # the maximum is there
            B[bx, tx] = row[tx] - top[0]
"""


def _matmul(rng: np.random.Generator) -> list[np.ndarray]:
    return [floats(rng, 16, 16), floats(rng, 16, 16), np.zeros((16, 16), np.float32)]


def _line(n: int, m: int | None = None):
    return lambda rng: [ints(rng, n), np.zeros(m or n, np.int32)]


def _float_line(n: int, m: int):
    return lambda rng: [floats(rng, n), np.zeros(m, np.float32)]


def _reversed_tiles(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return a.reshape(2, 32)[:, ::-1].reshape(-1)


def _block_sums(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return a.reshape(2, 64).sum(1)


def _ragged(a: np.ndarray, lengths: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.array([a[: lengths[t], 15 - t].sum() for t in range(16)], np.int32)


SYNC = '            T.tvm_storage_sync("shared")\n'
RACE_S = r"a data race on 's'"

CASES = [
    Case("reverse: no barrier", REVERSE, (SYNC, ""), RACE_S, _line(64), _reversed_tiles),
    Case(
        "reverse: a barrier under a branch",
        REVERSE,
        (SYNC, f"            if tx < 16:\n    {SYNC}"),
        "a barrier is reached by 16 of the 32 threads",
        _line(64),
        _reversed_tiles,
    ),
    Case(
        "reverse: two threads for one element",
        REVERSE,
        ("s[tx] = A", "s[tx // 2 * 2] = A"),
        r"data race on 's': .*threadIdx.x = 0\) writes s\[0\].*threadIdx.x = 1\) writes s\[0\]",
        _line(64),
        _reversed_tiles,
    ),
    Case(
        "two warps: a barrier of the warp only",
        TWO_WARPS,
        ('sync("shared")', 'sync("warp")'),
        RACE_S,
        _line(64),
        lambda a, _: a[::-1],
    ),
    Case(
        "tree sum: no barrier in the loop",
        TREE,
        ('                T.tvm_storage_sync("shared")  # of this step\n', ""),
        RACE_S,
        _float_line(128, 2),
        _block_sums,
    ),
    Case(
        "tree sum: the barrier in the branch of the adding threads",
        TREE,
        (
            '                T.tvm_storage_sync("shared")  # of',
            '                    T.tvm_storage_sync("shared")  # of',
        ),
        "a barrier is reached by 32 of the 64 threads",
        _float_line(128, 2),
        _block_sums,
    ),
    Case(
        "tree sum: no barrier before the loop",
        TREE,
        ('A[bx * 64 + tx]\n            T.tvm_storage_sync("shared")', "A[bx * 64 + tx]"),
        RACE_S,
        _float_line(128, 2),
        _block_sums,
    ),
    Case(
        "matmul: no barrier before the tiles are used",
        MATMUL,
        ('                        T.tvm_storage_sync("shared")  # tiles are there\n', ""),
        r"a data race on 'a'",
        _matmul,
        lambda a, b, _: a @ b,
    ),
    Case(
        "matmul: no barrier before the tiles are overwritten",
        MATMUL,
        ('                        T.tvm_storage_sync("shared")  # tiles are used\n', ""),
        r"a data race on 'a'.*writes a",
        _matmul,
        lambda a, b, _: a @ b,
    ),
    Case(
        "matmul: the wrong thread index",
        MATMUL,
        ("b[ty, tx] = B", "b[ty, ty] = B"),
        r"data race on 'b'",
        _matmul,
        lambda a, b, _: a @ b,
    ),
    Case(
        "matmul: the sum starts from nothing",
        MATMUL,
        ("                    total[0] = T.float32(0)\n", ""),
        r"total\[0\] is read before it is written",
        _matmul,
        lambda a, b, _: a @ b,
    ),
    Case(
        "matmul: a tile too small",
        MATMUL,
        ("b = T.alloc_buffer((8, 8)", "b = T.alloc_buffer((8, 7)"),
        r"b\[0, 7\] is out of bounds",
        _matmul,
        lambda a, b, _: a @ b,
    ),
    Case(
        "transpose: rows that nobody loads",
        TRANSPOSE,
        ("for j in range(4):\n                        tile", "for j in range(3):\n                        tile"),
        r"tile\[6, 0\] is read before it is written",
        lambda rng: [floats(rng, 16, 24), np.zeros((24, 16), np.float32)],
        lambda a, _: a.T,
    ),
    Case(
        "transpose: one row for both halves",
        TRANSPOSE,
        ("tile[j * 2 + ty, tx]", "tile[j * 2, tx]"),
        r"data race on 'tile'",
        lambda rng: [floats(rng, 16, 24), np.zeros((24, 16), np.float32)],
        lambda a, _: a.T,
    ),
    Case(
        "transpose: blocks of one column write the same rows",
        TRANSPOSE,
        ("by * 8 + tx] = tile", "tx] = tile"),
        r"data race on 'B': .*blockIdx.y = 0.*blockIdx.y = 1",
        lambda rng: [floats(rng, 16, 24), np.zeros((24, 16), np.float32)],
        lambda a, _: a.T,
    ),
    Case(
        "scan: the parity of the buffers",
        SCAN,
        ("s[(k + 1) % 2, tx] = s[k % 2, tx] + s[k", "s[k % 2, tx] = s[k % 2, tx] + s[k"),
        RACE_S,
        _line(32),
        lambda a, _: np.cumsum(a),
    ),
    Case(
        "scan: one barrier for two steps",
        SCAN,
        ('T.tvm_storage_sync("shared")', 'if k % 2 == 0:\n                T.tvm_storage_sync("shared")'),
        RACE_S,
        _line(32),
        lambda a, _: np.cumsum(a),
    ),
    Case(
        "stencil: no halo",
        STENCIL,
        ("            if tx < 2:\n                s[tx + 32] = A[bx * 32 + tx + 32]\n", ""),
        r"s\[32\] is read before it is written",
        _float_line(66, 64),
        lambda a, _: a[:-2] + a[1:-1] + a[2:],
    ),
    Case(
        "stencil: half a halo",
        STENCIL,
        ("if tx < 2", "if tx < 1"),
        r"s\[33\] is read before it is written",
        _float_line(66, 64),
        lambda a, _: a[:-2] + a[1:-1] + a[2:],
    ),
    Case(
        "stencil: one place too far",
        STENCIL,
        ("s[tx + 1] + s[tx + 2]", "s[tx + 2] + s[tx + 3]"),
        r"s\[34\] is out of bounds",
        _float_line(66, 64),
        lambda a, _: a[:-2] + a[1:-1] + a[2:],
    ),
    Case(
        "two stages: buffers merged while both live",
        TWO_STAGES,
        ("elem_offset=64", "elem_offset=0"),
        "a data race on 'arena'",
        _float_line(64, 64),
        lambda a, _: np.repeat(a[::-1][:32] * 2, 2),
    ),
    Case(
        "two stages: merged buffers that overlap by half",
        TWO_STAGES,
        ("elem_offset=64", "elem_offset=32"),
        "a data race on 'arena'",
        _float_line(64, 64),
        lambda a, _: np.repeat(a[::-1][:32] * 2, 2),
    ),
    Case(
        "two stages: a view that reaches outside its memory",
        TWO_STAGES,
        ("elem_offset=64", "elem_offset=96"),
        r"is element 128 of its memory 'arena'",
        _float_line(64, 64),
        lambda a, _: np.repeat(a[::-1][:32] * 2, 2),
    ),
    Case(
        "reuse: written while others read",
        REUSE,
        ('        T.tvm_storage_sync("shared")  # everybody has read\n', ""),
        RACE_S,
        _line(32),
        lambda a, _: (np.roll(a, -1) * 3)[::-1],
    ),
    Case(
        "ragged rows: a barrier in a loop of each thread's own length",
        RAGGED,
        ("range(16):\n            s", "range(L[tx]):\n            s"),
        "a barrier is reached by",
        lambda rng: [ints(rng, 16, 16), rng.permutation(16).astype(np.int32) + 1, np.zeros(16, np.int32)],
        _ragged,
    ),
    Case(
        "ragged rows: no barrier before the next row",
        RAGGED,
        ('            T.tvm_storage_sync("shared")  # before the next row\n', ""),
        RACE_S,
        lambda rng: [ints(rng, 16, 16), rng.permutation(16).astype(np.int32) + 1, np.zeros(16, np.int32)],
        _ragged,
    ),
    Case(
        "normalize: the maximum is used before it is there",
        NORMALIZE,
        ('            T.tvm_storage_sync("shared")  # the maximum is there\n', ""),
        "data race on 'top'",
        lambda rng: [floats(rng, 4, 32), np.zeros((4, 32), np.float32)],
        lambda a, _: a - a.max(1, keepdims=True),
    ),
    Case(
        "normalize: everybody computes the one maximum",
        NORMALIZE,
        ("if tx == 0:", "if tx >= 0:"),
        "data race on 'top'",
        lambda rng: [floats(rng, 4, 32), np.zeros((4, 32), np.float32)],
        lambda a, _: a - a.max(1, keepdims=True),
    ),
]
