from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import BoundsError, InterpreterError, UnboundError
from tirlower.interp import interpret
from tirlower.script import tir as T


def test_out_of_bounds_names_everything():
    @T.prim_func
    def kernel(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            B[i, j] = A[i, j + i]

    with pytest.raises(BoundsError) as error:
        interpret(kernel, np.zeros((4, 8), np.float32), np.zeros((4, 8), np.float32))
    text = str(error.value)
    assert "A[1, 8] is out of bounds: index 8 of dimension 1 is outside 0 <= index < 8" in text
    assert "(4, 8)" in text and "i = 1, j = 7" in text and "B[i, j] = A[i, j + i]" in text


def test_each_dimension_is_checked_although_the_memory_reaches():
    @T.prim_func
    def kernel(A: T.Buffer((4, 8), "float32")):
        A[1, 8] = 1.0

    with pytest.raises(BoundsError, match="index 8 of dimension 1"):
        interpret(kernel, np.zeros((4, 8), np.float32))


def test_negative_indices_are_out_of_bounds():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i - 1] = 1.0

    with pytest.raises(BoundsError, match=r"A\[-1\]"):
        interpret(kernel, np.zeros(4, np.float32))


def test_views_may_not_reach_outside_the_allocation():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32")):
        V = T.decl_buffer((8,), "float32", data=A.data)
        for i in range(8):
            V[i] = 0.0

    with pytest.raises(BoundsError, match="element 4 of its memory 'A', which has 4 elements") as error:
        interpret(kernel, np.zeros(4, np.float32))
    assert "i = 4" in str(error.value)


def test_unwritten_memory_is_found_per_byte():
    @T.prim_func
    def kernel(C: T.Buffer((4,), "int32")):
        t = T.alloc_buffer((4,), "int32")
        b = T.decl_buffer((16,), "int8", data=t.data)
        for i in range(15):
            b[i] = T.int8(1)
        for i in range(4):
            C[i] = t[i]

    c = np.zeros(4, np.int32)
    with pytest.raises(UnboundError, match=r"t\[3\] is read before it is written"):
        interpret(kernel, c)
    assert c.tolist() == [0x01010101] * 3 + [0]


def test_constants_are_read_only():
    @T.prim_func
    def kernel(C: T.Buffer((2,), "int32")):
        K = T.allocate_const([1, 2], "int32", [2])
        B = T.Buffer((2,), "int32", data=K)
        B[0] = C[0]

    with pytest.raises(InterpreterError, match="read-only"):
        interpret(kernel, np.zeros(2, np.int32))


def test_vector_accesses_with_strides_and_predicates():
    @T.prim_func
    def kernel(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((4,), "float32")):
        B[0:8] = A[8:16] * T.Broadcast(T.float32(2), 8)
        C[T.Ramp(3, -1, 4)] = A[T.Ramp(0, 4, 4)]
        B.vstore([8], A.vload([0], dtype="float32x8", predicate=T.Broadcast(T.bool(True), 8)))

    a, b, c = np.arange(16, dtype=np.float32), np.zeros(16, np.float32), np.zeros(4, np.float32)
    interpret(kernel, a, b, c)
    np.testing.assert_array_equal(b, np.concatenate([a[8:] * 2, a[:8]]))
    np.testing.assert_array_equal(c, a[::4][::-1])


def test_masked_lanes_touch_nothing():
    @T.prim_func
    def kernel(A: T.Buffer((6,), "float32"), B: T.Buffer((6,), "float32")):
        mask: T.let[T.boolx8] = T.get_active_lane_mask("boolx8", 0, 6)
        B.vstore([0], A.vload([0], dtype="float32x8", predicate=mask) + T.Broadcast(T.float32(1), 8), predicate=mask)

    a, b = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    interpret(kernel, a, b)
    np.testing.assert_array_equal(b, a + 1)


def test_a_masked_lane_must_not_be_used():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        t = T.alloc_buffer((4,), "int32")
        t[0:4] = A.vload([0], dtype="int32x4", predicate=T.get_active_lane_mask("boolx4", 0, 3))
        B[0:4] = t[0:4]

    with pytest.raises(UnboundError, match=r"t\[0:4\] is read before it is written"):
        interpret(kernel, np.zeros(4, np.int32), np.zeros(4, np.int32))


def test_out_of_bounds_lanes_are_named():
    @T.prim_func
    def kernel(A: T.Buffer((6,), "float32"), B: T.Buffer((8,), "float32")):
        B[0:8] = A[0:8]

    with pytest.raises(BoundsError, match=r"A\[0:8\] is out of bounds: index 6 \(lane 6\) of dimension 0"):
        interpret(kernel, np.zeros(6, np.float32), np.zeros(8, np.float32))


def test_buffers_of_vectors():
    @T.prim_func
    def kernel(A: T.Buffer((3,), "float32x4"), B: T.Buffer((12,), "float32")):
        V = T.decl_buffer((3,), "float32x4", data=B.data)
        for i in range(3):
            V[2 - i] = A[i] + A[i]

    a, b = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32), np.zeros(12, np.float32)
    interpret(kernel, a, b)
    np.testing.assert_array_equal(b.reshape(3, 4), (a + a)[::-1])


def test_duplicate_lanes_store_in_order():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32")):
        A[T.Broadcast(1, 4)] = T.Ramp(5, 1, 4)

    a = np.zeros(4, np.int32)
    interpret(kernel, a)
    assert a.tolist() == [0, 8, 0, 0]
