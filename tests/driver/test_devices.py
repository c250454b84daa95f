"""Targets that are asked of devices: this machine's CPU, and the devices of a driver that pretends."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tirlower as tl
from tests.gpu.launch.fake_cuda import FakeCuda, driver_of
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError, DeviceError
from tirlower.driver import devices
from tirlower.gpu.launch.device import device_of
from tirlower.machine.cpu import effective_cpu_count, features_of, host_cpu, lacking, triple
from tirlower.machine.target import Target
from tirlower.script import parse


def test_the_processor_describes_itself() -> None:
    target = Target.from_device("cpu")
    assert target == Target.from_device("llvm") == Target.from_device(np.zeros(3)) and target.host is None
    assert target.mcpu == host_cpu().name and target.mtriple == triple()
    assert target.get("num-cores") == effective_cpu_count()
    assert Target(str(target)) == target


def test_features_that_a_hypervisor_hides_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "lacking", lambda cpu, features: ("avx512fp16", "sha"))
    assert Target.from_device("cpu").mattr == ("-avx512fp16", "-sha")


def test_code_for_it_runs_here() -> None:
    target = Target.from_device("cpu")
    assert not lacking(str(target.mcpu), ",".join(target.mattr or ())) and features_of(str(target.mcpu))
    func = parse('def f(A: T.Buffer((8,), "int32")):\n    for i in range(8):\n        A[i] = A[i] * 2 + i')
    values = np.arange(8, dtype="int32")
    tl.build(func, target=target)(values)
    np.testing.assert_array_equal(values, np.arange(8) * 3)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    fake = FakeCuda()
    driver = driver_of(fake)
    monkeypatch.setattr(devices, "device_of", lambda ordinal: device_of(ordinal, driver))
    return fake


class OnDevice:
    """An array that says where it is."""

    def __init__(self, kind: int, ordinal: int = 0) -> None:
        self.where = (kind, ordinal)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.where


@pytest.mark.parametrize(
    "device",
    ["cuda", "cuda:0", SimpleNamespace(type="cuda", index=None), SimpleNamespace(type="cuda", index=0), OnDevice(2)],
)
def test_a_gpu_says_its_architecture_and_limits(cuda: FakeCuda, device: object) -> None:
    attributes = cuda.attributes
    attributes.update({1: 512, 8: 32768, 10: 32, 75: 8, 76: 9})
    target = Target.from_device(device)
    assert target.kind == "cuda" and target.arch == "sm_89" and target.thread_warp_size == 32
    assert target.max_threads_per_block == 512 and target.max_shared_memory_per_block == 32768
    assert Target.from_device("nvptx").kind == "nvptx"


def test_a_device_that_is_not_there(cuda: FakeCuda) -> None:
    with pytest.raises(DeviceError):
        Target.from_device("cuda:7")


def test_pinned_memory_is_the_processor_s() -> None:
    assert Target.from_device(OnDevice(3)).kind == "llvm"


@pytest.mark.parametrize("device", ["metal", "npu:1", OnDevice(8), SimpleNamespace(type="mps", index=None)])
def test_other_devices_are_not_asked(device: object) -> None:
    with pytest.raises(ArgumentValueError, match="no device of this machine"):
        Target.from_device(device)


def test_what_names_no_device() -> None:
    with pytest.raises(ArgumentValueError, match="cuda:1"):
        Target.from_device("cuda:x")
    with pytest.raises(ArgumentTypeError, match="got 3"):
        Target.from_device(3)
