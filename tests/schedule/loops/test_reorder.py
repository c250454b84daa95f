"""Loops reordered: what is legal is taken whatever its form, what is not is refused with two iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips, same_function
from tirlower.diagnostics import BadArgument, DeadHandle, IllegalStep, LegalityError, NotApplicable, TraceError
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
    func = parse(
        """
@T.prim_func
def f(A: T.Buffer((12, 12), "int32"), B: T.Buffer((12, 12), "int32"), X: T.Buffer((12,), "int32")):
    for i in range(12):
        for j in range(X[i]):
            A[i, j] = 1
    for p in range(12):
        with T.allocate([4], "int32") as W:
            for q in range(12):
                B[p, q] = 3
""".replace('with T.allocate([4], "int32") as W:', 'W = T.alloc_buffer((4,), "int32")').replace(
            "            for q in range(12):\n                B[p, q] = 3",
            "        for q in range(12):\n            W[0] = q\n            B[p, q] = W[0]",
        )
    )
    sch = tl.Schedule(func)
    for loops, word in (
        (("j", "i"), "read memory"),
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


NESTS = {
    "a triangle": ("0", "n", "0", "i + 1"),
    "from elsewhere": ("2", "9", "i - 1", "12"),
    "a band": ("1", "n", "2 * i", "2 * i + 7"),
    "of some rounds": ("0", "9", "i // 3", "i // 2 + 2"),
    "with a hole": ("0", "7", "T.min(i, 3)", "T.max(n, i)"),
    "nothing": ("0", "0", "i", "8"),
    "one": ("3", "4", "i", "n"),
    "a prime": ("0", "7", "0", "i * 3 % 5"),
}


@pytest.mark.parametrize("shape", NESTS)
@pytest.mark.parametrize("blocks", [False, True])
def test_bounds_that_depend_on_a_loop_inside_are_found_anew(shape: str, blocks: bool) -> None:
    low, high, first, last = NESTS[shape]
    body = "A[i, j] = A[i, j] * 2 + (i * 100 + j)"
    if blocks:
        body = """with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * 2 + (vi * 100 + vj)"""
    before = parse(f"""
@T.prim_func
def f(A: T.Buffer((16, 32), "int32"), n: T.int32):
    for i in range({low}, {high}):
        for j in range({first}, {last}):
            {body}
""")
    sch = tl.Schedule(before, debug_mask="all")
    i, j = sch.loop("i"), sch.loop("j")
    sch.reorder(j, i)
    assert sch.get(j).body is sch.get(i)
    executes_alike(
        before, sch.mod["main"], inputs=[[np.arange(512, dtype="int32").reshape(16, 32), n] for n in (-3, 0, 1, 7, 12)]
    )
    roundtrips(sch.mod["main"])


def test_a_band_of_int64() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((16, 32), "int32"), n: T.int64):
    for i in range(T.int64(2), n):
        for j in range(i * T.int64(2), i * T.int64(2) + T.int64(7)):
            A[i, j] = T.Cast("int32", i * T.int64(3) - j)
""")
    sch = tl.Schedule(before, debug_mask="all")
    sch.reorder("j", "i")
    executes_alike(before, sch.mod["main"], inputs=[[np.zeros((16, 32), "int32"), n] for n in (-9, 2, 3, 13)])


def test_what_stands_beside_goes_in_front_and_behind() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6,), "float32"), D: T.Buffer((6,), "float32")):
    for i in range(6):
        C[i] = T.float32(0)
        for k in range(8):
            C[i] = C[i] + A[i, k]
        D[i] = C[i] * T.float32(2)
""")
    sch = tl.Schedule(before, debug_mask="all")
    i, k = sch.loop("i"), sch.loop("k")
    sch.reorder(k, i)
    assert sch.get(k).body is sch.get(i)
    assert sch.steps[-1].exactness == "bitwise"
    executes_alike(before, sch.mod["main"])


def test_what_cannot_go_in_front_goes_inside() -> None:
    # The row that is started reads what the row before left: in loops of its own it would come too early.
    before = parse("""
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), C: T.Buffer((9, 8), "int32")):
    for i in range(8):
        C[i + 1, 0] = C[i, 7]
        for k in range(1, 8):
            C[i + 1, k] = C[i + 1, k - 1] + 1
""")
    sch = tl.Schedule(before, debug_mask="all")
    with pytest.raises(IllegalStep) as raised:
        sch.reorder("k", "i")
    first, second = raised.value.witness.points
    assert first.indices == second.indices
    legal = parse("""
@T.prim_func
def f(C: T.Buffer((9, 8), "int32"), D: T.Buffer((9,), "int32"), n: T.int32):
    for i in range(8):
        D[0] = C[i, 1]
        for k in range(1, 8):
            C[i + 1, k] = D[0] + k
""")
    with pytest.raises(IllegalStep):
        tl.Schedule(legal).reorder("k", "i")
    inside = parse("""
@T.prim_func
def f(C: T.Buffer((9, 8), "int32"), D: T.Buffer((9,), "int32")):
    for i in range(8):
        D[i] = C[i, 1]
        for k in range(2, 3):
            C[i + 1, 1] = D[i] + k
