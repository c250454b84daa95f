"""``pack``: the packed copy holds what is read, in the order in which it is read; ragged edges are padded."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotFound
from tirlower.script import parse

PRODUCT = """
@T.prim_func
def f(A: T.Buffer((12, {k}), "float32"), B: T.Buffer(({k}, 16), "float32"), C: T.Buffer((12, 16), "float32")):
    for i, j, k in T.grid(12, 16, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""


def test_panels_at_a_loop() -> None:
    def steps(sch: Any) -> None:
        i, j, k = sch.loops("C")
        k_0, k_1 = sch.split(k, [None, 4])
        sch.reorder(k_0, i, j, k_1)
        sch.pack("B", at=k_0, layout=lambda k, j: [j // 4, k, j % 4])
        sch.pack("A", at=i, layout=lambda i, k: [k, i])

    sch = taken(PRODUCT.format(k=8), steps)
    text = str(sch.mod["main"])
    assert "B_packed = T.alloc_buffer((4, 4, 4)" in text
    assert "T.vectorized(4)" in text


def test_ragged_edges_and_the_whole_buffer() -> None:
    def steps(sch: Any) -> None:
        sch.pack("A", layout=lambda i, k: [i // 8, k, i % 8], pad=7, parallel=True)
        sch.pack("B", layout=lambda k, j: [k // 4, j, k % 4])

    sch = taken(PRODUCT.format(k=7), steps)
    assert "T.if_then_else(" in str(sch.mod["main"])


def test_plain_loops_that_start_elsewhere_and_functions_of_any_count() -> None:
    taken(
        """
@T.prim_func
def f(A: T.Buffer((20,), "int32"), C: T.Buffer((4, 4), "int32")):
    for i in range(4):
        for k in range(2, 6):
            C[i, k - 2] = A[i * 4 + k]
""",
        lambda sch: sch.pack("A", at="i", layout=lambda *at: list(at)),
    )


def test_a_write_in_between_is_a_witness() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        C[i] = A[i]
        A[7 - i] = 0
""",
        lambda sch: sch.pack("A"),
    )
    # In one iteration nothing is written before it is read.
    taken(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        C[i] = A[i]
        A[7 - i] = 0
""",
        lambda sch: sch.pack("A", at="i"),
    )


def test_wrong_arguments() -> None:
    refused(PRODUCT.format(k=8), lambda sch: sch.pack("D"), NotFound)
    refused(PRODUCT.format(k=8), lambda sch: sch.pack("A", layout=lambda i: [i]), BadArgument)


GUARDED = """
@T.prim_func
def f(A: T.Buffer((6, 6), "int32"), X: T.Buffer((6, 6), "int32")):
    for i0, i1, j in T.grid(2, 4, 6):
        if i0 * 4 + i1 < 6:
            X[i0 * 4 + i1, j] = A[i0 * 4 + i1, j] + 1
"""


@pytest.mark.parametrize("at", ["i0", "i1", "j"])
@pytest.mark.parametrize("verb", ["pack", "stage_mem"])
def test_where_nothing_is_read_nothing_outside_is_copied(verb: str, at: str) -> None:
    def steps(sch: Any) -> None:
        if verb == "pack":
            sch.pack("A", at=at)
        else:
            sch.stage_mem(at, "A")

    taken(GUARDED, steps)


def test_a_map_of_any_number_of_indices_for_what_the_function_allocates() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32")):
    B = T.alloc_buffer((4, 6), "int32")
    for i, j in T.grid(4, 6):
        B[i, j] = A[i, j] + 1
    for p in range(4):
        C[p] = 0
        for k in range(6):
            C[p] = C[p] + B[p, k]
""")
    sch = tl.Schedule(func)
    sch.pack("B", sch.loop("p"), lambda *at: [*at[::-1]])
    assert "B_packed" in str(sch.mod["main"])
    executes_alike(func, sch.mod["main"])
