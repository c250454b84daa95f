"""Stores under a condition, of elements stored before the loop: what becomes a select, what stays a branch."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.interp import interpret
from tirlower.ir import stmt as S
from tirlower.ir.buffer import decl_buffer
from tirlower.ir.expr import BufferLoad, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.llvm.codegen.module import generate
from tirlower.script import parse

pytestmark = pytest.mark.by_day

_PARAMS = 'A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32"), C: T.Buffer((9,), "int32"), F: T.Buffer((9,), "float32")'


def kernel(body: str, *, params: str = _PARAMS) -> tl.Kernel:
    """A kernel of these statements."""
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    made = tl.build(parse(f"@T.prim_func\ndef f({params}):\n{lines}\n"), "llvm -num_threads=2", schedule="none")
    assert isinstance(made, tl.Kernel)
    return made


def selects(made: tl.Kernel) -> int:
    """How many selects its code has, before LLVM makes any."""
    return made.source("llvm").count(" select ")


#: stores that are made either way
SELECTS = {
    "a count": "C[0] = 0\nfor i in range(n):\n    if A[i] > 5:\n        C[0] += 1",
    "a maximum": "C[0] = -9\nfor i in range(n):\n    if A[i] > C[0]:\n        C[0] = A[i]",
    "a place": "C[0] = -1\nfor i in range(n):\n    if A[i] == 7:\n        C[0] = i",
    "two loops": "C[3] = 0\nfor i, j in T.grid(n, 3):\n    if A[i] > j:\n        C[3] = i + j",
    "an element of each row": "for i in range(n):\n    B[i] = 0\n    for j in range(n):\n        if A[j] > A[i]:\n            B[i] += 1",
    "rows in threads": "for i in T.parallel(n):\n    B[i] = 0\n    for j in range(n):\n        if A[j] > A[i]:\n            B[i] += 1",
    "a float that is at hand": "F[0] = 0.0\nfor i in range(n):\n    if A[i] > 5:\n        F[0] = 1.5",
}

#: stores that must not be made unless the program makes them, or that a select would slow down
BRANCHES = {
    "nothing is stored before": "for i in range(n):\n    if A[i] > 5:\n        C[0] = i",
    "another element is stored before": "C[0] = 0\nfor i in range(n):\n    if A[i] > 5:\n        C[1] = i",
    "another element in each iteration": "B[0] = 0\nfor i in range(n):\n    if A[i] > 5:\n        B[i] = i",
    "stored before under a condition": "if n > 3:\n    C[0] = 0\nfor i in range(n):\n    if A[i] > 5:\n        C[0] = i",
    "stored before in a loop that may not run": (
        "for j in range(n - 5):\n    C[0] = j\nfor i in range(n):\n    if A[i] > 5:\n        C[0] = i"
    ),
    "in threads, stored before them": "C[0] = 0\nfor i in T.parallel(n):\n    if n * 2 == i * 3:\n        C[0] = 5",
    "the value may be outside": (
        "C[0] = 0\nfor i in range(n):\n    if A[i] >= 0 and A[i] < 9:\n        C[0] = C[A[i]]"
    ),
    "the value divides": "C[0] = 0\nfor i in range(n):\n    if A[i] != 0:\n        C[0] = 100 // A[i]",
    "a load that a condition guards": "C[0] = 0\nfor i in range(n):\n    if i > 0 and B[i - 1] > 2:\n        C[0] = B[i - 1]",
    "a sum of floats": "F[0] = 0.0\nfor i in range(n):\n    if A[i] > 5:\n        F[0] += 0.5",
    "something else is called": (
        'C[0] = 0\nfor i in range(n):\n    T.evaluate(T.call_extern("int32", "abs", A[i]))\n    if A[i] > 5:\n        C[0] = i'
    ),
}


@pytest.mark.parametrize("name", [*SELECTS, *BRANCHES])
def test_both_are_what_the_program_does(name: str) -> None:
    made = kernel({**SELECTS, **BRANCHES}[name])
    assert (selects(made) > 0) == (name in SELECTS)
    rng = np.random.default_rng(len(name))
    for n in (1, 3, 8, 40):
        args = [rng.integers(-3, 12, n, dtype=np.int32) for _ in range(2)]
        args += [rng.integers(-3, 12, 9, dtype=np.int32), rng.random(9, dtype=np.float32)]
        want = [a.copy() for a in args]
        made(*args)
        interpret(made.artifact.spec.module["f"], *want)
        for got, expected in zip(args, want, strict=True):
            assert np.array_equal(got, expected)


def test_arrays_that_overlap_keep_the_branch() -> None:
    made = kernel(SELECTS["a count"])
    memory = np.array([9, 1, 8, 7, 0, 6, 2, 9, 9, 3, 4], dtype=np.int32)
    args = [memory[:9], np.zeros(9, dtype=np.int32), memory[2:], np.zeros(9, dtype=np.float32)]
    want = memory.copy()
    want[2] = 0
    for at in range(9):
        want[2] += want[at] > 5
    made(*args)
    assert memory.tolist() == want.tolist()


def test_a_name_bound_anew_is_another_element() -> None:
    a, x, i = Var("a", "handle"), Var("x", "int32"), Var("i", "int32")
    buffer = decl_buffer((9,), "int32", "A")
    zero, nine = const(0, "int32"), const(9, "int32")

    def code(again: int) -> str:
        stored = S.IfThenElse(BufferLoad(buffer, (i,)) > 5, S.BufferStore(buffer, i, (x,)), None)
        loop = S.For(i, zero, nine, "serial", None, {}, stored)
        anew = [S.Bind(x, const(at, "int32")) for at in range(again)]
        body = S.Seq((S.Bind(x, zero), S.BufferStore(buffer, nine, (x,)), *anew, loop))
        func = PrimFunc((a,), {a: buffer}, None, {"global_symbol": "f", "tir.noalias": True}, body)
        return generate(func).text

    assert " select " in code(0)
    assert " select " not in code(1)


def test_a_store_behind_a_name_bound_anew_ends_with_its_scope() -> None:
    a, x, i = Var("a", "handle"), Var("x", "int32"), Var("i", "int32")
    buffer = decl_buffer((9,), "int32", "A")
    zero, nine = const(0, "int32"), const(9, "int32")
    stores = [S.BufferStore(buffer, nine, (const(at, "int32"),)) for at in range(3)]
    element = (const(7, "int32"),)
    maybe = S.IfThenElse(
        BufferLoad(buffer, (zero,)) > 5, S.Seq((S.Bind(x, nine), S.BufferStore(buffer, nine, element))), None
    )
    loop = S.For(
        i,
        zero,
        nine,
        "serial",
        None,
        {},
        S.IfThenElse(BufferLoad(buffer, (i,)) > 5, S.BufferStore(buffer, i, element), None),
    )
    body = S.Seq((*stores, S.Bind(x, zero), maybe, loop))
    func = PrimFunc((a,), {a: buffer}, None, {"global_symbol": "f", "tir.noalias": True}, body)
    assert " select " not in generate(func).text


def test_many_stores_cost_no_more_each() -> None:
    stores = "\n".join(f"B[{at}] = {at}" for at in range(300))
    loop = "for i in range(n):\n    if A[i] > 5:\n        B[7] = i"
    made = kernel(f"T.assume(n >= 300)\n{stores}\n{loop}")
    a, b = np.arange(300, dtype=np.int32), np.zeros(300, dtype=np.int32)
    made(a, b, np.zeros(9, np.int32), np.zeros(9, np.float32))
    assert b[7] == 299 and b[8] == 8


def test_a_function_of_the_module_alone_may_have_a_loop_that_copies_more_than_once() -> None:
    source = """
@I.ir_module
class Two:
    @T.prim_func(private=True)
    def swap(p: T.handle("int32"), n: T.int32):
        P = T.decl_buffer((n + 1,), "int32", data=p)
        for i in range(n):
            t = T.bind(P[i])
            P[i] = P[i + 1]
            P[i + 1] = t

    @T.prim_func
    def main(A: T.Buffer((9,), "int32")):
        Two.swap(A.data, 8)
"""
    made = tl.build(parse(source), "llvm -num_threads=1", schedule="none")
    a = np.arange(9, dtype=np.int32)
    (made["main"] if isinstance(made, tl.Executable) else made)(a)
    assert a.tolist() == [*range(1, 9), 0]
