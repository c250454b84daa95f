"""Loops split: on blocks as TVM does it, on plain loops, of any extent, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips, same_function
from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.ir import const
from tirlower.ir.functor import substitute
from tirlower.ir.stmt import For
from tirlower.script import parse


def copy(extent: str, start: str = "0") -> Any:
    return parse(f"""
@T.prim_func
def copy(A: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int32"), n: T.int32):
    for i in range({start}, {start} + {extent}):
        B[i] = A[i] + i
""")


def test_a_block_gets_simple_bindings_and_a_predicate() -> None:
    before = parse("""
@T.prim_func
def two(A: T.Buffer((128, 10), "float32"), B: T.Buffer((128, 10), "float32")):
    for i, j in T.grid(128, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
""")
    sch = tl.Schedule(before, debug_mask="all")
    i, j = sch.get_loops("B")
    sch.split(i, [2, 1, 64])
    sch.split(j, [3, None, 2])
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def two(A: T.Buffer((128, 10), "float32"), B: T.Buffer((128, 10), "float32")):
    for i_0, i_1, i_2, j_0, j_1, j_2 in T.grid(2, 1, 64, 3, 2, 2):
        with T.block("B"):
            vi = T.axis.spatial(128, i_0 * 64 + i_1 * 64 + i_2)
            vj = T.axis.spatial(10, j_0 * 4 + j_1 * 2 + j_2)
            T.where((j_0 * 2 + j_1) * 2 + j_2 < 10)
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi, vj] * 2.0
"""),
    )
    executes_alike(before, sch.mod["main"])


def test_units_leave_the_bindings_when_that_is_asked_for() -> None:
    before = parse("""
@T.prim_func
def one(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = vi
""")
    sch = tl.Schedule(before)
    sch.split(sch.get_loops("A")[0], [1, 8], preserve_unit_iters=False)
    assert "vi = T.axis.spatial(8, i_1)" in str(sch.mod)


@pytest.mark.parametrize("extent", ["0", "1", "7", "12", "n"])
@pytest.mark.parametrize("start", ["0", "3"])
@pytest.mark.parametrize("factors", [[None, 4], [4, None], [2, None, 3], [None], [None, 1]])
def test_the_iterations_are_the_same_in_the_same_order(extent: str, start: str, factors: list[int | None]) -> None:
    before = copy(extent, start)
    sch = tl.Schedule(before, debug_mask="all")
    loops = sch.split(sch.loop("i"), factors)
    assert [loop.name for loop in loops] == [f"i_{n}" for n in range(len(factors))]
    roundtrips(sch.mod["main"])
    inputs = None
    if extent == "n":
        import numpy as np

        inputs = [[np.arange(40, dtype="int32"), np.zeros(40, "int32"), n] for n in (0, 1, 2, 3, 7, 16)]
    executes_alike(before, sch.mod["main"], inputs=inputs)


def test_the_condition_stands_inside_the_loops_below_so_that_they_can_change_places() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((7, 9), "int32")):
    for i, j in T.grid(7, 9):
        A[i, j] = i * j
""")
    sch = tl.Schedule(before, debug_mask="all")
    i, j = sch.loops("A")
    _, i_1 = sch.split(i, [None, 4])
    _, j_1 = sch.split(j, [None, 2])
    sch.reorder(j_1, i_1)
    executes_alike(before, sch.mod["main"])
    assert [str(loop.var) for loop in sch.loops("A")] == ["i_0", "j_1", "j_0", "i_1"]


def test_handles_inside_go_along() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((7, 9), "int32"), B: T.Buffer((7, 9), "int32")):
    for i in range(7):
        for j in range(9):
            A[i, j] = i * j
        for k in range(9):
            B[i, k] = A[i, k]
""")
    sch = tl.Schedule(before, debug_mask="all")
    i, j, k = sch.loop("i"), sch.loop("j"), sch.loop("k")
    sch.split(i, [None, 4])
    sch.vectorize(j)
    sch.unroll(k)
    assert sch.get(j) is sch.get(sch.loop("j")) and sch.get(k) is sch.get(sch.loop("k"))
    executes_alike(before, sch.mod["main"])


def test_64_bit_loops_keep_their_type_and_kinds_go_where_they_belong() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((T.int64(12),), "int32"), B: T.Buffer((T.int64(12),), "int32")):
    for i in T.parallel(T.int64(12)):
        A[i] = 1
    for j in T.vectorized(T.int64(12)):
        B[j] = 2
