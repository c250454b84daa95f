"""Launches, copies and frees in several streams, on the driver whose work runs late: what was not ordered is found."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import FakeCuda, driver_of, fake_kernel
from tests.gpu.launch.foreign import CupyArray, Dlpack, Interface
from tirlower.call.dlpack import read_capsule
from tirlower.diagnostics import DeviceError
from tirlower.gpu.launch import Device, Stream, device_of, empty, to_device
from tirlower.gpu.launch.order import (
    MOST_READERS,
    after_read,
    after_write,
    freed_on,
    shown,
    streams_of,
    wait_for,
    writer_of,
)
from tirlower.gpu.launch.stream import default_stream, stream_on

SEEDS = range(12)
N = 4


class Bed:
    """A kernel that adds, on a device whose work runs late; arrays that it makes hold one number."""

    def __init__(self, seed: int) -> None:
        self.cuda = FakeCuda(seed=seed)
        self.kernel, _ = fake_kernel(programs.vector_add, self.cuda)
        self.making, _ = fake_kernel(programs.vector_add, self.cuda, outputs=("C",))
        self.device = device_of(0, driver_of(self.cuda))

    def array(self, value: float) -> Any:
        return to_device(np.full(N, value, np.float32), device=self.device)

    def stream(self, *, non_blocking: bool = True) -> Stream:
        return Stream(self.device, non_blocking=non_blocking)

    def is_full(self, array: Any, value: float) -> bool:
        return bool((array.numpy() == value).all())

    def sound(self) -> bool:
        self.cuda.late.finish_all()
        return not self.cuda.late.faults


@pytest.fixture(params=SEEDS)
def bed(request: pytest.FixtureRequest) -> Bed:
    return Bed(request.param)


def test_a_copy_to_the_host_waits_for_the_stream_that_wrote(bed: Bed) -> None:
    a, b, c = bed.array(1), bed.array(2), bed.array(0)
    bed.kernel(a, b, c, stream=bed.stream())
    assert bed.is_full(c, 3) and bed.sound()


def test_a_copy_waits_where_the_array_was_made_in_another_stream(bed: Bed) -> None:
    c = empty(N, device=bed.device, stream=bed.stream())
    bed.kernel(bed.array(1), bed.array(2), c)
    assert bed.is_full(c, 3) and bed.sound()
    bed.kernel(bed.array(5), bed.array(2), c)
    assert bool((c.numpy(stream=bed.stream()) == 7).all()) and bed.sound()


def test_a_copy_to_the_device_waits_for_those_who_read(bed: Bed) -> None:
    a, b, c, d = bed.array(1), bed.array(2), bed.array(0), bed.array(0)
    bed.kernel(a, b, c, stream=bed.stream())
    bed.kernel(a, b, d, stream=bed.stream())
    a.copy_from(np.full(N, 9, np.float32))
    assert bed.is_full(c, 3) and bed.is_full(d, 3) and bed.is_full(a, 9) and bed.sound()


def test_memory_is_given_back_after_its_last_use(bed: Bed) -> None:
    a, c, s = bed.array(1), bed.array(0), bed.stream()
    x = bed.array(5)
    bed.kernel(a, x, c, stream=s)
    del x
    # The pool may hand the memory out again now.
    others = [bed.array(100 + i) for i in range(3)]
    more = [empty(N, device=bed.device, stream=bed.stream()) for _ in range(2)]
    assert bed.is_full(c, 6) and bed.sound()
    assert all(bed.is_full(other, 100 + i) for i, other in enumerate(others)) and len(more) == 2


def test_memory_that_two_streams_read_is_given_back_after_both(bed: Bed) -> None:
    x, results = bed.array(5), [bed.array(0) for _ in range(3)]
    for c in results:
        bed.kernel(x, x, c, stream=bed.stream())
    del x
    others = [bed.array(100 + i) for i in range(3)]
    assert all(bed.is_full(c, 10) for c in results) and bed.sound()
    assert all(bed.is_full(other, 100 + i) for i, other in enumerate(others))


def test_a_launch_in_a_stream_waits_for_the_default_stream(bed: Bed) -> None:
    a, b, c, d = bed.array(1), bed.array(2), bed.array(0), bed.array(0)
    bed.kernel(a, b, c)
    bed.kernel(c, c, d, stream=bed.stream())
    bed.kernel(d, d, a)
    assert bed.is_full(a, 12) and bed.is_full(d, 6) and bed.sound()


def test_a_launch_waits_for_readers_of_what_it_writes(bed: Bed) -> None:
    a, b, results = bed.array(1), bed.array(2), [bed.array(0) for _ in range(3)]
    for c in results:
        bed.kernel(a, b, c, stream=bed.stream())
    bed.kernel(b, b, a)
    assert bed.is_full(a, 4) and all(bed.is_full(c, 3) for c in results) and bed.sound()


@pytest.mark.parametrize("bed", list(SEEDS)[:3], indirect=True)
def test_the_stream_may_be_gone_before_its_arrays(bed: Bed) -> None:
    a, b = bed.array(1), bed.array(2)
    c = bed.making(a, b, stream=Stream(bed.device))
    gc.collect()
    other = bed.stream()  # perhaps with the handle of the one that is gone
    d = bed.making(c, c, stream=other)
    assert bed.is_full(c, 3) and bed.is_full(d, 6)
    del c, d, a, b
    gc.collect()
    assert bed.sound()
    # An array that only a launch wrote, in a stream that nobody holds.
    e = bed.array(0)
    bed.kernel(bed.array(3), bed.array(4), e, stream=Stream(bed.device))
    gc.collect()
    del other
    assert bed.is_full(e, 7) and bed.sound()


class Theirs:
    """Another library: it adds to an array in a stream of its own choice, and shows it."""

    def __init__(self, bed: Bed, stream: int) -> None:
        self.bed, self.stream = bed, stream
        self.array = bed.array(1)

    def fill(self, value: int) -> None:
        self.bed.device.driver.fill(self.array.pointer, value, self.array.nbytes, self.stream)


FILLED = np.frombuffer(bytes([66]) * 4, np.float32)[0]


@pytest.mark.parametrize("kind", [Interface, Dlpack])
def test_arrays_of_others_may_be_written_in_the_default_stream(bed: Bed, kind: Any) -> None:
    theirs = Theirs(bed, 0)
    b, c = bed.array(0), bed.array(0)
    theirs.fill(66)
    bed.kernel(kind(theirs.array), b, c, stream=bed.stream())
    assert bed.is_full(c, FILLED) and bed.sound()


def test_arrays_that_state_a_stream(bed: Bed) -> None:
    s = bed.stream()
    theirs = Theirs(bed, s.handle)
    theirs.fill(66)
    c = bed.array(0)
    bed.kernel(bed.array(0), Interface(theirs.array, stream=s.handle), c)
    # A call that names no stream is behind and before what the stated stream has.
    theirs.fill(0)
    assert bed.is_full(c, FILLED) and bed.sound()


def library_on(monkeypatch: pytest.MonkeyPatch, stream: Stream) -> None:
    """CuPy works on a stream."""

    class Cupy:
        class cuda:
            @staticmethod
            def get_current_stream() -> Any:
                return type("Theirs", (), {"ptr": stream.handle})()

    monkeypatch.setitem(__import__("sys").modules, "cupy", Cupy)


@pytest.mark.parametrize("first", [False, True])
def test_a_library_among_others_is_waited_for_where_it_works_now(
    bed: Bed, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = bed.stream()
    library_on(monkeypatch, s)
    theirs, ours, c = Theirs(bed, s.handle), bed.array(0), bed.array(0)
    bed.kernel(ours, ours, c)  # ours is pending, too
    theirs.fill(66)
    given = CupyArray(theirs.array)
    arguments = (given, ours) if first else (ours, given)
    bed.kernel(*arguments, c, stream=bed.stream())
    assert bed.is_full(c, FILLED)
    theirs.fill(66)
    d = bed.array(0)
    bed.kernel(*arguments, CupyArray(d))  # in the library's stream
    assert bed.cuda.calls("cuLaunchKernel")[-1][9] == s.handle
    theirs.fill(0)
    s.wait()
    assert bed.is_full(d, FILLED) and bed.sound()


def test_a_library_waits_where_two_are_called_without_a_stream(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    s, t = bed.stream(), bed.stream()
    library_on(monkeypatch, s)
    theirs, other, c = Theirs(bed, s.handle), Theirs(bed, t.handle), bed.array(0)
    theirs.fill(66)
    other.fill(0)
    bed.kernel(CupyArray(theirs.array), Interface(other.array, stream=t.handle), c)
    theirs.fill(0)
    other.fill(66)
    assert bed.is_full(c, FILLED) and bed.sound()


def test_what_was_shown_to_others_may_be_written_in_the_default_stream(bed: Bed) -> None:
    a, b, c, d = bed.array(1), bed.array(0), bed.array(0), bed.array(0)
    s = bed.stream()
    for _ in range(2):
        bed.kernel(a, b, c, stream=s)  # found in order: not looked at again
    told = a.__cuda_array_interface__
    assert told["stream"] in (1, s.handle)
    for value in (66, 0, 66):
        bed.device.driver.fill(told["data"][0], value, a.nbytes, 0)
        bed.kernel(a, b, d, stream=s)
    assert bed.is_full(d, FILLED) and bed.is_full(c, 1) and bed.is_full(a, FILLED) and bed.sound()
    bed.device.driver.fill(told["data"][0], 5, a.nbytes, 0)
    del a
    others = [bed.array(100 + i) for i in range(3)]
    assert all(bed.is_full(other, 100 + i) for i, other in enumerate(others)) and bed.sound()


def test_the_interface_and_dlpack_are_behind_all_streams(bed: Bed) -> None:
    a, b, c = bed.array(1), bed.array(0), bed.array(0)
    bed.kernel(a, b, c, stream=bed.stream())
    told = c.__cuda_array_interface__
    # A consumer that works in the stream that is named, and one that asks for none.
    out = np.empty(N, np.float32)
    driver = bed.device.driver
    for stream in (0, 0 if told["stream"] == 1 else told["stream"]):
        out[:] = 0
        driver.copy_to_host(out.ctypes.data, c.pointer, c.nbytes, stream)
        driver.synchronize_stream(stream)
        assert (out == 1).all()
    d = bed.making(a, a, stream=bed.stream())
    bed.kernel(d, d, c, stream=bed.stream())  # somebody reads it
    theirs = bed.stream()
    assert read_capsule(d.__dlpack__(stream=theirs.handle)) is not None
    driver.fill(d.pointer, 66, d.nbytes, theirs.handle)
    theirs.wait()
    assert bed.is_full(c, 4) and bed.is_full(d, FILLED) and bed.sound()


def test_a_kernel_that_is_dropped_outlives_its_launches(bed: Bed) -> None:
    kernel, _ = fake_kernel(programs.vector_add, bed.cuda)
    c = bed.array(0)
    kernel(bed.array(1), bed.array(2), c, stream=bed.stream())
    modules = len(bed.cuda.modules)
    del kernel
    gc.collect()
    assert len(bed.cuda.modules) == modules - 1
    assert bed.is_full(c, 3) and bed.sound()


def test_two_devices_have_default_streams_of_their_own() -> None:
    for seed in SEEDS:
        cuda = FakeCuda(seed=seed, devices=2)
        kernel, _ = fake_kernel(programs.vector_add, cuda)
        found = []
        for ordinal in (0, 1, 0, 1):
            device = device_of(ordinal, driver_of(cuda))
            a, b, c = (to_device(np.full(N, v, np.float32), device=device) for v in (1, 2, 0))
            kernel(a, b, c)
            kernel(c, c, a, stream=Stream(device))
            found.append(a)
        assert all((a.numpy() == 6).all() for a in found)
        cuda.late.finish_all()
        assert not cuda.late.faults


def test_in_one_stream_nothing_is_recorded() -> None:
    bed = Bed(1)
    a, b, c = bed.array(1), bed.array(2), bed.array(0)
    s = bed.stream()
    bed.cuda.log.clear()
    for _ in range(3):
        bed.kernel(a, b, c, stream=s)
    assert not bed.cuda.calls("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent")
    for _ in range(3):
        bed.kernel(c, b, a)
        bed.kernel(a, b, c, stream=s)
    assert len(bed.cuda.calls("cuEventCreate")) == 2  # one for each stream
    assert len(bed.cuda.calls("cuStreamWaitEvent")) == 6


def test_readers_do_not_wait_for_each_other() -> None:
    bed = Bed(1)
    a, b, c, d = bed.array(1), bed.array(2), bed.array(0), bed.array(0)
    s, t = bed.stream(), bed.stream()
    bed.cuda.log.clear()
    for _ in range(3):
        bed.kernel(a, b, c, stream=s)
        bed.kernel(a, b, d, stream=t)
    assert not bed.cuda.calls("cuStreamWaitEvent")


# -- the values --------------------------------------------------------------------------------------------------------


@pytest.fixture
def device() -> Device:
    return device_of(0, driver_of(FakeCuda()))


def test_users(device: Device) -> None:
    s, t, u = (stream_on(device, handle) for handle in (5, 6, 7))
    assert after_write(None, s) == (s, ()) and after_write(s, s) == (s, ())
    assert after_write((s, t, u), t) == (t, (s, u)) and after_write((None, t), t) == (t, ())
    assert after_read(None, s) == ((None, s), ()) and after_read(s, s) == (s, ())
    assert after_read(s, t) == ((s, t), (s,)) and after_read((s, t), u) == ((s, t, u), (s,))
    assert after_read((s, t), s) == ((s, t), ()) == after_read((s, t), t)
    assert after_read((None, t), u) == ((None, t, u), ())
    assert streams_of(None) == () and streams_of((None, t, None)) == (t,) and streams_of((s, t, s)) == (s, t)
    assert writer_of(None) is None and writer_of(s) is s and writer_of((s, t)) is s and writer_of((None, t)) is None
    assert shown(None) == (None, None) and shown(s) == (s, None) and shown((s, t)) == (s, None, t)
    assert shown((s, None, t)) == (s, None, t)


def test_streams_of_the_past_are_not_kept_for_ever(device: Device) -> None:
    users: Any = None
    for handle in range(100, 400):
        on = stream_on(device, handle)
        users, waits = after_read(users, on)
        wait_for(waits, on)
        assert len(streams_of(users)) <= MOST_READERS + 1
    assert users is not None


def test_a_stream_behind_all_users(device: Device) -> None:
    s, t = (stream_on(device, handle) for handle in (5, 6))
    own = stream_on(device, 2)
    assert freed_on(None, s) is s and freed_on((None, t), s) is t
    assert freed_on(own, s) is default_stream(device) is freed_on((own, s), s)


def test_a_handle_that_is_no_stream_any_more_costs_no_memory() -> None:
    bed = Bed(1)
    a, b, c = bed.array(1), bed.array(2), bed.array(0)
    s = bed.stream()
    bed.kernel(a, b, c)
    handle = bed.device.driver.create_stream(True)
    bed.kernel(a, b, c, stream=handle)
    bed.device.driver.destroy_stream(handle)
    with pytest.raises(DeviceError, match=r"(?s)letting stream .* wait for stream .*INVALID_HANDLE.*given as a number"):
        bed.kernel(a, b, c, stream=s)
    del a, b, c
    gc.collect()
    assert not bed.cuda.memory and bed.sound()


def test_another_librarys_context_is_put_aside() -> None:
    bed = Bed(1)
    a, b, c = bed.array(1), bed.array(2), bed.array(0)
    for stream in (None, None, bed.stream(), None):
        bed.cuda.context["now"] = 5555  # set by somebody else since the last call
        bed.kernel(a, b, c, stream=stream)
        d = bed.making(a, b, stream=stream)
        assert bed.is_full(c, 3) and bed.is_full(d, 3)
        assert bed.cuda.context["now"] == 5555  # which is theirs
    del a, b, c, d
    assert bed.sound()
