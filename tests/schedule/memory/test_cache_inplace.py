"""``cache_inplace``: a copy in, a copy out, and the block in between in the other scope."""

from __future__ import annotations

from typing import Any

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable


def test_a_scan_between_two_copies() -> None:
    def steps(sch: Any) -> None:
        blocks = sch.cache_inplace("A", 0, "local")
        assert [sch.get(block).name for block in blocks] == ["A_local_in", "A_local"]

    taken(
        """
@T.prim_func
def f(A: T.Buffer((9,), "int32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.opaque(8, i)
            A[v + 1] = A[v] + 1
""",
        steps,
    )


def test_what_is_only_read_has_not_the_form() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        C[i] = A[i]
""",
        lambda sch: sch.cache_inplace("C", "A", "local"),
        NotApplicable,
    )
