from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check, executes_alike
from tests.transforms.threads.device_programs import PROGRAMS, module
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.interp.intrinsics_extern import register_extern
from tirlower.ir import IRModule
from tirlower.machine.target import Target
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import (
    AnnotateDeviceRegions,
    LowerDeviceKernelLaunch,
    MakePackedAPI,
    Sequential,
    SplitHostDevice,
)


def launched(name: str) -> IRModule:
    return check(LowerDeviceKernelLaunch(), SplitHostDevice()(AnnotateDeviceRegions()(module(name))))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_host_and_kernels_compute_the_same(name: str) -> None:
    after = launched(name)
    executes_alike(module(name), after)
    for key, func in after.items():
        if key != "main":
            assert func.attrs["calling_conv"] == 2 and func.attrs["global_symbol"] == key


def test_launch_parameters_in_the_order_of_the_axes() -> None:
    several = launched("several")
    assert [several[k].attrs["tir.kernel_launch_params"] for k in several if k != "main"] == [
        ("threadIdx.x",), ("blockIdx.x", "threadIdx.y", "threadIdx.x"), ("threadIdx.x",)
    ]  # fmt: skip
    dynamic = launched("dynamic")["main_kernel"].attrs["tir.kernel_launch_params"]
    assert dynamic == ("blockIdx.y", "threadIdx.x", "tir.use_dyn_shared_memory")


def test_launch_arguments_as_the_device_gets_them() -> None:
    after = launched("symbolic")
    seen: list[Any] = []
    register_extern("main_kernel", lambda *values: seen.append(values) or 0)
    try:
        interpret(after, np.zeros((10, 5)), np.zeros(10), 2.0, name="main")
    finally:
        register_extern("main_kernel", None)
    (values,) = seen
    assert len(values) == 7 + 2 and values[-2:] == (3, 4)
    seen.clear()
    after = launched("dynamic")
    register_extern("main_kernel", lambda *values: seen.append(values) or 0)
    try:
        interpret(after, np.zeros((2, 8), np.float16), np.zeros((2, 8), np.float16), name="main")
    finally:
        register_extern("main_kernel", None)
    assert seen[0][-3:] == (2, 8, 16)


