"""Loops reordered: what is legal is taken whatever its form, what is not is refused with two iterations."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike, same_function
from tirlower.diagnostics import BadArgument, IllegalStep, LegalityError, NotApplicable
from tirlower.script import parse


def names(sch: Any, what: str) -> list[str]:
    return [str(loop.var) for loop in sch.loops(what)]


def test_loops_between_keep_their_place() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((2, 3, 4, 5), "int32")):
    for i, j, k, l in T.grid(2, 3, 4, 5):
        with T.block("A"):
            vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
            A[vi, vj, vk, vl] = vi * 1000 + vj * 100 + vk * 10 + vl
""")
    sch = tl.Schedule(before, debug_mask="all")
    i, j, _, l = sch.get_loops("A")
    sch.reorder(l, i)
    assert names(sch, "A") == ["l", "j", "k", "i"]
    sch.reorder(j, l)
    assert names(sch, "A") == ["j", "l", "k", "i"]
    executes_alike(before, sch.mod["main"])
    # The order as it is: nothing changes.
    module = sch.mod
    sch.reorder(j, i)
    assert sch.mod is module


def test_a_reduction_goes_outwards_also_with_its_init_beside_it() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] += A[vi, vk]
""")
    sch = tl.Schedule(before, debug_mask="all", reassociate=False)
    i, k = sch.get_loops("C")
    sch.reorder(k, i)
    executes_alike(before, sch.mod["main"])


def split_sum(dtype: str) -> Any:
    return parse(f"""
@T.prim_func
def f(A: T.Buffer((8, 8), "{dtype}"), C: T.Buffer((1,), "{dtype}")):
    for r, s in T.grid(8, 8):
        with T.block("C"):
            vr, vs = T.axis.remap("RR", [r, s])
            with T.init():
                C[0] = T.{dtype}(0)
            C[0] += A[vr, vs]
""")


def test_a_float_sum_is_reassociated_where_a_block_declares_it() -> None:
    sch = tl.Schedule(split_sum("float32"))
    sch.reorder("s", "r")
    assert sch.steps[-1].exactness == "reassociated(C)"
    strict = tl.Schedule(split_sum("float32"), reassociate=False)
    with pytest.raises(IllegalStep, match="turns round"):
        strict.reorder("s", "r")
    whole = tl.Schedule(split_sum("int32"), reassociate=False)
    whole.reorder("s", "r")
    assert whole.steps[-1].exactness == "bitwise"
    executes_alike(split_sum("int32"), whole.mod["main"])


def test_a_float_sum_without_a_block_is_not_unless_that_is_said() -> None:
    plain = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((1,), "float32")):
    for r, s in T.grid(8, 8):
        C[0] = C[0] + A[r, s]
""")
    with pytest.raises(IllegalStep):
        tl.Schedule(plain).reorder("s", "r")
    sch = tl.Schedule(plain, reassociate=True)
    sch.reorder("s", "r")
    executes_alike(plain, sch.mod["main"], tolerance=1e-4)


def test_letters_of_iterators_are_claims_that_are_checked() -> None:
    # An update in place, said to be spatial in both.
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9, 9), "int32")):
    for i, j in T.grid(8, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj + 1])
            T.writes(A[vi + 1, vj])
            A[vi + 1, vj] = A[vi, vj + 1]
""")
    sch = tl.Schedule(func)
    before = sch.mod
    with pytest.raises(IllegalStep) as raised:
        sch.reorder("j", "i")
    assert isinstance(raised.value, LegalityError)
    assert [p.loops for p in raised.value.witness.points] == [(("i", 0), ("j", 1)), (("i", 1), ("j", 0))]
    assert sch.mod is before and sch.mod["main"] is func
    assert sch.can("reorder", "j", "i").refuted and "turns round" in sch.why_not("reorder", "j", "i")
    assert not sch.steps


def test_two_statements_in_one_nest() -> None:
    legal = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        B[i, j] = A[i, j] + 1
        C[i, j] = B[i, j] * 2
""")
    sch = tl.Schedule(legal, debug_mask="all")
    sch.reorder("j", "i")
    executes_alike(legal, sch.mod["main"])
    wrong = parse(legal.script().replace("C[i, j] = B[i, j] * 2", "C[i, j] = B[(i + 7) % 8, (j + 1) % 8]"))
    with pytest.raises(IllegalStep):
        tl.Schedule(wrong).reorder("j", "i")


def test_a_parallel_loop_that_moves_outwards_is_asked_again() -> None:
    # Columns in parallel are independent only row by row.
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9, 9), "int32")):
    for i in range(8):
        for j in T.parallel(8):
            A[i + 1, j + 1] = A[i, j]
""")
    sch = tl.Schedule(func)
    with pytest.raises(IllegalStep):
        sch.reorder("j", "i")
    inwards = parse("""
@T.prim_func
def f(A: T.Buffer((8, 9), "int32")):
    for i in T.parallel(8):
        for j in range(8):
            A[i, j + 1] = A[i, j]
""")
    sch = tl.Schedule(inwards, debug_mask="all")
    sch.reorder("j", "i")
    executes_alike(inwards, sch.mod["main"])


def test_what_has_not_the_form() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((12, 12), "int32"), B: T.Buffer((12, 12), "int32")):
    for i in range(12):
        for j in range(i):
            A[i, j] = 1
    for p in range(12):
        A[p, 0] = 4
        for q in range(12):
            B[p, q] = 3
""")
    sch = tl.Schedule(func)
    for loops, word in (
        (("j", "i"), "depend on 'i'"),
        (("q", "p"), "more in its body"),
        (("i", "q"), "not around"),
    ):
        with pytest.raises(NotApplicable, match=word):
            sch.reorder(*loops)
    with pytest.raises(BadArgument, match="named twice"):
        sch.reorder("i", "i")
    with pytest.raises(ValueError, match="at least 1"):
        sch.reorder()
    assert not sch.steps


def test_the_result_on_blocks_is_as_in_tvm() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6, 8), "int32")):
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i * 8 + j < 40)
            B[vi, vj] = A[vi, vj]
""")
    sch = tl.Schedule(before)
    i, j = sch.get_loops("B")
    sch.reorder(j, i)
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), B: T.Buffer((6, 8), "int32")):
    for j, i in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i * 8 + j < 40)
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            B[vi, vj] = A[vi, vj]
"""),
    )
