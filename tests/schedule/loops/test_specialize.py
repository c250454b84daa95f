"""A statement once more for where a condition holds."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, ScheduleError
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(a: T.handle, k: T.int32):
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "int32")
    for i in range(n):
        for j in range(4):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * k + vi
"""


@pytest.mark.parametrize("conditions", [["n % 4 == 0"], ["k == 1", "n > 2"], ["k < n and k > 0", "k == 0", "n == 1"]])
@pytest.mark.parametrize("where", ["i", "j"])
def test_all_cases(conditions: list[str], where: str) -> None:
    func = parse(TEXT)
    sch = tl.Schedule(func, debug_mask="all")
    loop = sch.loop(where)
    if where == "j":
        conditions = [*conditions, "i % 2 == 1"]
    sch.specialize(loop, *conditions)
    roundtrips(sch.mod["main"])
    assert len(loop.twins) == len(conditions) and sch.get_block("A_other")
    executes_alike(
        func, sch.mod["main"], inputs=[[np.ones((n, 4), "int32"), k] for n in (0, 1, 3, 4) for k in (0, 1, 2)]
    )
    again(func, sch)


SEVERAL = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(8):
        A[i] = A[i] + n
    t = T.alloc_buffer((8,), "int32")
    for i in range(8):
        t[i] = A[i] * 2
    for i in range(8):
        B[i] = t[i] + B[i]
    for i in range(8):
        A[i] = B[7 - i]
"""


@pytest.mark.parametrize(("first", "last"), [(0, 3), (1, 2), (0, 2), (2, 3), (1, 1), (0, 0)])
def test_statements_of_a_sequence(first: int, last: int) -> None:
    func = parse(SEVERAL)
    sch = tl.Schedule(func, debug_mask="all")
    loops = [sch.loop(f"i#{at}") for at in range(4)]
    sch.specialize(loops[first], "n == 1", "n > 3", upto=loops[last])
    made = sch.mod["main"]
    assert str(made).count("for i in") == 4 + 2 * (last - first + 1)
    assert all(len(loop.twins) == 2 * (first <= at <= last) for at, loop in enumerate(loops))
    roundtrips(made)
    executes_alike(func, made, inputs=[[np.arange(8, dtype="int32"), np.ones(8, "int32"), n] for n in (0, 1, 5)])
    again(func, sch)


def test_what_is_declared_there_and_used_behind() -> None:
    sch = tl.Schedule(parse(SEVERAL))
    loops = [sch.loop(f"i#{at}") for at in range(4)]
    with pytest.raises(ScheduleError, match="declared there, and used behind"):
        sch.specialize(loops[0], "n == 1", upto=loops[1])
    with pytest.raises(BadArgument, match="no statement behind"):
        sch.specialize(loops[2], "n == 1", upto=loops[1])
    assert str(sch.mod["main"]).count("for i in") == 4


def test_conditions_are_of_what_stands_around_all_statements() -> None:
    """A nest is meant by any of its loops that hold nothing else: the others do not stand around the condition."""
    sch = tl.Schedule(
        parse("""
@T.prim_func
def f(A: T.Buffer((4, 4), "int32"), n: T.int32):
    for i in range(4):
        for j in range(4):
            A[i, j] = n
    for k in range(2):
        A[k, 0] = A[0, k]
""")
    )
    j, k = sch.loop("j"), sch.loop("k")
    with pytest.raises(BadArgument, match="no condition here"):
        sch.specialize(j, "i == 3", upto=k)
    sch.specialize(j, "n > 3", upto=k)
    roundtrips(sch.mod["main"])
    tl.ir.verify_well_formed(sch.mod["main"])
    sch.specialize(j, "i == 3")
    tl.ir.verify_well_formed(sch.mod["main"])


def test_statements_of_other_sequences() -> None:
    sch = tl.Schedule(
        parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), n: T.int32):
    for i in range(4):
        A[i] = n
    for j in range(2):
        for k in range(2):
            A[k] = j
        for l in range(2):
            A[l] = j
""")
    )
    with pytest.raises(BadArgument, match="no statement behind"):
        sch.specialize(sch.loop("i"), "n == 1", upto=sch.loop("l"))


@pytest.mark.parametrize(
    ("condition", "word"),
    [
        ("m == 3", "no condition here"),
        ("n + 1", "no condition but"),
        ("n ==", "no condition here"),
        ("i == 3", "no condition here"),
        ("n % k == 0", "divide by zero"),
    ],
)
def test_what_is_no_condition(condition: str, word: str) -> None:
    sch = tl.Schedule(parse(TEXT))
    with pytest.raises(BadArgument, match=word):
        sch.specialize(sch.loop("i"), condition)
    with pytest.raises(BadArgument):
        sch.specialize(sch.loop("i"))
