"""Tensor maps: the 128 bytes that describe an array to the bulk copies, encoded by the driver and kept."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

from tirlower.diagnostics import DeviceError
from tirlower.gpu.artifact import KernelImage, TensorMapSpec
from tirlower.gpu.launch import constants
from tirlower.gpu.launch.driver import Driver
from tirlower.gpu.launch.expressions import function_of

__all__ = ["TensorMapEncoder"]

_L2_PROMOTION_256B: Final = 3
_MOST: Final = 1024


class TensorMapEncoder:
    """Encodes one tensor map of a kernel from the arguments of a launch.

    ``encode(arguments)`` takes the kernel's own arguments in order, and gives the map's bytes; maps are kept by base
    address, extents and strides. Raises :class:`DeviceError` where the driver refuses the layout.
    """

    def __init__(self, driver: Driver, image: KernelImage, spec: TensorMapSpec) -> None:
        self.driver = driver
        self.kernel = image.name
        self.spec = spec
        self.name = image.params[spec.param].name
        variables = tuple(p.var for p in image.params)
        what = f"the tensor map of `{self.name}` in kernel `{image.name}`"
        self._extents: list[Callable[..., int]] = [function_of(e, variables, what) for e in spec.extents]
        self._strides: list[Callable[..., int]] = [function_of(s, variables, what) for s in spec.strides]
        self._known: dict[tuple[int, ...], bytes] = {}

    def encode(self, arguments: tuple[int, ...]) -> bytes:
        """The map for the arguments of a launch."""
        base = arguments[self.spec.param]
        key = (base, *[f(*arguments) for f in self._extents], *[f(*arguments) for f in self._strides])
        found = self._known.get(key)
        if found is None:
            found = self._encoded(base, key[1 : 1 + self.spec.rank], key[1 + self.spec.rank :])
            if len(self._known) >= _MOST:
                self._known.pop(next(iter(self._known)), None)
            self._known[key] = found
        return found

    def _encoded(self, base: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
        spec = self.spec
        itemsize = (spec.dtype.bits * spec.dtype.lanes + 7) // 8
        # The driver counts dimensions from the innermost; the innermost has no stride.
        dims = (ctypes.c_uint64 * spec.rank)(*reversed(extents))
        steps = (ctypes.c_uint64 * max(1, spec.rank - 1))(*[s * itemsize for s in reversed(strides)])
        box = (ctypes.c_uint32 * spec.rank)(*reversed(spec.box))
        ones = (ctypes.c_uint32 * spec.rank)(*([1] * spec.rank))
        raw = ctypes.create_string_buffer(constants.TENSOR_MAP_BYTES + 64)
        place = -ctypes.addressof(raw) % 64
        kind = constants.TENSOR_DTYPES.get(str(spec.dtype), 0)
        if itemsize != 1 and not kind:
            raise self._error(f"no tensor map has elements of {spec.dtype!s}", extents, strides)
        code = self.driver.function("cuTensorMapEncodeTiled")(
            ctypes.addressof(raw) + place, kind, spec.rank, base, dims, steps, box, ones,
            0, constants.TENSOR_SWIZZLES[spec.swizzle], _L2_PROMOTION_256B, 0,
        )  # fmt: skip
        if code:
            raise self._error(self.driver.result_text(code), extents, strides, base)
        return raw.raw[place : place + constants.TENSOR_MAP_BYTES]

    def _error(
        self, text: str, extents: tuple[int, ...], strides: tuple[int, ...], base: int | None = None
    ) -> DeviceError:
        spec = self.spec
        where = "" if base is None else f" at {base:#x}"
        return DeviceError(
            f"the tensor map of `{self.name}` in kernel `{self.kernel}` cannot be encoded: {text}",
            origin="launch",
            notes=[
                f"{spec.dtype!s} array{where} of extents {extents}, strides {strides} elements, "
                f"box {spec.box}, swizzle {spec.swizzle} bytes"
            ],
            help="a tensor map needs an address that is a multiple of 16 bytes, rows that start at multiples of 16 "
            "bytes, boxes of at most 256 elements a side, and an inner side no longer than its swizzle",
        )
