from __future__ import annotations

import array

import numpy as np
import pytest

from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError, InterpreterError
from tirlower.interp import interpret
from tirlower.script import tir as T


@T.prim_func
def add_one(a: T.handle, b: T.handle, k: T.float32):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "float32")
    B = T.match_buffer(b, (m, n * 2), "float32")
    for i, j in T.grid(n, m):
        B[j, i] = A[i, j] + k


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(shape, dtype)


def test_symbols_bind_at_their_first_bare_occurrence():
    b = zeros(3, 4)
    interpret(add_one, zeros(2, 3), b, 1.5)
    assert b.tolist() == [[1.5, 1.5, 0, 0]] * 3
    with pytest.raises(ArgumentValueError, match="extent 0 of argument 'B' is 3"):
        interpret(add_one, zeros(2, 3), zeros(4, 4), 1.0)
    with pytest.raises(ArgumentValueError, match=r"extent 1 of argument 'B' is 4 \(.*\), got 5"):
        interpret(add_one, zeros(2, 3), zeros(3, 5), 1.0)


def test_wrong_arguments_are_named():
    for args, error, match in (
        ((zeros(2, 3), zeros(3, 4)), ArgumentTypeError, r"takes 3 arguments \(A, B, k\), got 2"),
        ((zeros(2, 3, dtype="float64"), zeros(3, 4), 1.0), ArgumentTypeError, "'A' has dtype float32, got float64"),
        ((zeros(6), zeros(3, 4), 1.0), ArgumentValueError, "'A' has 2 dimensions, got 1"),
        ((zeros(3, 2).T, zeros(3, 4), 1.0), ArgumentValueError, "'A' is contiguous"),
        ((zeros(2, 3), zeros(3, 4), "x"), ArgumentTypeError, "'k' is a scalar of type float32"),
        (([1.0], zeros(3, 4), 1.0), ArgumentTypeError, "'A' is an array, got list"),
    ):
        with pytest.raises(error, match=match):
            interpret(add_one, *args)


def test_a_read_only_array_for_a_written_buffer():
    b = zeros(3, 4)
    b.flags.writeable = False
    with pytest.raises(ArgumentValueError, match="'B' is written, but the array is read-only"):
        interpret(add_one, zeros(2, 3), b, 1.0)
    a = zeros(2, 3)
    a.flags.writeable = False
    interpret(add_one, a, zeros(3, 4), 1.0)


def test_static_extents_and_scalars_of_a_range():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int8"), n: T.int8, flag: T.bool):
        if flag:
            A[0] = n

    a = zeros(4, dtype="int8")
    interpret(kernel, a, np.int64(-3), np.bool_(True))
    assert a[0] == -3
    with pytest.raises(ArgumentValueError, match="extent 0 of argument 'A' is 4, got 5"):
        interpret(kernel, zeros(5, dtype="int8"), 1, True)
    with pytest.raises(ArgumentValueError, match=r"'n' is int8 \(-128 to 127\), got 128"):
        interpret(kernel, a, 128, True)
    with pytest.raises(ArgumentTypeError, match="'n' is a scalar of type int8, got float"):
        interpret(kernel, a, 1.0, True)


def test_symbolic_strides_take_any_array():
    @T.prim_func
    def kernel(a: T.handle, b: T.handle):
        n, m, s0, s1 = T.int32(), T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "int32", strides=[s0, s1])
        B = T.match_buffer(b, (n, m), "int32")
        for i, j in T.grid(n, m):
            B[i, j] = A[i, j]
            A[i, j] = -1

    base = np.arange(48, dtype=np.int32).reshape(6, 8)
    for view in (lambda x: x[::2, 1::3], lambda x: x[::-1, ::-2], lambda x: x.T, lambda x: x[2:3, 3:4]):
        whole = base.copy()
        a = view(whole)
        want, b = a.copy(), np.zeros(a.shape, np.int32)
        interpret(kernel, a, b)
        np.testing.assert_array_equal(b, want)
        expected = base.copy()
        view(expected)[...] = -1
        np.testing.assert_array_equal(whole, expected)


def test_constant_strides_are_checked():
    @T.prim_func
    def kernel(a: T.handle):
        A = T.match_buffer(a, (2, 2), "int32", strides=[4, 1])
        A[1, 1] = 9

    whole = np.zeros((2, 4), np.int32)
    interpret(kernel, whole[:, :2])
    assert whole[1, 1] == 9
    with pytest.raises(ArgumentValueError, match="stride 0 of argument 'A' is 4, got 2"):
        interpret(kernel, np.zeros((2, 2), np.int32))


def test_overlap_under_noalias():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(4):
            B[i] = A[i] + 1

    whole = np.zeros(6, np.int32)
    with pytest.raises(ArgumentValueError, match="'A' and 'B' overlap"):
        interpret(kernel, whole[:4], whole[2:])
    interpret(kernel, whole[:4], whole[2:].copy())


def test_arrays_may_be_the_same_without_noalias():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(1, 4):
            B[i] = A[i - 1] + 1

    a = np.zeros(4, np.int32)
    interpret(kernel, a, a)
    assert a.tolist() == [0, 1, 2, 3]


def test_objects_with_the_buffer_protocol():
    @T.prim_func
    def kernel(A: T.Buffer((3,), "float32")):
        A[1] = 2.0

    data = array.array("f", [0, 0, 0])
    interpret(kernel, data)
    assert data.tolist() == [0.0, 2.0, 0.0]


def test_outputs_that_do_not_exist_or_follow():
    with pytest.raises(ArgumentValueError, match="no buffer parameter 'D'"):
        interpret(add_one, zeros(2, 3), 1.0, outputs=["D"])
    out = interpret(add_one, zeros(2, 3), 1.0, outputs=["B"])
    assert out.shape == (3, 4)
    with pytest.raises(ArgumentValueError, match=r"extent 0 .* of output 'A' does not follow"):
        interpret(add_one, zeros(3, 4), 1.0, outputs=["A"])


def test_a_dimension_that_never_stands_bare():
    @T.prim_func(check_well_formed=False)
    def kernel(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n * 2,), "float32")
        A[0] = 1.0

    with pytest.raises(InterpreterError, match="'n'"):
        interpret(kernel, zeros(4))


def test_an_index_type_that_is_too_small():
    @T.prim_func
    def kernel(a: T.handle):
        n = T.int8()
        A = T.match_buffer(a, (n,), "int8")
        A[0] = T.int8(1)

    with pytest.raises(ArgumentValueError, match="extent 0 of argument 'A' is int8, got 200"):
        interpret(kernel, zeros(200, dtype="int8"))
