"""Mistakes with asynchronous copies and products, their groups, and barrier objects."""

from __future__ import annotations

import numpy as np

from tests.gpu.faults.case import Case, floats

COPY = """
@T.prim_func
def copy(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((128,), "float32", scope="shared")
        T.ptx_cp_async("float32", s.data, tx * 4, A.data, tx * 4, 16)
        T.ptx_commit_group()
        T.ptx_wait_group(0)
        T.tvm_storage_sync("shared")
        for i in range(4):
            B[i * 32 + tx] = s[127 - i * 32 - tx]
"""

PIPELINE = """
@T.prim_func
def pipeline(A: T.Buffer((8, 64), "float32"), B: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((3, 64), "float32", scope="shared")
        total = T.alloc_buffer((4,), "float32", scope="local")
        for i in range(4):
            total[i] = T.float32(0)
        for k in range(2):
            T.ptx_cp_async("float32", s.data, k * 64 + tx * 4, A.data, k * 64 + tx * 4, 16)
            T.ptx_commit_group()
        for k in range(8):
            T.ptx_wait_group(1)
            T.tvm_storage_sync("shared")
            if k + 2 < 8:
                T.ptx_cp_async("float32", s.data, (k + 2) % 3 * 64 + tx * 4, A.data, (k + 2) * 64 + tx * 4, 16)
            T.ptx_commit_group()  # empty ones too
            for i in range(4):
                total[i] = total[i] * T.float32(2) + s[k % 3, 63 - tx * 4 - i]
        for i in range(4):
            B[tx * 4 + i] = total[i]
"""

PRODUCER = """
@T.prim_func
def producer(A: T.Buffer((6, 32), "float32"), B: T.Buffer((32,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((2, 32), "float32", scope="shared")
        T.create_barriers(4)  # 0 and 1: a buffer is full; 2 and 3: it is free
        if tx == 0:
            for i in range(2):
                T.ptx_init_barrier_thread_count(i, 1)
                T.ptx_init_barrier_thread_count(2 + i, 32)
            T.ptx_fence_barrier_init()
        T.tvm_storage_sync("shared")
        if tx < 32:
            if tx == 0:
                for k in range(6):
                    T.ptx_wait_barrier(2 + k % 2, (k // 2 + 1) % 2)
                    T.ptx_arrive_barrier_expect_tx(k % 2, 128)
                    T.ptx_cp_async_bulk("float32", s.data, k % 2 * 32, A.data, k * 32, 128, k % 2)
        else:
            total = T.alloc_buffer((1,), "float32", scope="local")
            total[0] = T.float32(0)
            for k in range(6):
                T.ptx_wait_barrier(k % 2, k // 2 % 2)
                total[0] = total[0] * T.float32(2) + s[k % 2, tx - 32]
                T.ptx_arrive_barrier(2 + k % 2)
            B[tx - 32] = total[0]
"""

ARRIVALS = """
@T.prim_func
def arrivals(A: T.Buffer((64,), "float32"), B: T.Buffer((32,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((32,), "float32", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 32)
            T.ptx_fence_barrier_init()
        T.tvm_storage_sync("shared")
        if tx < 32:
            s[tx] = A[tx] + A[tx + 32]
            T.ptx_arrive_barrier(0)
        else:
            T.ptx_wait_barrier(0, 0)
            B[tx - 32] = s[63 - tx]
"""

WGMMA = """
@T.prim_func
def wgmma(A: T.Buffer((64, 16), "float16"), B: T.Buffer((8, 16), "float16"), C: T.Buffer((64, 8), "float32")):
    for tx in T.thread_binding(128, thread="threadIdx.x"):
        a = T.alloc_buffer((64, 16), "float16", scope="shared")
        b = T.alloc_buffer((8, 16), "float16", scope="shared")
        total = T.alloc_buffer((4,), "float32", scope="local")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
            T.ptx_fence_barrier_init()
        T.tvm_storage_sync("shared")
        if tx == 0:
            T.ptx_arrive_barrier_expect_tx(0, 2304)
            T.ptx_cp_async_bulk_tensor("float16", a.data, 0, A.data, 32, 0, 2, 0, 0, 64, 16, 64, 16, 16)
            T.ptx_cp_async_bulk_tensor("float16", b.data, 0, B.data, 32, 0, 2, 0, 0, 8, 16, 8, 16, 16)
        T.ptx_wait_barrier(0, 0)
        T.ptx_wgmma_fence()
        T.ptx_wgmma("float32", "m64n8k16", "fp16", "fp16", total.data, 0, a.data, 0, b.data, 0, 32, False, False, False)
        T.ptx_wgmma_commit_group()
        T.ptx_wgmma_wait_group(0)
        for i in range(4):
            C[tx // 32 * 16 + tx % 32 // 4 + i // 2 * 8, tx % 4 * 2 + i % 2] = total[i]
"""

