"""Programs on which a schedule is known to go wrong, or to refuse what is right: value steps, in both directions."""

from __future__ import annotations

from typing import Any

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable, ScheduleError

TWICE = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] + 1
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = 9
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v]
"""


def test_a_cache_of_one_reader_does_not_feed_the_other_before_it_is_filled() -> None:
    for block in ("B", "C"):
        taken(TWICE, lambda sch, block=block: sch.cache_read(block, "A", "local"))


def test_a_scan_is_not_cached_without_what_it_starts_from() -> None:
    scan = """
@T.prim_func
def f(A: T.Buffer((9,), "int32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.opaque(8, i)
            A[v + 1] = A[v] + 1
"""
    refused(scan, lambda sch: sch.cache_write("A", 0, "local"), NotApplicable)
    taken(scan, lambda sch: sch.cache_write("A", 0, "local", copy_in=True))


def test_an_effect_is_not_called_twice() -> None:
    refused(
        """
@T.prim_func
def f(C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = T.call_extern("int32", "next", v)
    for i in range(8):
        C[i] = B[i]
    for i in range(8):
        D[i] = B[7 - i]
""",
        lambda sch: sch.compute_inline("B"),
        NotApplicable,
    )


def test_an_intermediate_with_a_second_reader_is_not_folded_away() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = T.max(B[v], 0)
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = B[v]
""",
        lambda sch: sch.reverse_compute_inline("C"),
    )


def test_an_unrelated_write_after_a_read_stands_in_nobodys_way() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = X[v]
    for i in range(8):
        with T.block("X"):
            v = T.axis.spatial(8, i)
            X[v] = 0
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + 1
"""
    taken(text, lambda sch: sch.compute_inline("B"))
    taken(text, lambda sch: sch.compute_at("B", sch.get_loops("C")[0]))
    taken(text, lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[0]))


def test_an_init_of_its_own_and_accumulation_into_a_parameter() -> None:
    product = """
@T.prim_func
def f(A: T.Buffer((6, 4), "float32"), B: T.Buffer((4, 8), "float32"), C: T.Buffer((6, 8), "float32")):
    for i, j in T.grid(6, 8):
        with T.block("init"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.float32(0)
    for i, j, k in T.grid(6, 8, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""

    def steps(sch: Any) -> None:
        i, j, k = sch.get_loops("C")
        sch.reorder(k, i, j)
        sch.parallel(i)
        sch.vectorize(j)

    taken(product, steps)
    taken(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * 2
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + C[v]
""",
        lambda sch: (sch.parallel(sch.get_loops("C")[0]), sch.reverse_compute_at("C", sch.get_loops("B")[0])),
    )


def test_two_disjoint_writers_are_cached_and_computed_apart() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(4):
        with T.block("low"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] * 2
    for i in range(4):
        with T.block("high"):
            v = T.axis.spatial(4, i)
            B[v + 4] = A[v + 4] * 3
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v] + 1
    for i in range(4):
        with T.block("D"):
            v = T.axis.spatial(4, i)
            D[v] = B[v + 4] + 1
"""
    taken(text, lambda sch: sch.cache_read("C", "B", "local"))
    taken(text, lambda sch: sch.compute_at("low", sch.get_loops("C")[0]))
    taken(
        text, lambda sch: (sch.compute_at("high", sch.get_loops("D")[0]), sch.compute_at("low", sch.get_loops("C")[0]))
    )


def test_a_local_buffer_does_not_cross_threads() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for b in T.thread_binding(1, thread="blockIdx.x"):
        B = T.alloc_buffer((8,), "int32", scope="shared")
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = A[t]
            C[t] = B[7 - t]
""",
        lambda sch: sch.set_scope("B", 0, "local"),
    )
    assert issubclass(NotApplicable, ScheduleError)