def test_expected_form() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((16,), "float32"), n: T.int32):
            T.func_attr({"target": T.target("llvm")})
            before.kernel(A.data, n + 1)

        @T.prim_func(private=True)
        def kernel(a: T.handle("float32"), m: T.int32):
            T.func_attr({"target": T.target("cuda")})
            A = T.decl_buffer((16,), data=a)
            half: T.int32 = m // 2
            for bx in T.thread_binding(half, thread="blockIdx.x"):
                A[bx % 16] = T.float32(1)

    @I.ir_module
    class expected:
        @T.prim_func
        def main(A: T.Buffer((16,), "float32"), n: T.int32):
            T.func_attr({"target": T.target("llvm")})
            T.call_packed("kernel", A.data, n + 1, (n + 1) // 2)

        @T.prim_func
        def kernel(a: T.handle("float32"), m: T.int32):
            T.func_attr({"target": T.target("cuda"), "calling_conv": 2, "tir.is_global_func": True,
                         "tir.kernel_launch_params": ["blockIdx.x"]})  # fmt: skip
            A = T.decl_buffer((16,), data=a)
            half: T.int32 = m // 2
            for bx in T.thread_binding(half, thread="blockIdx.x"):
                A[bx % 16] = T.float32(1)

    check(LowerDeviceKernelLaunch(), before, expected)


def two(caller: str, callee: str) -> IRModule:
    return parse(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32")):
        T.func_attr({{"target": T.target("{caller}")}})
        Module.inner(A.data)

    @T.prim_func(private=True)
    def inner(a: T.handle("int32")):
        T.func_attr({{"target": T.target("{callee}")}})
        A = T.decl_buffer((8,), "int32", data=a)
        for i in range(8):
            A[i] = A[i] * 2
""")


def test_the_same_target_and_the_same_kind_of_device() -> None:
    same = two("llvm", "llvm")
    check(LowerDeviceKernelLaunch(), same, same)
    kind = check(LowerDeviceKernelLaunch(), two("llvm", "llvm -mcpu=x86-64-v3"))
    assert 'T.call_extern("void", "inner", A.data)' in kind["main"].script()
    assert kind["inner"].attrs["global_symbol"] == "inner" and "calling_conv" not in kind["inner"].attrs
    other = check(LowerDeviceKernelLaunch(), two("llvm", "cuda"))
    assert other["inner"].attrs["tir.kernel_launch_params"] == ()
    assert 'T.tvm_call_packed("inner", A.data)' in other["main"].script()


def test_calls_inside_a_kernel_stay() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            T.func_attr({"target": T.target("llvm")})
            before.kernel(A.data)

        @T.prim_func(private=True)
        def kernel(a: T.handle("int32")):
            T.func_attr({"target": T.target("cuda")})
            A = T.decl_buffer((8,), "int32", data=a)
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[tx] = before.twice(A[tx])

        @T.prim_func(private=True)
        def twice(x: T.int32) -> T.int32:
            T.func_attr({"target": T.target("cuda")})
            T.ret(x * 2)

    after = check(LowerDeviceKernelLaunch(), before)
    assert after["twice"] is before["twice"] and "twice" in after["kernel"].script()


def test_after_the_packed_entry_was_made() -> None:
    mod = module("several")
    steps = Sequential([AnnotateDeviceRegions(), SplitHostDevice(), MakePackedAPI(), LowerDeviceKernelLaunch()])
    after = steps(mod)
    a, b = np.arange(24, dtype=np.int32), np.zeros(24, np.int32)
    x, y = a.copy(), b.copy()
    interpret(mod, a, b, 4)
    interpret(after, x, y, 4, name="main")
    np.testing.assert_array_equal(b, y)
    assert b.any()


def refused(body: str, params: str = 'a: T.handle("int32"), n: T.int32', ret: str = "") -> str:
    mod = parse(f"""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), n: T.int32):
        T.func_attr({{"target": T.target("llvm")}})
        Module.kernel(A.data, n)

    @T.prim_func(private=True)
    def kernel({params}){ret}:
        T.func_attr({{"target": T.target("cuda")}})
        A = T.decl_buffer((8,), "int32", data=a)
{body}
""")
    with pytest.raises(TransformError) as error:
        LowerDeviceKernelLaunch()(mod)
    return str(error.value.message)


def test_what_cannot_be_launched() -> None:
    twice = """
        s = T.alloc_buffer((8,), "int32", scope="shared.dyn")
        t = T.alloc_buffer((8,), "int32", scope="shared.dyn")
        s[0] = n
        t[0] = n"""
    assert "dynamic shared memory twice, for 's' and 't'" in refused(twice)
    inner = """
        for k in range(n):
            for tx in T.thread_binding(k + 1, thread="threadIdx.x"):
                A[tx] = k"""
    assert "threadIdx.x of kernel 'kernel' is k + 1" in refused(inner)
    memory = """
        for tx in T.thread_binding(A[0], thread="threadIdx.x"):
            A[tx] = 1"""
    assert "which the host cannot compute" in refused(memory)
    extents = """
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            A[tx] = 1
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            A[tx] = 1"""
    assert "threadIdx.x has the extents 4 and 8" in refused(extents)
    value = """
        A[0] = n
        T.ret(n)"""
    assert "returns int32" in refused(value, ret=" -> T.int32")


def test_a_target_is_needed() -> None:
    with pytest.raises(TransformError, match="no attribute 'target'"):
        LowerDeviceKernelLaunch()(IRModule({"main": PROGRAMS["vector_add"]}))
    assert Target("cuda").device == "cuda"
