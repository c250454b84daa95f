"""``reindex_cache_read`` and ``reindex_cache_write``: maps of a block's iterators, refused where they are not injective."""

from __future__ import annotations

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable, ScheduleError

TRANSPOSED = """
@T.prim_func
def f(A: T.Buffer((8, 4), "int32"), B: T.Buffer((4, 8), "int32")):
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * 2
"""


def test_tiles_on_both_sides() -> None:
    sch = taken(
        TRANSPOSED,
        lambda sch: (
            sch.reindex_cache_read("B", 0, "shared", lambda i, j: [j // 4, i, j % 4]),
            sch.reindex_cache_write("B", 0, "local", lambda i, j: [j, i]),
        ),
    )
    text = str(sch.mod["main"])
    assert "A_shared = T.alloc_buffer((2, 4, 4)" in text
    assert "B[v0, v1] = B_local[v1, v0]" in text


def test_iterators_that_start_elsewhere() -> None:
    taken(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(2, 7):
        with T.block("C"):
            v = T.axis.spatial((2, 7), i)
            C[v] = A[v] + 1
""",
        lambda sch: (
            sch.reindex_cache_read("C", 0, "local", lambda i: [i // 2, i % 2]),
            sch.reindex("C", ("write", 0)),
        ),
    )


def test_a_map_that_puts_two_in_one_place_is_refused() -> None:
    for steps in (
        lambda sch: sch.reindex_cache_read("B", 0, "shared", lambda i, j: [i, j // 2]),
        lambda sch: sch.reindex_cache_write("B", 0, "local", lambda i, j: [j]),
    ):
        refused(TRANSPOSED, steps, ScheduleError)
    assert issubclass(NotApplicable, ScheduleError)
