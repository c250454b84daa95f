from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TirError
from tirlower.interp import interpret
from tirlower.ir import BufferLoad, BufferStore, PrimFunc, Select, Var, const, post_order_visit
from tirlower.ir.buffer import decl_buffer
from tirlower.script import tir as T
from tirlower.transforms import RewriteUnsafeSelect


def test_an_arm_that_loads_is_chosen() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((18,), "int32")):
        for i in range(18):
            B[i] = T.Select(i < 16, A[T.min(i, 15)], 0)

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((18,), "int32")):
        for i in range(18):
            B[i] = T.if_then_else(i < 16, A[T.min(i, 15)], 0)

    check(RewriteUnsafeSelect(), before, expected)


def test_it_saves_a_program_that_would_fault() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((18,), "int32"), n: T.int32):
        for i in range(18):
            B[i] = T.Select(i < 16, A[i], 0) + T.Select(n != 0, i // n, -1)

    after = check(RewriteUnsafeSelect(), before, execute=False)
    a, b = np.arange(16, dtype="int32"), np.zeros(18, "int32")
    with pytest.raises(TirError):
        interpret(before, a, b, 0)
    interpret(after, a, b, 0)
    assert list(b) == [*range(-1, 15), -1, -1]


def test_safe_arms_stay() -> None:
    @T.prim_func
    def before(B: T.Buffer((18,), "int32"), C: T.Buffer((18,), "float32"), n: T.int32):
        for i in range(18):
            B[i] = T.Select(i < 16, i * 3, n) + T.Select(n > 0, i // 4, i % 7)
            C[i] = T.Select(i < n, T.exp(C[0] * T.float32(0)) * T.float32(0), T.float32(1)) if False else T.float32(1)

    check(RewriteUnsafeSelect(), before, before)


def test_pure_calls_are_safe_loads_in_them_are_not() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), x: T.float32):
        for i in range(8):
            A[i] = T.Select(i < 4, T.exp(x), x) + T.Select(i < 4, T.sin(A[i]), x)

    @T.prim_func
    def expected(A: T.Buffer((8,), "float32"), x: T.float32):
        for i in range(8):
            A[i] = T.Select(i < 4, T.exp(x), x) + T.if_then_else(i < 4, T.sin(A[i]), x)

    check(RewriteUnsafeSelect(), before, expected)


def test_divisors_known_not_to_be_zero_are_safe() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(1, 8):
            A[i] = T.Select(n > 3, n // i, T.truncmod(n, i))
            if n > 0:
                A[i] = A[i] + T.Select(i > 3, i % n, i)
            else:
                A[i] = A[i] - T.Select(n < 0, i % n, i)

    after = check(RewriteUnsafeSelect(), before, sizes=(1, 4))
    text = after.script()
    assert text.count("T.Select") == 2 and text.count("if_then_else") == 1
    assert "T.if_then_else(n < 0, i % n, i)" in text


def test_nested_selects() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = T.Select(i < 6, T.Select(i < 3, A[i], 1), 2)

    # The inner one faults no more as soon as it is a choice, so the outer one may stay.
    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = T.Select(i < 6, T.if_then_else(i < 3, A[i], 1), 2)

    check(RewriteUnsafeSelect(), before, expected)


def test_guarded_operands_and_addresses_are_not_evaluated() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        A[0] = T.Select(n > 1, T.if_then_else(n < 8, A[n % 8], 0), 1)
        T.evaluate(T.call_extern("handle", "memset", T.Select(n > 1, T.address_of(A[n % 8]), T.address_of(A[0])), 0, 4))

    check(RewriteUnsafeSelect(), before, before)


def test_vector_conditions_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        B[0:8] = T.Select(T.Ramp(0, 1, 8) < T.Broadcast(3, 8), A[T.Ramp(0, 1, 8)], T.Broadcast(T.float32(0), 8))
        B[0:4] = T.Select(B[5] > T.float32(0), A[T.Ramp(0, 2, 4)], B[T.Ramp(4, 1, 4)])

    after = check(RewriteUnsafeSelect(), before)
    assert after.script().count("T.Select") == 1 and after.script().count("if_then_else") == 1


def test_effects_in_an_arm_are_unsafe() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        A[0] = T.Select(n > 1, T.call_pure_extern("int32", "abs", n), 1)
        A[1] = T.Select(n > 1, T.call_extern("int32", "abs", n), 1)

    text = check(RewriteUnsafeSelect(), before).script()
    assert "A[0] = T.Select" in text and "A[1] = T.if_then_else" in text


def test_a_long_chain_is_walked_once() -> None:
    buffer, param = decl_buffer((8,), "int32", "A"), Var("A", "handle")
    value, n = BufferLoad(buffer, (const(1),)), Var("n")
    for i in range(2000):
        value = Select(n > i, value + 1, const(i))
    before = PrimFunc((param, n), {param: buffer}, None, {}, BufferStore(buffer, value, (const(2),)))
    after = RewriteUnsafeSelect()(before)
    left: list[object] = []
    post_order_visit(after.body, lambda op: left.append(op) if isinstance(op, Select) else None)
    assert len(left) == 1999
