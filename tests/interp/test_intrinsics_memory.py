from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import BoundsError, UnboundError
from tirlower.interp import interpret, register_extern
from tirlower.script import tir as T


@pytest.fixture
def extern():
    names = []

    def register(name, fn):
        names.append(name)
        register_extern(name, fn)

    yield register
    for name in names:
        register_extern(name, None)


def test_externs_work_on_pointers(extern):
    def axpy(n, a, x, y):
        y.array("float32", n)[:] += np.float32(a) * x.array("float32", n)
        return n

    extern("my_axpy", axpy)

    @T.prim_func
    def kernel(X: T.Buffer((4, 8), "float32"), Y: T.Buffer((4, 8), "float32")):
        for i in range(4):
            T.evaluate(
                T.call_extern(
                    "int32", "my_axpy", 8, T.float32(2), X.access_ptr("r", offset=i * 8), T.address_of(Y[i, 0])
                )
            )

    x, y = np.arange(32, dtype=np.float32).reshape(4, 8), np.ones((4, 8), np.float32)
    interpret(kernel, x, y)
    np.testing.assert_array_equal(y, 1 + 2 * x)


def test_copies_between_allocations():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        t = T.alloc_buffer((8,), "int32")
        T.evaluate(T.call_extern("handle", "memcpy", T.address_of(t[2]), T.address_of(A[0]), 16))
        for i in range(4):
            B[i] = t[i + 2]
        B[4] = t[6]

    b = np.zeros(8, np.int32)
    with pytest.raises(UnboundError, match=r"t\[6\]"):
        interpret(kernel, np.arange(8, dtype=np.int32), b)
    assert b.tolist() == [0, 1, 2, 3, 0, 0, 0, 0]


def test_access_pointers_are_checked():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32")):
        T.evaluate(
            T.call_extern("handle", "memset", T.tvm_access_ptr(T.type_annotation("int32"), A.data, 4, 8, 2), 0, 16)
        )

    with pytest.raises(BoundsError, match="8 elements of int32 from byte 16"):
        interpret(kernel, np.zeros(8, np.int32))


def test_an_address_outside_is_refused():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32")):
        T.evaluate(T.call_extern("handle", "memset", T.address_of(A[9]), 0, 4))

    with pytest.raises(BoundsError, match=r"A\[9\]"):
        interpret(kernel, np.zeros(8, np.int32))


def test_pointers_passed_to_other_functions():
    from tirlower.script import ir as I

    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def fill(C: T.Buffer((4,), "int32"), value: T.int32):
            for i in range(4):
                C[i] = value + i

        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            for i in range(2):
                T.evaluate(Module.fill(T.address_of(A[i * 4]), i * 100))

    a = np.zeros(8, np.int32)
    interpret(Module, a)
    assert a.tolist() == [0, 1, 2, 3, 100, 101, 102, 103]


def test_structures_of_the_host_abi():
    @T.prim_func
    def kernel(B: T.Buffer((4,), "int64")):
        shape: T.handle("int64") = T.tvm_stack_make_shape(T.int64(3), T.int64(5))
        S = T.decl_buffer((2,), "int64", data=shape)
        B[0] = S[0] * 10 + S[1]
        values: T.handle = T.tvm_stack_alloca("arg_value", 2)
        T.evaluate(T.tvm_struct_set(values, 1, 12, T.int64(42)))
        B[1] = T.tvm_struct_get(values, 1, 12, "int64")

    b = np.zeros(4, np.int64)
    interpret(kernel, b)
    assert b.tolist() == [35, 42, 0, 0]
