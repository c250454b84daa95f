"""What stands between and beside loops: jumps, allocations, assertions; two reductions of which one reads the other."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from tests.poly.brute import events, parallel_conflict
from tirlower.ir import PrimFunc
from tirlower.poly import can_distribute, can_fuse, can_reorder, extract, is_parallel, is_unrollable, is_vectorizable
from tirlower.script import parse

SIGNATURE = (
    'def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((1,), "int32"), n: T.int32):\n'
)


def parsed(body: str) -> PrimFunc:
    func: Any = parse("@T.prim_func\n" + SIGNATURE + textwrap.indent(textwrap.dedent(body), "    "))
    return func


BETWEEN = {
    "an allocation": 't = T.alloc_buffer((1,), "int32")',
    "a constant": 't = T.allocate_const([1, 2], "int32", [2])',
    "an assertion": 'assert n > i, "n"',
    "a continue": "if i > 4:\n        T.continue_loop()",
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_nothing_may_stand_between_loops_that_change_places(between: str) -> None:
    def program(line: str) -> PrimFunc:
        return parsed(f"for i in range(8):\n    {line}\n    for j in range(8):\n        A[i, j] = i * 9 + j")

    for line, answer in ((between, "refuted"), ("pass", "proved"), ("m = T.bind(i * 3)", "proved")):
        func = program(line)
        assert can_reorder(func, ["j", "i"]).status == answer
        assert can_fuse(func, "i", "j").status == answer


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_nothing_may_stand_between_adjacent_loops(between: str) -> None:
    if "continue" in between:
        pytest.skip("is inside a loop")
    program = """
    for k in range(1):
        for i in range(8):
            A[i, 0] = i
        {}
        for j in range(8):
            B[j] = j
    """
    func = parsed(program.format(between.replace("> i", "> k")))
    assert can_fuse(func, "i", "j").refuted
    assert can_fuse(parsed(program.format("pass")), "i", "j").proved


def test_a_continue_and_what_is_behind_it() -> None:
    func = parsed("""
    for i in range(8):
        A[i, 0] = 1
        if i > 3:
            T.continue_loop()
        A[i, 1] = 2
    for j in range(8):
        B[j] = 3
    """)
    assert can_distribute(func, "i").refuted and can_distribute(func, "i", 2).refuted
    assert can_distribute(func, "i", 1).proved  # the jump and what it skips stay together
    assert can_fuse(func, "i", "j").refuted
    assert is_unrollable(func, "i").refuted
    assert is_parallel(func, "i").proved


def test_fusing_behind_a_loop_without_jumps() -> None:
    func = parsed("""
    for i in range(8):
        B[i] = 3
    for j in range(8):
        if j > 3:
            T.continue_loop()
        A[j, 1] = 2
    """)
    assert can_fuse(func, "i", "j").proved


SHARED = {
    "an allocation": 't = T.alloc_buffer((1,), "int32")\n    A[i, 0] = 1\n    t[0] = i\n    B[i] = t[0]',
    "a view": 'V = T.decl_buffer((8,), "int32", data=A.data)\n    A[i, 0] = 1\n    V[i] = 3\n    B[i] = 4',
    "a pointer": 'q = T.bind(A.data)\n    V = T.Buffer((8,), "int32", data=q)\n    A[i, 0] = 1\n    B[i] = V[i]\n    C[0] = 1',
    "an offset": 'k = T.bind(i * 8)\n    V = T.Buffer((8,), "int32", data=A.data, elem_offset=k)\n    C[0] = 1\n    V[0] = 3',
}


@pytest.mark.parametrize("body", SHARED.values(), ids=SHARED)
def test_a_cut_keeps_a_declaration_and_its_uses_together(body: str) -> None:
    verdict = can_distribute(parsed(f"for i in range(8):\n    {body}"), "i", 1)
    assert verdict.refuted and "before the cut and used after it" in verdict.reason


# A body, and the iterations of i in which it does anything.
CONTINUES = {
    "guarded": "if i > 3:\n        T.continue_loop()\n    B[i % 4] = i",
    "in an arm": "if i > 3:\n        B[i] = 1\n    else:\n        B[i + 8] = 2\n        T.continue_loop()\n    B[i + 4] = i",
    "nested": "if i > 1:\n        if i < 6:\n            T.continue_loop()\n        B[i] = 1\n    B[i + 2] = i",
    "twice": "if i > 5:\n        T.continue_loop()\n    B[i] = 1\n    if i < 3:\n        T.continue_loop()\n    B[i + 3] = i",
    "always": "T.continue_loop()\n    B[0] = i",
    "inner": "for j in range(8):\n        if j > i:\n            T.continue_loop()\n        A[i, j] = A[j, i]",
    "inner, skewed": "for j in range(8):\n        if j != i:\n            T.continue_loop()\n        B[j] = i",
    "outer and inner": (
        "if i == 2:\n        T.continue_loop()\n    for j in range(8):\n        if j > 0:\n            T.continue_loop()\n"
        "        B[i // 2 + i % 2 * 4] = i"
    ),
    "a break that never runs": "if i > 8:\n        T.break_loop()\n    B[i] = i",
    "an inner break that never runs": "for j in range(8):\n        if j > i + 8:\n            T.break_loop()\n        A[i, j] = i",
}  # fmt: skip


@pytest.mark.parametrize("body", CONTINUES.values(), ids=CONTINUES)
def test_what_a_jump_leaves(body: str) -> None:
    func = parsed(f"for i in range(8):\n    {body}")
    scop, found = extract(func), events(func)
    for loop in scop.loops:
        verdict = is_parallel(scop, loop)
        conflict = parallel_conflict(found, loop.node)
        assert verdict.status == ("proved" if conflict is None else "refuted"), (loop.name, verdict.reason)


SUMS = {
    "the other way round": "A[0, k] += B[k]\n    C[0] += A[0, 7 - k]",
    "its neighbour": "B[k] += A[0, k]\n    C[0] += B[k + 1]",
    "in turn": "B[0] += C[0]\n    C[0] += A[0, k]",
    "in a condition": "B[k] += A[0, k]\n    C[0] += T.if_then_else(B[k + 1] > 2, 1, 0)",
    "through a pointer": "C[0] += A[0, k] + V[0]",
    "in an index": "C[0] += 1\n    B[8 + k] += A[0, C[0] % 8]",
    "of its own": "B[k] += B[k + 1]",
}


@pytest.mark.parametrize("body", SUMS.values(), ids=SUMS)
def test_a_sum_that_reads_another(body: str) -> None:
    pointer = 'q = T.bind(C.data)\nV = T.Buffer((1,), "int32", data=q)\n'
    func = parsed(pointer + "for k in range(8):\n    " + body)
    assert not is_parallel(func, "k", reductions=True).proved
    if body != SUMS["of its own"]:  # which reads what no earlier lane has written
        assert not is_vectorizable(func, "k", reductions=True).proved
    turned = parsed(pointer + "for k, j in T.grid(8, 4):\n    " + body)
    assert not can_reorder(turned, ["j", "k"]).proved
    apart = parsed("for k in range(8):\n    B[k] += A[0, k]\n    C[0] += A[1, 7 - k]")
    assert is_parallel(apart, "k", reductions=True).proved and is_vectorizable(apart, "k", reductions=True).proved
