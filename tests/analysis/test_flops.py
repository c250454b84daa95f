"""Operation counts against the formulas of known kernels."""

from __future__ import annotations

import pytest

from tirlower import ir
from tirlower.analysis import estimate_flops
from tirlower.diagnostics import ArgumentTypeError
from tirlower.ir import build
from tirlower.script import tir as T

A = ir.Buffer("A", (64,))
i, j = ir.Var("i"), ir.Var("j")


def loop(body, extent=8, var=None):
    return ir.For(var or ir.Var("l"), 0, extent, "serial", None, {}, body)


def store(value):
    return ir.BufferStore(A, value, (i * 3 + 1,))


def test_a_matmul():
    @T.prim_func
    def matmul(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((16, 4), "float32")):
        for i, j, k in T.grid(16, 4, 8):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    assert estimate_flops(matmul) == 2 * 16 * 4 * 8
    assert estimate_flops(ir.IRModule({"a": matmul, "b": matmul})) == 2 * 2 * 16 * 4 * 8


def test_indices_and_casts_cost_nothing_and_operands_of_calls_do():
    x = A[i * 4 + j]
    assert estimate_flops(store(x)) == 0
    assert estimate_flops(store(ir.Cast("float32", ir.Cast("int32", x)))) == 0
    assert estimate_flops(store(build.call("tir.exp", x * 2.0 + 1.0))) == 2


def test_loops_multiply():
    assert estimate_flops(loop(loop(store(A[0] + 1.0), 5), 3)) == 15
    assert estimate_flops(loop(store(A[0] + 1.0), 0)) == 0


def test_an_extent_that_is_not_constant_counts_once():
    inner = loop(store(A[0] + 1.0), ir.Var("n"))
    assert estimate_flops(ir.For(i, 0, 16, "serial", None, {}, inner)) == 16
    assert estimate_flops(ir.While(A[0] < 3.0, store(A[0] + 1.0))) == 1


def test_branches_take_the_dearer_side():
    cheap, dear = store(A[0] + 1.0), store(A[0] * 2.0 + A[1] * 3.0)
    assert estimate_flops(ir.IfThenElse(i % 2 < 1, cheap, dear)) == 3
    assert estimate_flops(ir.IfThenElse(i < 4, cheap, None)) == 1
    assert estimate_flops(store(ir.Select(A[0] < 1.0, A[0] + 1.0, A[0] * 2.0 - 1.0))) == 2
    assert estimate_flops(store(build.if_then_else(A[0] * 2.0 < 1.0, A[0] + 1.0, A[0] * 2.0 - 1.0))) == 2


def test_conditions_cost_nothing_and_values_of_lets_do():
    flag = ir.Buffer("F", (4,), "bool")
    both = ir.Not(ir.And(A[0] < 1.0, ir.Or(A[1] > 2.0, A[2] >= 3.0)))
    assert estimate_flops(ir.BufferStore(flag, both, (0,))) == 0
    assert estimate_flops(ir.Evaluate(A[0] * 2.0)) == 0
    x = ir.Var("x", "float32")
    assert estimate_flops(store(ir.Let(x, A[0] + 1.0, x * x))) == 2
    assert estimate_flops(ir.Seq((ir.Bind(x, A[0] + 1.0), store(x * x)))) == 2


def test_a_vector_counts_its_lanes():
    value = ir.BufferLoad(A, (ir.Ramp(0, 1, 8),))
    assert estimate_flops(ir.BufferStore(A, ir.Add(value, value), (ir.Ramp(8, 1, 8),))) == 8


def test_a_function_may_state_its_count():
    f = ir.PrimFunc((), {}, "void", {"estimated_flops": 32}, loop(store(A[0] + 1.0), 16))
    assert estimate_flops(f) == 32
    assert estimate_flops(f.without_attr("estimated_flops")) == 16
    assert estimate_flops(ir.IRModule({"f": f, "g": f.without_attr("estimated_flops")})) == 48


def test_a_shared_operand_is_evaluated_twice_but_counted_once():
    value = A[0]
    for _ in range(60):
        value = ir.Add(value, value)
    assert estimate_flops(store(value)) == float(2**60 - 1)


def test_a_long_chain():
    value = A[0]
    for _ in range(20_000):
        value = ir.Add(value, ir.FloatImm("float32", 1.0))
    assert estimate_flops(store(value)) == 20_000


def test_what_has_no_count():
    with pytest.raises(ArgumentTypeError, match="got Var"):
        estimate_flops(i)


def test_extents_that_vary_count_as_their_greatest():
    @T.prim_func
    def triangle(A: T.Buffer((16, 16), "float32")):
        for i in range(16):
            for j in range(i + 1):
                A[i, j] = A[i, j] + 1.0

    @T.prim_func
    def tiles(A: T.Buffer((50,), "float32")):
        for i in range(7):
            for j in range(T.min(8, 50 - i * 8)):
                A[i * 8 + j] = A[i * 8 + j] * 2.0 + 1.0

    @T.prim_func
    def unknown(A: T.Buffer((64,), "float32"), n: T.int32, m: T.Buffer((8,), "int32")):
        for i in range(8):
            for j in range(n):
                A[j] = A[j] + 1.0
            for j in range(m[i]):
                A[j] = A[j] + 1.0

    @T.prim_func
    def never(A: T.Buffer((64,), "float32")):
        for i in range(8):
            for j in range(i - 8):
                A[j] = A[j] + 1.0

    assert [estimate_flops(f) for f in (triangle, tiles, unknown, never)] == [256.0, 112.0, 16.0, 0.0]
