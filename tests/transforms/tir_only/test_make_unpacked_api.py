from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import roundtrips, same_function
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir.struct_field import CallingConvention
from tirlower.ir.verify import verify_well_formed
from tirlower.machine.target import Target
from tirlower.script import ir as I
from tirlower.script import tir as T
from tirlower.transforms import BindTarget, FlattenBuffer, MakePackedAPI, MakeUnpackedAPI

HOST = Target("llvm", host="llvm")


def converted(program: Any) -> Any:
    """The program converted for this host, checked for what holds of all."""
    after = MakeUnpackedAPI()(BindTarget(HOST)(program))
    verify_well_formed(after)
    roundtrips(after)
    assert MakeUnpackedAPI()(after) is after
    return after


def test_arrays_become_pointers() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4,), "bool"), k: T.int32):
        for i, j in T.grid(4, 4):
            A[i, j] = A[i, j] * T.Cast("float32", B[i]) + T.Cast("float32", k)

    @T.prim_func
    def expected(a: T.handle("float32"), b: T.handle("int8"), k: T.int32) -> T.int32:
        T.func_attr({"target": T.target("llvm")})
        with T.attr("default", "device_id", 0), T.attr("default", "device_type", 1):
            A = T.decl_buffer((4, 4), "float32", data=a)
            B = T.decl_buffer((4,), "bool", data=b)
            for i, j in T.grid(4, 4):
                A[i, j] = A[i, j] * T.Cast("float32", B[i]) + T.Cast("float32", k)
            T.evaluate(T.ret(T.int32(0)))

    after = converted(before)
    same_function(after, expected)
    x = np.arange(16, dtype="float32").reshape(4, 4)
    y, flags = x.copy(), np.array([True, False, True, False])
    interpret(before, x, flags, 3)
    assert interpret(after, y, flags, 3) == 0
    np.testing.assert_array_equal(x, y)


def test_symbols_follow_in_binding_order() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", "m"), "int32", strides=("s", 1)), B: T.Buffer(("m",), "int32"), n2: T.int64):
        for i, j in T.grid(n, m):
            A[i, j] = A[i, j] + B[j] + s

    after = converted(before)
    assert [p.name for p in after.params] == ["A", "B", "n2", "n", "m", "s"]
    base = np.arange(24, dtype="int32").reshape(4, 6)
    other, b = base.copy(), np.arange(3, dtype="int32")
    interpret(before, base[:, :3], b, 1)
    interpret(after, other[:, :3], b, 1, 4, 3, 6)
    np.testing.assert_array_equal(base, other)


def test_a_symbol_that_is_a_parameter_comes_once() -> None:
    @T.prim_func
    def before(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n,), "int32")
        for i in range(n):
            A[i] = i

    after = converted(before)
    assert [p.name for p in after.params] == ["A", "n"]
    out = np.zeros(5, "int32")
    interpret(after, out, 5)
    np.testing.assert_array_equal(out, np.arange(5))


def test_returns_are_a_status() -> None:
    @T.prim_func
    def before(A: T.Buffer((1,), "int32")):
        if A[0] > 3:
            T.evaluate(T.ret(T.int32(-1)))
        if A[0] > 1:
            T.evaluate(T.ret())
        A[0] = 9

    after = converted(before)
    assert [interpret(after, np.array([v], "int32")) for v in (5, 2, 0)] == [-1, 0, 0]

    @T.prim_func
    def real(x: T.float32):
        T.evaluate(T.ret(x))

    with pytest.raises(TransformError, match="returns float32; a function with raw arguments returns its int32 status"):
        converted(real)


def test_flattened_and_parallel_bodies() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "float32")):
        for i in T.parallel(4):
            for j in T.vectorized(4):
                A[i, j] = A[i, j] + T.float32(1)

    after = converted(FlattenBuffer()(before))
    x = np.zeros((4, 4), "float32")
    interpret(after, x)
    np.testing.assert_array_equal(x, np.ones((4, 4)))


def test_targets() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(1)

    assert converted(before).attrs["target"] == Target("llvm")
    with Target("llvm", mcpu="native", host="llvm"):
        assert MakeUnpackedAPI()(before).attrs["target"] == Target("llvm")
    hosted = before.with_attr("target", Target("llvm", mcpu="native"))
    assert MakeUnpackedAPI()(hosted) is hosted
    with pytest.raises(TransformError, match="before has no target"):
        MakeUnpackedAPI()(before)
    device = MakeUnpackedAPI()(before.with_attr("target", Target("cuda", host="llvm")))

    @T.prim_func
    def expected(a: T.handle("float32")) -> T.int32:
        T.func_attr({"target": T.target("llvm")})
        with T.attr("default", "device_id", 0), T.attr("default", "device_type", 2):
            T.call_packed("__tvm_set_device", 2, 0)
            A = T.decl_buffer((4,), "float32", data=a)
            A[0] = T.float32(1)
            T.ret(0)

    same_function(device, expected)
    out = np.zeros(4, "float32")
    assert interpret(device, out) == 0
    np.testing.assert_array_equal(out, [1, 0, 0, 0])


def test_private_and_converted_functions_stay() -> None:
    @T.prim_func(private=True)
    def private(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(1)

    assert MakeUnpackedAPI()(private) is private
    packed = MakePackedAPI()(private.with_attr("global_symbol", "f"))
    assert packed.attrs["calling_conv"] == CallingConvention.PACKED
    assert MakeUnpackedAPI()(packed) is packed


@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4, 4), "int32")):
        for i in range(4):
            Module.row(A.data, i)

    @T.prim_func
    def row(A: T.Buffer((4, 4), "int32"), i: T.int32):
        for j in range(4):
            A[i, j] = i * 4 + j


def test_exposed_functions_are_called_and_not_copied() -> None:
    after = converted(Module)
    assert list(after) == ["main", "row"]
    x, y = np.zeros((4, 4), "int32"), np.zeros((4, 4), "int32")
    interpret(after, x, name="main")
    np.testing.assert_array_equal(x, np.arange(16).reshape(4, 4))
    tl.build(after, schedule="none")["main"](y.ctypes.data)
    np.testing.assert_array_equal(x, y)


def test_a_callee_that_finds_a_size_in_its_array_is_called_as_a_copy() -> None:
    @I.ir_module
    class Sized:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            Sized.fill(A)

        @T.prim_func
        def fill(A: T.Buffer(("n",), "int32")):
            for i in range(n):
                A[i] = i

    after = converted(Sized)
    assert list(after) == ["main", "fill", "fill_internal"] and len(after["fill"].params) == 2
    assert "global_symbol" not in after["fill_internal"].attrs


def test_a_variable_that_no_argument_binds() -> None:
    @T.prim_func(check_well_formed=False)
    def before(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n * 2,), "int32")
        A[0] = 1

    with pytest.raises(TransformError, match="'n' in the declaration of a buffer of before is bound by no argument"):
        converted(before)
