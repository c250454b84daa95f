"""The lowest common ancestors of accesses."""

from __future__ import annotations

from typing import Any

from tirlower.analysis import detect_buffer_access_lca
from tirlower.ir import Block, For, PrimFunc, pre_order_visit
from tirlower.script import tir as T


def ancestors(func: PrimFunc) -> dict[str, str]:
    """The ancestor of each buffer, as the name of the block or of the loop's variable."""
    found = {}
    for buffer, stmt in detect_buffer_access_lca(func).items():
        found[buffer.name] = stmt.loop_var.name if isinstance(stmt, For) else stmt.name if stmt is not None else ""
    return found


def test_accesses_meet_at_loops_and_blocks() -> None:
    @T.prim_func
    def func(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        B = T.alloc_buffer((8, 8), "float32")
        D = T.alloc_buffer((8, 8), "float32")
        for i in range(8):
            for j in range(8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj]
            for k in range(8):
                with T.block("C"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    D[vi, vk] = B[vi, vk]
                    C[vi, vk] = D[vi, vk]

    assert ancestors(func) == {"A": "B", "B": "i", "D": "C", "C": "C"}


def test_a_reduction_loop_carries_what_is_written() -> None:
    @T.prim_func
    def func(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
        for i, k in T.grid(8, 8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] += A[vi, vk]

    assert ancestors(func) == {"A": "B", "B": "i"}


def test_global_memory_meets_at_the_grid() -> None:
    @T.prim_func
    def func(A: T.Buffer((2, 3, 4), "float32"), B: T.Buffer((2, 3, 4), "float32")):
        S = T.alloc_buffer((2, 3, 4), "float32", scope="shared")
        for x in T.thread_binding(2, thread="blockIdx.x"):
            for y in T.thread_binding(3, thread="blockIdx.y"):
                for t in T.thread_binding(4, thread="threadIdx.x"):
                    with T.block("copy"):
                        i, j, k = T.axis.remap("SSS", [x, y, t])
                        S[i, j, k] = A[i, j, k]
                        B[i, j, k] = S[i, j, k]

    assert ancestors(func) == {"A": "x", "B": "x", "S": "copy"}


def test_a_matched_region_counts_for_its_source() -> None:
    @T.prim_func
    def func(A: T.Buffer((8, 8), "float32")):
        for i in range(8):
            with T.block("row"):
                vi = T.axis.spatial(8, i)
                row = T.match_buffer(A[vi, 0:8], (8,), offset_factor=1)
                for j in range(8):
                    with T.block("element"):
                        vj = T.axis.spatial(8, j)
                        row[vj] = T.float32(1)

    found = ancestors(func)
    assert found == {"A": "row", "row": "element"}
    seen: list[Any] = []
    pre_order_visit(func.body, lambda op: seen.append(op) if isinstance(op, Block) else None)
    assert [block.name for block in seen] == ["root", "row", "element"]
