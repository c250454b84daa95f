from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tests.transforms.threads.device_programs import PROGRAMS, module
from tirlower.diagnostics import TransformError
from tirlower.ir import IRModule
from tirlower.machine.target import Target
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import AnnotateDeviceRegions, DecorateDeviceScope, SplitHostDevice


def split(name: str) -> IRModule:
    return check(SplitHostDevice(), AnnotateDeviceRegions()(module(name)))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_host_and_kernels_compute_the_same(name: str) -> None:
    after = split(name)
    kernels = [key for key in after if key != "main"]
    assert kernels == (["main_kernel", "main_kernel_1", "main_kernel_2"] if name == "several" else ["main_kernel"])
    for key in kernels:
        assert after[key].attrs == {"target": Target("cuda"), "tir.noalias": True, "tir.is_global_func": True}
    assert "thread_binding" not in after["main"].script()


def test_expected_form() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), n: T.int32):
            T.func_attr({"target": T.target("cuda", host="llvm")})
            for i in range(n):
                with T.attr(T.target("cuda"), "target", 0):
                    for tx in T.thread_binding(8, thread="threadIdx.x"):
                        A[tx] = A[tx] + i * n

    @I.ir_module
    class expected:
        @T.prim_func
        def main(A: T.Buffer((8,), "int32"), n: T.int32):
            T.func_attr({"target": T.target("cuda", host="llvm")})
            for i in range(n):
                expected.main_kernel(A.data, i, n)

        @T.prim_func(private=True)
        def main_kernel(a: T.handle("int32"), i: T.int32, n: T.int32):
            T.func_attr({"target": T.target("cuda"), "tir.noalias": True, "tir.is_global_func": True})
            A = T.decl_buffer((8,), "int32", data=a)
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[tx] = A[tx] + i * n

    check(SplitHostDevice(), before, expected)


def test_what_is_used_first_is_declared_last() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(var_A: T.handle, var_B: T.handle, seq_len: T.int32):
            T.func_attr({"target": T.target("cuda", host="llvm")})
            A = T.match_buffer(var_A, [seq_len], "int32")
            B = T.match_buffer(var_B, [seq_len], "int32")
            num_blocks: T.int32 = (seq_len + 127) // 128
            with T.attr(T.target("cuda"), "target", 0):
                bx = T.launch_thread("blockIdx.x", num_blocks)
                tx = T.launch_thread("threadIdx.x", 128)
                if bx * 128 + tx < seq_len:
                    B[bx * 128 + tx] = A[bx * 128 + tx]

    @I.ir_module
    class expected:
        @T.prim_func
        def main(var_A: T.handle, var_B: T.handle, seq_len: T.int32):
            T.func_attr({"target": T.target("cuda", host="llvm")})
            A = T.match_buffer(var_A, [seq_len], "int32")
            B = T.match_buffer(var_B, [seq_len], "int32")
            num_blocks: T.int32 = (seq_len + 127) // 128
            expected.main_kernel(A.data, B.data, num_blocks, seq_len)

        @T.prim_func(private=True)
        def main_kernel(a: T.handle("int32"), b: T.handle("int32"), num_blocks: T.int32, seq_len: T.int32):
            T.func_attr({"target": T.target("cuda"), "tir.noalias": True, "tir.is_global_func": True})
            A = T.decl_buffer((seq_len,), "int32", data=a)
            B = T.decl_buffer((seq_len,), "int32", data=b)
            bx = T.launch_thread("blockIdx.x", num_blocks)
            tx = T.launch_thread("threadIdx.x", 128)
            if bx * 128 + tx < seq_len:
                B[bx * 128 + tx] = A[bx * 128 + tx]

    check(SplitHostDevice(), before, expected)


def test_parameters_are_handles_first_then_by_name() -> None:
    after = split("symbolic")
    params = [p.name for p in after["main_kernel"].params]
    assert params == ["A", "B", "m", "n", "s", "scale", "t"]
    assert [p.dtype.is_handle for p in after["main_kernel"].params][:3] == [True, True, False]
    assert [p.name for p in split("several")["main_kernel_1"].params] == ["work", "i"]


def test_a_processor_reports_its_status() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((8,), "float32")):
            T.func_attr({"target": T.target("llvm", host="llvm")})
            with T.attr(T.target("llvm -mcpu=x86-64-v3"), "target", 0):
                for i in range(8):
                    A[i] = A[i] + T.float32(1)
            A[0] = T.float32(0)

    after = check(SplitHostDevice(), before)
    assert str(after["main_kernel"].ret_type) == "int32"
    assert "Error executing compute kernel" in after["main"].script()
    assert "T.ret(0)" in after["main_kernel"].script()


def test_names_that_are_taken() -> None:
    mod = AnnotateDeviceRegions()(module("vector_add"))
    other = PROGRAMS["dynamic"].with_attr({"target": Target("cuda"), "global_symbol": "main_kernel_1"})
    taken = IRModule({**mod.functions, "main_kernel": other})
    assert list(SplitHostDevice()(taken)) == ["main", "main_kernel", "main_kernel_2"]


def test_the_prefix_is_the_exported_name() -> None:
    func = AnnotateDeviceRegions()(module("vector_add"))["main"].with_attr("global_symbol", "add")
    assert list(SplitHostDevice()(IRModule({"main": func}))) == ["main", "add_kernel"]
    assert list(SplitHostDevice()(IRModule({"f": func.without_attr("global_symbol")}))) == ["f", "f_kernel"]


def test_views_pointers_and_scalars_of_the_host() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((8, 8), "float32"), k: T.int32):
            T.func_attr({"target": T.target("cuda", host="llvm")})
            p: T.handle("float32") = A.data
            row: T.int32 = k % 8
            flat = T.decl_buffer((64,), "float32", data=p)
            with T.attr(T.target("cuda"), "target", 0):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    own = T.decl_buffer((8,), "float32", data=flat.data, elem_offset=row * 8)
                    flat[row * 8 + tx] = own[tx] + T.float32(k)

    after = check(SplitHostDevice(), before)
    assert [p.name for p in after["main_kernel"].params] == ["p", "k", "row"]


def test_device_scopes_without_threads() -> None:
    @T.prim_func
    def main(A: T.Buffer(("n",), "float32")):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        for i in range(n):
            A[i] = A[i] * T.float32(2)

    after = check(SplitHostDevice(), AnnotateDeviceRegions()(DecorateDeviceScope()(IRModule({"main": main}))))
    assert list(after) == ["main", "main_kernel"]


def test_a_module_without_regions_comes_back() -> None:
    mod = module("several")
    check(SplitHostDevice(), mod, mod)


def test_regions_that_leave_the_function() -> None:
    text = """
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32")):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        with T.attr(T.target("cuda"), "target", 0):
            if A[0] > 0:
                T.evaluate(T.ret())
            A[0] = 1
        A[1] = 2
"""
    with pytest.raises(TransformError, match="a region for cuda in main leaves the function"):
        SplitHostDevice()(parse(text))
    # In a thread it ends the thread alone.
    inside = text.replace(
        "            if A[0] > 0:\n                T",
        '            for tx in T.thread_binding(8, thread="threadIdx.x"):\n              if A[tx] > 0:\n                T',
    )
    after = check(SplitHostDevice(), parse(inside), inputs=[[np.arange(8, dtype="int32") - 3]])
    assert len(after) == 2
