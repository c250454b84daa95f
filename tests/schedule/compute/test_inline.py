"""``compute_inline``: every load gets the value, or two instances show why not."""

from __future__ import annotations

from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable
from tirlower.script import parse

CHAIN = """
@T.prim_func
def f(A: T.Buffer((8, 12), "{dtype}"), C: T.Buffer((8, 12), "{dtype}")):
    B = T.alloc_buffer((8, 12), "{dtype}")
    for i, j in T.grid(8, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.Cast("{dtype}", 2)
    for i, j in T.grid(8, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.Cast("{dtype}", 1)
"""


def test_the_value_stands_where_it_was_read() -> None:
    for dtype in ("float32", "int8", "float16"):
        sch = taken(CHAIN.format(dtype=dtype), lambda sch: sch.compute_inline("B"))
        assert "B[" not in str(sch.mod["main"])
    expected = parse("""
@T.prim_func
def f(A: T.Buffer((8, 12), "float32"), C: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(8, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(C[vi, vj])
            C[vi, vj] = A[vi, vj] * T.Cast("float32", 2) + T.Cast("float32", 1)
""")
    same_function(taken(CHAIN.format(dtype="float32"), lambda sch: sch.compute_inline("B")).mod["main"], expected)


def test_plain_loops_several_readers_and_shifted_indices() -> None:
    sch = taken(
        """
@T.prim_func
def f(A: T.Buffer((9,), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((9,), "int32")
    for i in range(1, 9):
        B[i] = A[i] * A[i - 1]
    for i in range(8):
        C[i] = B[i + 1]
    for i in range(7):
        D[i] = B[i + 1] - B[i + 2]
""",
        lambda sch: sch.compute_inline("B"),
    )
    assert "A[i + 1] * A[i + 1 - 1]" in str(sch.mod["main"])


def test_indices_that_are_digits_are_inverted() -> None:
    taken(
        """
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((32,), "int32")):
    B = T.alloc_buffer((32,), "int32")
    for i, j in T.grid(4, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * 8 + vj] = A[vi, vj] + vj
    for i in range(32):
        with T.block("C"):
            v = T.axis.spatial(32, i)
            C[v] = B[31 - v]
""",
        lambda sch: sch.compute_inline("B"),
    )


def test_in_one_loop_with_what_carries_around() -> None:
    taken(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), n: T.int32):
    B = T.alloc_buffer((8,), "int32")
    for i in range(T.min(T.max(n, 0), 8)):
        B[i] = A[i] + n
        C[i] = B[i] * 3
""",
        lambda sch: sch.compute_inline("B"),
    )


def test_inputs_that_change_in_between_are_a_witness() -> None:
    error = refused(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        B[i] = A[i]
    for i in range(3, 5):
        A[i] = 9
    for i in range(8):
        C[i] = B[i]
""",
        lambda sch: sch.compute_inline("B"),
    )
    assert str(error.witness) == "iteration (i = 3) reads A[3] and iteration (i = 3) writes A[3]"


def test_a_read_that_nothing_covers_and_a_later_writer() -> None:
    refused(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(7):
        B[i] = A[i]
    for i in range(8):
        C[i] = B[i]
""",
        lambda sch: sch.compute_inline("B"),
    )


def test_what_leaves_the_function_is_still_written() -> None:
    error = refused(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v]
""",
        lambda sch: sch.compute_inline("B"),
    )
    assert "leaves" in error.message


def test_reductions_and_effects_have_not_the_form() -> None:
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
        C[i] = B[i]
""",
        lambda sch: sch.compute_inline("B"),
        NotApplicable,
    )
    refused(
        """
@T.prim_func
def f(C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        B[i] = T.call_extern("int32", "next")
    for i in range(8):
        C[i] = B[i] + B[7 - i]
""",
        lambda sch: sch.compute_inline("B"),
        NotApplicable,
        "effects",
    )
