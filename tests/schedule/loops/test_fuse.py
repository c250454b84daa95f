"""Loops fused: digits in subscripts and bindings, any extents, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips, same_function
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.script import parse


def grid(m: str, n: str) -> Any:
    return parse(f"""
@T.prim_func
def f(A: T.Buffer((12, 12), "int32"), n: T.int32):
    for i in range(2, 2 + {m}):
        for j in range(1, 1 + {n}):
            A[i, j] = i * 100 + j
""")


def test_a_block_binds_digits_of_the_fused_loop() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((4, 5, 6), "int32")):
    for i, j, k in T.grid(4, 5, 6):
        with T.block("A"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            A[vi, vj, vk] = vi + vj + vk
""")
    sch = tl.Schedule(before, debug_mask="all")
    block = sch.get_block("A")
    fused = sch.fuse(*sch.get_loops(block))
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((4, 5, 6), "int32")):
    for i_j_k_fused in range(120):
        with T.block("A"):
            vi = T.axis.spatial(4, i_j_k_fused // 30)
            vj = T.axis.spatial(5, i_j_k_fused % 30 // 6)
            vk = T.axis.spatial(6, i_j_k_fused % 6)
            T.reads()
            T.writes(A[vi, vj, vk])
            A[vi, vj, vk] = vi + vj + vk
"""),
    )
    assert fused.name == "i_j_k_fused" and sch.get_loops(block)[0].var is fused.var
    executes_alike(before, sch.mod["main"])


@pytest.mark.parametrize(
    ("m", "n"), [("3", "4"), ("1", "7"), ("7", "1"), ("0", "5"), ("5", "0"), ("3", "n"), ("n", "3")]
)
def test_the_iterations_are_the_same_in_the_same_order(m: str, n: str) -> None:
    before = grid(m, n)
    sch = tl.Schedule(before, debug_mask="all")
    sch.fuse("i", "j")
    roundtrips(sch.mod["main"])
    executes_alike(before, sch.mod["main"], inputs=[[np.zeros((12, 12), "int32"), size] for size in (-2, 0, 1, 4)])


def test_a_split_fused_again_is_the_loop() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((12,), "int32")):
    for i in range(12):
        with T.block("A"):
            vi = T.axis.spatial(12, i)
            A[vi] = vi
""")
    sch = tl.Schedule(before, debug_mask="all")
    (i,) = sch.get_loops("A")
    sch.fuse(*sch.split(i, [3, 4]))
    same_function(sch.mod["main"], before)


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize(
    ("m", "low", "high"),
    [("6", "0", "i + 1"), ("n", "i", "n"), ("5", "i // 2", "7 - i"), ("n", "2 * i", "2 * i + 2"), ("0", "0", "i")],
)
def test_triangles(m: str, low: str, high: str, blocks: bool) -> None:
    body = "A[i, j] = A[i, j] * 2 + i * 100 + j"
    if blocks:
        body = """with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * 2 + vi * 100 + vj"""
    before = parse(f"""
@T.prim_func
def f(A: T.Buffer((12, 12), "int32"), n: T.int32):
    for i in range({m}):
        for j in range({low}, {high}):
            {body}
""")
    sch = tl.Schedule(before, debug_mask="all")
    sch.fuse("i", "j")
    roundtrips(sch.mod["main"])
    executes_alike(before, sch.mod["main"], inputs=[[np.ones((12, 12), "int32"), size] for size in (-2, 0, 1, 5)])


def test_what_is_refused() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((12, 12), "int32")):
    for i in range(12):
        for j in range(A[i, 0]):
            A[i, j] = 1
    for k in T.parallel(12):
        for l in range(12):
            A[k, l] = 2
    for p in range(12):
        A[p, 0] = 4
        for q in range(12):
            A[p, q] = 3
""")
    sch = tl.Schedule(func)
    before = sch.mod
    for names, word in (
        (("i", "j"), "read memory"),
        (("k", "l"), "of different kinds"),
        (("p", "q"), "not all that the loop"),
        (("l", "k"), "not all that the loop"),
    ):
        with pytest.raises(NotApplicable, match=word):
            sch.fuse(*names)
    with pytest.raises(BadArgument, match="named twice"):
        sch.fuse("i", "i")
    with pytest.raises(ValueError, match="at least 1"):
        sch.fuse()
    assert sch.mod is before and not sch.steps
