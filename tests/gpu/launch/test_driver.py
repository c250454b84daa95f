from __future__ import annotations

import ctypes
import sys
import threading
import time

import pytest

from tests.gpu.launch.fake_cuda import FakeCuda, LaunchAttribute, LaunchConfig, driver_of
from tirlower.diagnostics import DeviceError
from tirlower.gpu.launch import driver as module
from tirlower.gpu.launch.constants import DeviceAttribute, ptx_version_of
from tirlower.gpu.launch.driver import Driver, open_driver


def test_results_are_errors_with_the_drivers_words() -> None:
    cuda = FakeCuda()
    driver = Driver(cuda)
    with pytest.raises(DeviceError, match=r"cuMemAlloc_v2 failed: CUDA_ERROR_INVALID_CONTEXT \(201\): text of 201"):
        driver.allocate(8)
    driver.set_context(1000)
    with pytest.raises(DeviceError, match=r"cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY \(2\): text of 2"):
        driver.allocate(1 << 40)
    assert driver.result_text(719) == "CUDA_ERROR_LAUNCH_FAILED (719): text of 719"
    cuda.fail["cuGetErrorString"] = 1
    assert driver.result_text(9999) == "CUDA_ERROR (9999): no text"


def test_a_machine_without_a_device() -> None:
    with pytest.raises(
        DeviceError, match=r"(?s)no CUDA device here: cuInit failed: CUDA_ERROR_NO_DEVICE \(100\).*simulate"
    ):
        Driver(FakeCuda(devices=0))
    driver = Driver(FakeCuda(devices=2))
    with pytest.raises(DeviceError, match=r"(?s)no CUDA device 2: the driver shows 2.*use 0 to 1"):
        driver.device(2)


def test_an_old_driver_lacks_functions() -> None:
    class Old(FakeCuda):
        def __getattribute__(self, name: str) -> object:
            if name in ("cuLaunchKernelEx", "cuFuncSetAttribute"):
                raise AttributeError(name)
            return super().__getattribute__(name)

    driver = Driver(Old())
    with pytest.raises(DeviceError, match=r"(?s)no function cuLaunchKernelEx.*update the driver to CUDA 11.8 or newer"):
        driver.function("cuLaunchKernelEx")
    with pytest.raises(DeviceError, match=r"(?s)no function cuFuncSetAttribute.*update the driver"):
        driver.function("cuFuncSetAttribute")


def test_queries() -> None:
    cuda = FakeCuda(version=12040)
    driver = Driver(cuda)
    assert driver.version == 12040 and driver.ptx_version == (8, 4) and driver.device_count == 1
    assert driver.device_name(0) == "Fake GPU"
    assert driver.device_attribute(0, DeviceAttribute.MULTIPROCESSOR_COUNT) == 132
    driver.set_context(driver.retain_context(0))
    assert driver.current_context() == 1000
    pointer = driver.allocate(64)
    assert driver.pointer_device(pointer + 5) == 0 and driver.pointer_device(12345) is None
    assert driver.pointer_device(driver.allocate_host(16)) is None
    driver.fill(pointer, 7, 64, 0)
    second = driver.allocate(64)
    driver.copy_on_device(second, pointer, 64, 0)
    assert ctypes.string_at(second, 64) == b"\7" * 64
    driver.synchronize()
    assert cuda.named()[-1] == "cuCtxSynchronize"


def test_ptx_versions_rise_with_the_driver() -> None:
    versions = [10020, *range(11000, 11081, 10), *range(12000, 12091, 10), 13000, 13010, 14000]
    found = [ptx_version_of(v) for v in versions]
    assert found == sorted(found) and found[0] == (6, 5) and found[-1] == (9, 1)


def test_structures_are_the_drivers() -> None:
    # cuda.h: CUlaunchConfig is 7 unsigned ints, a stream, a pointer, an unsigned int; CUlaunchAttribute 8 + 64 bytes.
    assert ctypes.sizeof(LaunchAttribute) == 72 and LaunchAttribute.x.offset == 8
    assert ctypes.sizeof(LaunchConfig) == 56 and LaunchConfig.stream.offset == 32 and LaunchConfig.count.offset == 48


@pytest.mark.skipif(sys.platform != "linux", reason="names a library of Linux")
def test_a_library_that_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.LIBRARY_VARIABLE, "libm.so.6")
    module._opened.cache_clear()
    with pytest.raises(DeviceError, match=r"the CUDA driver has no function cuInit"):
        open_driver()
    module._opened.cache_clear()


def test_every_function_has_its_argument_types() -> None:
    import re
    from pathlib import Path

    folder = Path(module.__file__).parent
    named = set()
    for path in folder.glob("*.py"):
        named |= set(re.findall(r'(?:call|release|function|_int|_handle|_said)\(\s*"(cu\w+)"', path.read_text()))
    named |= set(re.findall(r'"(cu\w+)"', (folder / "host_function.py").read_text()))
    assert len(named) > 30 and named <= set(module._ARGUMENTS)
    assert named == set(module._ARGUMENTS), set(module._ARGUMENTS) - named
    fake = FakeCuda()
    assert all(hasattr(fake, name) for name in named)
    assert driver_of(fake) is driver_of(fake)


def test_threads_that_are_the_first_get_one_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(name: str) -> FakeCuda:
        time.sleep(0.1)
        return FakeCuda()

    monkeypatch.setattr(ctypes, "CDLL", slow)
    module._opened.cache_clear()
    found: list[Driver] = []
    threads = [threading.Thread(target=lambda: found.append(open_driver())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    module._opened.cache_clear()
    assert len(found) == 3 and len(set(map(id, found))) == 1
