from __future__ import annotations

import contextlib

import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError
from tirlower.interp import interpret
from tirlower.ir import BufferLoad, Call, Evaluate, Op, PrimFunc, Ramp, StringImm, Var, const, decl_buffer
from tirlower.script import tir as T


def call(name, *args, dtype=None):
    op = Op.get(f"tir.{name}")
    return Call(op, args, dtype or op.infer(args))


def test_a_prefetch_reads_its_indices_and_not_its_element():
    buffer, n = decl_buffer((4,), "int32", "A"), Var("n", "int32")
    for index, fails in ((n, False), (n + 100, False), (n // (n - 3), True)):
        for where in (BufferLoad(buffer, [index]), call("address_of", BufferLoad(buffer, [index]))):
            hint = Evaluate(Call(Op.get("tir.prefetch"), (where, const(0), const(3), const(1)), "void"))
            func = PrimFunc([n, buffer.data], {buffer.data: buffer}, "void", {}, hint)
            with pytest.raises(InterpreterError, match="division by zero") if fails else contextlib.nullcontext():
                interpret(func, 3, np.zeros(4, "int32"))


def test_only_the_chosen_arm_of_if_then_else_is_evaluated():
    @T.prim_func
    def safe(A: T.Buffer((4,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.if_then_else(i < 4, A[i], T.float32(-1))

    @T.prim_func
    def unsafe(A: T.Buffer((4,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.Select(i < 4, A[i], T.float32(-1))

    a, b = np.arange(4, dtype=np.float32), np.zeros(8, np.float32)
    interpret(safe, a, b)
    assert b.tolist() == [0, 1, 2, 3, -1, -1, -1, -1]
    with pytest.raises(IndexError, match=r"A\[4\]"):
        interpret(unsafe, a, b)


def test_likely_and_type_hints_change_nothing(evaluate):
    assert evaluate(call("likely", const(True, "bool"))) is True
    assert evaluate(call("ignore_loop_partition", const(5, "int32"))) == 5


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [(1.5, "float32", "uint32"), (-3, "int16", "float16"), (0x3FC0, "uint16", "bfloat16"), (-0.5, "float64", "int64")],
)
def test_reinterpret_keeps_the_bits(value, source, target, evaluate):
    import ml_dtypes

    def numpy(name):
        return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)

    got = evaluate(call("reinterpret", const(value, source), dtype=target))
    want = np.array([value], numpy(source)).view(numpy(target))[0]
    assert got == want or (got != got and want != want)


def test_reinterpret_of_vectors_and_handles(evaluate):
    ramp = Ramp(const(0, "uint8"), const(1, "uint8"), 4)
    assert evaluate(call("reinterpret", ramp, dtype="uint32")) == 0x03020100
    assert evaluate(call("reinterpret", const(0x03020100, "uint32"), dtype="uint8x4")) == (0, 1, 2, 3)
    assert evaluate(call("reinterpret", const(0, "uint64"), dtype="handle")) is None
    assert evaluate(call("isnullptr", call("reinterpret", const(0, "uint64"), dtype="handle"))) is True
    with pytest.raises(InterpreterError, match="the integer 64 is no pointer"):
        evaluate(call("reinterpret", const(64, "uint64"), dtype="handle"))


def test_parts_of_vectors(evaluate):
    ramp = Ramp(const(10, "int32"), const(2, "int32"), 4)
    assert evaluate(call("vectorlow", ramp)) == (10, 12)
    assert evaluate(call("vectorhigh", ramp)) == (14, 16)
    assert evaluate(call("vectorcombine", call("vectorhigh", ramp), call("vectorlow", ramp))) == (14, 16, 10, 12)


def test_lane_masks(evaluate):
    base = Var("base", "int32")
    mask = call("get_active_lane_mask", base, const(10, "int32"), dtype="boolx4")
    assert evaluate(mask, {base: 8}) == (True, True, False, False)


def test_scalable_vectors():
    @T.prim_func
    def kernel(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(T.ceildiv(16, 4 * T.vscale())):
            B[T.Ramp(i * 4 * T.vscale(), 1, 4 * T.vscale())] = A[
                T.Ramp(i * 4 * T.vscale(), 1, 4 * T.vscale())
            ] * T.Broadcast(T.float32(2), 4 * T.vscale())

    a, b = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    interpret(kernel, a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_an_operation_that_only_a_device_has(evaluate):
    with pytest.raises(InterpreterError, match=r"no meaning for tir\.ptx_mma_sp"):
        evaluate(Call(Op.get("tir.ptx_mma_sp"), (StringImm("m16n8k32"),) * 16, "float32"))


def test_reinterpret_keeps_lanes_that_a_mask_left_out():
    @T.prim_func
    def before(A: T.Buffer((4,), "uint32"), B: T.Buffer((4,), "float32")):
        B.vstore(
            [T.Ramp(0, 1, 4)],
            T.reinterpret("float32x4", A.vload([T.Ramp(0, 1, 4)], predicate=T.get_active_lane_mask("boolx4", 0, 3))),
            predicate=T.get_active_lane_mask("boolx4", 0, 3),
        )

    values, got = np.array([1.5, -2, 3, 4], "float32"), np.zeros(4, "float32")
    interpret(before, values.view("uint32"), got)
    assert got.tolist() == [1.5, -2, 3, 0]
