from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tests.transforms.known_contents import KNOWN, program
from tirlower.interp import register_extern
from tirlower.ir import AllocBuffer, Bind, BufferLoad, BufferStore, DeclBuffer, Evaluate, PrimFunc, Seq, Var, const
from tirlower.ir.buffer import decl_buffer
from tirlower.script import tir as T
from tirlower.transforms import PassContext, RemoveNoOp


def test_empty_loops_and_branches_go() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for _i in range(16):
            T.evaluate(0)
        for i, j in T.grid(4, n):
            if i < j:
                T.evaluate(i + j)
        for i in range(0):
            A[i] = 1
        if n > 3:
            T.evaluate(0)
        else:
            A[0] = 2

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        if not (n > 3):
            A[0] = 2

    check(RemoveNoOp(), before, expected)


def test_loops_that_never_run_by_bounds() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(4):
            for j in range(i - 5):
                A[j] = 1
            for j in range(i - 2):
                A[j] = 2

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(4):
            for j in range(i - 2):
                A[j] = 2

    check(RemoveNoOp(), before, expected)


def test_effects_of_what_goes_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(T.call_extern("int32", "abs", 3)):
            T.evaluate(A[i])
        if T.call_extern("int32", "abs", A[0]) > 2:
            T.evaluate(0)
        _x: T.int32 = T.call_extern("int32", "abs", 5)
        T.evaluate(T.call_pure_extern("int32", "abs", 4))
        A[1] = 3

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        T.evaluate(T.call_extern("int32", "abs", 3))
        T.evaluate(T.call_extern("int32", "abs", A[0]) > 2)
        T.evaluate(T.call_extern("int32", "abs", 5))
        A[1] = 3

    check(RemoveNoOp(), before, expected)


def test_unused_declarations_go_used_ones_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        a: T.int32 = n + 1
        b: T.int32 = a * 2
        c: T.int32 = b - 1
        _B = T.alloc_buffer((c,), "int32")
        C = T.alloc_buffer((4,), "int32")
        _V = T.decl_buffer((2, 2), "int32", data=C.data)
        W = T.decl_buffer((4, 4), "int32", data=A.data)
        D = T.alloc_buffer((a,), "int32")
        W[0, 1] = a
        D[0] = 1
        W[0, 2] = D[0]

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        a: T.int32 = n + 1
        W = T.decl_buffer((4, 4), "int32", data=A.data)
        D = T.alloc_buffer((a,), "int32")
        W[0, 1] = a
        D[0] = 1
        W[0, 2] = D[0]

    check(RemoveNoOp(), before, expected)


def test_what_calls_attributes_and_annotations_name_is_used() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        m: T.int32 = n * 2
        B = T.alloc_buffer((4,), "int32")
        C = T.alloc_buffer((4,), "int32")
        T.evaluate(T.call_extern("handle", "memset", B.access_ptr("w"), 0, 16))
        with T.attr(C, "key", 1):
            for i in T.serial(4, annotations={"limit": m}):
                A[i] = i

    check(RemoveNoOp(), before, before)


