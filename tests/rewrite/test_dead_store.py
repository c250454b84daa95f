from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check, executes_alike
from tirlower.analysis.access_summary import Summarizer
from tirlower.arith import Analyzer
from tirlower.interp import interpret
from tirlower.ir import Block, BufferStore, PrimFunc, Seq, Var, const, post_order_visit
from tirlower.ir.buffer import decl_buffer
from tirlower.rewrite.dead_store import eliminate_dead_stores
from tirlower.script import tir as T
from tirlower.transforms import RemoveNoOp


def cleaned(func: PrimFunc) -> PrimFunc:
    return RemoveNoOp()(eliminate_dead_stores(func))


def stores(func: PrimFunc) -> int:
    found: list[Any] = []
    post_order_visit(func.body, lambda op: found.append(op) if isinstance(op, BufferStore) else None)
    return len(found)


def test_a_loop_overwritten_by_a_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = 100
        for i in range(16):
            B[i] = 0
        for i in range(16):
            A[i] = 42

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            B[i] = 0
        for i in range(16):
            A[i] = 42

    check(cleaned, before, expected)


def test_partly_overwritten_stays() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            A[i] = 100
        for i in range(16):
            if i < 12:
                A[i] = 42
        for i in range(n):
            A[i % 16] = 1
        for i in range(1, 16):
            A[i] = 3
        for i in range(8):
            A[i * 2] = 7

    check(eliminate_dead_stores, before, samples=6)
    assert stores(eliminate_dead_stores(before)) == 5


@pytest.mark.parametrize(("first", "second", "dead"), [(12, 12, True), (10, 12, True), (12, 10, False), (3, 16, True)])
def test_conditions_narrow_loops(first: int, second: int, dead: bool) -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i < first:
                A[i] = 100
        for i in range(16):
            if i < second:
                A[i] = 42

    after = check(cleaned, before)
    assert stores(after) == (1 if dead else 2)


def test_tiles_cover_what_one_loop_covers() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((4, 8), "float32")):
        for io, ii in T.grid(4, 4):
            A[io * 4 + ii] = 100
        for i in range(16):
            A[i] = 1
        for io, ii in T.grid(4, 4):
            A[15 - (io * 4 + ii)] = 2
        for i, j in T.grid(4, 8):
            B[i, j] = T.float32(1)
        for i in range(4):
            B[i, 0:4] = T.Broadcast(T.float32(0), 4)
        for j, i in T.grid(8, 4):
            B[3 - i, j] = T.float32(5)

    after = check(cleaned, before)
    assert stores(after) == 2


def test_gaps_and_overlaps_do_not_cover() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "int32"), n: T.int32):
        for i in range(16):
            A[i] = 100
        for io, ii in T.grid(4, 3):
            A[io * 4 + ii] = 1
        for i in range(16):
            A[i + 16] = 5
        for i in range(n):
            for k in range(3):
                A[i + k + 16] = 6

    check(eliminate_dead_stores, before, inputs=[(np.arange(32, dtype="int32"), n) for n in (0, 1, 4)])
    assert stores(eliminate_dead_stores(before)) == 4


def test_a_read_in_between_keeps_a_store() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            A[i] = 100
        B[0] = A[3]
        for i in range(16):
            A[i] = 42
        A[4] = A[4] + 1
        for i in range(16):
            A[i] = i

    after = check(cleaned, before)
    assert stores(after) == 3


def test_a_read_elsewhere_does_not() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            A[i] = 100
        for i in range(16):
            B[i] = A[i + 16]
        for i in range(16):
            A[i] = 42

    after = check(cleaned, before)
    assert stores(after) == 2


def test_parameters_may_overlap() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = 100
        for i in range(16):
            C[i] = B[i]
        for i in range(16):
            A[i] = 42

    assert eliminate_dead_stores(before) is before
    one, c = np.zeros(16, "int32"), np.zeros(16, "int32")
    interpret(eliminate_dead_stores(before), one, one, c)
    assert (c == 100).all()
    assert stores(eliminate_dead_stores(before.with_attr("tir.noalias", True))) == 2


