from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import CUDA, FakeCuda, device_module, driver_of, fake_kernel, split
from tirlower.diagnostics import BoundsError, LoweringError, RuntimeAssertError
from tirlower.gpu.launch import device_of, to_device
from tirlower.gpu.launch.host_function import launches_of, write_host
from tirlower.interp import interpret
from tirlower.ir import IRModule, PrimFunc
from tirlower.ir.failure_message import failure
from tirlower.script import parse
from tirlower.script import tir as T


def host_of(body: str, params: str = 'A: T.Buffer((8,), "int32"), n: T.int32') -> PrimFunc:
    return parse(f"""
@T.prim_func
def host({params}):
    T.func_attr({{"global_symbol": "f"}})
{body}
""")


KERNEL = """
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = A[tx] {}"""


def agrees(func: PrimFunc, array: np.ndarray[Any, Any], *rest: Any) -> Any:
    """Run on the fake device and in the interpreter, from the same inputs."""
    kernel, cuda = fake_kernel(func)
    device = to_device(array, device=device_of(0, driver_of(cuda)))
    wanted = array.copy()
    expected = interpret(func, wanted, *rest)
    found = kernel(device, *rest)
    np.testing.assert_array_equal(device.numpy(), wanted)
    assert found == expected and len(cuda.memory) == 1
    return kernel


def test_the_source_of_a_simple_host() -> None:
    kernel = agrees(host_of(KERNEL.format("+ n")), np.arange(8, dtype=np.int32), 5)
    lines = kernel.host.source.splitlines()
    assert lines[0] == "def host(_stream, A, n):" and len(lines) == 2 and "(_stream, A, n, 8)" in lines[1]


@pytest.mark.parametrize("n", [-3, 0, 1, 4])
def test_loops_from_other_numbers_than_zero(n: int) -> None:
    body = """
    for i in range(2, n + 2):
        for j in T.serial(n - 1, n + 1):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[tx] = A[tx] * 3 + i - j"""
    agrees(host_of(body), np.arange(8, dtype=np.int32), n)


@pytest.mark.parametrize("n", [0, 3, 4, 5])
def test_break_continue_and_nested_conditions(n: int) -> None:
    body = """
    for i in range(n):
        if i == 1:
            continue
        if i == 4:
            break
        else:
            if i % 2 == 0 and n > 3 or i == 3:
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    A[tx] = A[tx] * 3 + i"""
    agrees(host_of(body), np.arange(8, dtype=np.int32), n)


@pytest.mark.parametrize("n", [1, 6])
def test_temporaries_of_loops_that_are_left(n: int) -> None:
    body = """
    for i in range(n):
        W = T.alloc_buffer((8,), "int32")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            W[tx] = A[tx] * 2
        if i == 2:
            break
        V = T.alloc_buffer((8,), "int32")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            V[tx] = W[tx] + i
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            A[tx] = V[tx]"""
    agrees(host_of(body), np.arange(8, dtype=np.int32), n)


def test_host_memory_is_checked() -> None:
    body = """
    c = T.alloc_buffer((3,), "int32", scope="local")
    for i in range(n):
        c[i] = i * 10
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = 0
    for i in range(n):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            A[tx] = A[tx] + i"""
    kernel, cuda = fake_kernel(host_of(body))
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    kernel(A, 3)
    np.testing.assert_array_equal(A.numpy(), np.full(8, 3))
    with pytest.raises(BoundsError, match=r"host code accesses element 3 of 'c', which has 3"):
        kernel(A, 4)


def test_assertions_with_values() -> None:
    func = host_of('    assert n > 0, "n is not positive"' + KERNEL.format("+ n"))
    kernel, cuda = fake_kernel(func)
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    with pytest.raises(RuntimeAssertError, match=r"n is not positive"):
        kernel(A, 0)
    from tirlower.ir.stmt import Assert, Seq

    n = func.params[1]
    body = Seq((Assert(n < 9, failure("IndexError", "{0} is beyond {1}", n, n + 1)), func.body))
    other, cuda = fake_kernel(func.with_body(body))
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    other(A, 3)
    with pytest.raises(BoundsError, match=r"12 is beyond 13"):
        other(A, 12)


