from __future__ import annotations

import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest

from tests.gpu.launch.fake_cuda import FakeCuda, driver_of
from tirlower.call.dlpack import read_capsule
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError, DeviceError
from tirlower.gpu.launch import Device, device_of, empty, to_device
from tirlower.gpu.launch.dlpack import _exported

DTYPES = [np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32, np.float64, np.bool_, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]  # fmt: skip


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda()


@pytest.fixture
def device(cuda: FakeCuda) -> Device:
    return device_of(0, driver_of(cuda))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (0, 4), (2, 1, 3)])
def test_there_and_back(device: Device, dtype: type, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    made = to_device(array, device=device)
    assert made.shape == shape and made.dtype == array.dtype and made.size == array.size
    assert made.nbytes == array.nbytes and made.ndim == array.ndim
    back = made.numpy()
    assert back.dtype == array.dtype and back.shape == shape
    np.testing.assert_array_equal(back.astype(np.float64), array.astype(np.float64))


def test_a_copy_is_contiguous_whatever_the_source(device: Device) -> None:
    array = np.arange(24).reshape(4, 6)
    np.testing.assert_array_equal(to_device(array[::2, ::-1].T, device=device).numpy(), array[::2, ::-1].T)
    np.testing.assert_array_equal(to_device([[1, 2], [3, 4]], device=device).numpy(), [[1, 2], [3, 4]])


def test_memory_is_given_back(device: Device, cuda: FakeCuda) -> None:
    made = empty((8, 8), "float32", device=device, stream=33)
    assert cuda.calls("cuMemAllocAsync")[0][2:] == (256, 33)
    del made
    gc.collect()
    assert not cuda.memory and cuda.calls("cuMemFreeAsync")[0][2] == 33


def test_a_device_without_a_memory_pool(cuda: FakeCuda) -> None:
    cuda.attributes[115] = 0
    made = to_device(np.arange(3), device=device_of(0, driver_of(cuda)))
    np.testing.assert_array_equal(made.numpy(), np.arange(3))
    del made
    assert not cuda.memory and not cuda.calls("cuMemAllocAsync", "cuMemFreeAsync")
    assert len(cuda.calls("cuMemFree_v2")) == 1


def test_the_pool_keeps_what_it_has_unless_somebody_else_has_said_how_much(cuda: FakeCuda) -> None:
    cuda.devices, cuda.kept = 2, {9001: 1 << 20}
    for i in range(2):
        device_of(i, driver_of(cuda))
    assert cuda.kept == {9000: 2**64 - 1, 9001: 1 << 20}
    other = FakeCuda()
    other.fail["cuDeviceGetDefaultMemPool"] = 801
    assert device_of(0, driver_of(other)).pooled and not other.kept


def test_copies_are_in_the_order_of_a_stream_and_waited_for(device: Device, cuda: FakeCuda) -> None:
    made = empty(4, "int32", device=device)
    cuda.log.clear()
    assert made.copy_from(np.arange(4, dtype=np.int32), stream=8) is made
    made.numpy(stream=9)
    kinds = ("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuStreamWaitEvent")
    names = [(entry[0], entry[1] if "Stream" in entry[0] else entry[-1]) for entry in cuda.calls(*kinds)]
    assert names == [
        ("cuStreamWaitEvent", 8), ("cuMemcpyHtoDAsync_v2", 8), ("cuStreamSynchronize", 8),
        ("cuStreamWaitEvent", 9), ("cuMemcpyDtoHAsync_v2", 9), ("cuStreamSynchronize", 9),
    ]  # fmt: skip


def test_refusals(device: Device, cuda: FakeCuda) -> None:
    made = empty((2, 3), "float32", device=device)
    with pytest.raises(ArgumentValueError, match=r"float32 of shape \(2, 3\), got int64 of shape \(6,\)"):
        made.copy_from(np.arange(6))
    for dtype in ("float31", "handle", "float32x4", "void", object, "M8[s]"):
        with pytest.raises(ArgumentTypeError, match=r"no array has elements of"):
            empty(3, dtype, device=device)
    with pytest.raises(ArgumentTypeError):
        to_device(np.array(["a"]), device=device)
    with pytest.raises(ArgumentValueError, match=r"at least 0"):
        empty((-1,), device=device)
    with pytest.raises(ArgumentTypeError, match=r"array.numpy()"):
        np.asarray(made)
    with pytest.raises(TypeError):
        len(empty((), device=device))
    with pytest.raises(DeviceError, match=r"OUT_OF_MEMORY"):
        empty(1 << 40, "int8", device=device)
    assert len(made) == 2 and repr(made).startswith("<DeviceArray float32[2, 3] on device 0 at 0x")


def test_the_interface(device: Device) -> None:
    made = to_device(np.ones((2, 3), np.float32), device=device)
    told = made.__cuda_array_interface__
    assert told == {
        "shape": (2, 3), "typestr": "<f4", "data": (made.pointer, False), "version": 3, "strides": None, "stream": 1,
    }  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", [None, (0, 8), (1, 1)])
@pytest.mark.by_day
def test_dlpack(device: Device, dtype: type, version: tuple[int, int] | None) -> None:
    made = to_device(np.ones((2, 3, 4), dtype), device=device)
    assert made.__dlpack_device__() == (2, 0)
    before = len(_exported)
    capsule = made.__dlpack__(max_version=version)
    tensor = read_capsule(capsule)
    assert tensor is not None
    assert tensor.data == made.pointer and tensor.shape == (2, 3, 4)
    assert tensor.strides == tuple(made.dtype.itemsize * step for step in (12, 4, 1))
    assert tensor.dtype == made.dtype.name and tensor.device_type == 2 and not tensor.readonly
    # The capsule alone keeps the array.
    del made
    gc.collect()
    assert len(_exported) == before + 1
    del capsule
    assert len(_exported) == before


def test_a_consumer_of_dlpack_calls_the_deleter(device: Device, cuda: FakeCuda) -> None:
    made = to_device(np.ones(3, np.float32), device=device)
    capsule = made.__dlpack__()
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
    address = get(capsule, b"dltensor")
    rename(capsule, b"used_dltensor")
    del capsule, made
    gc.collect()
    assert len(cuda.memory) == 1
    # DLManagedTensor: a DLTensor of 48 bytes, a context, and the deleter.
    deleter = ctypes.c_void_p.from_address(address + 56).value
    ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(deleter)(address)
    gc.collect()
    assert not cuda.memory


def test_dlpack_orders_streams(device: Device, cuda: FakeCuda) -> None:
    made = empty(3, device=device, stream=40)
    cuda.log.clear()
    made.__dlpack__(stream=-1)
    made.__dlpack__(stream=40)
    assert not cuda.calls("cuStreamWaitEvent")
    made.__dlpack__(stream=1)
    assert [c[2] for c in cuda.calls("cuEventRecord")] == [40] and cuda.calls("cuStreamWaitEvent")[0][1] == 0
    for asked in ({"copy": True}, {"dl_device": (1, 0)}):
        with pytest.raises(BufferError):
            made.__dlpack__(**asked)
    assert read_capsule(made.__dlpack__(dl_device=(2, 0))) is not None
    assert read_capsule(object()) is None
