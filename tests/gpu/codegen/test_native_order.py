from __future__ import annotations

import contextlib
import random
import threading
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import FakeCuda, device_module, driver_of, fake_kernel, on, split
from tests.gpu.launch.native_calls import counted, switched_off
from tirlower.driver.gpu_host import host_code
from tirlower.gpu.launch import GpuKernel, Stream, array, device_of, native
from tirlower.gpu.launch.order import MOST_READERS
from tirlower.gpu.launch.stream import default_stream

pytestmark = pytest.mark.skipif(not native.NATIVE, reason=str(native.WHY_NOT))

ONE = np.ones(4, np.float32)


def two_kernels(func: Any = programs.vector_add, count: int = 3) -> tuple[Any, Any, FakeCuda, list[Any]]:
    """A kernel whose calls are machine code's, one whose calls are Python's, on one driver, and arrays."""
    cuda = FakeCuda()
    arrays = on(cuda, *[ONE] * count)
    with switched_off():
        python, _ = fake_kernel(func, cuda)
        python(*arrays)
    made, _ = fake_kernel(func, cuda)
    made(*arrays)
    return made, python, cuda, arrays


def random_users(chance: random.Random, streams: list[Stream]) -> Any:
    """Users in each of their forms."""
    match chance.randrange(5):
        case 0:
            return None
        case 1:
            return chance.choice(streams)
        case _:
            writer = chance.choice([None, *streams])
            many = chance.randrange(1, 4) if chance.random() < 0.9 else MOST_READERS
            return (writer, *[chance.choice(streams) for _ in range(many)])


def waits_of(cuda: FakeCuda) -> set[tuple[Any, ...]]:
    """Which streams (by the event of each) the log lets wait for others."""
    return {(call[1], call[2]) for call in cuda.log if call[0] in ("cuEventRecord", "cuStreamWaitEvent")}


def test_users_and_waits_are_those_of_python() -> None:
    made, python, cuda, arrays = two_kernels()
    device = arrays[0].device
    streams = [Stream(device, non_blocking=bool(i % 2)) for i in range(4)] + [default_stream(device)]
    for stream in streams:
        stream._make_event()
    chance = random.Random(3)
    quick = 0
    for _ in range(400):
        given = chance.choice(streams)
        users = [random_users(chance, streams) for _ in arrays]
        found = []
        for kernel in (made, python):
            for one, own in zip(arrays, users, strict=True):
                one.users = own
            cuda.log.clear()
            if kernel is made:
                with counted(made) as calls:
                    kernel(*arrays, stream=given)
                quick += not calls.count
            else:
                kernel(*arrays, stream=given)
            found.append(([one.users for one in arrays], waits_of(cuda)))
        assert found[0] == found[1], users
    assert quick > 300


def test_an_array_that_stands_twice_has_the_users_of_both_uses() -> None:
    cuda = FakeCuda()
    (A,) = on(cuda, ONE)
    lowered = split(programs.staged)
    code = host_code(lowered, "main", device_module(lowered))
    (B,) = on(cuda, np.zeros(24, np.int32))
    kernels = []
    for off in (False, True):
        module = device_module(lowered)
        cuda.kernels.update({name: (image, lowered) for name, image in module.kernels.items()})
        kernel = GpuKernel(programs.staged, lowered, code, module, driver=driver_of(cuda), in_place=[(0, 1)])
        with switched_off() if off else contextlib.nullcontext():
            kernel(B, B, 0)
        kernels.append(kernel)
    s, t = Stream(A.device), Stream(A.device)
    for users in (s, (s, t), (None, t), (t, s), None):
        found = []
        for kernel in kernels:
            B.users = users
            cuda.log.clear()
            kernel(B, B, 0, stream=t)
            found.append((B.users, waits_of(cuda)))
        assert found[0] == found[1] and found[0][0] is t
    with counted(kernels[0]) as calls:
        kernels[0](B, B, 0, stream=t)
        assert not calls.count


def test_more_streams_than_machine_code_waits_for() -> None:
    made, _, cuda, (A, B, C) = two_kernels()
    streams = [Stream(A.device) for _ in range(MOST_READERS - 1)]
    for stream in streams:
        stream._make_event()
    C.users = (None, *streams)
    cuda.log.clear()
    with counted(made) as calls:
        made(A, B, C, stream=streams[0])
        assert calls.count == 1
    assert len(cuda.calls("cuStreamWaitEvent")) >= MOST_READERS - 2


