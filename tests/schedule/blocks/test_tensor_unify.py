"""Blocks whose loops are others than those of the description: those that are one are done by it, the others are refused."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike
from tests.schedule.blocks.test_tensorize import DESC, IMPL, TEXT
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import IllegalStep, NotApplicable
from tirlower.ir import TensorIntrin
from tirlower.script import parse

PRODUCT = "Z[vi, vj] + X[vi, vk] * Y[vk, vj]"


def intrin(desc: str = DESC, impl: str = IMPL) -> TensorIntrin:
    return TensorIntrin(parse(desc), parse(impl))  # type: ignore[arg-type]


def in_order(sch: Any, order: str) -> Any:
    _, inner = sch.tile(sch.loops("Z"), [4, 4, 4])
    loops = dict(zip("ijk", inner, strict=True))
    sch.reorder(*(loops[one] for one in order))
    return loops


@pytest.mark.parametrize("order", ["ikj", "jik", "jki", "kij", "kji"])
def test_loops_in_another_order(order: str) -> None:
    text = TEXT.format(update=PRODUCT)
    taken(text, lambda sch: sch.tensorize(in_order(sch, order)[order[0]], intrin()))


def test_loops_that_are_fused_and_split() -> None:
    func = parse(TEXT.format(update=PRODUCT))
    sch: Any = tl.Schedule(func, debug_mask="all")
    in_order(sch, "jki")
    init = sch.blockize(sch.loops("Z")[3])
    assert init is not None
    inner = sch.get_loops("Z")
    fused = sch.fuse(inner[0], inner[1])
    sch.split(fused, [2, 8])
    sch.tensorize("Z_o", intrin())
    executes_alike(func, sch.mod["main"])


def test_a_loop_that_runs_backwards() -> None:
    func = parse(TEXT.format(update=PRODUCT))
    sch: Any = tl.Schedule(func, debug_mask="all")
    loops = in_order(sch, "ijk")
    block = sch.blockize(loops["i"])
    sch.reverse(loops["j"])
    sch.tensorize(block, intrin())
    assert "match_buffer" in str(sch.mod["main"])
    executes_alike(func, sch.mod["main"])


SHIFT = """
@T.prim_func
def f(A: T.Buffer((6, 5), "int32")):
    for n, j, i in T.grid(1, 4, 4):
        with T.block("A"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            A[vi + 1, vj] = A[vi, vj + 1] + 1
"""
SHIFTED = """
@T.prim_func
def desc(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = B[vi, vj] + 1
"""


def test_an_order_that_turns_a_dependence_round() -> None:
    # One buffer stands for two of the description: nothing is done, whatever the order.
    error = refused(SHIFT, lambda sch: sch.tensorize(sch.loop("j"), intrin(SHIFTED, SHIFTED)), NotApplicable)
    assert "another one of the description" in str(error)


CARRY = """
@T.prim_func
def f(A: T.Buffer((5, 5), "int32")):
    for n, j, i in T.grid(1, 4, 4):
        with T.block("A"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            A[vi + 1, vj] = A[vi, vj + 1] + 1
"""
CARRIED = """
@T.prim_func
def desc(A: T.Buffer((5, 5), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi + 1, vj] = A[vi, vj + 1] + 1
"""


def test_an_order_in_which_old_values_were_read() -> None:
    refused(CARRY, lambda sch: sch.tensorize(sch.blockize(sch.loop("j")), intrin(CARRIED, CARRIED)), IllegalStep)
    taken(CARRY.replace("n, j, i in", "n, i, j in"), lambda sch: sch.tensorize(sch.loop("i"), intrin(CARRIED, CARRIED)))


SCALAR = """
@T.prim_func
def desc(A: T.Buffer((), "int32"), B: T.Buffer((), "int32")):
    B[()] = A[()] * 2 + B[()]
"""


def test_a_description_of_single_elements() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((6, 5), "int32"), B: T.Buffer((6,), "int32")):
    for i, j in T.grid(6, 5):
        with T.block("B"):
            vi, vj = T.axis.remap("SR", [i, j])
            B[vi] = A[vi, vj] * 2 + B[vi]
"""
    sch = taken(text, lambda sch: sch.tensorize("B", intrin(SCALAR, SCALAR.replace("A[()] * 2", "A[()] + A[()]"))))
    assert "T.match_buffer(A[vi, vj], ())" in str(sch.mod["main"])


FLAT = """
@T.prim_func
def desc(A: T.Buffer((16,), "int32"), B: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi * 4 + vj] = B[vi, vj]
"""


def test_an_index_of_two_loops() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((16, 4), "int32")):
    for o, n in T.grid(4, 16):
        with T.block("A"):
            vo, vn = T.axis.remap("SS", [o, n])
            A[vo * 16 + vn] = B[vo * 4 + vn // 4, vn % 4]
"""
    sch = taken(text, lambda sch: sch.tensorize(sch.loop("n"), intrin(FLAT, FLAT)))
    assert "A[vo_o * 16:vo_o * 16 + 16]" in str(sch.mod["main"])
    refused(
        text.replace("vn // 4, vn % 4", "vn % 4, vn // 4"),
        lambda sch: sch.tensorize(sch.loop("n"), intrin(FLAT, FLAT)),
        NotApplicable,
        "not at one distance",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("T.grid(8, 16, 12)", "T.grid(8, 16, 11)"),
        ("X[vi, vk]", "X[vi, vk // 2]"),
        ("X[vi, vk]", "X[vk % 4, vi]"),
        ("X[vi, vk]", "X[vi, 11 - vk]"),
    ],
)
def test_iterations_that_are_not_those_described(old: str, new: str) -> None:
    text = TEXT.format(update=PRODUCT)
    assert old in text
    refused(text.replace(old, new), lambda sch: sch.tensorize(in_order(sch, "kji")["k"], intrin()), NotApplicable)
