"""How the examples run: on a GPU where there is one, and otherwise in the simulator."""

from __future__ import annotations

from typing import Any

import tirlower as tl
from tirlower.gpu.launch import Device, device_of, to_device
from tirlower.ir import PrimFunc


def launch(func: PrimFunc, *arrays: Any) -> str:
    """Run a function for the GPU on NumPy arrays, with its results in them; says where it ran.

    In the simulator runs what would run on the GPU: the function after all passes, with its kernels and the host code
    that launches them. It finds races, missing barriers and accesses out of bounds.
    """
    device = _device()
    if device is None:
        tl.simulate(tl.lower(func, target="nvptx -arch=sm_90a"), *arrays)
        return "in the simulator"
    arch = device.arch + ("a" if device.arch == "sm_90" else "")
    kernel = tl.build(func, target=f"nvptx -arch={arch}")
    copies = [to_device(array) for array in arrays]
    kernel(*copies)
    for array, copy in zip(arrays, copies, strict=True):
        array[...] = copy.numpy()
    return f"on {device.name}"


def _device() -> Device | None:
    """The first GPU, or None where there is no driver or no device."""
    try:
        return device_of()
    except tl.DeviceError:
        return None
