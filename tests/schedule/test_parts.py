"""A nest alone gives the verdicts that it has in the whole function."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.generate.programs import generate
from tirlower.ir import IRModule
from tirlower.ir.stmt import For
from tirlower.poly import extract, is_parallel, is_vectorizable
from tirlower.schedule.facts import Facts
from tirlower.schedule.parts import part_of
from tirlower.schedule.uses import UsesOf
from tirlower.script import parse


def compared(func: Any) -> tuple[int, int]:
    """How many loops were compared, and of how many there is no part."""
    facts, uses = Facts(), UsesOf()
    whole = extract(func)
    count = left = 0
    for way, loop in facts.inside(func.body):
        if not isinstance(loop, For):
            continue
        count += 1
        left += part_of(func, ("body", *way), uses) is None
        part = facts.part(func, ("body", *way))
        for ask in (is_parallel, is_vectorizable):
            assert ask(part, loop).status == ask(whole, loop).status, (ask, loop)
    return count, left


@pytest.mark.parametrize("first", [0, 20])
def test_random_programs(first: int) -> None:
    total = apart = 0
    for seed in range(first, first + 20):
        parsed = parse(generate(seed).text)
        func = parsed["main"] if isinstance(parsed, IRModule) else parsed
        count, left = compared(func)
        total, apart = total + count, apart + count - left
    assert apart > total // 2 > 0


SCRATCH = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    with T.block("root"):
        t = T.alloc_buffer((1,), "int32")
        for i in range(8):
            with T.block("one"):
                vi = T.axis.spatial(8, i)
                t[0] = A[vi]
                B[vi] = t[0]
        OTHER
"""


@pytest.mark.parametrize(
    ("other", "verdict"), [("T.evaluate(0)", "proved"), ("A[0] = t[0]", "refuted"), ("A[0] = 7", "proved")]
)
def test_memory_that_is_used_beside_is_no_iterations_own(other: str, verdict: str) -> None:
    func = parse(SCRATCH.replace("OTHER", other))
    assert compared(func) == (1, 0)
    assert tl.Schedule(func).can("parallel", "i").status == verdict


FACT = """
@T.prim_func
def f(X: T.Buffer((1,), "int32"), A: T.Buffer((99,), "int32")):
    n = X[0]
    T.evaluate(T.assume(n > 8))
    WRITE
    for i in range(8):
        A[i + n] = A[i]
"""


@pytest.mark.parametrize("write", ["A[50] = 1", "X[0] = 1"])
def test_a_fact_about_memory_that_is_written_is_judged_in_the_whole(write: str) -> None:
    assert compared(parse(FACT.replace("WRITE", write))) == (1, write[0] == "X")


def test_a_pointer_and_a_return_leave_no_part() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    p = T.bind(A.data)
    C = T.Buffer((8,), "int32", data=p)
    for i in range(7):
        A[i] = C[i + 1]
""")
    assert compared(func) == (1, 1)
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), n: T.int32):
    if n > 3:
        T.ret(0)
    for i in range(7):
        A[i] = A[i + 1]
""")
    sch = tl.Schedule(func)
    assert sch.can("parallel", "i").status == is_parallel(func, "i").status


def test_the_same_nest_in_another_module_is_not_asked_again() -> None:
    sch = tl.Schedule(parse(SCRATCH.replace("OTHER", "A[0] = 7")))
    assert sch.can("parallel", "i").proved
    answers = len(sch._facts._answers)
    other = sch.copy()
    other.annotate(other.loop("i"), "note", 1)
    assert sch.can("parallel", "i").proved and len(sch._facts._answers) == answers


def test_of_many_parameters_those_stay_that_the_part_names() -> None:
    given = ", ".join(f'B{n}: T.Buffer((8,), "int32")' for n in range(12))
    func = parse(f"""
@T.prim_func
def f(n: T.int32, X: T.Buffer((n,), "int32"), A: T.Buffer((99,), "int32"), {given}):
    m = B3[0]
    T.evaluate(T.assume(m > 8))
    for i in range(8):
        A[i + m] = A[i] + B5[i]
    for j in range(7):
        B7[j] = B7[j + 1]
""")
    assert compared(func) == (2, 0)
    facts = Facts()
    first, _ = (way for way, stmt in facts.inside(func.body) if isinstance(stmt, For))
    part = part_of(func, ("body", *first), facts.uses)
    assert part is not None and {buffer.name for buffer in part.func.buffers} == {"X", "A", "B3", "B5"}
    assert [param.name for param in part.func.params if not param.dtype.is_handle] == ["n"]
