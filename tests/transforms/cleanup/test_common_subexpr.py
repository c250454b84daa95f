from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.analysis.occurrences import text_of
from tirlower.interp import interpret
from tirlower.ir import Add, BufferStore, Mul, PrimFunc, Seq, Var, build, const
from tirlower.ir.buffer import decl_buffer
from tirlower.script import tir as T
from tirlower.transforms import CommonSubexprElimTIR, PassContext


def test_bound_in_front_of_the_first_use() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32, z: T.int32):
        A[0] = x
        A[1] = (x + y) * z
        A[2] = (x + y) + z

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32, z: T.int32):
        A[0] = x
        cse: T.int32 = x + y
        A[1] = cse * z
        A[2] = cse + z

    check(CommonSubexprElimTIR(), before, expected)


def test_larger_computations_first_and_what_is_left_inside() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32, z: T.int32):
        A[0] = (x + y) * z + (x + y) * z
        A[1] = (x + y) * y

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32, z: T.int32):
        cse_2: T.int32 = x + y
        cse_1: T.int32 = cse_2 * z
        A[0] = cse_1 + cse_1
        A[1] = cse_2 * y

    after = check(CommonSubexprElimTIR(), before, expected)
    assert [stmt.var.name for stmt in after.body.stmts[:2]] == ["cse_var_2", "cse_var_1"]


def test_operands_of_one_size_are_bound_in_their_order() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32):
        A[0] = (x + 1) + (x + 2) + (x + 3) + (x + 1) + (x + 2) + (x + 3)

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), x: T.int32):
        cse_3: T.int32 = x + 1
        cse_2: T.int32 = x + 2
        cse_1: T.int32 = x + 3
        A[0] = cse_3 + cse_2 + cse_1 + cse_3 + cse_2 + cse_1

    after = check(CommonSubexprElimTIR(), before, expected)
    assert [stmt.var.name for stmt in after.body.stmts[:3]] == ["cse_var_3", "cse_var_2", "cse_var_1"]


def test_what_is_found_inside_bound_values_stands_before_them() -> None:
    @T.prim_func
    def before(C: T.Buffer((4096,), "int32"), x: T.int32, y: T.int32):
        for k, i, j in T.grid(4, 4, 8):
            C[x * 512 + i * 64 + y * 8 + j] = (
                C[x * 512 + i * 64 + y * 8 + j] + C[x * 512 + i * 64 + k * 4] * C[k * 256 + y * 8 + j]
            )

    @T.prim_func
    def expected(C: T.Buffer((4096,), "int32"), x: T.int32, y: T.int32):
        for k, i, j in T.grid(4, 4, 8):
            cse_3: T.int32 = y * 8
            cse_2: T.int32 = x * 512 + i * 64
            cse_1: T.int32 = cse_2 + cse_3 + j
            C[cse_1] = C[cse_1] + C[cse_2 + k * 4] * C[k * 256 + cse_3 + j]

    check(CommonSubexprElimTIR(), before, expected, inputs=[(np.arange(4096, dtype="int32"), 1, 2)])


def test_the_text_that_orders_is_plain_notation() -> None:
    x, y = Var("x"), Var("y")
    for op, text in (
        (build.min_(x, y), "min(x, y)"), (x // y, "floordiv(x, y)"), (x % y, "floormod(x, y)"), (x + y, "(x + y)"),
        (build.cast("int64", x), "int64(x)"),
    ):  # fmt: skip
        assert text_of(op, ["x", "y"]) == text
    assert text_of(T.exp(Var("z", "float32")), ["z"]) == "Call(z)"


def test_size_not_depth_orders_the_bindings() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), a: T.int32, b: T.int32, c: T.int32, d: T.int32):
        A[0] = (a + b) * (c + d) * ((a - b) * (c - d)) - (a * b + c + d + a) * (
            (a + b) * (c + d) * ((a - b) * (c - d)) + (a * b + c + d + a)
        )

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), a: T.int32, b: T.int32, c: T.int32, d: T.int32):
        deep: T.int32 = a * b + c + d + a
        wide: T.int32 = (a + b) * (c + d) * ((a - b) * (c - d))
        A[0] = wide - deep * (wide + deep)

    check(CommonSubexprElimTIR(), before, expected)


def test_what_occurs_once_is_left() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32):
        A[0] = x + y
        A[1] = x - y
        A[2] = y + x

    check(CommonSubexprElimTIR(), before, before)


def test_inside_a_larger_one_only_is_once() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32):
        A[0] = (x + y) * 3
        A[1] = (x + y) * 3

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32):
        cse: T.int32 = (x + y) * 3
        A[0] = cse
        A[1] = cse

    check(CommonSubexprElimTIR(), before, expected)


