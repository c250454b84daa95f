"""What a device of this machine is, as a target."""

from __future__ import annotations

from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError
from tirlower.gpu.launch.constants import DeviceAttribute
from tirlower.gpu.launch.device import device_of
from tirlower.machine.cpu import effective_cpu_count, host_cpu, lacking, triple
from tirlower.machine.target import Target

__all__ = ["target_of_device"]

_CPUS = ("cpu", "llvm")
_GPUS = ("cuda", "nvptx", "gpu")
_DLPACK = {1: "cpu", 2: "cuda", 3: "cpu", 13: "cuda"}
"""Kinds of devices by their numbers in DLPack: memory of the host that is pinned, and memory that is managed, too."""


def target_of_device(device: object) -> Target:
    """See :meth:`Target.from_device`."""
    name, ordinal = _named(device)
    if name in _CPUS:
        cpu = host_cpu()
        hidden = tuple(f"-{feature}" for feature in lacking(cpu.name, ""))
        return Target("llvm", mcpu=cpu.name, mattr=hidden or None, mtriple=triple(), num_cores=effective_cpu_count())
    if name not in _GPUS:
        raise ArgumentValueError(
            f"no device of this machine is asked by the name {device!r}",
            origin="Target.from_device",
            help="the devices are 'cpu' and 'cuda', 'cuda:1'; others are described: Target('metal')",
        )
    found = device_of(ordinal)
    return Target(
        "nvptx" if name == "nvptx" else "cuda",
        arch=found.arch,
        max_threads_per_block=found.attribute(DeviceAttribute.MAX_THREADS_PER_BLOCK),
        max_shared_memory_per_block=found.attribute(DeviceAttribute.MAX_SHARED_MEMORY_PER_BLOCK),
        thread_warp_size=found.attribute(DeviceAttribute.WARP_SIZE),
    )


def _named(device: object) -> tuple[str, int]:
    """The kind of a device and its number: of a text, a device of PyTorch, or an array by its protocol."""
    if isinstance(device, str):
        name, colon, number = device.partition(":")
        if not colon:
            return name, 0
        if number.isdecimal():
            return name, int(number)
        raise ArgumentValueError(
            f"a device is named as in 'cuda:1', got {device!r}",
            origin="Target.from_device",
            help="leave out the number for 0",
        )
    where = getattr(device, "__dlpack_device__", None)
    if where is not None:
        kind, ordinal = where()
        return _DLPACK.get(int(kind), f"DLPack device {int(kind)}"), int(ordinal)
    kind = getattr(device, "type", None)
    if isinstance(kind, str):
        index = getattr(device, "index", None)
        return kind, index if isinstance(index, int) else 0
    raise ArgumentTypeError(
        f"a device is a text such as 'cuda:0', a device of PyTorch, or an array on it, got {device!r}",
        origin="Target.from_device",
        help="write Target.from_device('cpu')",
    )
