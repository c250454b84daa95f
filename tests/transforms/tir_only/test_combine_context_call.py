from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.checking import check
from tirlower.interp import interpret, register_extern
from tirlower.ir import Bind, For, IRModule, PrimFunc, Seq, pre_order_visit
from tirlower.machine.target import Target
from tirlower.script import parse
from tirlower.transforms import CombineContextCall

QUEUE = 'T.tvm_thread_context(T.call_extern("handle", "queue"), dtype="handle")'
asked: list[Any] = []


@pytest.fixture(autouse=True)
def externs() -> Iterator[None]:
    asked.clear()
    names = {
        "queue": lambda *key: asked.append(key) or f"queue{key}",
        "push": lambda queue, value: (sum(map(ord, queue)) + value) % 1000,
    }
    for name, fn in names.items():
        register_extern(name, fn)
    yield
    for name in names:
        register_extern(name, None)


def function(body: str, params: str = 'A: T.Buffer((8,), "int32"), n: T.int32') -> PrimFunc:
    return parse(f"@T.prim_func\ndef f({params}):\n{body}").with_attr("target", Target("llvm"))


def combined(func: PrimFunc, *inputs: list[Any]) -> tuple[PrimFunc, list[tuple[int, int]]]:
    """The result, checked; and how often contexts were asked for, before and after, by input."""
    after = check(CombineContextCall(), func, inputs=list(inputs))
    counts = []
    for args in inputs:
        numbers = []
        for one in (func, after):
            asked.clear()
            interpret(one, *[a.copy() if isinstance(a, np.ndarray) else a for a in args])
            numbers.append(len(asked))
        counts.append((numbers[0], numbers[1]))
    return after, counts


def bindings(func: PrimFunc) -> int:
    found = []
    pre_order_visit(
        func.body, lambda op: found.append(op) if isinstance(op, Bind) and "_cache" in op.var.name else None
    )
    return len(found)


A = np.arange(8, dtype="int32")


def test_one_context_used_twice_in_a_loop() -> None:
    func = function(f"""    for i in range(n):
        A[i] = T.call_extern("int32", "push", {QUEUE}, A[i])
        A[i] = T.call_extern("int32", "push", {QUEUE}, i) + A[i]
""")
    after, counts = combined(func, [A, 8], [A, 1], [A, 0])
    assert counts == [(16, 1), (2, 1), (0, 1)] and bindings(after) == 1
    assert isinstance(after.body, Seq) and isinstance(after.body.stmts[0], Bind)


def test_different_contexts_and_equal_ones_of_different_objects() -> None:
    func = function("""    for i in range(8):
        A[i] = T.call_extern("int32", "push", T.tvm_thread_context(T.call_extern("handle", "queue", n), dtype="handle"), A[i])
        A[i] = T.call_extern("int32", "push", T.tvm_thread_context(T.call_extern("handle", "queue", n + 1), dtype="handle"), A[i])
        A[i] = T.call_extern("int32", "push", T.tvm_thread_context(T.call_extern("handle", "queue", n), dtype="handle"), A[i])
""")
    after, counts = combined(func, [A, 3])
    assert counts == [(24, 2)] and bindings(after) == 2


def test_parallel_loops_have_their_own() -> None:
    func = function(f"""    A[0] = T.call_extern("int32", "push", {QUEUE}, A[0])
    for i in T.parallel(2, 6):
        for j in range(3):
            A[i] = T.call_extern("int32", "push", {QUEUE}, A[i])
    A[1] = T.call_extern("int32", "push", {QUEUE}, A[1])
""")
    after, counts = combined(func, [A, 0])
    assert counts == [(14, 5)] and bindings(after) == 2
    loops: list[For] = []
    pre_order_visit(after.body, lambda op: loops.append(op) if isinstance(op, For) else None)
    assert isinstance(loops[0].body, Seq) and isinstance(loops[0].body.stmts[0], Bind)


def test_thread_axes_and_device_regions_have_their_own() -> None:
    func = function(f"""    for t in T.thread_binding(8, "threadIdx.x"):
        A[t] = T.call_extern("int32", "push", {QUEUE}, A[t])
        A[t] = T.call_extern("int32", "push", {QUEUE}, A[t]) + 1
    with T.attr(0, "device_scope", 0):
        A[0] = T.call_extern("int32", "push", {QUEUE}, A[0])
    for v in T.thread_binding(2, "vthread"):
        A[v] = T.call_extern("int32", "push", {QUEUE}, A[v])
""")
    after, counts = combined(func, [A, 0])
    assert bindings(after) == 3 and counts[0][1] < counts[0][0]


def test_a_context_of_what_is_defined_below_stays() -> None:
    func = function("""    for i in range(4):
        k: T.int32 = i * 2
        A[i] = T.call_extern("int32", "push", T.tvm_thread_context(T.call_extern("handle", "queue", i), dtype="handle"), A[i])
        A[i] = T.call_extern("int32", "push", T.tvm_thread_context(T.call_extern("handle", "queue", k), dtype="handle"), A[i])
""")
    after, counts = combined(func, [A, 0])
    assert after is func and counts == [(8, 8)]


def test_the_variable_of_a_parallel_loop_is_known_in_its_body() -> None:
    func = function("""    for i in T.parallel(4):
        for j in range(2):
            A[i] = T.call_extern("int32", "push", T.tvm_thread_context(T.call_extern("handle", "queue", i), dtype="handle"), A[i])
""")
    _, counts = combined(func, [A, 0])
    assert counts == [(8, 4)]


def test_while_loops_conditions_and_lets() -> None:
    func = function(f"""    k = T.alloc_buffer((1,), "int32")
    k[0] = 0
    while k[0] < n:
        if A[k[0]] > 2:
            x: T.int32 = T.call_extern("int32", "push", {QUEUE}, A[k[0]])
            A[k[0]] = x
        else:
            A[k[0]] = T.call_extern("int32", "push", {QUEUE}, 5)
        k[0] = k[0] + 1
""")
    _, counts = combined(func, [A, 8], [A, 0])
    assert counts == [(8, 1), (0, 1)]


def test_allocated_memory_of_a_scope_is_below() -> None:
    func = function("""    for i in range(2):
        B = T.alloc_buffer((2,), "int32")
        B[0] = i
        A[i] = T.call_extern("int32", "push", T.tvm_thread_context(T.call_extern("handle", "queue", B[0]), dtype="handle"), A[i])
""")
    after, _ = combined(func, [A, 0])
    assert after is func


def test_device_code_and_functions_without_contexts_stay() -> None:
    func = function(f"""    A[0] = T.call_extern("int32", "push", {QUEUE}, A[0])
""")
    mod = IRModule({"kernel": func.with_attr("target", {"kind": "cuda"}).without_attr("global_symbol")})
    assert CombineContextCall()(mod) is mod
    plain = function("    A[0] = n\n")
    check(CombineContextCall(), plain, plain)


def test_a_function_without_a_target_stays() -> None:
    func = function(f"""    T.evaluate(T.call_extern("int32", "push", {QUEUE}, n))
    T.evaluate(T.call_extern("int32", "push", {QUEUE}, n + 1))
""")
    assert bindings(CombineContextCall()(func)) == 1
    unbound = func.without_attr("target")
    assert CombineContextCall()(unbound) is unbound