def test_python_that_orders_arrays_is_not_interfered_with() -> None:
    made, _, _, (A, B, C) = two_kernels()
    s = Stream(A.device)
    made(A, B, C, stream=s)
    made(A, B, C)
    made(A, B, C, stream=s)
    with counted(made) as calls:
        made(A, B, C)
        assert not calls.count
        with A.device.lock:
            made(A, B, C, stream=s)
            assert calls.count == 1
        made(A, B, C)
        assert calls.count == 1


def test_what_the_driver_refuses_is_told_by_python() -> None:
    made, _, cuda, (A, B, C) = two_kernels()
    s = Stream(A.device)
    for stream in (s, None, s):
        made(A, B, C, stream=stream)
    before = C.users
    cuda.fail["cuStreamWaitEvent"] = 400
    with pytest.raises(Exception, match="INVALID_HANDLE"):
        made(A, B, C)
    assert C.users is before
    cuda.fail.clear()
    made(A, B, C)
    assert C.users is default_stream(A.device)


class Slow(FakeCuda):
    """A driver in which the first stream to wait does so only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.armed = False
        self.reached, self.go = threading.Event(), threading.Event()

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> int:
        if self.armed:
            self.armed = False
            self.reached.set()
            assert self.go.wait(60)
        return super().cuStreamWaitEvent(stream, event, flags)


@pytest.mark.parametrize("first", ["machine code", "Python"])
@pytest.mark.parametrize("second", ["machine code", "Python"])
def test_nobody_takes_a_stream_that_does_not_wait_yet_for_one_that_does(first: str, second: str) -> None:
    cuda = Slow()
    A, B, C, D = on(cuda, ONE, ONE, ONE, ONE)
    device = device_of(0, driver_of(cuda))
    s, t = Stream(device), Stream(device)
    kernels: dict[str, Any] = {"machine code": fake_kernel(programs.vector_add, cuda)[0]}
    with switched_off():
        kernels["Python"] = fake_kernel(programs.vector_add, cuda)[0]
        kernels["Python"](A, B, C)
    for kernel in kernels.values():
        for stream in (s, t, s, t):
            kernel(A, B, C, stream=stream)
            kernel(A, B, D, stream=stream)
    # A was written in t; both threads read it in s, in which C and D were.
    A.users, B.users, C.users, D.users = t, None, s, s
    B.users = (None, s)
    cuda.log.clear()
    cuda.armed = True
    errors: list[BaseException] = []

    def call(kernel: Any, out: Any) -> None:
        try:
            kernel(A, B, out, stream=s)
        except BaseException as error:
            errors.append(error)

    one = threading.Thread(target=call, args=(kernels[first], C))
    one.start()
    assert cuda.reached.wait(60)
    assert A.users is t  # s does not wait yet
    two = threading.Thread(target=call, args=(kernels[second], D))
    two.start()
    two.join(0.2)
    if not two.is_alive():
        # It has not waited for the lock: then it let the stream wait itself, before it launched.
        names = [call[0] for call in cuda.calls("cuStreamWaitEvent", "cuLaunchKernel")]
        assert names.index("cuStreamWaitEvent") < names.index("cuLaunchKernel")
    cuda.go.set()
    for thread in (one, two):
        thread.join(60)
    assert not errors
    assert s in A.users and t in A.users and C.users is s and D.users is s


def test_a_read_of_another_thread_is_not_forgotten() -> None:
    """Between the reading of the users and their change others read the array too: it is found, and Python does it all."""
    cuda = Slow()
    A, B, C = on(cuda, ONE, ONE, ONE)
    kernel, _ = fake_kernel(programs.vector_add, cuda)
    s, t, other = Stream(A.device), Stream(A.device), Stream(A.device)
    for stream in (s, t, s, t):
        kernel(A, B, C, stream=stream)
    A.users, B.users, C.users = t, (None, s), s
    cuda.armed = True
    thread = threading.Thread(target=lambda: kernel(A, B, C, stream=s))
    thread.start()
    assert cuda.reached.wait(60)
    array.use_on(other, [(A, False)])
    cuda.go.set()
    thread.join(60)
    assert A.users == (t, other, s)