def test_storing_what_stands_there_goes() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            A[i, j] = A[i, j]
            A[i, j] = A[j, i]
        A[0, 0:4] = A[0, 0:4]

    @T.prim_func
    def expected(A: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            A[i, j] = A[j, i]

    check(RemoveNoOp(), before, expected)


def test_asserts_assumes_and_while_loops_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        assert n < 100, "n"
        assert T.bool(True), "true"
        T.evaluate(T.assume(n > 0))
        while A[0] < n:
            A[0] = A[0] + 1
        T.evaluate(T.ret(A[0]))

    after = check(RemoveNoOp(), before)
    assert after.script().count("assert") == 1 and "assume" in after.script() and "while" in after.script()


def test_pragma_regions() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        with T.attr(0, "pragma_debug_skip_region", 1):
            A[0] = 1
        with T.attr(0, "pragma_other", 1):
            T.evaluate(0)
        with T.attr(0, "pragma_kept", 1):
            A[1] = 2

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32")):
        with T.attr(0, "pragma_kept", 1):
            A[1] = 2

    check(RemoveNoOp(), before, expected, execute=False)


def test_the_init_of_a_block_sees_the_allocations_of_its_body() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for k in range(4):
            with T.block("B"):
                v = T.axis.reduce(4, k)
                T.reads()
                T.writes(A[v])
                C = T.alloc_buffer((1,), "int32")
                with T.init():
                    C[0] = 3
                    A[0] = C[0]
                A[v] = v

    check(RemoveNoOp(), before, before)


def test_programs_that_do_nothing_become_nothing() -> None:
    A = decl_buffer((4,), "int32", "A")
    a, x = Var("a", "handle"), Var("x", "int32")
    # A lone declaration, an empty Seq, a scope that only declares.
    for body in (
        Bind(x, const(1, "int32")),
        Seq(()),
        Seq((Bind(x, const(1, "int32")), Seq((AllocBuffer(decl_buffer((2,), "int32", "C")),)))),
        Seq((Seq((DeclBuffer(A.with_(shape=(2, 2))),)), Seq(()))),
        BufferStore(A, BufferLoad(A, (const(1, "int32"),)), (const(1, "int32"),)),
    ):
        after = RemoveNoOp()(PrimFunc((a,), {a: A}, None, {}, body))
        kept = after.body
        assert isinstance(kept, Bind) or (isinstance(kept, Evaluate) and kept.value.value == 0), kept


def test_a_declaration_left_alone_keeps_its_scope() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in range(4):
            x: T.int32 = i
            T.evaluate(x)
            A[i] = i

    check(RemoveNoOp(), before)


def test_symbolic_extents_and_negative_minimums_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "int32")):
        for i in T.serial(-2, n - 2):
            A[i + 2] = i
        for i in T.parallel(n):
            for j in T.vectorized(4):
                T.evaluate(j)
            A[i] = A[i] + 1

    after = check(RemoveNoOp(), before, sizes=(0, 1, 5))
    assert "vectorized" not in after.script() and after.script().count("for ") == 2


def test_a_useful_function_comes_back_as_it_is() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), n: T.int32):
        x: T.float32 = A[0]
        for i in range(16):
            if i < n:
                A[i] = A[i] * x

    check(RemoveNoOp(), before, before)


FLOW = RemoveNoOp(use_dataflow_analysis=True)


def test_stores_overwritten_before_they_are_read_go_when_asked() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = 100
            B[i] = 0
        for i in range(16):
            A[i] = 42

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            B[i] = 0
        for i in range(16):
            A[i] = 42

    check(FLOW, before, expected)
    check(RemoveNoOp(), before, before)
    with PassContext(config={"tir.RemoveNoOp": {"use_dataflow_analysis": True}}):
        check(RemoveNoOp(), before, expected)


def test_writing_a_known_value_does_nothing() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            A[i] = i * n
        A[4] = n * 4
        A[5] = n * 4
        if n > 3:
            A[6] = n * 6
        for i in range(16):
            A[i] = i * n

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            A[i] = i * n

    check(FLOW, before, expected, samples=5)


def test_a_value_that_may_have_changed_is_written_again() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            A[i] = 0
        A[n] = 1
        A[3] = 0
        B[3] = 2
        A[3] = 0
        for i in range(4):
            A[i + 1] = A[i] + i
        A[4] = 0
        B[0] = A[4]

    check(FLOW, before, samples=6)
    shared = np.arange(16, dtype="int32")
    check(FLOW, before, inputs=[[shared, shared, 3]])


def test_temporaries_that_nothing_reads_go_with_all_that_filled_them() -> None:
    @T.prim_func
    def before(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 4), "float32")
        B = T.alloc_buffer((n, 4), "float32")
        C = T.alloc_buffer((n,), "float32")
        for i, j in T.grid(n, 4):
            B[i, j] = A[i, j] * T.float32(2)
        for i in range(n):
            if i > 2:
                C[i] = B[i, 0]
        for i in range(n):
            A[i, 1] = T.float32(1)

    @T.prim_func
    def expected(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 4), "float32")
        for i in range(n):
            A[i, 1] = T.float32(1)

    check(FLOW, before, expected, samples=4)


