"""``cache_index``: which indices are kept, how often they must occur, and where their iterators begin."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike, same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument
from tirlower.script import parse

RESIZE = """
@T.prim_func
def f(A: T.Buffer((1, 3, 10, 10), "int32"), B: T.Buffer((1, 3, 20, 20), "int32")):
    for i0, i1, i2, i3 in T.grid(1, 3, 20, 20):
        with T.block("A"):
            n, c, vi, vj = T.axis.remap("SSSS", [i0, i1, i2, i3])
            B[n, c, vi, vj] = A[n, c, vi // 4 + vj // 4, vj // 2] + A[n, c, vj // 2, vi // 4]
"""
PLAIN = """
@T.prim_func
def f(A: T.Buffer(({n} + 3,), "int32"), B: T.Buffer(({n},), "int32")):
    for i in range({n}):
        for j in range(2, 4):
            B[i] = A[i // 2 + j - 2] + A[(i * 3) % ({n} + 1)]
"""


def test_whole_indices_as_in_tvm() -> None:
    sch = taken(RESIZE, lambda sch: sch.cache_index("A", "global"))
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((1, 3, 10, 10), "int32"), B: T.Buffer((1, 3, 20, 20), "int32")):
    index_var_0 = T.alloc_buffer((20, 20), "int32")
    index_var_1 = T.alloc_buffer((20,), "int32")
    index_var_2 = T.alloc_buffer((20,), "int32")
    for ax0, ax1 in T.grid(20, 20):
        with T.block("index_0"):
            v0, v1 = T.axis.remap("SS", [ax0, ax1])
            index_var_0[v0, v1] = v0 // 4 + v1 // 4
    for ax0 in range(20):
        with T.block("index_1"):
            v0 = T.axis.spatial(20, ax0)
            index_var_1[v0] = v0 // 2
    for ax0 in range(20):
        with T.block("index_2"):
            v0 = T.axis.spatial(20, ax0)
            index_var_2[v0] = v0 // 4
    for i0, i1, i2, i3 in T.grid(1, 3, 20, 20):
        with T.block("A"):
            n, c, vi, vj = T.axis.remap("SSSS", [i0, i1, i2, i3])
            T.reads(
                A[
                    n,
                    c,
                    T.min(vi // 4 + vj // 4, vj // 2) : T.max(vi // 4 + vj // 4, vj // 2) + 1,
                    T.min(vj // 2, vi // 4) : T.max(vj // 2, vi // 4) + 1,
                ],
                index_var_0[vi, vj],
                index_var_1[vj],
                index_var_2[vi],
            )
            T.writes(B[n, c, vi, vj])
            B[n, c, vi, vj] = A[n, c, index_var_0[vi, vj], index_var_1[vj]] + A[n, c, index_var_1[vj], index_var_2[vi]]
"""),
    )
    assert 'cache_index(block=b0, storage_scope="global", cse_thresh=0)' in sch.trace.text("tvm")


@pytest.mark.parametrize(("least", "count"), [(0, 3), (1, 2), (2, 0)])
def test_what_occurs_more_often(least: int, count: int) -> None:
    sch = taken(RESIZE, lambda sch: sch.cache_index("A", "global", least))
    # Twice there are vj // 2 and vi // 4.
    assert str(sch.mod["main"]).count("T.alloc_buffer") == count


@pytest.mark.parametrize("n", [1, 7, 8])
def test_plain_loops_that_begin_elsewhere(n: int) -> None:
    sch = taken(PLAIN.format(n=n), lambda sch: sch.cache_index("B", "local"))
    assert "index_var_0[i, j - 2]" in str(sch.mod["main"])
    native: Any = tl.build(sch.mod["main"], schedule="none")
    assert native is not None
    executes_alike(parse(PLAIN.format(n=n)), sch.mod["main"])


def test_what_is_not_kept() -> None:
    text = """
@T.prim_func
def f(m: T.int32, A: T.Buffer((16,), "int32"), X: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            T.where(i < m)
            B[v] = A[X[v] + 1] + A[v // T.max(m, 0)] + A[v] + A[3]
"""
    sch: Any = tl.Schedule(parse(text))
    before = sch.mod["main"]
    assert sch.cache_index("B", "local") == []  # loads, a division by what may be 0, nothing computed
    same_function(sch.mod["main"], before)
    refused(text, lambda sch: sch.cache_index("B", "local", -1), BadArgument)


def test_symbolic_sizes_and_triangles() -> None:
    text = """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (n,), "int32")
    for i in range({extent}):
        for j in range(i):
            B[i] = A[i // 2] + A[j // 2]
"""
    sch = taken(text.format(extent="n"), lambda sch: sch.cache_index("B", "local"))
    assert str(sch.mod["main"]).count("T.alloc_buffer") == 1  # j runs over a triangle
    # There may be less than no elements.
    sch = taken(text.format(extent="n - 3"), lambda sch: sch.cache_index("B", "local"))
    assert "T.alloc_buffer" not in str(sch.mod["main"])
