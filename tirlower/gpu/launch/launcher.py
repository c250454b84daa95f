"""A kernel on a device: its handle, and what went wrong where the driver refuses a launch of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.diagnostics import BoundsError, DeviceError, DivisionByZeroError, RuntimeAssertError, TirError
from tirlower.gpu.artifact import Failure, KernelImage, TensorMapSpec
from tirlower.gpu.launch import constants
from tirlower.gpu.launch.constants import DeviceAttribute, FunctionAttribute
from tirlower.gpu.launch.device import Device

__all__ = ["Launcher"]

_GRID: Final = tuple(f"blockIdx.{axis}" for axis in "xyz")
_BLOCK: Final = tuple(f"threadIdx.{axis}" for axis in "xyz")
_ERRORS: Final[dict[str, type[TirError]]] = {
    "assert": RuntimeAssertError,
    "bounds": BoundsError,
    "division": DivisionByZeroError,
}
_LOST: Final = (
    "no kernel, array or stream of this process works any more. Start the process anew; before that, "
    "tl.simulate(func, *arrays) finds accesses out of bounds"
)


class Launcher:
    """A kernel on a device, ready to be launched by its ``function``."""

    def __init__(self, device: Device, module: int, image: KernelImage) -> None:
        self.device = device
        self.image = image
        driver = device.driver
        self.function = driver.get_function(module, image.symbol)
        self.static_shared = self.attribute(FunctionAttribute.SHARED_SIZE_BYTES)
        self.max_dynamic = device.max_shared - self.static_shared
        if image.dynamic_shared:
            # More than 48 KB must be asked for; what is launched is each launch's own affair.
            driver.set_function_attribute(
                self.function, FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, self.max_dynamic
            )
        x, y, z = image.cluster
        if x * y * z > constants.PORTABLE_CLUSTER:
            driver.set_function_attribute(self.function, FunctionAttribute.NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)

    def attribute(self, attribute: FunctionAttribute) -> int:
        """A property of the compiled kernel."""
        return self.device.driver.function_attribute(self.function, attribute)

    # -- what can go wrong -------------------------------------------------------------------------------------------

    def error(self, failure: Failure, values: Sequence[int]) -> TirError:
        """The error of a launch that failed, from what the host function recorded of it (see :class:`Failure`)."""
        driver = self.device.driver
        if failure.kind == "map":
            return self._map_error(self.image.tensor_maps[failure.map], values)
        if failure.kind == "report":
            return self._reported(values)
        if failure.kind == "extent":
            return self._error("has an extent of 2**31 or more", values, 0, "use smaller grids, with loops inside")
        code, stream, *shape = values
        if failure.kind == "launch":
            return self._error(f"failed: {driver.result_text(code)}", shape, stream, self._remedy(code, shape))
        said = driver.error(code, "cuStreamSynchronize").message
        return self._error(f"failed: {said}", shape, stream, self._remedy(719, shape))

    def _error(self, what: str, shape: Sequence[int], stream: int, help: str) -> DeviceError:
        notes = [f"launch shape: {self.shape_text(shape)}"]
        if stream:
            notes[0] += f", stream {stream & 0xFFFF_FFFF_FFFF_FFFF:#x}"
        return DeviceError(f"the launch of kernel `{self.image.name}` {what}", origin="launch", notes=notes, help=help)

    def shape_text(self, shape: Sequence[int]) -> str:
        """A launch shape for messages."""
        text = f"grid {tuple(shape[:3])}, block {tuple(shape[3:6])}, {shape[6]} bytes of dynamic shared memory"
        if self.image.cluster != (1, 1, 1):
            text += f", cluster {self.image.cluster}"
        return text

    def _remedy(self, code: int, shape: Sequence[int]) -> str:
        """Which limit a refused launch breaks, as far as the device says."""
        device = self.device
        threads = shape[3] * shape[4] * shape[5]
        most = self.attribute(FunctionAttribute.MAX_THREADS_PER_BLOCK) if code not in constants.ENDED else threads
        if threads > most:
            registers = self.attribute(FunctionAttribute.NUM_REGS)
            return f"a block of {threads} threads is too large: this kernel has {registers} registers a thread, which allows {most}"
        if code not in constants.ENDED:
            names = ("MAX_GRID_DIM_X", "MAX_GRID_DIM_Y", "MAX_GRID_DIM_Z", "MAX_BLOCK_DIM_X", "MAX_BLOCK_DIM_Y", "MAX_BLOCK_DIM_Z")  # fmt: skip
            for extent, name, tag in zip(shape, names, (*_GRID, *_BLOCK), strict=False):
                limit = device.attribute(DeviceAttribute[name])
                if extent > limit:
                    return f"{tag} has the extent {extent}, and the device's limit is {limit}"
            if shape[6] > self.max_dynamic:
                return (
                    f"the kernel asks for {shape[6]} bytes of dynamic shared memory beside {self.static_shared} static "
                    f"ones, and the device has {device.max_shared} a block: use smaller tiles or fewer stages"
                )
            return "check the launch shape against the device's limits: kernel.report() has the kernel's resources"
        return (
            f"the failure may be an earlier launch's, and the CUDA context is lost: {_LOST}, data races and uninitialized "
            "reads"
        )

    def _reported(self, values: Sequence[int]) -> TirError:
        """What a thread reported."""
        site, block, thread, shape = values[0], tuple(values[1:4]), tuple(values[4:7]), values[7:]
        found = self.image.sites[site - 1] if site <= len(self.image.sites) else None
        kind = RuntimeAssertError if found is None else _ERRORS[found.kind]
        text = f"check {site - 1} failed" if found is None else found.text
        notes = [f"at blockIdx {block}, threadIdx {thread}", f"launch shape: {self.shape_text(shape)}"]
        if self.image.traps:
            first, *more = text.split("\n")
            return DeviceError(
                f"the launch of kernel `{self.image.name}` was ended, because others would have waited for the thread that "
                f"failed: {first}",
                origin="launch",
                notes=[*more, *notes],
                help=f"the CUDA context is lost with it: {_LOST}",
            )
        return kind(text, origin=self.image.name, notes=notes)

    def _map_error(self, spec: TensorMapSpec, values: Sequence[int]) -> DeviceError:
        code, base = values[:2]
        extents, strides = tuple(values[2 : 2 + spec.rank]), tuple(values[2 + spec.rank :])
        name = self.image.params[spec.param].name
        return DeviceError(
            f"the tensor map of `{name}` in kernel `{self.image.name}` cannot be encoded: "
            f"{self.device.driver.result_text(code)}",
            origin="launch",
            notes=[
                f"{spec.dtype!s} array at {base & 0xFFFF_FFFF_FFFF_FFFF:#x} of extents {extents}, strides {strides} "
                f"elements, box {spec.box}, swizzle {spec.swizzle} bytes"
            ],
            help="a tensor map needs an address that is a multiple of 16 bytes, rows that start at multiples of 16 "
            "bytes, boxes of at most 256 elements a side, and an inner side no longer than its swizzle",
        )
