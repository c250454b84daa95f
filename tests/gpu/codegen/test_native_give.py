from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import FakeCuda, fake_kernel, on
from tirlower.gpu.artifact import HostEntry
from tirlower.gpu.launch import Stream, native
from tirlower.gpu.launch.stream import stream_on

pytestmark = pytest.mark.skipif(not native.NATIVE, reason=str(native.WHY_NOT))


def arrays(count: int) -> tuple[FakeCuda, list[Any]]:
    """Arrays of a device that a kernel has run on."""
    kernel, cuda = fake_kernel(programs.vector_add)
    kernel(*on(cuda, *[np.ones(4, np.float32)] * 3))
    made = on(cuda, *[np.ones(4, np.float32)] * count)
    assert made[0].device.giver is not None
    cuda.log.clear()
    return cuda, made


def test_memory_goes_back_in_the_one_stream_that_used_it() -> None:
    cuda, (A, B, C, D) = arrays(4)
    device = A.device
    s = Stream(device)
    A.users, B.users, C.users, D.users = s, device.default, stream_on(device, 2), s
    given = [one.pointer for one in (A, B, C, D)]
    cuda.context["now"] = 0  # a thread without a context has the device's from then on
    del A, B, C, D
    # A thread's default stream is no name for others: the legacy one is behind it.
    frees = [(call[1], call[2] or 0) for call in cuda.calls("cuMemFreeAsync")]
    assert sorted(frees) == sorted(zip(given, (s.handle, 0, 0, s.handle), strict=True))


@pytest.mark.parametrize("users", ["None", "several", "shown"])
def test_other_users_are_pythons(users: str) -> None:
    cuda, (A,) = arrays(1)
    s, t = Stream(A.device), Stream(A.device)
    A.users = {"None": None, "several": (s, t), "shown": (s, None)}[users]
    A.shown = users == "shown"
    assert A.device.giver(A) is False and not cuda.calls("cuMemFreeAsync")
    held = len(cuda.memory)
    del A
    assert len(cuda.memory) == held - 1


def test_what_the_driver_refuses_is_pythons() -> None:
    cuda, (A,) = arrays(1)
    A.users = A.device.default
    cuda.fail["cuMemFreeAsync"] = 1
    assert A.device.giver(A) is False
    cuda.fail.clear()
    del A
    assert cuda.calls("cuMemFreeAsync")


def test_what_is_no_array_is_not_touched() -> None:
    cuda, (A,) = arrays(1)
    before = sys.getrefcount(False), sys.getrefcount(A)
    assert [A.device.giver(one) for one in (None, 3, "array", A.device)] == [False] * 4
    assert sys.getrefcount(A) == before[1] and not cuda.calls("cuMemFreeAsync")


def test_a_device_keeps_the_machine_code_that_it_was_given_first() -> None:
    """Its table is in use: another thread that comes with a table of its own comes too late."""
    cuda, (A,) = arrays(1)
    device = A.device
    before = device.quick, device.table, device.order_code, device.give_code, device.give, device.order, device.giver
    assert all(before)
    entry = HostEntry(1, 2, 3, object())
    device.quicken(entry, [0] * 11)
    kernel, _ = fake_kernel(programs.vector_add, cuda)
    kernel(A, A, *on(cuda, np.ones(4, np.float32)))
    after = device.quick, device.table, device.order_code, device.give_code, device.give, device.order, device.giver
    assert all(a is b for a, b in zip(before, after, strict=True))
