"""``reverse_compute_inline``: the consumer in its producer, its domain in the predicate."""

from __future__ import annotations

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable

CHAIN = """
@T.prim_func
def f(A: T.Buffer((8, 6), "float32"), C: T.Buffer((6, 8), "float32"){more}):
    B = T.alloc_buffer((8, 6), "float32")
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    {between}
    for i, j in T.grid(6, {n}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi] + A[vj, vi]
"""


def test_transposed_and_of_a_part() -> None:
    sch = taken(CHAIN.format(more="", between="", n=8), lambda sch: sch.reverse_compute_inline("C"))
    assert "B[" not in str(sch.mod["main"])
    sch = taken(CHAIN.format(more="", between="", n=5), lambda sch: sch.reverse_compute_inline("C"))
    assert "T.where(i < 5)" in str(sch.mod["main"])


def test_another_reader_keeps_the_buffer_and_refuses_the_step() -> None:
    refused(
        CHAIN.format(
            more=', D: T.Buffer((8, 6), "float32")', between="for i, j in T.grid(8, 6):\n        D[i, j] = B[i, j]", n=8
        ),
        lambda sch: sch.reverse_compute_inline("C"),
    )


def test_what_it_reads_besides_must_not_change_in_between() -> None:
    refused(
        CHAIN.format(more="", between="for i in range(3):\n        A[i, i] = T.float32(0)", n=8),
        lambda sch: sch.reverse_compute_inline("C"),
    )


def test_plain_loops_and_sums() -> None:
    taken(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        B[i] = A[i] * 3
    for j in range(1, 8):
        C[j] = B[j] - B[j] * 5
""",
        lambda sch: sch.reverse_compute_inline("C"),
    )
    refused(
        """
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 0
            B[vi] += A[vi, vk]
    for i in range(8):
        C[i] = T.max(B[i], 0)
""",
        lambda sch: sch.reverse_compute_inline("C"),
        NotApplicable,
    )


def test_a_product_is_rounded_as_it_was() -> None:
    sch = taken(CHAIN.format(more="", between="", n=8), lambda sch: sch.reverse_compute_inline("C"))
    assert "T.Let(" in str(sch.mod["main"]) or "b = " in str(sch.mod["main"])
