"""``fuse_epilogue``: once for each element, behind its last update, in every order of the loops."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable

PRODUCT = """
@T.prim_func
def f(A: T.Buffer(({m}, 5), "int32"), B: T.Buffer((5, 6), "int32"), D: T.Buffer(({m}, 6), "int32"), E: T.Buffer(({m}, 6), "int32")):
    C = T.alloc_buffer(({m}, 6), "int32")
    for i, j, k in T.grid({m}, 6, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk] * B[vk, vj]
    for i, j in T.grid({m}, 6):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], 0) + vi
    {more}
"""
PLAIN = """
@T.prim_func
def f(A: T.Buffer((4, 5), "int32"), D: T.Buffer((4,), "int32")):
    C = T.alloc_buffer((4,), "int32")
    for i in range(4):
        C[i] = 0
    for k, i in T.grid(5, 4):
        C[i] = C[i] + A[i, k]
    for i in range(4):
        D[i] = {read} * 3
"""


@pytest.mark.parametrize("m", [1, 4])
def test_every_order_of_the_loops(m: int) -> None:
    for order in itertools.permutations(range(3)):

        def steps(sch: Any, order: Any = order) -> None:
            loops = sch.get_loops("C")
            sch.reorder(*[loops[at] for at in order])
            sch.fuse_epilogue("C", "D")
            assert len(sch.get_loops("D")) >= 1 + (order[0] == 2)

        text = PRODUCT.format(m=m, more=f"for i, j in T.grid({m}, 6):\n        E[i, j] = C[i, j]")
        taken(text, steps)


def test_tiles_whose_sizes_do_not_divide() -> None:
    def steps(sch: Any) -> None:
        i, j, k = sch.get_loops("C")
        i0, i1 = sch.split(i, [None, 3])
        k0, k1 = sch.split(k, [None, 2])
        sch.reorder(k0, i0, j, k1, i1)
        sch.fuse_epilogue("C", "D")

    sch = taken(PRODUCT.format(m=4, more=""), steps)
    assert "k_0 == 2" in str(sch.mod["main"])


def test_plain_loops_and_what_is_not_summed_up_yet() -> None:
    sch = taken(PLAIN.format(read="C[i]"), lambda sch: sch.fuse_epilogue(sch.loop("k"), "D"))
    assert "if k == 4" in str(sch.mod["main"])
    error = refused(PLAIN.format(read="C[3 - i]"), lambda sch: sch.fuse_epilogue(sch.loop("k"), "D"))
    assert "C" in str(error.witness)


def test_what_is_no_sum() -> None:
    text = PRODUCT.format(m=4, more="")
    refused(text, lambda sch: sch.fuse_epilogue("D", "C"), NotApplicable, "reads nothing")
    copy = """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    C = T.alloc_buffer((4,), "int32")
    for i in range(4):
        C[i] = A[i]
    for i in range(4):
        D[i] = C[i]
"""
    refused(copy, lambda sch: sch.fuse_epilogue("C", "D"), NotApplicable, "reverse_compute_at")