""")
    sch = tl.Schedule(inside, debug_mask="all")
    sch.reorder("k", "i")
    executes_alike(inside, sch.mod["main"])
    assert "if" in str(sch.mod["main"])


def test_three_loops_with_something_beside_each() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((4, 5, 6), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4, 5), "int32"), n: T.int32):
    for i in range(4):
        B[i] = i + n
        for j in range(1, 5):
            C[i, j] = B[i] + j
            for k in range(j, 6):
                if i < n:
                    A[i, j, k] = C[i, j] + k
            C[i, j] = C[i, j] + A[i, j, 5]
        B[i] = B[i] + C[i, 2]
""")
    sch = tl.Schedule(before, debug_mask="all")
    i, j, k = sch.loop("i"), sch.loop("j"), sch.loop("k")
    sch.reorder(k, j, i)
    assert sch.get(k).body is sch.get(j) and sch.get(j).body is sch.get(i)
    executes_alike(before, sch.mod["main"])


def test_lanes_around_are_asked_again() -> None:
    # In lanes of `v` the reads of row 1 come after the writes of row 0: only while `a` is outside of `b`.
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4, 4), "int32")):
    for v in T.vectorized(2):
        for a, b in T.grid(2, 2):
            A[v + a, b + 1 - v] = A[v + a, b + 1 - v] + v + 2 * A[1, 1]
            B[v, a, b] = A[v + a, b]
""")
    sch = tl.Schedule(func)
    sch.reorder("a", "b")
    assert sch.mod["main"] is func
    with pytest.raises(LegalityError, match=r"A\[v \+ a, b \+ 1 - v\] and A\[1, 1\]"):
        sch.reorder("b", "a")


def test_interchange() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((3, 4, 5), "int32")):
    for i, j, k in T.grid(3, 4, 5):
        A[i, j, k] = A[i, j, k] * 3 + k
""")
    for pair in (("i", "k"), ("k", "i")):
        sch = tl.Schedule(before, debug_mask="all")
        sch.interchange(*pair)
        assert names(sch, "A") == ["k", "j", "i"]
        executes_alike(before, sch.mod["main"])
        again = tl.Schedule(before)
        sch.trace.apply_json_to_schedule(sch.trace.as_json(dialect="tirlower"), again)
        same_function(again.mod["main"], sch.mod["main"])
    with pytest.raises(TraceError, match="no form in TVM"):
        sch.trace.as_json(dialect="tvm")
    with pytest.raises(BadArgument):
        sch.interchange("i", "i")


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


GUARDED = """
@T.prim_func
def f(B: T.Buffer((9, 9), "int32"), C: T.Buffer((9, 9), "int32")):
    for i in range(8):
        if i % 3 != 1:
            for j in range(7):
                {first}
                for k in range(1, 3):
                    C[i, j] = C[i, j] + k
                C[i, j] = B[i, 0] + C[i, j] * 2
"""


@pytest.mark.parametrize("first", ["B[i, j] = i", "for m in range(2):\n                    B[i, j + m] = i"])
def test_what_stands_beside_stays_under_the_conditions_around_it(first: str) -> None:
    before = parse(GUARDED.format(first=first))
    sch = tl.Schedule(before, debug_mask="all")
    sch.reorder("k", "i")
    executes_alike(before, sch.mod["main"])
    roundtrips(sch.mod["main"])
    assert str(sch.mod["main"]).count("i % 3 != 1") == 3


def test_a_block_beside_stays_under_the_condition_around_it() -> None:
    block = 'with T.block("B"):\n                    vi, vj = T.axis.remap("SS", [i, j])\n                    B[vi, vj] = vi'
    before = parse(GUARDED.format(first=block))
    sch = tl.Schedule(before, debug_mask="all")
    sch.reorder("k", "i")
    assert len(sch.loops("B")) == 2
    executes_alike(before, sch.mod["main"])
    assert "T.where(i % 3 != 1)" in str(sch.mod["main"])


def test_what_goes_inside_stays_under_the_condition_around_it() -> None:
    before = parse("""
@T.prim_func
def f(C: T.Buffer((9, 8), "int32"), D: T.Buffer((9,), "int32")):
    for i in range(8):
        if i % 3 != 1:
            for j in range(1):
                D[i] = C[i, 1]
                for k in range(2, 3):
                    C[i + 1, 1] = D[i] + k
""")
    sch = tl.Schedule(before, debug_mask="all")
    sch.reorder("k", "i")
    assert len(sch.loops("D")) == 3
    executes_alike(before, sch.mod["main"])


def test_a_handle_of_an_if_between_the_loops_ends() -> None:
    before = parse("""
@T.prim_func
def f(C: T.Buffer((9, 8), "int32")):
    for i in range(8):
        if i % 3 != 1:
            for k in range(4):
                C[i, k] = k
""")
    sch: Any = tl.Schedule(before, debug_mask="all")
    held = sch.find("if _: ...")
    sch.reorder("k", "i")
    executes_alike(before, sch.mod["main"])
    with pytest.raises(DeadHandle, match="reorder ended it"):
        sch.get(held)


def test_what_does_nothing_beside_a_loop_is_left_out() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4, 5), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        B[i] = i
        T.evaluate(0)
        for j in range(5):
            A[i, j] = i * j
        T.evaluate(0)
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.interchange("i", "j")
    executes_alike(func, sch.mod["main"])
    assert [loop.name for loop in sch.loops("A")] == ["j", "i"]