def lowered_host(body: str, params: str = 'A: T.Buffer((8,), "int32"), n: T.int32') -> PrimFunc:
    return host_of(body, params).with_attr("target", CUDA.host)


REFUSED = [
    ("    A[0] = n", r"accesses 'A', which is in device memory"),
    ("    if A[0] > 2:\n        T.tvm_call_packed(\"k\", A.data)", r"accesses 'A', which is in device memory"),
    ('    T.tvm_call_packed("k", A.data)', r"host code calls .k., which is no kernel of the module"),
    ('    T.tvm_call_packed("vector_add_kernel", A.data)', r"the launch of 'vector_add_kernel' has 1 arguments"),
    ('    T.evaluate(T.call_extern("int32", "puts", n))', r"host code calls"),
    ('    for tx in T.thread_binding(8, thread="threadIdx.x"):\n        A[tx] = 0', r"loop 'tx' over threadIdx.x stands in host code"),
    ('    s = T.alloc_buffer((8,), "int32", scope="shared")\n    T.tvm_call_packed("k", s.data)', r"in scope 'shared' and gives it to a kernel"),
]  # fmt: skip


@pytest.mark.parametrize("body, text", REFUSED)
def test_what_host_code_cannot_do(body: str, text: str) -> None:
    func = lowered_host(body)
    module = device_module(split(programs.vector_add))
    with pytest.raises(LoweringError, match=f"the host code of `f`: .*{text}"):
        write_host(func, (), module)


def test_loops_beyond_what_python_nests() -> None:
    body = "".join(f"{'    ' * (i + 1)}for i{i} in range(n):\n" for i in range(25))
    body += "    " * 26 + 'T.tvm_call_packed("k", A.data, 8)'
    func = lowered_host(body)
    module = device_module(split(host_of(KERNEL.format("+ n"))))
    (image,) = module.kernels.values()
    body = body.replace(
        '"k", A.data, 8',
        f'"{image.symbol}", ' + ", ".join("A.data" if p.pointer else "n" for p in image.params) + ", 8",
    )
    func = lowered_host(body)
    with pytest.raises(LoweringError, match=r"nests too deeply for Python"):
        write_host(func, (), module)


def test_one_kernel_launched_twice() -> None:
    module = split(host_of(KERNEL.format("+ n")))
    (name,) = [key for key in module if key != "main"]
    found = launches_of(module["main"])
    assert list(found) == [name] and len(found[name]) == 1
    host = module["main"]
    from tirlower.ir.stmt import Seq

    twice = IRModule({"main": host.with_body(Seq((host.body, host.body))), name: module[name]})
    kernels = device_module(twice)
    cuda = FakeCuda()
    cuda.kernels.update({key: (image, twice) for key, image in kernels.kernels.items()})
    from tirlower.gpu.launch import GpuKernel

    kernel = GpuKernel(host_of(KERNEL.format("+ n")), twice, "main", kernels, driver=driver_of(cuda))
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    kernel(A, 4)
    np.testing.assert_array_equal(A.numpy(), np.full(8, 8))
    assert len(kernel.host.launches) == 1


@T.prim_func
def offsets(A: T.Buffer((24,), "int32"), n: T.int32):
    T.func_attr({"global_symbol": "offsets"})
    part = T.decl_buffer((8,), "int32", data=A.data, elem_offset=8)
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        part[tx] = n


def test_views_with_offsets() -> None:
    kernel, cuda = fake_kernel(offsets)
    A = to_device(np.zeros(24, np.int32), device=device_of(0, driver_of(cuda)))
    kernel(A, 4)
    np.testing.assert_array_equal(A.numpy(), [0] * 8 + [4] * 8 + [0] * 8)