def test_a_temporary_that_nothing_reads_goes() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((16,), "int32")
        C = T.alloc_buffer((16,), "int32")
        V = T.decl_buffer((4, 4), "int32", data=C.data)
        for i in range(16):
            C[i] = A[i]
        for i in range(16):
            B[i] = C[i] + V[i // 4, i % 4]
        A[0] = 3

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        A[0] = 3

    check(cleaned, before, expected)


def test_writes_to_a_temporary_after_its_last_read() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((4,), "int32")
        B[0] = 1
        B[1] = 2
        A[0] = B[0]
        B[0] = 5

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((4,), "int32")
        B[0] = 1
        A[0] = B[0]

    check(cleaned, before, expected)


def test_values_carried_by_a_loop_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((1,), "int32")
        B[0] = 0
        for i in range(16):
            A[i] = B[0]
            B[0] = B[0] + i

    check(eliminate_dead_stores, before, before)


def test_views_pointers_calls_and_jumps() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        V = T.decl_buffer((4, 4), "int32", data=A.data)
        B = T.alloc_buffer((4,), "int32")
        A[0] = 1
        V[1, 1] = V[0, 0]
        A[0] = 2
        B[0] = 7
        T.evaluate(T.call_extern("handle", "memcpy", A.access_ptr("w", offset=4), B.access_ptr("r"), 4))
        B[0] = 8
        A[0] = 3
        for i in range(4):
            A[i] = 9
            if i == n:
                T.evaluate(T.break_loop())
            A[i] = 4
        A[0] = 5
        assert n < 100, "small"
        A[0] = 6

    after = check(eliminate_dead_stores, before)
    text = after.script()
    for kept in ("A[0] = 1", "A[0] = 2", "B[0] = 7", "A[i] = 9", "A[0] = 5"):
        assert kept in text, kept


def test_a_loop_that_may_end_early_overwrites_nothing_for_certain() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        A[3] = 7
        A[12] = 8
        for i in range(16):
            if i == n:
                T.evaluate(T.break_loop())
            A[i] = 4

    check(eliminate_dead_stores, before, before, inputs=[[np.zeros(16, "int32"), n] for n in (0, 5, 20)])


def test_a_call_reads_before_its_value_is_stored() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        B[0] = 5
        B[0] = T.call_extern("int32", "abs", B[0])
        A[1] = B[0]

    check(eliminate_dead_stores, before, before)


def test_a_call_that_may_do_anything_reads_what_was_stored() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        A[0] = 1
        T.evaluate(T.call_extern("int32", "anything"))
        A[0] = 2
        A[1] = 3
        B[0] = T.call_pure_extern("int32", "abs", 5)
        A[1] = 4

    text = RemoveNoOp()(eliminate_dead_stores(before)).script()
    assert "A[0] = 1" in text and "A[1] = 3" not in text


def test_a_block_that_calls_reads_and_writes_what_it_states() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        with T.block("copy"):
            T.reads(A[0:2])
            T.writes(B[1:3])
            T.evaluate(T.call_extern("handle", "memcpy", B.data, A.data, 8))

    blocks: list[Any] = []
    post_order_visit(func.body, lambda op: blocks.append(op) if isinstance(op, Block) else None)
    made = Summarizer(Analyzer()).of(blocks[0])
    assert [access.buffer.name for access in made.reads] == ["A"]
    assert [access.buffer.name for access in made.writes] == ["B"]
    assert not made.opaque and not made.pointers


def test_pointers_that_are_bound_to_a_name() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        T.func_attr({"tir.noalias": True})
        C = T.alloc_buffer((4,), "int32")
        C[0] = 1
        p: T.handle("int32") = T.address_of(C[0])
        V = T.decl_buffer((4,), "int32", data=p)
        C[0] = 2
        A[0] = V[0]
        C[0] = 3
        A[1] = C[0]

    after = check(eliminate_dead_stores, before)
    assert "C[0] = 2" in after.script()


def test_lanes_read_what_other_lanes_wrote() -> None:
    @T.prim_func
    def before(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in T.vectorized(8):
            A[i + 1] = B[i]
            B[i] = A[i]
            A[i + 1] = 7

    check(eliminate_dead_stores, before, before)


def test_what_a_let_binds_is_no_box() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        C = T.alloc_buffer((8,), "int32")
        for i in range(8):
            C[i] = A[i]
        C[n % 8] = 9
        x = T.int32()
        A[0] = T.Let(C[x % 8], where={x: n + 8})
        C[n % 8] = 3

    after = check(cleaned, before, samples=6)
    assert "= 9" in after.script() and "= 3" not in after.script()


def test_effects_of_dead_values_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        B = T.alloc_buffer((4,), "int32")
        B[0] = T.call_extern("int32", "abs", A[0])
        B[1] = T.call_pure_extern("int32", "abs", A[0])
        A[1] = 2

    text = check(cleaned, before).script()
    assert text.count("abs") == 1


def test_symbolic_extents_empty_or_not() -> None:
    @T.prim_func
    def before(a: T.handle, m: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, 8), "int32")
        for i, j in T.grid(n, 8):
            A[i, j] = 1
        for i in range(n):
            for j in range(8):
                A[n - 1 - i, j] = 2
        for i in range(n):
            A[i, 0] = 3
            for _k in range(m - 3):
                A[i, 0] = 4

    after = check(cleaned, before, samples=6)
    assert stores(after) == 3


def test_threads_read_each_others_values() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        T.func_attr({"tir.noalias": True})
        for t in T.thread_binding(8, thread="threadIdx.x"):
            S = T.alloc_buffer((8,), "int32", scope="shared")
            S[t] = A[t]
            T.evaluate(T.tvm_storage_sync("shared"))
            B[t] = S[7 - t]
            T.evaluate(T.tvm_storage_sync("shared"))
            S[t] = 0

    check(eliminate_dead_stores, before)
    assert "A[t]" in eliminate_dead_stores(before).script()


def test_while_vectors_and_predicates() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        A[0:8] = T.Broadcast(1, 8)
        A[T.Ramp(0, 2, 4)] = T.Broadcast(2, 4)
        A[0:8] = T.Broadcast(3, 8)
        for i in range(16):
            A[i] = i
        while A[0] < 5:
            A[0] = 9
            A[0] = A[1] + 6
        A.vstore([0], T.Broadcast(8, 4), predicate=T.Broadcast(T.bool(True), 4))

    after = check(eliminate_dead_stores, before)
    assert stores(after) == 3


def test_the_bound_on_the_work() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        A[0] = 1
        A[0] = 2
        A[0] = 3
        A[0] = 4

    assert stores(eliminate_dead_stores(before, 2)) in (2, 3)
    assert stores(eliminate_dead_stores(before)) == 1


def test_a_long_sequence_is_linear() -> None:
    buffer, param = decl_buffer((8,), "int32", "A"), Var("A", "handle")
    body = Seq(tuple(BufferStore(buffer, const(i), (const(i % 8),)) for i in range(2000)))
    before = PrimFunc((param,), {param: buffer}, None, {}, body)
    after = eliminate_dead_stores(before)
    assert stores(after) == 8
    executes_alike(before, after)