""")
    sch = tl.Schedule(before, debug_mask="all")
    outer, inner = sch.split(sch.loop("i"), [None, 4])
    assert [str(one.var.dtype) for one in (outer, inner)] == ["int64", "int64"]
    kinds = [sch.get(one) for one in (outer, inner, *sch.split(sch.loop("j"), [None, 4]))]
    assert [one.kind.value for one in kinds if isinstance(one, For)] == ["parallel", "serial", "serial", "vectorized"]
    executes_alike(before, sch.mod["main"])


@pytest.mark.parametrize(
    ("factors", "word"),
    [
        ([2, 4], "not larger than or equal"),
        ([0, None], "required to be positive"),
        ([-4, None], "required to be positive"),
        ([None, None], "at most one"),
        ([], "one factor at least"),
        ([1 << 31, None], "does not fit"),
        ([1 << 20, 1 << 20], "does not fit"),
    ],
)
def test_factors_that_make_no_sense_are_refused(factors: list[Any], word: str) -> None:
    sch = tl.Schedule(copy("12"))
    loop, before = sch.loop("i"), sch.mod
    with pytest.raises(BadArgument, match=word):
        sch.split(loop, factors)
    assert sch.mod is before and len(sch.steps) == 1


def test_without_predication_the_extent_must_be_a_multiple() -> None:
    sch = tl.Schedule(copy("10"))
    with pytest.raises(NotApplicable, match="not known to be a multiple of 4"):
        sch.split(sch.loop("i"), [None, 4], disable_predication=True)
    sch.split(sch.loop("i"), [None, 5], disable_predication=True)


def test_a_loop_that_is_left_or_bound_is_not_split() -> None:
    left = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        if A[i] == 0:
            T.evaluate(T.break_loop())
        A[i] = 1
""")
    sch = tl.Schedule(left)
    with pytest.raises(NotApplicable, match="leaves the loop early"):
        sch.split(sch.loop("i"), [None, 4])
    sch = tl.Schedule(copy("12"))
    sch.bind(sch.loop("i"), "threadIdx.x")
    with pytest.raises(NotApplicable, match="bind after splitting"):
        sch.split(sch.loop("i"), [None, 4])


@pytest.mark.parametrize("factors", ["4", 4, [1.5, None], ["4", None], [True, None]])
def test_wrong_types_are_type_errors(factors: Any) -> None:
    sch = tl.Schedule(copy("12"))
    with pytest.raises(TypeError):
        sch.split(sch.loop("i"), factors)
    with pytest.raises(TypeError):
        sch.split(12, [None, 4])


def test_without_predicates_on_the_users_word() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((12,), "int32"), n: T.int32):
    for i in range(n):
        A[i] = i
""")
    sch = tl.Schedule(func)
    with sch.unchecked("n is 12 in all calls"):
        sch.split("i", [None, 4], disable_predication=True)
    assert sch.steps[-1].verdict == "unchecked" and "if" not in str(sch.mod["main"]).replace("T.serial", "")
    executes_alike(func, sch.mod["main"], inputs=[[np.zeros(12, "int32"), n] for n in (0, 4, 12)])


def test_annotations_go_where_their_row_says() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((12,), "int32")):
    for i in T.parallel(12, annotations={"hint": 1, "tir.no_unroll": True, "tir.unchecked": "why", "tir.nontemporal": True}):
        A[i] = i
""")
    sch = tl.Schedule(func, debug_mask="all")
    outer, inner = (sch.get(loop) for loop in sch.split("i", [3, 4]))
    assert set(outer.annotations) == {"hint", "tir.unchecked", "tir.nontemporal"}
    assert set(inner.annotations) == {"tir.no_unroll", "tir.nontemporal"}


def test_a_number_of_the_caller_near_the_end_of_its_type_is_rounded_up_without_a_sum():
    text = """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), n: T.int32):
    for i in range(n):
        A[T.bitwise_and(i, 3)] = i
"""
    sch = tl.Schedule(parse(text))
    outer, _ = sch.split("i", [None, 4])
    extent = sch.get(outer).extent
    (n,) = (param for param in sch.mod["main"].params if param.name == "n")
    for value in (-(2**31), -5, -1, 0, 1, 3, 4, 5, 8, 2**31 - 5, 2**31 - 4, 2**31 - 2, 2**31 - 1):
        assert Analyzer().simplify(substitute(extent, {n: const(value, "int32")})).value == -(-value // 4), value
    sch = tl.Schedule(parse(text.replace("    for", "    T.assume(n < 1000)\n    for")))
    assert str(sch.get(sch.split("i", [None, 4])[0]).extent) == "(n + 3) // 4"
    sized = text.replace("(4,)", "(n,)").replace(", n: T.int32", "").replace("T.bitwise_and(i, 3)", "i")
    sch = tl.Schedule(parse(sized.replace("def f", "def g").replace("A: T.Buffer((n,)", 'A: T.Buffer(("n",)')))
    assert str(sch.get(sch.split("i", [None, 4])[0]).extent) == "(n + 3) // 4"