def test_the_bound_on_steps() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        A[0] = n + 1
        A[0] = n + 2
        A[0] = n + 3
        A[0] = n + 4

    def stores(steps: int) -> int:
        return RemoveNoOp(use_dataflow_analysis=True, max_simplification_steps=steps)(before).script().count("A[0] =")

    # The bound holds for each look at what is left.
    assert stores(1) > stores(0) == 1


def test_a_store_of_what_stands_at_an_equal_index() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(16):
            if i != 0:
                A[i] = A[i - 1]
            else:
                A[i] = A[0]
        for io, ii in T.grid(4, 4):
            i: T.int32 = io * 4 + ii
            A[ii + io * 4] = A[i]
            A[i + 1 - 1] = A[i]
        for i in range(4):
            k: T.int32 = B[i] % 4
            B[k] = B[B[i] % 4]

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(16):
            if i != 0:
                A[i] = A[i - 1]
        for i in range(4):
            k: T.int32 = B[i] % 4
            B[k] = B[B[i] % 4]

    check(RemoveNoOp(), before, expected)


def test_loops_whose_extent_simplifies_to_nothing() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(n - T.min(n, n)):
            A[i] = 1
        for i in range(16):
            for j in range(i - 20):
                A[j] = 2
            for j in range(n + 1 - n):
                A[i] = j
        if T.bool(True):
            A[0] = 3
        else:
            A[0] = 4
        if T.bool(False):
            A[1] = 4

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            for j in range(n + 1 - n):
                A[i] = j
        A[0] = 3

    check(RemoveNoOp(), before, expected, sizes=(1, 7))


def test_loops_overwritten_under_other_conditions_and_orders() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            if i < 10:
                A[i] = 100
        for i in range(4):
            B[i * 4] = 7
        for i in range(16):
            if i // 4 < 3:
                A[i] = 42
        for i in range(4, 12):
            B[i] = 100
        for i in range(16):
            B[15 - i] = 42

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            if i // 4 < 3:
                A[i] = 42
        for i in range(16):
            B[15 - i] = 42

    check(FLOW, before, expected)


def test_prefetches_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            T.prefetch(T.address_of(A[i + 8]), 0, 3, 1)
        if n > 3:
            T.prefetch(A.data, 1, 0, 1)
        A[0] = 1
        T.prefetch(T.address_of(A[0]), 0, 3, 1)
        A[0] = 2

    for pass_ in (RemoveNoOp(), FLOW):
        assert check(pass_, before).script().count("T.prefetch") == 3


def test_an_overwritten_store_keeps_the_effect_of_its_value() -> None:
    calls: list[int] = []
    register_extern("noted", lambda x: calls.append(x) or x)
    try:

        @T.prim_func
        def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
            for i in range(4):
                A[i] = T.call_extern("int32", "noted", i)
                A[i] = 42
            B[0] = T.call_extern("int32", "noted", 7)
            B[1] = B[0]
            B[0] = 1

        @T.prim_func
        def expected(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
            for i in range(4):
                T.evaluate(T.call_extern("int32", "noted", i))
                A[i] = 42
            B[0] = T.call_extern("int32", "noted", 7)
            B[1] = B[0]
            B[0] = 1

        calls.clear()
        check(RemoveNoOp(use_dataflow_analysis=True), before, expected, samples=1)
        assert calls == [0, 1, 2, 3, 7] * 2
    finally:
        register_extern("noted", None)


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_known_to_stand_there_is_not_stored_again(name: str) -> None:
    body, array, where, value = KNOWN[name]
    again = f"    for j in range(24):\n        if {where}:\n            {array}[j] = {value}\n"
    assert f"{array}[j] =" not in check(FLOW, program(body + again), idempotent=False).script()
    other = program(body + again.replace(f"= {value}", f"= {value} + 1"))
    assert f"{array}[j] =" in check(FLOW, other, idempotent=False).script()