def test_the_lowest_common_scope() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 8), "int32"), x: T.int32, y: T.int32):
        if x > 3:
            A[0, 0] = x * y
            A[0, 1] = x * y + 1
        else:
            A[0, 0] = x - y
        for i in range(8):
            for j in range(8):
                A[i, j] = A[i, j] + (i * y + j) * (i * y + j)
            if y > 2:
                A[i, 0] = x - y

    @T.prim_func
    def expected(A: T.Buffer((8, 8), "int32"), x: T.int32, y: T.int32):
        cse_1: T.int32 = x - y
        if x > 3:
            cse_2: T.int32 = x * y
            A[0, 0] = cse_2
            A[0, 1] = cse_2 + 1
        else:
            A[0, 0] = cse_1
        for i in range(8):
            for j in range(8):
                cse_3: T.int32 = i * y + j
                A[i, j] = A[i, j] + cse_3 * cse_3
            if y > 2:
                A[i, 0] = cse_1

    check(CommonSubexprElimTIR(), before, expected)


def test_no_load_is_bound_and_none_moves_over_a_store() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        V = T.decl_buffer((8, 8), "int32", data=A.data)
        A[n % 8 * 2] = A[n % 8 * 2] * 3
        V[n % 8, 1] = A[n % 8 * 2] * 3
        A[1] = A[n % 8 * 2] * 3 + A[A[0] % 8 * 2 % 64] + A[A[0] % 8 * 2 % 64]

    after = check(CommonSubexprElimTIR(), before)
    for stmt in after.body.stmts:
        if hasattr(stmt, "var"):
            assert "A[" not in str(stmt.value)
    assert after.script().count("n % 8") == 1


def test_arguments_of_calls_and_indices_of_addresses() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), x: T.int32, y: T.int32, s: T.float32):
        T.evaluate(T.call_extern("handle", "memset", T.address_of(A[x * 2 + y]), 0, 8))
        A[x * 2 + y] = T.exp(s * s) + T.sin(s * s) + T.exp(s * s)

    after = check(CommonSubexprElimTIR(), before, sizes=(1, 2, 5))
    text = after.script()
    assert text.count("x * 2 + y") == 1 and text.count("s * s") == 1 and text.count("T.exp") == 2


def test_a_division_is_not_moved_to_where_it_would_fault() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, n: T.int32):
        if n != 0:
            A[0] = x // n
        for i in range(n):
            A[i % 8] = x // n + i
        A[1] = T.if_then_else(n != 0, x % n, 0) + T.if_then_else(n != 0, x % n + 1, 0)
        if n != 0 and x % n > 1:
            A[2] = 1

    after = check(CommonSubexprElimTIR(), before, sizes=(1, 3))
    a = np.zeros(8, "int32")
    interpret(after, a, 5, 0)
    assert not a.any()
    assert "cse_var" not in after.script()


def test_a_division_that_is_evaluated_there_anyway_is_bound() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, n: T.int32):
        A[0] = x // n
        for i in range(8):
            A[i] = A[i] + x // n

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), x: T.int32, n: T.int32):
        cse: T.int32 = x // n
        A[0] = cse
        for i in range(8):
            A[i] = A[i] + cse

    check(CommonSubexprElimTIR(), before, expected)

    @T.prim_func
    def argument(A: T.Buffer((8,), "int32"), x: T.int32, n: T.int32):
        A[0] = T.shift_left(1, x % n)
        A[1] = x % n

    @T.prim_func
    def bound(A: T.Buffer((8,), "int32"), x: T.int32, n: T.int32):
        cse: T.int32 = x % n
        A[0] = T.shift_left(1, cse)
        A[1] = cse

    check(CommonSubexprElimTIR(), argument, bound)


def test_switched_off() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32):
        A[0] = (x + y) * (x + y)

    check(CommonSubexprElimTIR(False), before, before)
    check(CommonSubexprElimTIR(enable_cse_tir=False), before, before)


def test_equivalent_terms() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32, z: T.int32):
        A[0] = x * 2 + (y + z)
        A[1] = z + (y + x * 2)
        A[2] = (x + y) * z
        A[3] = x * z + y * z

    check(CommonSubexprElimTIR(identify_equiv_terms=False), before)
    text = check(CommonSubexprElimTIR(True, True), before, idempotent=False).script()
    assert "A[1] = cse_var" in text


def test_the_equivalent_term_that_is_written() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32, z: T.int32):
        A[0] = x * (y + z)
        A[1] = x * y + x * z
        A[2] = x + (y + z)
        A[3] = (x + y) + z

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32, z: T.int32):
        product: T.int32 = x * y + x * z
        A[0] = product
        A[1] = product
        total: T.int32 = x + y + z
        A[2] = total
        A[3] = total

    check(CommonSubexprElimTIR(True, True), before, expected)


def test_equivalent_terms_by_the_context() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32, z: T.int32):
        A[0] = x + (y + z)
        A[1] = (x + y) + z

    with PassContext(config={"tir.enable_equiv_terms_in_cse_tir": True}):
        assert "cse_var_1" in check(CommonSubexprElimTIR(), before).script()
        check(CommonSubexprElimTIR(identify_equiv_terms=False), before, before)
    check(CommonSubexprElimTIR(), before, before)


