"""The packed convention in machine code, against DLPack's layout as ctypes sees it and against the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import CodegenError, RuntimeAssertError
from tirlower.interp import interpret
from tirlower.llvm.codegen.symbols import unregister_symbol
from tirlower.script import parse
from tirlower.transforms import LowerTVMBuiltin

KIND = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, ctypes.c_int32, *[ctypes.c_void_p] * 3)


class Tensor(ctypes.Structure):
    """DLTensor of DLPack 1.0."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


@pytest.fixture
def symbol() -> Iterator[Callable[[Callable[..., int]], None]]:
    yield lambda fn: tl.register_symbol("packed_test", KIND(fn))
    unregister_symbol("packed_test")


def function(body: str) -> Any:
    head = '@T.prim_func\ndef f(A: T.Buffer((8,), "int64"), n: T.int32):\n'
    return parse(head + "".join(f"    {line}\n" for line in body.splitlines()))


def both(func: Any, n: int = 3) -> list[int]:
    """What machine code leaves in A; the interpreter leaves the same."""
    a, b = np.arange(8), np.arange(8)
    tl.build(func, schedule="none")(a, n)
    interpret(func, b, n)
    np.testing.assert_array_equal(a, b)
    return a.tolist()


def test_values_on_the_stack() -> None:
    func = function("""s: T.handle = T.tvm_stack_alloca("arg_value", 3)
for i in range(3):
    T.evaluate(T.tvm_struct_set(s, i, 12, T.Cast("int64", i + n)))
T.evaluate(T.tvm_struct_set(s, 1, 12, T.float64(2.5)))
A[0] = T.tvm_struct_get(s, 0, 12, "int64") * T.int64(10) + T.tvm_struct_get(s, 2, 12, "int64")
A[1] = T.Cast("int64", T.tvm_struct_get(s, 1, 12, "float64") * T.float64(2))
T.evaluate(T.tvm_struct_set(s, 2, 12, A.data))
p: T.handle("int64") = T.tvm_struct_get(s, 2, 12, "handle")
P = T.decl_buffer((8,), "int64", data=p)
A[2] = P[7]""")
    assert both(func)[:3] == [35, 5, 7]


def test_fields_of_descriptors() -> None:
    func = function("""s: T.handle = T.tvm_stack_alloca("array", 2)
sh: T.handle("int64") = T.tvm_stack_alloca("shape", 2)
S = T.decl_buffer((2,), "int64", data=sh)
S[0] = T.int64(4)
S[1] = T.int64(2)
T.evaluate(T.tvm_struct_set(s, 1, 1, A.data))
T.evaluate(T.tvm_struct_set(s, 1, 2, sh))
T.evaluate(T.tvm_struct_set(s, 1, 4, n))
T.evaluate(T.tvm_struct_set(s, 1, 5, T.uint8(200)))
T.evaluate(T.tvm_struct_set(s, 1, 6, T.uint8(64)))
T.evaluate(T.tvm_struct_set(s, 1, 7, T.uint16(1)))
T.evaluate(T.tvm_struct_set(s, 1, 8, T.uint64(1 << 40)))
T.evaluate(T.tvm_struct_set(s, 1, 9, -7))
T.evaluate(T.tvm_struct_set(s, 1, 10, 2))
one: T.handle = T.tvm_struct_get(s, 1, 0, "handle")
q: T.handle("int64") = T.tvm_struct_get(one, 0, 2, "handle")
Q = T.decl_buffer((2,), "int64", data=q)
A[0] = Q[0] * T.int64(10) + Q[1]
A[1] = T.Cast("int64", T.tvm_struct_get(one, 0, 4, "int32"))
A[2] = T.Cast("int64", T.tvm_struct_get(one, 0, 5, "uint8"))
A[3] = T.Cast("int64", T.tvm_struct_get(one, 0, 8, "uint64"))
A[4] = T.Cast("int64", T.tvm_struct_get(one, 0, 9, "int32"))
A[5] = T.Cast("int64", T.tvm_struct_get(one, 0, 7, "uint16"))""")
    assert both(func)[:6] == [42, 3, 200, 1 << 40, -7, 1]


def test_a_descriptor_is_a_dltensor(symbol: Any) -> None:
    found: list[Any] = []

    def packed(values: int, codes: int, count: int, result: int, code: int, resource: int | None) -> int:
        one = Tensor.from_address(ctypes.c_void_p.from_address(values).value or 0)
        numbers = (one.device_type, one.device_id, one.ndim, one.code, one.bits, one.lanes, one.byte_offset)
        found.append((*numbers, one.shape[: one.ndim], bool(one.strides), one.data))
        ctypes.c_double.from_address(result).value = 1.5
        return 0

    symbol(packed)
    func = function("""T.attr("default", "device_type", 1)
V = T.decl_buffer((2, 3), "float16", data=A.data, elem_offset=4)
A[1] = T.Cast("int64", T.tvm_call_packed("packed_test", V))""")
    a = np.arange(8)
    tl.build(LowerTVMBuiltin()(func), schedule="none")(a, 0)
    assert found == [(1, 0, 2, 2, 16, 1, 8, [2, 3], False, a.ctypes.data)]


def test_an_error_of_a_callee(symbol: Any) -> None:
    symbol(lambda *_: -3)
    func = function("""s: T.handle = T.tvm_stack_alloca("arg_value", 1)
c: T.handle("int32") = T.tvm_stack_alloca("arg_tcode", 1)
T.evaluate(T.tvm_call_packed_lowered("packed_test", s, c, 0, 0))""")
    with pytest.raises(RuntimeAssertError, match="'packed_test' returned the error code -3"):
        tl.build(func, schedule="none")(np.arange(8), 0)


def test_workspaces() -> None:
    func = function("""w: T.handle("int64") = T.TVMBackendAllocWorkspace(1, 0, T.Cast("uint64", n) * T.uint64(8), 0, 64)
W = T.decl_buffer((n,), "int64", data=w)
for i in range(n):
    W[i] = A[n - 1 - i]
for i in range(n):
    A[i] = W[i]
T.evaluate(T.TVMBackendFreeWorkspace(1, 0, w))""")
    assert both(func, 5)[:6] == [4, 3, 2, 1, 0, 5]
    both(func, 0)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ('s: T.handle = T.tvm_stack_alloca("other", 1)', "takes a kind"),
        ('s: T.handle = T.tvm_stack_alloca("arg_value", n)', "constant count"),
        (
            's: T.handle = T.tvm_stack_alloca("arg_value", 1)\nT.evaluate(T.tvm_struct_set(s, 0, 12, n))',
            "takes 8 bytes",
        ),
        ('s: T.handle = T.tvm_stack_alloca("arg_value", 1)\nT.evaluate(T.tvm_struct_set(s, 0, n, n))', "is a constant"),
        ('T.evaluate(T.tvm_call_packed("f", n))', "LowerTVMBuiltin"),
    ],
)
def test_what_is_refused(body: str, match: str) -> None:
    with pytest.raises(CodegenError, match=match):
        tl.build(function(body), schedule="none")
