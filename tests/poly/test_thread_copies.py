"""Whether threads read what others wrote into copies of their own, against the interpreter, which gives each thread its own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import TirError
from tirlower.poly import extract, other_copies
from tirlower.script import parse

WRITES = ("D[i] = A[i]", "D[(i + 1) % 4] = A[i]", "D[0] = A[i]", "if i < 3:\n            D[i + 1] = A[i]")
READS = ("D[j]", "D[3 - j]", "D[(j + 1) % 4]", "D[0]", "D[(j + 4) // 5]")
LOOPS = ('T.thread_binding(4, thread="threadIdx.x")', 'T.thread_binding(4, thread="threadIdx.y")', "range(4)")


def _program(write: str, read: str, loop: str) -> str:
    return f"""
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    D = T.alloc_buffer((4,), "int32", scope="local")
    for i in T.thread_binding(4, thread="threadIdx.x"):
        {write}
    for j in {loop}:
        B[j] = {read}
"""


@pytest.mark.parametrize(("write", "read", "loop"), list(itertools.product(WRITES, READS, LOOPS)))
def test_what_is_taken_finds_each_element_in_its_thread(write: str, read: str, loop: str) -> None:
    func = parse(_program(write, read, loop))
    taken = not list(other_copies(extract(func)))
    a, b = np.arange(1, 5, dtype="int32"), np.zeros(4, "int32")
    serial, plain = np.zeros(4, "int32"), _program(write, read, "range(4)").replace(LOOPS[0], "range(4)")
    try:
        tl.interpret(parse(plain), a, serial)
    except TirError:
        return  # reads what nobody wrote
    try:
        tl.interpret(func, a, b)
        same = np.array_equal(b, serial)
    except TirError:
        same = False
    # Of what all threads write, each has the last value for itself by chance of the order alone.
    assert same if taken else not same or loop != LOOPS[0] or write == "D[0] = A[i]"


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ("D[0] = A[i]\n        B[i] = D[0]", True),  # a scratch of each thread
        ("B[i] = D[0]\n        D[0] = A[i]", False),  # of the thread before
        ("D[i] = A[i]\n        B[i] = D[i]", True),
        ("for r in range(2):\n            D[0] = A[i] + r\n        B[i] = D[0]", True),
        ("if A[0] < 3:\n            D[0] = A[i]\n        B[i] = D[0]", False),
    ],
)
def test_in_one_loop_each_thread_writes_first(body: str, taken: bool) -> None:
    text = f"""
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    D = T.alloc_buffer((4,), "int32", scope="local")
    for i in T.thread_binding(4, thread="threadIdx.x"):
        {body}
"""
    assert (not list(other_copies(extract(parse(text))))) is taken


def test_a_loop_around_carries_nothing_to_another_thread() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    D = T.alloc_buffer((4,), "int32", scope="local")
    for k in range(3):
        for i in T.thread_binding(4, thread="threadIdx.x"):
            B[i] = D[INDEX]
            D[i] = A[i]
"""
    kept, shifted = (parse(text.replace("INDEX", index)) for index in ("i", "(i + 1) % 4"))
    assert not list(other_copies(extract(kept)))
    (found,) = other_copies(extract(shifted))
    assert found.loop.name == "i" and found.verdict.refuted and found.verdict.witness is not None


@pytest.mark.parametrize(("read", "taken"), [("(i + b) % 4", True), ("(i + b + 1) % 4", False)])
def test_memory_allocated_in_a_loop_is_of_one_iteration(read: str, taken: bool) -> None:
    text = f"""
@T.prim_func
def f(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        D = T.alloc_buffer((4,), "int32", scope="local")
        for i in T.thread_binding(4, thread="threadIdx.x"):
            D[(i + b) % 4] = A[b, i]
        for i in T.thread_binding(4, thread="threadIdx.x"):
            B[b, i] = D[{read}]
"""
    found = list(other_copies(extract(parse(text))))
    assert (not found) is taken
    if found and found[0].verdict.witness is not None:
        first, second = found[0].verdict.witness.points
        assert dict(first.loops)["b"] == dict(second.loops)["b"]


@pytest.mark.parametrize(
    ("read", "taken"),
    [
        ("for j in range(4):\n        B[j] = D[0]", False),  # of a host that has no part in the block's memory
        ('for j in T.thread_binding(1, thread="blockIdx.x"):\n        B[j] = D[0]', True),
        ('for j in T.thread_binding(2, thread="blockIdx.x"):\n        B[j] = D[0]', False),
    ],
)
def test_the_only_block_has_memory_of_its_own(read: str, taken: bool) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    D = T.alloc_buffer((1,), "int32", scope="shared")
    for i in T.thread_binding(1, thread="blockIdx.x"):
        D[i] = A[i]
    {read}
""")
    assert (not list(other_copies(extract(func)))) is taken
    a, b = np.arange(1, 5, dtype="int32"), np.zeros(4, "int32")
    if taken:
        tl.interpret(func, a, b)
        assert b[0] == 1
    else:
        with pytest.raises(TirError, match="read before it is written"):
            tl.interpret(func, a, b)
