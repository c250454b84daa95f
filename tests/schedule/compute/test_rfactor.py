"""``rfactor``: partial results along a loop, of every reducer, on blocks and plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable, UnprovedStep
from tirlower.script import parse

SUM = """
@T.prim_func
def f(A: T.Buffer((6, {n}), "{dtype}"), C: T.Buffer((6,), "{dtype}")):
    for i, k in T.grid(6, {n}):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = {update}
"""


@pytest.mark.parametrize(
    ("dtype", "init", "update"),
    [
        ("int32", "5", "C[vi] + A[vi, vk]"),
        ("int32", "1", "A[vi, vk] * C[vi]"),
        ("int8", "T.int8(127)", "T.min(C[vi], A[vi, vk])"),
        ("float32", 'T.float32("-inf")', "T.max(C[vi], A[vi, vk])"),
    ],
)
def test_every_reducer_and_both_loops(dtype: str, init: str, update: str) -> None:
    for which in (0, 1):

        def steps(sch: Any, which: int = which) -> None:
            loops = sch.split(sch.get_loops("C")[1], [None, 4])
            sch.rfactor(loops[which], 1)

        sch = taken(SUM.format(dtype=dtype, init=init, update=update, n=8), steps)
        assert sch.steps[-1].exactness == "bitwise"


def test_the_least_number_is_no_infinity() -> None:
    func = parse(SUM.format(dtype="float32", init='T.float32("-inf")', update="T.max(C[vi], A[vi, vk])", n=8))
    sch: Any = tl.Schedule(func)
    sch.rfactor(sch.split(sch.get_loops("C")[1], [None, 4])[1], 0)
    a, c = np.full((6, 8), -np.inf, "float32"), np.zeros(6, "float32")
    tl.interpret(sch.mod["main"], a, c)
    assert np.all(np.isneginf(c))


def test_a_loop_that_is_all_of_the_reduction_is_a_plain_store() -> None:
    sch = taken(
        SUM.format(dtype="int32", init="0", update="C[vi] + A[vi, vk]", n=5),
        lambda sch: sch.rfactor(sch.get_loops("C")[1], -1),
    )
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((6, 5), "int32"), C: T.Buffer((6,), "int32")):
    C_rf = T.alloc_buffer((6, 5), "int32")
    for i, k in T.grid(6, 5):
        with T.block("C_rf"):
            vk, vi = T.axis.remap("SS", [k, i])
            T.reads(A[vi, vk])
            T.writes(C_rf[vi, vk])
            C_rf[vi, vk] = A[vi, vk]
    for i, k in T.grid(6, 5):
        with T.block("C"):
            vk, vi = T.axis.remap("RS", [k, i])
            T.reads(C_rf[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + C_rf[vi, vk]
"""),
    )


def test_what_does_not_divide_is_refused_where_a_partial_result_is_not_begun() -> None:
    def steps(sch: Any) -> None:
        sch.rfactor(sch.split(sch.get_loops("C")[1], [None, 4])[0], 0)

    text = SUM.format(dtype="int32", init="0", update="C[vi] + A[vi, vk]", n=6)
    taken(text, steps)
    # Of two lanes of four there is no first iteration here.
    refused(
        text,
        lambda sch: sch.rfactor(sch.split(sch.get_loops("C")[1], [1, 8])[1], 0),
        UnprovedStep,
        "before it is begun",
    )


def test_floats_need_a_licence() -> None:
    text = SUM.format(dtype="float32", init="T.float32(0)", update="C[vi] + A[vi, vk]", n=8)

    def steps(sch: Any) -> None:
        sch.rfactor(sch.split(sch.get_loops("C")[1], [None, 4])[1], 0)

    sch = taken(text, steps, tolerance=1e-4)
    assert sch.steps[-1].exactness.startswith("reassociated(C")
    refused(text, steps, UnprovedStep, "rounds differently", reassociate=False)


def test_plain_loops() -> None:
    taken(
        """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 8):
        C[i] = C[i] + A[i, k]
""",
        lambda sch: sch.rfactor(sch.split("k", [None, 4])[1], 0),
    )


def test_what_is_no_reduction_along_the_loop() -> None:
    text = SUM.format(dtype="int32", init="0", update="C[vi] + A[vi, vk]", n=8)
    refused(text, lambda sch: sch.rfactor(sch.get_loops("C")[0], 0), NotApplicable)
    refused(text, lambda sch: sch.rfactor(sch.get_loops("C")[1], 2), BadArgument)
    refused(
        SUM.format(dtype="int32", init="0", update="C[vi] - A[vi, vk]", n=8),
        lambda sch: sch.rfactor(sch.get_loops("C")[1], 0),
        NotApplicable,
    )
