from __future__ import annotations

import math
import pickle
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import FakeCuda, device_module, driver_of, fake_kernel, on, report_sites, split
from tests.gpu.launch.foreign import Interface
from tirlower.diagnostics import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceError,
    LoweringError,
    RuntimeAssertError,
    TirError,
)
from tirlower.driver.gpu_host import host_code
from tirlower.gpu.launch import GpuKernel, device_of, driver, empty, to_device
from tirlower.ir import AllocConst, Buffer, PrimFunc, Seq
from tirlower.ir.functor import substitute
from tirlower.script import parse
from tirlower.script import tir as T

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 97])
def test_vector_add(n: int) -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    a, b = RNG.random(n, np.float32), RNG.random(n, np.float32)
    A, B, C = on(cuda, a, b, np.zeros(n, np.float32))
    assert kernel(A, B, C) is None
    np.testing.assert_array_equal(C.numpy(), a + b)
    (launch,) = cuda.calls("cuLaunchKernel")
    assert launch[2:8] == ((n + 31) // 32, 1, 1, 32, 1, 1)


def test_no_elements_are_no_launch() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    arrays = on(cuda, *[np.zeros(0, np.float32)] * 3)
    kernel(*arrays)
    assert not cuda.calls("cuLaunchKernel")
    assert arrays[0].numpy().shape == (0,) and arrays[0].pointer == 0


@pytest.mark.parametrize("n", [1, 40])
def test_outputs_are_allocated_and_returned(n: int) -> None:
    kernel, cuda = fake_kernel(programs.vector_add, outputs=("C",))
    a, b = RNG.random(n, np.float32), RNG.random(n, np.float32)
    A, B = on(cuda, a, b)
    C = kernel(A, B)
    np.testing.assert_array_equal(C.numpy(), a + b)
    assert C.dtype == np.float32 and C.shape == (n,)
    both, _ = fake_kernel(programs.staged.with_attr("tir.outputs", ["B"]))
    assert both.signature.outputs == ("B",)
    with pytest.raises(ArgumentTypeError, match=r"expected 2 arguments, got 3.*\n.*C would be allocated"):
        kernel(A, B, C)
    with pytest.raises(ArgumentTypeError, match=r"leave it out"):
        kernel(A, B, C=C)


@pytest.mark.parametrize("k", [0, 2, 3, 9])
def test_host_code_with_loops_conditions_and_temporaries(k: int) -> None:
    kernel, cuda = fake_kernel(programs.staged)
    a = np.arange(24, dtype=np.int32)
    A, B = on(cuda, a, np.zeros(24, np.int32))
    held = len(cuda.memory)
    kernel(A, B, k)
    wanted = 2 * a + sum(range(1, min(k, 3)))
    np.testing.assert_array_equal(B.numpy(), wanted[::-1] if k > 2 else wanted)
    assert len(cuda.memory) == held
    assert len(cuda.calls("cuLaunchKernel")) == 2 + max(0, min(k, 3) - 1)


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_a_while_loop_with_host_memory(rounds: int) -> None:
    kernel, cuda = fake_kernel(programs.doubling)
    (A,) = on(cuda, np.arange(16, dtype=np.int64))
    kernel(A, rounds)
    np.testing.assert_array_equal(A.numpy(), np.arange(16) * 2**rounds)
    assert len(cuda.memory) == 1 and len(cuda.calls("cuMemFreeAsync")) == rounds


def test_temporaries_are_freed_when_a_launch_fails() -> None:
    kernel, cuda = fake_kernel(programs.staged)
    A, B = on(cuda, np.arange(24, dtype=np.int32), np.zeros(24, np.int32))
    for at in range(3):
        cuda.fail["cuLaunchKernel"], cuda.spared["cuLaunchKernel"] = 700, at
        with pytest.raises(DeviceError, match=r"CUDA_ERROR_ILLEGAL_ADDRESS"):
            kernel(A, B, 3)
        assert len(cuda.memory) == 2, at
    assert len(cuda.calls("cuMemFreeAsync")) == 3


def test_temporaries_are_freed_when_an_allocation_fails() -> None:
    kernel, cuda = fake_kernel(programs.staged)
    A, B = on(cuda, np.arange(24, dtype=np.int32), np.zeros(24, np.int32))
    cuda.fail["cuMemAllocAsync"] = 2
    with pytest.raises(DeviceError, match=r"CUDA_ERROR_OUT_OF_MEMORY") as error:
        kernel(A, B, 3)
    assert "96 bytes were asked of Fake GPU" in str(error.value)
    assert len(cuda.memory) == 2


@T.prim_func
def asserting(A: T.Buffer((24,), "int32"), k: T.int32):
    T.func_attr({"global_symbol": "asserting"})
    work = T.alloc_buffer((24,), "int32")
    for tx in T.thread_binding(24, thread="threadIdx.x"):
        work[tx] = A[tx]
    assert k != 7, "seven will not do"
    inner = T.alloc_buffer((24,), "int32")
    for tx in T.thread_binding(24, thread="threadIdx.x"):
        inner[tx] = work[tx] // k
    for tx in T.thread_binding(24, thread="threadIdx.x"):
        A[tx] = inner[tx] + 100 // k


def test_assertions_and_divisions_of_host_code() -> None:
    kernel, cuda = fake_kernel(asserting)
    (A,) = on(cuda, np.arange(24, dtype=np.int32))
    kernel(A, 5)
    np.testing.assert_array_equal(A.numpy(), np.arange(24) // 5 + 20)
    with pytest.raises(RuntimeAssertError, match=r"seven will not do"):
        kernel(A, 7)
    assert len(cuda.memory) == 1


def test_strides_and_symbols_reach_the_kernel() -> None:
    kernel, cuda = fake_kernel(programs.scaled)
    a, out = RNG.random((6, 10)), np.zeros(3)
    A, B = on(cuda, a, out)
    view = Interface(A, (3, 5), (160, 16))
    kernel(view, B, 2.0)
    np.testing.assert_allclose(B.numpy(), (a[::2, ::2] * 2.0).sum(1))
    kernel(A=view, B=B, scale=np.float32(0.5))
    np.testing.assert_allclose(B.numpy(), (a[::2, ::2] * 0.5).sum(1))


@pytest.mark.parametrize("flag", [True, False])
def test_scalars_of_every_kind(flag: bool) -> None:
    kernel, cuda = fake_kernel(programs.blend)
    a = RNG.random((4, 8)).astype(ml_dtypes.bfloat16)
    A, B = on(cuda, a, np.zeros_like(a))
    kernel(A, B, flag, 1.3, 0.1, -7, 65535, 0.3)
    if flag:
        scale = ml_dtypes.bfloat16(1.3)
        wanted = a * scale + (np.float32(np.float16(0.1)) + np.float32(0.3)).astype(ml_dtypes.bfloat16)
    else:
        wanted = np.full((4, 8), 65528, np.float32).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(B.numpy().astype(np.float32), np.asarray(wanted).astype(np.float32))
    with pytest.raises(
        ArgumentValueError, match=r"argument `i` of `blend`: expected int8 from -128 to 127, got int 200"
    ):
        kernel(A, B, True, 1.0, 0.1, 200, 0, 0.0)
    with pytest.raises(ArgumentValueError, match=r"range of float16"):
        kernel(A, B, True, 1.0, 1e6, 0, 0, 0.0)
    kernel(A, B, True, math.inf, math.nan, np.int64(3), 0, 1)
    with pytest.raises(ArgumentTypeError, match=r"argument `u` of `blend`: expected uint16, got float 1.5"):
        kernel(A, B, True, 1.0, 0.1, 0, 1.5, 0.0)


def test_dynamic_shared_memory() -> None:
    kernel, cuda = fake_kernel(programs.dynamic)
    a = RNG.random((5, 8)).astype(np.float16)
    A, B = on(cuda, a, np.zeros_like(a))
    kernel(A, B)
    np.testing.assert_array_equal(B.numpy(), np.roll(a, -3, axis=1))
    assert cuda.calls("cuLaunchKernel")[0][2:9] == (1, 5, 1, 8, 1, 1, 16)
    assert [c[2:] for c in cuda.calls("cuFuncSetAttribute")] == [(8, 232448)]


# -- streams -----------------------------------------------------------------------------------------------------------


def test_streams_are_passed_through() -> None:
    kernel, cuda = fake_kernel(programs.staged)
    A, B = on(cuda, np.arange(24, dtype=np.int32), np.zeros(24, np.int32))
    cuda.log.clear()
    kernel(A, B, 3, stream=77)
    assert {c[9] for c in cuda.calls("cuLaunchKernel")} == {77}
    assert [c[-1] for c in cuda.calls("cuMemAllocAsync", "cuMemFreeAsync")] == [77, 77]

    class TorchStream:
        cuda_stream = 78

    class CudaCore:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 79

    for stream, handle in ((TorchStream(), 78), (CudaCore(), 79), (None, None), (0, None)):
        cuda.log.clear()
        kernel(A, B, 3, stream=stream)
        assert cuda.calls("cuLaunchKernel")[0][9] == handle
    with pytest.raises(ArgumentTypeError, match=r"expected a stream, got str"):
        kernel(A, B, 3, stream="fast")


def test_the_call_waits_for_the_stream_that_made_an_array() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    arrays = on(cuda, *[np.ones(8, np.float32)] * 3)
    cuda.log.clear()
    made = Interface(arrays[0], stream=55)
    kernel(made, *arrays[1:], stream=77)
    assert [c[2] for c in cuda.calls("cuEventRecord")] == [55]
    assert [c[1] for c in cuda.calls("cuStreamWaitEvent")] == [77]
    assert cuda.named().index("cuStreamWaitEvent") < cuda.named().index("cuLaunchKernel")
    arrays = on(cuda, *[np.ones(8, np.float32)] * 3)
    cuda.log.clear()
    kernel(Interface(arrays[0], stream=55), *arrays[1:], stream=55)
    arrays = on(cuda, *[np.ones(8, np.float32)] * 3)
    kernel(Interface(arrays[0], stream=1), *arrays[1:])  # 1 is the name of the default stream
    assert not cuda.calls("cuStreamWaitEvent")


def test_outputs_belong_to_the_stream_of_the_call() -> None:
    kernel, cuda = fake_kernel(programs.vector_add, outputs=("C",))
    A, B = on(cuda, *[np.ones(8, np.float32)] * 2)
    C = kernel(A, B, stream=77)
    assert cuda.calls("cuMemAllocAsync")[-1][-1] == 77
    del C
    assert cuda.calls("cuMemFreeAsync")[-1][-1] == 77
    C = kernel(A, B, stream=77)
    assert C.__cuda_array_interface__["stream"] == 77
    # Another library's work is expected on the default stream, which waits.
    assert not cuda.calls("cuStreamWaitEvent")[-1][1]
    del C
    assert not cuda.calls("cuMemFreeAsync")[-1][-1]


# -- several devices ---------------------------------------------------------------------------------------------------


def test_a_call_runs_where_its_arrays_are() -> None:
    kernel, cuda = fake_kernel(programs.vector_add, FakeCuda(devices=2))
    d = driver_of(cuda)
    first = [to_device(np.ones(8, np.float32), device=device_of(0, d)) for _ in range(3)]
    second = [to_device(np.ones(8, np.float32), device=device_of(1, d)) for _ in range(3)]
    d.set_context(555)
    for arrays in (first, second, [Interface(a) for a in second], [Interface(a) for a in first]):
        kernel(*arrays)
        assert cuda.context["now"] == 555
    np.testing.assert_array_equal(second[2].numpy(), np.full(8, 2))
    assert len(cuda.calls("cuModuleLoadDataEx")) == 2
    with pytest.raises(ArgumentValueError, match=r"an array on device 0, where `A` is, got one on device 1"):
        kernel(first[0], second[1], first[2])


# -- without a driver --------------------------------------------------------------------------------------------------


def test_without_a_driver_everything_but_a_call_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRLOWER_LIBCUDA", "/nowhere/libcuda.so.1")
    driver._opened.cache_clear()
    lowered = split(programs.vector_add)
    module = device_module(lowered)
    kernel = GpuKernel(programs.vector_add, lowered, host_code(lowered, "main", module), module)
    assert "define i32" in kernel.host.text
    assert "no device" in str(kernel.report())
    a = np.ones(8, np.float32)
    for call in (lambda: kernel(a, a, a), lambda: kernel.load(), lambda: kernel.occupancy(kernel.kernels[0], 32)):
        with pytest.raises(DeviceError) as error:
            call()
        text = str(error.value)
        assert "`vector_add` cannot be called: there is no CUDA device here" in text
        assert "/nowhere/libcuda.so.1" in text and "tl.simulate(func, *arrays)" in text and "TIRLOWER_LIBCUDA" in text
    with pytest.raises(DeviceError, match=r"there is no CUDA device here"):
        empty((3,))
    driver._opened.cache_clear()


# -- errors of the device ----------------------------------------------------------------------------------------------


def test_a_refused_launch_names_the_kernel_and_its_shape() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = on(cuda, *[np.ones(70, np.float32)] * 3)
    cuda.fail["cuLaunchKernel"] = 701
    with pytest.raises(DeviceError) as error:
        kernel(A, B, C, stream=16)
    text = str(error.value)
    assert (
        "the launch of kernel `vector_add_kernel` failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701): text of 701" in text
    )
    assert "grid (3, 1, 1), block (32, 1, 1), 0 bytes of dynamic shared memory, stream 0x10" in text
    cuda.fail.clear()
    kernel(A, B, C)
    cuda.fail["cuLaunchKernel"] = 700
    with pytest.raises(DeviceError, match=r"(?s)may be an earlier launch's.*tl.simulate"):
        kernel(A, B, C)


def wide(blocks: str, threads: str, shared: int = 0) -> PrimFunc:
    tile = f'tile = T.alloc_buffer(({shared},), "int8", scope="shared.dyn")' if shared else "pass"
    return parse(f"""
@T.prim_func
def wide(A: T.Buffer((4,), "int32"), n: T.int64):
    T.func_attr({{"global_symbol": "wide"}})
    for by in T.thread_binding({blocks}, thread="blockIdx.y"):
        for tx in T.thread_binding({threads}, thread="threadIdx.x"):
            {tile}
            if tx < 4:
                A[tx] = 1
""")


def test_limits_of_the_device_are_explained() -> None:
    kernel, cuda = fake_kernel(wide("n", "T.int64(4)"))
    (A,) = on(cuda, np.zeros(4, np.int32))
    with pytest.raises(DeviceError, match=r"blockIdx.y has the extent 65536, and the device's limit is 65535"):
        kernel(A, 65536)
    with pytest.raises(DeviceError, match=r"extent of 2\*\*31 or more"):
        kernel(A, 1 << 32)
    for n in (0, -5):
        kernel(A, n)
    assert len(cuda.calls("cuLaunchKernel")) == 1
    kernel, cuda = fake_kernel(wide("T.int64(1)", "n"))
    (A,) = on(cuda, np.zeros(4, np.int32))
    with pytest.raises(
        DeviceError,
        match=r"a block of 2000 threads is too large: this kernel has 40 registers a thread, which allows 512",
    ):
        kernel(A, 2000)
    kernel, cuda = fake_kernel(wide("n", "T.int64(4)", 300000))
    (A,) = on(cuda, np.zeros(4, np.int32))
    with pytest.raises(DeviceError, match=r"asks for 300000 bytes of dynamic shared memory.* 232448 a block"):
        kernel(A, 1)


def test_what_a_kernel_reports_is_raised() -> None:
    lowered = split(programs.checked)
    sites = report_sites(next(f for f in lowered.functions.values() if "tir.kernel_launch_params" in f.attrs))
    kernel, cuda = fake_kernel(programs.checked, reports=True, sites=sites)
    good, bad = np.arange(8, dtype=np.int32), np.full(8, 100, np.int32)
    A, X, B = on(cuda, good, bad, good)
    kernel(A, B, stream=9)
    assert cuda.calls("cuStreamSynchronize")[-1][1] == 9
    np.testing.assert_array_equal(B.numpy(), good + 1)
    with pytest.raises(RuntimeAssertError) as error:
        kernel(X, B)
    text = str(error.value)
    assert "an element is 100 or more" in text and "blockIdx (2, 0, 0), threadIdx (5, 0, 0)" in text
    kernel(A, B)
    cuda.fail["cuStreamSynchronize"] = 700
    with pytest.raises(DeviceError, match=r"`checked_kernel` failed: .*ILLEGAL_ADDRESS"):
        kernel(A, B)
    cuda.fail.clear()
    assert len(cuda.host) <= 2  # machine code's calls have one, those in Python one


def test_ptx_that_the_driver_refuses() -> None:
    def spoilt(module: Any) -> Any:
        return type(module)(module.ptx + "\nmistake", module.llvm, module.arch, module.kernels)

    kernel, cuda = fake_kernel(programs.vector_add, change=spoilt)
    arrays = on(cuda, *[np.ones(8, np.float32)] * 3)
    with pytest.raises(DeviceError) as error:
        kernel(*arrays)
    text = str(error.value)
    assert "CUDA_ERROR_INVALID_PTX" in text and "Unknown symbol 'mistake'" in text
    assert "the module is for sm_90; device 0 is <Device 0: Fake GPU, sm_90>" in text and "PTX up to 8.7" in text


# -- what it is --------------------------------------------------------------------------------------------------------


def test_report_and_occupancy() -> None:
    kernel, _ = fake_kernel(programs.staged)
    report = kernel.report()
    assert [k.name for k in report.kernels] == list(kernel.kernels) == list(kernel.module.kernels)
    one = report[kernel.kernels[1]]
    assert one.block == (4, 2, 1) and one.registers == 40 and one.local_bytes == 16 and one.dynamic_shared == 0
    assert one.blocks == 256 and "40 registers" in str(report) and "Fake GPU, sm_90" in str(report)
    assert report.log == "info: compiled"
    with pytest.raises(KeyError, match=r"no kernel 'x'"):
        report["x"]
    assert kernel.occupancy(kernel.kernels[0], 256) == 8
    with pytest.raises(TirError, match=r"no kernel 'x'"):
        kernel.occupancy("x", 32)
    dynamic, _ = fake_kernel(wide("T.int64(1)", "n"))
    assert dynamic.report().kernels[0].block is None


def test_names() -> None:
    kernel, _ = fake_kernel(programs.vector_add)
    assert repr(kernel) == "<tirlower.GpuKernel vector_add(A, B, C) for sm_90>"
    assert kernel.__doc__ == "vector_add(A, B, C)" and kernel.func is programs.vector_add
    with pytest.raises(TypeError, match=r"pickle the PrimFunc"):
        pickle.dumps(kernel)


def test_constants_are_uploaded_once() -> None:
    table = Buffer("table", (8,), "int32")

    @T.prim_func
    def add(A: T.Buffer((8,), "int32"), t: T.handle("int32")):
        T.func_attr({"global_symbol": "add"})
        B = T.decl_buffer((8,), "int32", data=t)
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            A[tx] = A[tx] + B[tx]

    values = np.arange(8, dtype=np.int32) * 10
    body = substitute(add.body, {add.params[1]: table.data})
    func = PrimFunc(add.params[:1], add.buffer_map, None, add.attrs, Seq((AllocConst(table, values), body)))
    kernel, cuda = fake_kernel(func)
    (A,) = on(cuda, np.ones(8, np.int32))
    assert len(kernel.host.constants) == 1
    kernel(A)
    kernel(A)
    np.testing.assert_array_equal(A.numpy(), 1 + 2 * values)
    assert len(cuda.memory) == 2


def test_the_parameters_of_host_and_function_are_the_same() -> None:
    other = split(programs.interleaved)
    module = device_module(other)
    with pytest.raises(LoweringError, match=r"has 3 parameters, and its host function 2"):
        GpuKernel(programs.vector_add, other, host_code(other, "main", module), module)


def test_arguments_lie_in_memory_as_the_kernel_reads_them() -> None:
    kernel, cuda = fake_kernel(programs.scaled)
    A, B = on(cuda, np.ones((4, 3)), np.zeros(4))
    kernel(A, B, 1.5)
    image = kernel.module.kernels[kernel.kernels[0]]
    raw = {p.name: word for p, word in zip(image.params, cuda.last, strict=True)}
    pointers = [int.from_bytes(raw[p.name], "little") for p in image.params if p.pointer]
    assert sorted(pointers) == sorted([A.pointer, B.pointer])
    scale = next(p.name for p in image.params if p.dtype == "float64" and not p.pointer)
    assert struct.unpack("<d", raw[scale]) == (1.5,)
