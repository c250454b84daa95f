from __future__ import annotations

import ctypes
import gc

import pytest

from tests.gpu.launch.fake_cuda import FakeCuda, driver_of
from tirlower.diagnostics import ArgumentTypeError, DeviceError
from tirlower.gpu.launch import Event, Stream, device_of
from tirlower.gpu.launch.stream import order_after, stream_handle


def test_streams_and_events() -> None:
    cuda = FakeCuda()
    device = device_of(0, driver_of(cuda))
    stream = Stream(device)
    assert cuda.calls("cuStreamCreate")[0][2] == 1 and stream.__cuda_stream__() == (0, stream.handle)
    assert stream_handle(stream) == stream.handle
    first = stream.record()
    second = Event(device, stream.handle)
    second.wait()
    assert second.ms_since(first) == float(second.handle - first.handle)
    stream.wait()
    assert cuda.calls("cuStreamSynchronize")[-1][1] == stream.handle
    cuda.fail["cuStreamSynchronize"] = 700
    with pytest.raises(DeviceError, match=r"ILLEGAL_ADDRESS"):
        stream.wait()
    handle = stream.handle
    del stream, first, second
    gc.collect()
    assert cuda.calls("cuStreamDestroy_v2")[0][1] == handle and len(cuda.calls("cuEventDestroy_v2")) == 2


def test_an_event_that_cannot_be_recorded_is_dropped() -> None:
    cuda = FakeCuda()
    device = device_of(0, driver_of(cuda))
    cuda.fail["cuEventRecord"] = 1
    with pytest.raises(DeviceError, match=r"cuEventRecord"):
        Event(device)
    gc.collect()
    assert len(cuda.calls("cuEventDestroy_v2")) == 1


def test_handles_of_other_libraries() -> None:
    class Cupy:
        ptr = 5

    class Numba:
        handle = ctypes.c_void_p(6)

    class Default:
        handle = ctypes.c_void_p(None)

    class Index:
        def __index__(self) -> int:
            return 7

    found = [stream_handle(s) for s in (Cupy(), Numba(), Default(), Index(), None, 3)]
    assert found == [5, 6, 0, 7, 0, 3]
    with pytest.raises(ArgumentTypeError, match=r"expected a stream, got float"):
        stream_handle(1.5)


def test_order_of_two_streams() -> None:
    cuda = FakeCuda()
    device = device_of(0, driver_of(cuda))
    order_after(device, 5, 5)
    assert not cuda.calls("cuEventRecord")
    order_after(device, 5, 6)
    assert cuda.calls("cuEventRecord")[0][2] == 6 and cuda.calls("cuStreamWaitEvent")[0][1] == 5
    assert cuda.calls("cuEventCreate")[0][2] == 2  # without a time
