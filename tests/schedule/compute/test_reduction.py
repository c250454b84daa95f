"""``decompose_reduction``: the init in front of a loop, wherever that is; what sees old values in between is a witness."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable
from tirlower.script import parse

SUM = """
@T.prim_func
def f(A: T.Buffer((6, 10), "float32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 10):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] += A[vi, vk]
"""


def test_the_init_stands_in_front_of_the_loops() -> None:
    sch = taken(SUM, lambda sch: sch.decompose_reduction("C", "i"))
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((6, 10), "float32"), C: T.Buffer((6,), "float32")):
    for i_init in range(6):
        with T.block("C_init"):
            vi = T.axis.spatial(6, i_init)
            T.reads()
            T.writes(C[vi])
            C[vi] = T.float32(0)
    for i, k in T.grid(6, 10):
        with T.block("C_update"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(C[vi], A[vi, vk])
            T.writes(C[vi])
            C[vi] = C[vi] + A[vi, vk]
"""),
    )
    assert [sch.get(block).name for block in (sch.block("C_init"), sch.block("C_update"))] == ["C_init", "C_update"]


def test_the_handle_of_the_block_is_the_update_and_loops_stay() -> None:
    def steps(sch: Any) -> None:
        block = sch.get_block("C")
        i, k = sch.get_loops(block)
        init = sch.decompose_reduction(block, k)
        assert sch.get(block).name == "C_update"
        assert sch.get(init).name == "C_init"
        assert sch.get(k).loop_var.name == "k"
        sch.vectorize(sch.split(i, [None, 2])[1])

    taken(SUM, steps)


def test_inside_a_reduction_loop_and_with_any_predicate() -> None:
    def steps(sch: Any) -> None:
        _, k = sch.get_loops("C")
        _, k_1 = sch.split(k, [None, 4])
        sch.decompose_reduction("C", k_1)

    sch = taken(SUM, steps)
    assert "T.where(k_0 == 0)" in str(sch.mod["main"])

    def outer(sch: Any) -> None:
        i, _ = sch.get_loops("C")
        sch.split(i, [None, 4])
        sch.decompose_reduction("C", "i_0")

    assert "T.where(i_0_init * 4 + i_1_init < 6)" in str(taken(SUM, outer).mod["main"])


def test_old_values_read_in_between_are_a_witness() -> None:
    refused(
        """
@T.prim_func
def f(C: T.Buffer((9,), "int32"), X: T.Buffer((8,), "int32")):
    for i in range(8):
        X[i] = C[i + 1]
        for k in range(3):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 0
                C[vi] += vk
""",
        lambda sch: sch.decompose_reduction("C", "i"),
    )


@pytest.mark.parametrize(
    ("declaration", "value", "target"),
    [
        ('B = T.alloc_buffer((6, 10), "int32")', "1", "B"),
        ("n = i * 2", "n", "C"),
        ('D = T.decl_buffer((6, 10), "int32", data=C.data)', "1", "D"),
    ],
)
def test_the_init_is_not_moved_to_where_what_it_uses_is_not_declared(declaration: str, value: str, target: str) -> None:
    text = f"""
def f(C: T.Buffer((6, 10), "int32")):
    for i, j in T.grid(6, 10):
        {declaration}
        for k in range(3):
            with T.block("sum"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    {target}[vi, vj] = {value}
                {target}[vi, vj] = {target}[vi, vj] + vk
        C[i, j] = {target}[i, j]
"""
    why = "what the init uses is declared inside of `j`"
    refused(text, lambda sch: sch.decompose_reduction("sum", "j"), NotApplicable, why)
    taken(text, lambda sch: sch.decompose_reduction("sum", "k"))


def test_what_has_no_init_has_not_the_form() -> None:
    refused(
        """
@T.prim_func
def f(C: T.Buffer((9,), "int32")):
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(9, i)
            C[v] = 0
""",
        lambda sch: sch.decompose_reduction("C", "i"),
        NotApplicable,
    )