STORE = """
@T.prim_func
def store(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 32), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((4, 32), "float32", scope="shared")
        for k in range(2):
            for i in range(4):
                s[i, tx] = A[k * 4 + i, 31 - tx]
            T.ptx_fence_proxy_async()
            T.tvm_storage_sync("shared")  # the tile is there
            if tx == 0:
                T.ptx_cp_async_bulk_tensor_store("float32", B.data, s.data, 0, 0, 2, k * 4, 0, 4, 32, 8, 32, 32)
                T.ptx_bulk_commit_group()
                T.ptx_bulk_wait_group(0)
            T.tvm_storage_sync("shared")  # the tile is stored
"""

WRITTEN = """
@T.prim_func
def written(A: T.Buffer((64, 16), "float16"), B: T.Buffer((8, 16), "float16"), C: T.Buffer((64, 8), "float32")):
    for tx in T.thread_binding(128, thread="threadIdx.x"):
        a = T.alloc_buffer((64 * 16,), "float16", scope="shared")
        b = T.alloc_buffer((8 * 16,), "float16", scope="shared")
        total = T.alloc_buffer((4,), "float32", scope="local")
        # As a tile load with a swizzle of 32 bytes would: in every other four rows the two halves change places.
        for i in range(8):
            at: T.let[T.int32] = tx * 8 + i
            a[T.bitwise_xor(at, at // 64 % 2 * 8)] = A[at // 16, at % 16]
        b[T.bitwise_xor(tx, tx // 64 % 2 * 8)] = B[tx // 16, tx % 16]
        T.ptx_fence_proxy_async()
        T.tvm_storage_sync("shared")  # the operands are there
        T.ptx_wgmma_fence()
        T.ptx_wgmma("float32", "m64n8k16", "fp16", "fp16", total.data, 0, a.data, 0, b.data, 0, 32, False, False, False)
        T.ptx_wgmma_commit_group()
        T.ptx_wgmma_wait_group(0)
        for i in range(4):
            C[tx // 32 * 16 + tx % 32 // 4 + i // 2 * 8, tx % 4 * 2 + i % 2] = total[i]
"""


def _copy(rng: np.random.Generator) -> list[np.ndarray]:
    return [floats(rng, 128), np.zeros(128, np.float32)]


def _rows(rng: np.random.Generator) -> list[np.ndarray]:
    return [floats(rng, 8, 64), np.zeros(64, np.float32)]


def _produced(rng: np.random.Generator) -> list[np.ndarray]:
    return [floats(rng, 6, 32), np.zeros(32, np.float32)]


def _halves(rng: np.random.Generator) -> list[np.ndarray]:
    return [floats(rng, 64), np.zeros(32, np.float32)]


def _matrices(rng: np.random.Generator) -> list[np.ndarray]:
    a, b = floats(rng, 64, 16).astype(np.float16), floats(rng, 8, 16).astype(np.float16)
    return [a, b, np.zeros((64, 8), np.float32)]


def _tiles(rng: np.random.Generator) -> list[np.ndarray]:
    return [floats(rng, 8, 32), np.zeros((8, 32), np.float32)]


def _horner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    for row in a:
        b = b * 2 + row
    return b