def test_an_equivalent_term_inside_the_other() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32):
        A[0] = T.Add(T.Add(x, y), 0) + T.Add(T.Add(y, x), T.Mul(x, 0))
        A[1] = x + y
        A[2] = T.Sub(T.Add(T.Add(T.Add(x, y), y), x), T.Add(y, x))

    check(CommonSubexprElimTIR(True, True), before, idempotent=False)


def test_equivalent_terms_in_other_variables_stay_in_their_scope() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), x: T.int32, y: T.int32):
        for i in range(4):
            A[i] = (x + y) * 2 + (T.Mul(i, 0) + (x + y) * 2)
        A[5] = (x + y) * 2

    check(CommonSubexprElimTIR(True, True), before, idempotent=False)


def test_floats_are_not_reassociated() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), x: T.float32, y: T.float32, z: T.float32):
        A[0] = x + (y + z)
        A[1] = (x + y) + z
        A[2] = x * y - z * z
        A[3] = x * y

    after = check(CommonSubexprElimTIR(True, True), before)
    assert after.script().count("cse_var_1") == 3


def test_bindings_loops_and_lets_inside_expressions() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        t = T.int32()
        for i in range(n, n + 4):
            a: T.int32 = i * 3
            A[(a + n) % 64] = T.Let((t + 1) * (t + 1) + i * 3, where={t: a + n})
        u: T.int32 = n * n
        while A[0] + n * n < u + 2:
            A[0] = A[0] + 1

    check(CommonSubexprElimTIR(), before)


def test_blocks_are_regions_of_their_own() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 8), "int32"), n: T.int32):
        for i, j in T.grid(8, 8):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = (vi + n) * (vi + n) + (vj * n) % 3 + (vj * n) % 5

    after = check(CommonSubexprElimTIR(), before)
    assert after.script().count("cse_var_1") == 3


def test_thread_loops_and_vectors() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for b in T.thread_binding(2, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
                A[b * 32 + t * 8 : b * 32 + t * 8 + 8] = T.Broadcast(n * 2, 8) + T.Ramp(b * 32 + t * 8, n * 2, 8)

    after = check(CommonSubexprElimTIR(), before)
    assert after.script().count("n * 2") == 1


def test_arithmetic_on_vectors() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(4):
            A[T.Ramp(i * 8, 1, 4)] = T.Ramp(n, 2, 4) * T.Broadcast(i, 4) + T.Broadcast(n, 4)
            A[T.Ramp(i * 8 + 4, 1, 4)] = A[T.Ramp(i * 8, 1, 4)] + T.Ramp(n, 2, 4) * T.Broadcast(i, 4)
            A[T.Ramp(i, 2, 4)] = T.Broadcast(n, 4)
            A[T.Ramp(i, 2, 4)] = A[T.Ramp(i, 2, 4)] + T.Broadcast(n, 4)

    @T.prim_func
    def expected(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(4):
            at: T.int32 = i * 8
            product: T.int32x4 = T.Ramp(n, 2, 4) * T.Broadcast(i, 4)
            A[T.Ramp(at, 1, 4)] = product + T.Broadcast(n, 4)
            A[T.Ramp(at + 4, 1, 4)] = A[T.Ramp(at, 1, 4)] + product
            A[T.Ramp(i, 2, 4)] = T.Broadcast(n, 4)
            A[T.Ramp(i, 2, 4)] = A[T.Ramp(i, 2, 4)] + T.Broadcast(n, 4)

    check(CommonSubexprElimTIR(), before, expected)
    check(CommonSubexprElimTIR(True, True), before, expected)


def test_a_shared_chain_costs_its_distinct_nodes() -> None:
    x, buffer, param = Var("x"), decl_buffer((4,), "int32", "A"), Var("A", "handle")
    value = Add(x, const(1))
    for _ in range(60):
        value = Mul(value, value)
    before = PrimFunc((param, x), {param: buffer}, None, {}, BufferStore(buffer, value, (const(0),)))
    after = CommonSubexprElimTIR()(before)
    assert len(after.body.stmts) == 61
    out = [np.zeros(4, "int32") for _ in range(2)]
    interpret(before, out[0], 6)
    interpret(after, out[1], 6)
    assert out[0][0] == out[1][0]


@pytest.mark.parametrize("count", [2000])
def test_a_long_sequence(count: int) -> None:
    x, buffer, param = Var("x"), decl_buffer((4,), "int32", "A"), Var("A", "handle")
    stmts = tuple(BufferStore(buffer, x * i + x * (i + 1), (const(0),)) for i in range(count))
    before = PrimFunc((param, x), {param: buffer}, None, {}, Seq(stmts))
    after = CommonSubexprElimTIR()(before)
    assert len(after.body.stmts) == count + count - 2
