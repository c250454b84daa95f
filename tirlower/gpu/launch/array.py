"""Our own arrays in device memory, and the visible copies between host and device."""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tirlower.call.views import HostArray
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError
from tirlower.gpu.launch.device import Device, device_of
from tirlower.gpu.launch.dlpack import CUDA, export
from tirlower.gpu.launch.facts import Facts
from tirlower.gpu.launch.stream import order_after, stream_handle
from tirlower.ir.dtype import DataType, DataTypeError

__all__ = ["DeviceArray", "empty", "to_device"]


class DeviceArray:
    """A C-contiguous array in the memory of a device; other libraries read it without a copy.

    Made by :func:`to_device` and :func:`empty`, and by calls that allocate their outputs. ``shape``, ``dtype`` (NumPy's)
    and ``device`` are as they say; ``pointer`` is the address of the first element. Memory is given back in the order of
    the stream it was allocated in: a use in another stream has to be ordered before that (wait for it, or keep the array).
    """

    __slots__ = ("__weakref__", "_stream", "device", "dtype", "entry", "pointer", "shape")

    def __init__(self, device: Device, shape: tuple[int, ...], dtype: DataType, stream: int = 0) -> None:
        self.device = device
        self.shape = shape
        self.dtype = dtype.numpy
        self._stream = stream
        self.pointer = 0
        itemsize = self.dtype.itemsize
        before = device.enter()
        try:
            self.pointer = device.allocate(math.prod(shape) * itemsize, stream)
        finally:
            device.leave(before)
        # What a call reads: the address and the facts, made once.
        made_on = stream if stream else None
        self.entry = (self.pointer, Facts.of(str(dtype), itemsize, shape, None, False, device.ordinal, made_on))

    def __del__(self) -> None:
        if getattr(self, "pointer", 0):
            before = self.device.enter()
            try:
                self.device.free(self.pointer, self._stream)
            finally:
                self.device.leave(before)

    # -- copies ------------------------------------------------------------------------------------------------------

    def numpy(self, stream: object = None) -> HostArray:
        """A copy in host memory, after the work of a stream (that of its allocation, by default). Waits for it."""
        handle = self._stream if stream is None else stream_handle(stream)
        out = np.empty(self.shape, self.dtype)
        before = self.device.enter()
        try:
            if out.nbytes:
                self.device.driver.copy_to_host(out.ctypes.data, self.pointer, out.nbytes, handle)
            self.device.driver.synchronize_stream(handle)
        finally:
            self.device.leave(before)
        return out

    def copy_from(self, array: HostArray, stream: object = None) -> DeviceArray:
        """Copy a NumPy array of the same shape and dtype here, in the order of a stream. Waits for it; gives ``self``.

        Raises :class:`ArgumentValueError` for another shape or dtype.
        """
        if array.shape != self.shape or array.dtype != self.dtype:
            raise ArgumentValueError(
                f"expected an array of {self.dtype} of shape {self.shape}, got {array.dtype} of shape {array.shape}",
                origin="copy_from",
                help="convert and reshape it first",
            )
        handle = self._stream if stream is None else stream_handle(stream)
        source = np.ascontiguousarray(array)
        before = self.device.enter()
        try:
            if source.nbytes:
                self.device.driver.copy_to_device(self.pointer, source.ctypes.data, source.nbytes, handle)
            # Until then a copy from pinned memory could still be reading.
            self.device.driver.synchronize_stream(handle)
        finally:
            self.device.leave(before)
        return self

    # -- other libraries ---------------------------------------------------------------------------------------------

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """The array for CuPy, Numba and others. The stream 0 of an array is told as 1, the protocol's name for it."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "version": 3,
            "strides": None,
            "stream": self._stream or 1,
        }

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A DLPack capsule of the array. ``stream``: the consumer's, which waits for the array's; -1 for no waiting.

        Raises BufferError where another device or a copy is asked for.
        """
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("the array is exported where it is, without a copy")
        if stream != -1:
            before = self.device.enter()
            try:
                order_after(self.device, _unnamed(stream or 0), self._stream)
            finally:
                self.device.leave(before)
        kind = DataType.from_numpy(self.dtype)
        return export(self, self.pointer, self.device.ordinal, kind, self.shape, bool(max_version and max_version[0]))

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device: CUDA, and its number."""
        return CUDA, self.device.ordinal

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        """NumPy must not copy from the device unseen."""
        raise ArgumentTypeError(
            "a DeviceArray is in device memory, where NumPy does not reach",
            origin="DeviceArray",
            help="copy it where one can see it: array.numpy()",
        )

    # -- small things ------------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}{list(self.shape)} on device {self.device.ordinal} at {self.pointer:#x}>"


def _unnamed(stream: int) -> int:
    """The handle of a stream by the protocols' numbers: 1 is the legacy default stream, whose handle is 0."""
    return 0 if stream == 1 else stream


def _shape_of(shape: int | tuple[int, ...] | list[int]) -> tuple[int, ...]:
    extents = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    if any(extent < 0 for extent in extents):
        raise ArgumentValueError(f"the extents of an array are at least 0, got {extents}", origin="empty")
    return extents


def empty(
    shape: int | tuple[int, ...] | list[int],
    dtype: DTypeLike = "float32",
    *,
    device: Device | None = None,
    stream: object = None,
) -> DeviceArray:
    """An array of device memory with no particular values, allocated in the order of a stream.

    ``dtype`` is a name of ours (``"bfloat16"`` too) or a NumPy dtype. Raises :class:`ArgumentTypeError` for another,
    :class:`DeviceError` without a device or memory.
    """
    try:
        kind = DataType(dtype) if isinstance(dtype, str) else DataType.from_numpy(np.dtype(dtype))
    except (DataTypeError, TypeError) as error:
        raise ArgumentTypeError(f"no array has elements of {dtype!r}: {error}", origin="empty") from None
    if kind.is_handle or kind.is_vector or kind.code == "void":
        raise ArgumentTypeError(f"no array has elements of {kind!s}", origin="empty", help="use a numeric dtype")
    return DeviceArray(device_of() if device is None else device, _shape_of(shape), kind, stream_handle(stream))


def to_device(array: ArrayLike, *, device: Device | None = None, stream: object = None) -> DeviceArray:
    """A copy of a NumPy array (or what NumPy makes one of) in device memory.

    Raises :class:`ArgumentTypeError` for a dtype that kernels do not know, :class:`DeviceError` without a device.
    """
    host = np.asarray(array)
    made = empty(host.shape, host.dtype, device=device, stream=stream)
    return made.copy_from(host.astype(made.dtype, copy=False), stream)
