"""Host functions are entered in their device's context, and find their outputs allocated."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest

from tests.gpu.launch.fake_cuda import FakeCuda, driver_of, fake_kernel, on
from tirlower.diagnostics import DeviceError
from tirlower.gpu.launch import Stream, device_of, empty, to_device
from tirlower.script import tir as T


@T.prim_func
def two_outputs(
    A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), s: T.float32, C: T.Buffer((4, "n"), "float32")
):
    T.func_attr({"global_symbol": "two_outputs"})
    for tx in T.thread_binding(n, thread="threadIdx.x"):
        B[tx] = A[tx] * s
        for i in range(4):
            C[i, tx] = A[tx] + i


@pytest.mark.parametrize("n", [0, 1, 7])
def test_outputs_stand_where_their_parameters_do(n: int) -> None:
    kernel, cuda = fake_kernel(two_outputs, outputs=("B", "C"))
    a = np.arange(n, dtype=np.float32)
    (A,) = on(cuda, a)
    for _ in range(2):
        b, c = kernel(A, 2.0)
        assert b.shape == (n,) and c.shape == (4, n) and c.dtype == np.float32
        np.testing.assert_array_equal(b.numpy(), a * 2)
        np.testing.assert_array_equal(c.numpy(), a + np.arange(4, dtype=np.float32)[:, None])
    del b, c, A
    gc.collect()
    assert not cuda.memory


@pytest.mark.parametrize("spared", [0, 1])
def test_what_cannot_be_allocated_is_no_launch_and_leaves_nothing(spared: int) -> None:
    kernel, cuda = fake_kernel(two_outputs, outputs=("B", "C"))
    (A,) = on(cuda, np.arange(3, dtype=np.float32))
    cuda.fail["cuMemAllocAsync"], cuda.spared["cuMemAllocAsync"] = 2, spared
    with pytest.raises(DeviceError, match=r"(?s)CUDA_ERROR_OUT_OF_MEMORY") as error:
        kernel(A, 2.0)
    assert f"{(12, 48)[spared]} bytes were asked of Fake GPU" in str(error.value)
    del error
    gc.collect()
    assert len(cuda.memory) == 1 and not cuda.calls("cuLaunchKernel")
    cuda.fail.clear()
    b, _ = kernel(A, 2.0)
    np.testing.assert_array_equal(b.numpy(), [0, 2, 4])


def test_a_device_without_a_memory_pool() -> None:
    cuda = FakeCuda()
    cuda.attributes[115] = 0
    kernel, _ = fake_kernel(two_outputs, cuda, outputs=("B", "C"))
    A = to_device(np.arange(3, dtype=np.float32), device=device_of(0, driver_of(cuda)))
    b, c = kernel(A, 2.0)
    np.testing.assert_array_equal(b.numpy(), [0, 2, 4])
    del b, c, A
    gc.collect()
    assert not cuda.memory and not cuda.calls("cuMemAllocAsync", "cuMemFreeAsync")


@pytest.mark.parametrize("devices", [1, 2])
def test_the_context_of_somebody_else_is_put_back(devices: int) -> None:
    cuda = FakeCuda(devices=devices)
    kernel, _ = fake_kernel(two_outputs, cuda, outputs=("B", "C"))
    arrays = [to_device(np.ones(3, np.float32), device=device_of(i, driver_of(cuda))) for i in range(devices)]
    for context in (0, 1000, 5555):
        for i, A in enumerate(arrays):
            kernel(A, 2.0)  # in order on its stream
            cuda.context["now"] = context
            cuda.log.clear()
            made = kernel(A, 2.0)
            own = 1000 + i
            wanted = [own, context] if context not in (0, own) else [own] if context != own else []
            assert [c[1] for c in cuda.calls("cuCtxSetCurrent")] == wanted
            assert cuda.context["now"] == (context or own)
            del made
    cuda.context["now"] = 5555
    cuda.fail["cuLaunchKernel"] = 1
    with pytest.raises(DeviceError, match=r"INVALID_VALUE"):
        kernel(arrays[0], 2.0)
    assert cuda.context["now"] == 5555


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("context", [0, 1000, 5555])
def test_memory_goes_back_and_streams_wait_in_the_context_of_their_device(quick: bool, context: int) -> None:
    kernel, cuda = fake_kernel(two_outputs, outputs=("B", "C"))
    device = device_of(0, driver_of(cuda))
    if quick:  # in machine code, that of the first kernel
        kernel(*on(cuda, np.ones(3, np.float32)), 2.0)
    assert bool(device.quick) is quick
    first, second = Stream(device), Stream(device)
    first.order_before(second.handle)  # makes its event
    array = empty(3, device=device, stream=first)
    held = len(cuda.memory)
    changes = {0: [1000], 1000: [], 5555: [1000, 5555]}[context]
    for act in (lambda: first.order_before(second.handle), array.__del__):
        cuda.context["now"] = context
        cuda.log.clear()
        act()
        assert [c[1] for c in cuda.calls("cuCtxSetCurrent")] == changes
        assert cuda.context["now"] == (context or 1000)
    assert len(cuda.memory) == held - 1
    array.pointer = 0
    assert cuda.calls("cuMemFreeAsync")[-1][2] == first.handle
    cuda.fail["cuEventRecord"] = 700
    with pytest.raises(DeviceError, match=r"(?s)letting stream .* wait for stream .*ILLEGAL_ADDRESS"):
        first.order_before(second.handle)
    assert not cuda.calls("cuStreamWaitEvent")


LEFT = """
import numpy as np
from tests.gpu.codegen.test_host_call import two_outputs
from tests.gpu.launch.fake_cuda import fake_kernel, on
kernel, cuda = fake_kernel(two_outputs, outputs=("B", "C"))
(A,) = on(cuda, np.ones(3, np.float32))
left = [kernel(A, 2.0)]
left.append(left)  # for the collector
print("done")
"""


def test_arrays_that_are_left_at_the_end_of_the_process_do_no_harm() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
