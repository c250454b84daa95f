from __future__ import annotations

import ctypes
import gc
import threading
import weakref

import pytest

from tests.gpu.launch.fake_cuda import FakeCuda, driver_of
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError, DeviceError
from tirlower.gpu.launch import Event, Stream, device_of
from tirlower.gpu.launch.order import wait_for
from tirlower.gpu.launch.stream import default_stream, stream_handle, stream_on


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
    five, six = stream_on(device, 5), stream_on(device, 6)
    wait_for([five], five)
    assert not cuda.calls("cuEventRecord")
    for _ in range(2):
        wait_for([six], five)
    assert [c[2] for c in cuda.calls("cuEventRecord")] == [6, 6]
    assert [c[1] for c in cuda.calls("cuStreamWaitEvent")] == [5, 5]
    assert [c[2] for c in cuda.calls("cuEventCreate")] == [2]  # without a time, and kept


def test_a_stream_is_one_object() -> None:
    cuda = FakeCuda(devices=2)
    device, other = (device_of(i, driver_of(cuda)) for i in range(2))
    stream = Stream(device)

    class Theirs:
        cuda_stream = stream.handle

    assert stream_on(device, stream) is stream_on(device, stream.handle) is stream_on(device, Theirs()) is stream
    assert stream_on(device, None) is stream_on(device, 0) is stream_on(device, 1) is default_stream(device)
    assert default_stream(device) is not default_stream(other)
    with pytest.raises(
        ArgumentValueError, match=r"expected a stream of device 1, where the arrays are, got one of device 0"
    ):
        stream_on(other, stream)


def test_another_librarys_stream_lives_as_long_as_ours_of_it() -> None:
    class Theirs:
        ptr = 88

    theirs = Theirs()
    gone = weakref.ref(theirs)
    device = device_of(0, driver_of(FakeCuda()))
    ours = stream_on(device, theirs)
    del theirs
    assert gone() is not None and ours.handle == 88
    del ours
    assert gone() is None and 88 not in device.streams


def test_each_thread_has_a_default_stream_of_its_own() -> None:
    device = device_of(0, driver_of(FakeCuda()))
    found = [stream_on(device, 2)]
    thread = threading.Thread(target=lambda: found.append(stream_on(device, 2)))
    thread.start()
    thread.join(60)
    assert found[0] is stream_on(device, 2) is not found[1]
    assert found[0].shared is default_stream(device)  # no other thread can name it
