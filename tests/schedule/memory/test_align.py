"""``storage_align``: strides are padded, results are not changed."""

from __future__ import annotations

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable

COPY = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi]
"""


def test_entries_are_added_and_replaced() -> None:
    sch = taken(
        COPY,
        lambda sch: (
            sch.storage_align("B", 0, 0, 8, 1),
            sch.storage_align("B", 0, 0, 16, 2),
            sch.storage_align("B", 0, -1, 4, 0),
        ),
    )
    assert sch.get(sch.get_block("B")).annotations["buffer_dim_align"] == ((0, 0, 16, 2), (0, 1, 4, 0))


def test_wrong_arguments() -> None:
    refused(COPY, lambda sch: sch.storage_align("B", 0, 2, 8, 1), BadArgument)
    refused(COPY, lambda sch: sch.storage_align("B", 1, 0, 8, 1), BadArgument)
    refused(COPY, lambda sch: sch.storage_align("B", 0, 0, 0, 1), BadArgument)
    refused(COPY, lambda sch: sch.storage_align("C", 0, 0, 8, 1), NotApplicable, "parameter")