def _horner_backwards(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _horner(a[:, ::-1], b)


def _folded(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return (a[:32] + a[32:])[::-1]


def _product(a: np.ndarray, b: np.ndarray, _: np.ndarray) -> np.ndarray:
    return a.astype(np.float32) @ b.astype(np.float32).T


def _reversed(a: np.ndarray, _: np.ndarray) -> np.ndarray:
    return a[..., ::-1]


def _without(line: str, indent: int) -> tuple[str, str]:
    return " " * indent + line + "\n", ""


RACE = "data race on 's'"
FREE = "T.ptx_wait_barrier(2 + k % 2, (k // 2 + 1) % 2)"
FULL = "T.ptx_wait_barrier(k % 2, k // 2 % 2)"

UNFENCED = "no fence on 's': thread .* writes s.* and a bulk store"
OPERANDS = "no fence on '[ab]': thread .* writes [ab].* and a product"

CASES = [
    Case("store: no fence", STORE, _without("T.ptx_fence_proxy_async()", 12), UNFENCED, _tiles, _reversed),
    Case(
        "store: the fence in front of the writes",
        STORE,
        (
            "            for i in range(4):\n                s[i, tx] = A[k * 4 + i, 31 - tx]\n            T.ptx_fence_proxy_async()\n",
            "            T.ptx_fence_proxy_async()\n            for i in range(4):\n                s[i, tx] = A[k * 4 + i, 31 - tx]\n",
        ),
        UNFENCED,
        _tiles,
        _reversed,
    ),
    Case(
        "store: a fence of one thread in front of the barrier",
        STORE,
        ("            T.ptx_fence_proxy_async()", "            if tx == 0:\n                T.ptx_fence_proxy_async()"),
        UNFENCED,
        _tiles,
        _reversed,
    ),
    Case(
        "written: no fence of the registers",
        WRITTEN,
        _without("T.ptx_wgmma_fence()", 8),
        "no ptx_wgmma_fence before it",
        _matrices,
        _product,
    ),
    Case("written: no fence", WRITTEN, _without("T.ptx_fence_proxy_async()", 8), OPERANDS, _matrices, _product),
    Case(
        "written: one warp does not fence",
        WRITTEN,
        ("        T.ptx_fence_proxy_async()", "        if tx < 96:\n            T.ptx_fence_proxy_async()"),
        OPERANDS,
        _matrices,
        _product,
    ),
    Case("copy: no wait", COPY, _without("T.ptx_wait_group(0)", 8), f"{RACE}.*no wait for its end", _copy, _reversed),
    Case(
        "copy: no commit", COPY, _without("T.ptx_commit_group()", 8), f"{RACE}.*no wait for its end", _copy, _reversed
    ),
    Case(
        "copy: a wait for all groups but one",
        COPY,
        ("wait_group(0)", "wait_group(1)"),
        f"{RACE}.*no wait for its end",
        _copy,
        _reversed,
    ),
    Case("copy: no barrier behind the wait", COPY, _without('T.tvm_storage_sync("shared")', 8), RACE, _copy, _reversed),
    Case(
        "copy: the barrier in front of the wait",
        COPY,
        (
            'T.ptx_wait_group(0)\n        T.tvm_storage_sync("shared")',
            'T.tvm_storage_sync("shared")\n        T.ptx_wait_group(0)',
        ),
        RACE,
        _copy,
        _reversed,
    ),
    Case(
        "copy: an address that is not aligned",
        COPY,
        ("A.data, tx * 4, 16", "A.data, tx * 4 + 1, 16"),
        "align",
        _copy,
        _reversed,
    ),
    Case("copy: half of each part", COPY, ("tx * 4, 16)", "tx * 4, 8)"), "read before it is written", _copy, _reversed),
    Case(
        "pipeline: the wait leaves one group too many",
        PIPELINE,
        ("wait_group(1)", "wait_group(2)"),
        RACE,
        _rows,
        _horner_backwards,
    ),
    Case(
        "pipeline: the end of the pipeline without empty groups",
        PIPELINE,
        ("            T.ptx_commit_group()  # empty", "                T.ptx_commit_group()  # empty"),
        RACE,
        _rows,
        _horner_backwards,
    ),
    Case(
        "pipeline: no barrier", PIPELINE, _without('T.tvm_storage_sync("shared")', 12), RACE, _rows, _horner_backwards
    ),
    Case(
        "pipeline: the buffer of the next step", PIPELINE, ("s[k % 3", "s[(k + 1) % 3"), RACE, _rows, _horner_backwards
    ),
    Case(
        "pipeline: one buffer too few",
        PIPELINE,
        ("(k + 2) % 3 * 64", "(k + 2) % 2 * 64"),
        RACE,
        _rows,
        _horner_backwards,
    ),
    Case(
        "pipeline: a row beyond the end",
        PIPELINE,
        ("if k + 2 < 8:", "if k + 2 < 9:"),
        "'A' .* reach outside",
        _rows,
        _horner_backwards,
    ),
    Case(
        "producer: it does not wait for a free buffer",
        PRODUCER,
        _without(FREE, 20),
        f"{RACE}|more than the expected",
        _produced,
        _horner,
    ),
    Case(
        "producer: the parity of the free buffers",
        PRODUCER,
        (FREE, "T.ptx_wait_barrier(2 + k % 2, k // 2 % 2)"),
        "deadlock: .*barrier object",
        _produced,
        _horner,
    ),
    Case("producer: nobody waits for a full buffer", PRODUCER, _without(FULL, 16), RACE, _produced, _horner),
    Case(
        "producer: the parity of the full buffers",
        PRODUCER,
        (FULL, "T.ptx_wait_barrier(k % 2, (k // 2 + 1) % 2)"),
        f"{RACE}|read before it is written",
        _produced,
        _horner,
    ),
    Case(
        "producer: more bytes announced than copied",
        PRODUCER,
        ("expect_tx(k % 2, 128)", "expect_tx(k % 2, 256)"),
        "deadlock: .*barrier object",
        _produced,
        _horner,
    ),
    Case(
        "producer: one arrival too many expected",
        PRODUCER,
        ("count(2 + i, 32)", "count(2 + i, 33)"),
        "deadlock: .*barrier object",
        _produced,
        _horner,
    ),
    Case(
        "producer: one arrival too few expected",
        PRODUCER,
        ("count(2 + i, 32)", "count(2 + i, 16)"),
        f"{RACE}|deadlock|more than the expected",
        _produced,
        _horner,
    ),
    Case(
        "producer: consumers never free a buffer",
        PRODUCER,
        _without("T.ptx_arrive_barrier(2 + k % 2)", 16),
        "deadlock: .*barrier object",
        _produced,
        _horner,
    ),
    Case(
        "producer: barrier objects used before they are there",
        PRODUCER,
        _without('T.tvm_storage_sync("shared")', 8),
        "is used before ptx_init_barrier_thread_count",
        _produced,
        _horner,
        seed=1,
    ),
    Case(
        "producer: a copy of too many bytes",
        PRODUCER,
        ("k * 32, 128, k % 2)", "k * 32, 256, k % 2)"),
        "reach outside|data race",
        _produced,
        _horner,
    ),
    Case(
        "arrivals: written behind the arrival",
        ARRIVALS,
        (
            "s[tx] = A[tx] + A[tx + 32]\n            T.ptx_arrive_barrier(0)",
            "T.ptx_arrive_barrier(0)\n            s[tx] = A[tx] + A[tx + 32]",
        ),
        RACE,
        _halves,
        _folded,
    ),
    Case(
        "arrivals: half of the threads are waited for",
        ARRIVALS,
        ("count(0, 32)", "count(0, 16)"),
        f"{RACE}|deadlock: .*barrier object",
        _halves,
        _folded,
    ),
    Case(
        "arrivals: all threads are waited for",
        ARRIVALS,
        ("count(0, 32)", "count(0, 64)"),
        "deadlock: .*barrier object",
        _halves,
        _folded,
    ),
    Case(
        "wgmma: no wait for the tiles",
        WGMMA,
        _without("T.ptx_wait_barrier(0, 0)", 8),
        "data race on 'a'",
        _matrices,
        _product,
    ),
    Case(
        "wgmma: no wait for the product",
        WGMMA,
        _without("T.ptx_wgmma_wait_group(0)", 8),
        "data race on 'total'|read before it is written",
        _matrices,
        _product,
    ),
    Case(
        "wgmma: the bytes of one tile announced",
        WGMMA,
        ("2304", "2048"),
        "'b' .* is read before it is written",
        _matrices,
        _product,
    ),
    Case(
        "wgmma: three of four warps",
        WGMMA,
        ("        T.ptx_wgmma(", "        if tx < 96:\n         T.ptx_wgmma("),
        r"ptx_wgmma is made by 96 of the 128 threads|total\[0\] is read before it is written",
        _matrices,
        _product,
    ),
    Case(
        "store: no barrier before the tile is stored",
        STORE,
        _without('T.tvm_storage_sync("shared")  # the tile is there', 12),
        RACE,
        _tiles,
        _reversed,
    ),
    Case(
        "store: no wait before the tile is overwritten",
        STORE,
        _without("T.ptx_bulk_wait_group(0)", 16),
        f"{RACE}.*no wait for its end",
        _tiles,
        _reversed,
    ),
    Case(
        "store: no barrier before the tile is overwritten",
        STORE,
        _without('T.tvm_storage_sync("shared")  # the tile is stored', 12),
        RACE,
        _tiles,
        _reversed,
    ),
]
