"""``read_at`` and ``write_at``: one block that copies what an iteration touches; what a copy would not see is a witness."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike, same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable
from tirlower.script import parse

PRODUCT = """
@T.prim_func
def f(A: T.Buffer(({n}, 6), "int32"), B: T.Buffer((6, {n}), "int32"), C: T.Buffer(({n}, {n}), "int32")):
    for i, j, k in T.grid({n}, {n}, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""
PLAIN = """
@T.prim_func
def f(A: T.Buffer((8, 6), "int32"), B: T.Buffer((8, 6), "int32")):
    for i in range(8):
        {first}
        for j in range(6):
            B[i, j] = A[i, j] + A[i, 5 - j]
"""


def tiled(sch: Any) -> list[Any]:
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(i0, j0, k0, k1, i1, j1)
    return [i0, j0, k0, k1, i1, j1]


def test_a_product_as_tvm_copies_it() -> None:
    def steps(sch: Any) -> None:
        loops = tiled(sch)
        sch.write_at(loops[1], "C", 0, "local")
        sch.read_at(loops[2], "C", "A", "shared")

    sch = taken(PRODUCT.format(n=8), steps)
    copy = sch.get(sch.get_block("A_shared"))
    same = parse("""
@T.prim_func
def f(A: T.Buffer((8, 6), "int32"), B: T.Buffer((6, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    C_local = T.alloc_buffer((8, 8), "int32", scope="local")
    A_shared = T.alloc_buffer((8, 6), "int32", scope="shared")
    for i_0, j_0 in T.grid(2, 2):
        for k_0 in range(3):
            with T.block("A_shared"):
                v0 = T.axis.spatial(2, i_0)
                v1 = T.axis.spatial(3, k_0)
                T.reads(A[v0 * 4:v0 * 4 + 4, v1 * 2:v1 * 2 + 2])
                T.writes(A_shared[v0 * 4:v0 * 4 + 4, v1 * 2:v1 * 2 + 2])
                T.block_attr({"auto_copy": 1})
                for ax0, ax1 in T.grid(4, 2):
                    A_shared[v0 * 4 + ax0, v1 * 2 + ax1] = A[v0 * 4 + ax0, v1 * 2 + ax1]
            for k_1, i_1, j_1 in T.grid(2, 4, 4):
                with T.block("C"):
                    vi = T.axis.spatial(8, i_0 * 4 + i_1)
                    vj = T.axis.spatial(8, j_0 * 4 + j_1)
                    vk = T.axis.reduce(6, k_0 * 2 + k_1)
                    T.reads(A_shared[vi, vk], B[vk, vj])
                    T.writes(C_local[vi, vj])
                    with T.init():
                        C_local[vi, vj] = 0
                    C_local[vi, vj] = C_local[vi, vj] + A_shared[vi, vk] * B[vk, vj]
        with T.block("C_local"):
            v0 = T.axis.spatial(2, i_0)
            v1 = T.axis.spatial(2, j_0)
            T.reads(C_local[v0 * 4:v0 * 4 + 4, v1 * 4:v1 * 4 + 4])
            T.writes(C[v0 * 4:v0 * 4 + 4, v1 * 4:v1 * 4 + 4])
            T.block_attr({"auto_copy": 1})
            for ax0, ax1 in T.grid(4, 4):
                C[v0 * 4 + ax0, v1 * 4 + ax1] = C_local[v0 * 4 + ax0, v1 * 4 + ax1]
""")
    same_function(sch.mod["main"], same)
    assert copy.annotations == {"auto_copy": 1}
    assert 'read_buffer_index=0, storage_scope="shared")' in sch.trace.text("tvm")


@pytest.mark.parametrize("n", [1, 4, 7])
def test_tiles_of_any_size(n: int) -> None:
    def steps(sch: Any) -> None:
        loops = tiled(sch)
        sch.read_at(loops[2], "C", "B", "shared")
        sch.read_at(loops[2], "C", "A", "shared")

    sch = taken(PRODUCT.format(n=n), steps)
    assert tl.build(sch.mod["main"], schedule="none") is not None
    executes_alike(parse(PRODUCT.format(n=n)), sch.mod["main"])


def test_plain_loops_have_plain_copies() -> None:
    sch = taken(PLAIN.format(first="T.evaluate(0)"), lambda sch: sch.read_at("i", "B", "A", "local"))
    assert "A_local[i + ax0, ax1] = A[i + ax0, ax1]" in str(sch.mod["main"])
    taken(PLAIN.format(first="T.evaluate(0)"), lambda sch: sch.write_at("i", "B", 0, "local"))


def test_what_is_written_under_the_loop_before_it_is_read() -> None:
    taken(PLAIN.format(first="A[i, 0] = i"), lambda sch: sch.read_at("i", "B", "A", "local"))
    inside = PLAIN.replace("B[i, j] = A[i, j] + A[i, 5 - j]", "A[i, j] = A[i, 5 - j] + 1").format(first="T.evaluate(0)")
    refused(inside, lambda sch: sch.read_at("i", "A", ("read", 0), "local"))


def test_what_is_not_written_is_not_copied_out() -> None:
    text = PLAIN.replace("B[i, j] = A[i, j] + A[i, 5 - j]", "if A[i, j] > 3:\n                B[i, j] = A[i, j]")
    sch: Any = tl.Schedule(parse(text.format(first="T.evaluate(0)")))
    assert not sch.can("write_at", "i", "B", 0, "local").proved


def test_a_loop_that_is_not_around() -> None:
    text = PRODUCT.format(n=4) + "    for m in range(4):\n        C[m, 0] = 1\n"
    refused(text, lambda sch: sch.read_at("m", "C", "A", "local"), NotApplicable, "not around")
