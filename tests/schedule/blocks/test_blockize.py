"""Nests that become blocks."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips, same_function
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import IllegalStep, NotApplicable
from tirlower.script import parse

SUM = """
@T.prim_func
def f(A: T.Buffer((16, 16), "int32"), C: T.Buffer((16,), "int32")):
    for i_0, k_0, i_1, k_1 in T.grid(4, 2, 4, 8):
        with T.block("C"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vk = T.axis.reduce(16, k_0 * 8 + k_1)
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
"""


@pytest.mark.parametrize("loop", ["i_0", "k_0", "i_1", "k_1"])
@pytest.mark.parametrize("preserve", [True, False])
def test_a_sum(loop: str, preserve: bool) -> None:
    func = parse(SUM)
    sch = tl.Schedule(func, debug_mask="all")
    inner, handle = sch.get_block("C"), sch.loop(loop)
    outer = sch.blockize(handle, preserve_unit_iters=preserve)
    assert outer.name == "C_o" and sch.get(inner).name == "C"
    assert sch.get(sch.get_block("C_o")) is sch.get(outer) and sch.get_block("C_init")
    assert sch.get_child_blocks(outer)
    roundtrips(sch.mod["main"])
    executes_alike(func, sch.mod["main"])
    again(func, sch)


def test_as_in_tvm() -> None:
    sch = tl.Schedule(parse(SUM), debug_mask="all")
    sch.blockize(sch.loop("i_1"))
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((16, 16), "int32"), C: T.Buffer((16,), "int32")):
    for i_0, k_0 in T.grid(4, 2):
        with T.block("C_o"):
            vi_o, vk_o = T.axis.remap("SR", [i_0, k_0])
            T.reads(A[vi_o * 4:vi_o * 4 + 4, vk_o * 8:vk_o * 8 + 8])
            T.writes(C[vi_o * 4:vi_o * 4 + 4])
            with T.init():
                for i_1 in range(4):
                    with T.block("C_init"):
                        vi_i = T.axis.spatial(4, i_1)
                        T.reads()
                        T.writes(C[vi_o * 4 + vi_i])
                        C[vi_o * 4 + vi_i] = 0
            for i_1, k_1 in T.grid(4, 8):
                with T.block("C"):
                    vi_i, vk_i = T.axis.remap("SR", [i_1, k_1])
                    T.reads(A[vi_o * 4 + vi_i, vk_o * 8 + vk_i], C[vi_o * 4 + vi_i])
                    T.writes(C[vi_o * 4 + vi_i])
                    C[vi_o * 4 + vi_i] = C[vi_o * 4 + vi_i] + A[vi_o * 4 + vi_i, vk_o * 8 + vk_i]
"""),
    )


def test_predicates_part() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((13, 5), "int32")):
    for i_0, i_1, j in T.grid(4, 4, 5):
        with T.block("A"):
            vi = T.axis.spatial(13, i_0 * 4 + i_1)
            vj = T.axis.spatial(5, j)
            T.where(i_0 * 4 + i_1 < 13)
            A[vi, vj] = vi + vj
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.blockize(sch.loop("j"))
    executes_alike(func, sch.mod["main"])
    sch = tl.Schedule(func)
    with pytest.raises(NotApplicable, match="sums of a multiple"):
        sch.blockize(sch.loop("i_1"))


def test_an_old_value_that_is_read_first() -> None:
    # The init of an element comes behind a read of it by another iteration.
    func = parse("""
@T.prim_func
def f(X: T.Buffer((8,), "int32"), C: T.Buffer((9,), "int32")):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(C[vi + 1], X[vi])
            T.writes(C[vi], X[vi])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + C[vi + 1] + vk
""")
    sch = tl.Schedule(func)
    with pytest.raises(IllegalStep):
        sch.blockize(sch.loop("i"))


def test_what_has_not_the_form() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = 1
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = 1
    for j in range(8):
        A[j] = 2
""")
    sch = tl.Schedule(func)
    for loop in ("i", "j"):
        with pytest.raises(NotApplicable, match="around one block"):
            sch.blockize(sch.loop(loop))


@pytest.mark.parametrize(("extent", "where"), [("n", "True"), ("8", "vk > 0"), ("8", "k + i < 9")])
def test_an_init_that_would_run_where_none_did(extent: str, where: str) -> None:
    where = where.replace("vk", "k")
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(8):
        for k in range({extent}):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where({where})
                with T.init():
                    C[vi] = 0
                C[vi] = C[vi] + A[vi, vk]
""")
    for loop in ("i", "k"):
        sch = tl.Schedule(func)
        with pytest.raises(NotApplicable):
            sch.blockize(sch.loop(loop))


def test_a_predicate_that_leaves_out_the_first_iterations() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((3, 5), "int32")):
    for i, j in T.grid(3, 5):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(1 <= j)
            A[vi, vj] = vi * 10 + vj
""")
    for loop in (0, 1):
        sch: Any = tl.Schedule(func, debug_mask="all")
        sch.blockize(sch.get_loops("A")[loop])
        executes_alike(func, sch.mod["main"])
