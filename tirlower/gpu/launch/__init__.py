"""Kernels at run time: the driver, arrays in device memory, and the calls that launch."""

from __future__ import annotations

from tirlower.gpu.launch.array import DeviceArray, empty, to_device
from tirlower.gpu.launch.device import Device, device_of
from tirlower.gpu.launch.driver import Driver, open_driver
from tirlower.gpu.launch.kernel import GpuKernel
from tirlower.gpu.launch.report import GpuReport, KernelReport
from tirlower.gpu.launch.stream import Event, Stream

__all__ = [
    "Device",
    "DeviceArray",
    "Driver",
    "Event",
    "GpuKernel",
    "GpuReport",
    "KernelReport",
    "Stream",
    "device_of",
    "empty",
    "open_driver",
    "to_device",
]
