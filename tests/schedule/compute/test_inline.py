"""``compute_inline``: every load gets the value, or two instances show why not."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import IllegalStep, NotApplicable
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
    plain = parse(str(expected).replace("float32", "int32"))
    same_function(taken(CHAIN.format(dtype="int32"), lambda sch: sch.compute_inline("B")).mod["main"], plain)
    named = parse(
        str(expected).replace(
            'C[vi, vj] = A[vi, vj] * T.Cast("float32", 2)',
            'b = T.float32()\n            C[vi, vj] = T.Let(b, where={b: A[vi, vj] * T.Cast("float32", 2)})',
        )
    )
    same_function(taken(CHAIN.format(dtype="float32"), lambda sch: sch.compute_inline("B")).mod["main"], named)


def test_a_product_is_rounded_as_it_was_when_it_was_stored() -> None:
    rng = np.random.default_rng(0)
    for store, read in (
        ("A[i] * T.float32(1.1)", "B[i] + A[i]"),
        ("A[i] ** 2", "A[i] - B[i]"),
        ("A[i] * A[i]", "A[i] + -B[i]"),
    ):
        text = f"""
@T.prim_func
def f(A: T.Buffer((1000,), "float32"), C: T.Buffer((1000,), "float32")):
    B = T.alloc_buffer((1000,), "float32")
    for i in range(1000):
        B[i] = {store}
    for i in range(1000):
        C[i] = {read}
"""
        a, before, after, fused = rng.random(1000, np.float32), *(np.zeros(1000, np.float32) for _ in range(3))
        tl.build(parse(text), schedule="none")(a, before)
        tl.build(taken(text, lambda sch: sch.compute_inline("B")), schedule="none")(a, after)
        assert np.array_equal(before, after)
        joined = text.replace(f"C[i] = {read}", f"C[i] = {read.replace('B[i]', f'({store})')}")
        tl.build(parse(joined), schedule="none")(a, fused)
        assert not np.array_equal(before, fused), "else nothing is shown"


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


NAMED = """
@T.prim_func
def f(A: T.Buffer((6, 6), "float32"), X: T.Buffer((6, 6), "float32")):
    B = T.alloc_buffer((6, 6), "float32")
    for i0, j0 in T.grid(6, 6):
        n0 = A[i0, j0] + A[5 - i0, j0]
        B[i0, j0] = n0 + 1.0
    for i1, j1 in T.grid(6, 6):
        X[i1, j1] = B[i1, j1]
"""


def test_a_name_is_nothing_in_another_place() -> None:
    """The steps put an expression of a name where nothing binds it."""
    for step in (lambda sch: sch.compute_inline("B"), lambda sch: sch.reverse_compute_inline("X")):
        refused(
            NAMED.replace("X[i1, j1] = B[i1, j1]", "n1 = B[i1, j1]\n        X[i1, j1] = n1 + 2.0"),
            step,
            NotApplicable,
            "name `n",
        )
    taken(NAMED, lambda sch: (sch.inline_bind("n0"), sch.compute_inline("B")))
    outside = (
        NAMED.replace("    B = T", "    n = T.float32(3)\n    B = T")
        .replace("n0 + 1.0", "A[i0, j0] + n")
        .replace("        n0 = A[i0, j0] + A[5 - i0, j0]\n", "")
    )
    taken(outside, lambda sch: sch.compute_inline("B"))


INSIDE = """
@T.prim_func
def f(A: T.Buffer((6, 6), "int32"), D: T.Buffer((6, 6), "int32")):
    B = T.alloc_buffer((6, 6), "int32")
    for i in range(6):
        own = T.alloc_buffer((6,), "int32", scope="local")
        for k in range(6):
            own[k] = A[5 - i, k] * 2
        for j in range(6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = own[vj] + 1
    for i2, j2 in T.grid(6, 6):
        D[i2, j2] = B[i2, j2] * 3
"""


def test_what_an_iteration_allocates_is_not_read_behind_it() -> None:
    """The element that another iteration writes is one of its own: no two iterations disagree."""
    with pytest.raises(NotApplicable, match="what `B` uses is declared where what reads B does not see it"):
        tl.Schedule(parse(INSIDE)).compute_inline("B")
    sch = tl.Schedule(parse(INSIDE), debug_mask="all")
    sch.lift_alloc("own", sch.loop("i"))
    with pytest.raises(IllegalStep):  # it is the same memory in all iterations now
        sch.compute_inline("B")


def test_a_consumer_stays_where_its_memory_is() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((6,), "int32"), D: T.Buffer((6,), "int32")):
    for i in range(6):
        with T.block("B"):
            v = T.axis.spatial(6, i)
            D[v] = A[v] * 2
    C = T.alloc_buffer((6,), "int32")
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = D[v] + 1
    for i in range(6):
        D[i] = C[i]
""")
    with pytest.raises(NotApplicable):
        tl.Schedule(func).reverse_compute_inline("C")
    text = str(func).replace("D[v] = A", "E[v] = A").replace("= D[v]", "= E[v]")
    text = text.replace("    for i in range(6):", '    E = T.alloc_buffer((6,), "int32")\n    for i in range(6):', 1)
    with pytest.raises(NotApplicable, match="what `C` uses is declared where what computes E does not see it"):
        tl.Schedule(parse(text)).reverse_compute_inline("C")
