"""A block over other iterators, where no dependence is turned round."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((17, 13), "int32")):
    for i, j in T.grid(16, 12):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i * 12 + j < 180)
            A[vi, vj] = A[vi, vj] * 3 + vi
"""


@pytest.mark.parametrize(
    "index_map",
    [
        lambda i, j: [j, i],
        lambda i, j: [i * 12 + j],
        lambda i, j: [i // 4, j // 3, i % 4, j % 3],
    ],
)
def test_a_bijection(index_map: Any) -> None:
    func = parse(TEXT)
    sch = tl.Schedule(func, debug_mask="all")
    block = sch.get_block("A")
    sch.transform_block_layout(block, index_map)
    assert all(loop.name == f"ax{at}" for at, loop in enumerate(sch.get_loops(block)))
    roundtrips(sch.mod["main"])
    executes_alike(func, sch.mod["main"])
    again(func, sch)


def test_an_update_in_place_that_tvm_turns_round() -> None:
    func = parse(TEXT.replace("A[vi, vj] = A[vi, vj] * 3 + vi", "A[vi + 1, vj] = A[vi, vj + 1]"))
    sch = tl.Schedule(func)
    with pytest.raises(IllegalStep) as raised:
        sch.transform_block_layout("A", lambda i, j: [j, i])
    assert len(raised.value.witness.points) == 2
    same = tl.Schedule(func, debug_mask="all")
    same.transform_block_layout("A", lambda i, j: [i * 12 + j])
    executes_alike(func, same.mod["main"])


def test_a_sum_is_a_reduction_in_all() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = C[vi] + A[vi, vk]
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.transform_block_layout("C", lambda i, k: [k, i])
    executes_alike(func, sch.mod["main"])


def test_what_has_not_the_form() -> None:
    sch = tl.Schedule(parse(TEXT))
    with pytest.raises(NotApplicable, match="bijection"):
        sch.transform_block_layout("A", lambda i, j: [i])
    with pytest.raises(BadArgument):
        sch.transform_block_layout("A", lambda i: [i])
    sch.split(sch.get_loops("A")[0], [None, 4])
    with pytest.raises(NotApplicable, match="one by one"):
        sch.transform_block_layout("A", lambda i, j: [j, i])


SUM = """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 5
            C[vi] = C[vi] + A[vi, vk]
"""


@pytest.mark.parametrize(
    ("index_map", "kinds"),
    [
        (lambda i, k: [k, i], "reduce spatial"),
        (lambda i, k: [k // 4, i, k % 4], "reduce spatial reduce"),
        (lambda i, k: [i // 2, k, i % 2], "spatial reduce spatial"),
    ],
)
def test_the_init_runs_where_the_sums_begin(index_map: Any, kinds: str) -> None:
    """Iterators keep what they were: taken for parts of the sum, elements got no init (``D10[1] is read before it is written``)."""
    func = parse(SUM)
    sch = tl.Schedule(func, debug_mask="all")
    sch.transform_block_layout("C", index_map)
    assert " ".join(it.kind.value for it in sch.get(sch.get_block("C")).iters) == kinds
    executes_alike(func, sch.mod["main"])
    roundtrips(sch.mod["main"])


def test_an_iterator_of_elements_and_of_their_sum() -> None:
    sch = tl.Schedule(parse(SUM), debug_mask="all")
    with pytest.raises(NotApplicable, match=r"mixes iterators of several kinds.*(\n.*)*decompose_reduction"):
        sch.transform_block_layout("C", lambda i, k: [i * 8 + k])
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    sch.transform_block_layout("C_update", lambda i, k: [i * 8 + k])
    executes_alike(parse(SUM), sch.mod["main"])


def test_a_view_of_the_block_moves_with_its_iterators() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4, 8), "int32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            M = T.match_buffer(B[vi, 0:8], (8,), elem_offset=vi * 8)
            for j in range(8):
                M[j] = A[vi, j] + vi
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.transform_block_layout("B", lambda i: [i // 2, i % 2])
    executes_alike(func, sch.mod["main"])
    roundtrips(sch.mod["main"])
