"""Which GPUs are here, asked without starting CUDA in this process.

A process in which the driver was started cannot fork workers that use it, and has a context on a device: a build needs
neither. NVML, the library behind ``nvidia-smi``, tells architectures and the driver's version and leaves nothing behind.
Where it is not installed (a container with the driver alone), or the driver's library is named by
``TIRLOWER_LIBCUDA``, or devices of several architectures are chosen among by ``CUDA_VISIBLE_DEVICES``, a child process
starts the driver and is asked.
"""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from tirlower.gpu.launch.constants import DeviceAttribute, ptx_version_of
from tirlower.gpu.launch.driver import LIBRARY_VARIABLE, library_name

__all__ = ["Installed", "installed"]

_NVML: Final = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_CHILD_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Installed:
    """The architecture of each device (``"sm_90"``), and the version of CUDA that the driver has (12040 is 12.4)."""

    archs: tuple[str, ...]
    cuda: int

    @property
    def ptx(self) -> int:
        """The newest PTX version, times ten, that the driver compiles.

        >>> Installed(("sm_90",), 12040).ptx
        84
        """
        major, minor = ptx_version_of(self.cuda)
        return 10 * major + minor


def installed() -> Installed | None:
    """The devices of this machine and its driver; None where there is none. Asked once for each driver's library."""
    return _installed(library_name(), os.environ.get(_VISIBLE), LIBRARY_VARIABLE in os.environ)


@functools.lru_cache(maxsize=8)
def _installed(library: str, visible: str | None, named: bool) -> Installed | None:
    found = None if named else by_nvml(_NVML)
    if found is not None and (visible is None or len(set(found.archs)) == 1):
        return found
    return by_child(library)


class _Refused(Exception):
    """A function of NVML is not there, or has failed."""


def by_nvml(name: str) -> Installed | None:
    """What NVML says; None where it is not there or has nothing to say."""
    try:
        nvml = ctypes.CDLL(name)
    except OSError:
        return None

    def call(function: str, *args: object) -> None:
        found = getattr(nvml, function, None)
        if found is None or found(*args):
            raise _Refused

    try:
        call("nvmlInit_v2")
    except _Refused:
        return None
    try:
        version, count = ctypes.c_int(), ctypes.c_uint()
        call("nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(version))
        call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        archs = []
        for index in range(count.value):
            device, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
            call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(device))
            call("nvmlDeviceGetCudaComputeCapability", device, ctypes.byref(major), ctypes.byref(minor))
            archs.append(f"sm_{major.value}{minor.value}")
    except _Refused:
        return None
    finally:
        nvml.nvmlShutdown()
    return Installed(tuple(archs), version.value) if archs else None


_PROGRAM: Final = f"""
import ctypes, sys
cuda = ctypes.CDLL(sys.argv[1])
def number(name, *args):
    out = ctypes.c_int()
    if getattr(cuda, name)(ctypes.byref(out), *args):
        sys.exit(1)
    return out.value
if cuda.cuInit(0):
    sys.exit(1)
print(number("cuDriverGetVersion"))
for ordinal in range(number("cuDeviceGetCount")):
    device = number("cuDeviceGet", ordinal)
    major = number("cuDeviceGetAttribute", {int(DeviceAttribute.COMPUTE_CAPABILITY_MAJOR)}, device)
    print(f"sm_{{major}}{{number('cuDeviceGetAttribute', {int(DeviceAttribute.COMPUTE_CAPABILITY_MINOR)}, device)}}")
"""


def by_child(library: str) -> Installed | None:
    """What the driver says in a process of its own; None where it is not there or shows no device."""
    try:
        ctypes.CDLL(library)  # to load it starts nothing, and tells at once where there is none
    except OSError:
        return None
    if not sys.executable:
        return None  # Python inside another program
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, library],
            capture_output=True,
            text=True,
            check=False,
            timeout=_CHILD_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    version, *archs = done.stdout.split() or ["0"]
    return Installed(tuple(archs), int(version)) if archs and not done.returncode else None
