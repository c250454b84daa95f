from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.interp import register_extern
from tirlower.interp.memory import Pointer
from tirlower.interp.structs import Struct
from tirlower.ir import Call, PrimFunc, pre_order_visit
from tirlower.ir.struct_field import StructField
from tirlower.llvm.codegen.symbols import unregister_symbol
from tirlower.script import parse
from tirlower.transforms import LegalizePackedCalls, LowerTVMBuiltin


def memory_of(arg: Any) -> Pointer:
    """The memory of an argument: a bare pointer, or what a descriptor describes."""
    if isinstance(arg, Struct):
        arg = arg.get(0, StructField.DATA)
    assert isinstance(arg, Pointer)
    return arg


def add_one(*args: Any) -> int:
    for arg in args:
        if isinstance(arg, (Pointer, Struct)):
            memory_of(arg).array("float32", 4)[:] += 1
    return 0


@pytest.fixture(autouse=True)
def externs() -> Iterator[None]:
    register_extern("add_one", add_one)
    yield
    register_extern("add_one", None)


def function(body: str, params: str = 'A: T.Buffer((8,), "float32"), n: T.int32') -> PrimFunc:
    return parse(f"@T.prim_func\ndef f({params}):\n{body}")


def calls(func: PrimFunc) -> list[Call]:
    found: list[Call] = []
    pre_order_visit(
        func.body, lambda op: found.append(op) if isinstance(op, Call) and "cpacked" in op.op.name else None
    )
    return found


def bare(func: PrimFunc) -> int:
    """The arguments of calls that point into the memory of A."""
    data = func.buffers[0].data
    return sum(
        arg is data or (isinstance(arg, Call) and arg.op.name == "tir.address_of")
        for c in calls(func)
        for arg in c.args
    )


def legalized(func: PrimFunc) -> PrimFunc:
    after = check(LegalizePackedCalls(), func)
    assert bare(after) == 0
    return after


def test_pointers_are_described() -> None:
    after = legalized(function('    T.evaluate(T.tvm_call_cpacked("add_one", A.data, n, T.address_of(A[4])))\n'))
    assert after.script().count("T.tvm_struct_set") == 2
    assert after.script().count('T.tvm_stack_alloca("array", 1)') == 2


def test_parameters_numbers_and_strings_stay() -> None:
    func = parse("""
@T.prim_func
def f(a: T.handle, n: T.int32):
    T.evaluate(T.tvm_call_cpacked("nothing", a, n, 2.5, "text"))
""")
    register_extern("nothing", lambda *args: 0)
    try:
        assert LegalizePackedCalls()(func) is func
    finally:
        register_extern("nothing", None)


def test_descriptors_stay() -> None:
    func = function('    T.evaluate(T.tvm_call_cpacked("add_one", A))\n', 'A: T.Buffer((4,), "float32")')
    check(LegalizePackedCalls(), func, func)


def test_packed_calls_by_name_stay() -> None:
    func = function('    T.evaluate(T.tvm_call_packed("add_one", A.data))\n')
    check(LegalizePackedCalls(), func, func)


def test_in_loops_branches_and_after_declarations() -> None:
    after = legalized(
        function("""    for i in range(n):
        if i < 2:
            p: T.handle("float32") = A.data
            T.evaluate(T.tvm_call_cpacked("add_one", p))
            T.evaluate(T.tvm_call_cpacked("add_one", p, T.address_of(A[i])))
    k = T.alloc_buffer((1,), "int32")
    k[0] = 0
    while k[0] < 2:
        T.evaluate(T.tvm_call_cpacked("add_one", T.tvm_access_ptr(T.type_annotation("float32"), A.data, k[0], 4, 3)))
        k[0] = k[0] + 1
""")
    )
    assert after.script().count("T.tvm_stack_alloca") == 4


def test_names_are_distinct() -> None:
    text = legalized(
        function("""    T.evaluate(T.tvm_call_cpacked("add_one", A.data))
    T.evaluate(T.tvm_call_cpacked("add_one", A.data))
""")
    ).script()
    assert "tvm_value_0" in text and "tvm_value_1" in text


def test_a_call_whose_value_is_used_stays() -> None:
    """As in TIR: statements that are calls are legalized."""
    func = function('    A[0] = T.Cast("float32", T.tvm_call_cpacked("add_one", A.data))\n')
    check(LegalizePackedCalls(), func, func)


def test_functions_without_packed_calls_stay() -> None:
    func = function("    A[0] = T.float32(n)\n")
    check(LegalizePackedCalls(), func, func)


def test_natively_after_lowering() -> None:
    """A C function of the packed convention gets a descriptor whose data is the pointer."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, ctypes.c_int32, *[ctypes.c_void_p] * 3)

    def packed(values: int, codes: int, count: int, result: int, code: int, resource: int | None) -> int:
        tensor = ctypes.c_void_p.from_address(values).value
        assert tensor is not None
        data = ctypes.c_void_p.from_address(tensor).value
        assert data is not None
        array = (ctypes.c_float * 4).from_address(data)
        for i in range(4):
            array[i] += 1
        return 0

    tl.register_symbol("add_one", kind(packed))
    try:
        func = function('    T.evaluate(T.tvm_call_cpacked("add_one", T.address_of(A[n])))\n')
        a = np.arange(8, dtype="float32")
        tl.build(LowerTVMBuiltin()(LegalizePackedCalls()(func)), schedule="none")(a, 2)
        assert a.tolist() == [0, 1, 3, 4, 5, 6, 6, 7]
    finally:
        unregister_symbol("add_one")
