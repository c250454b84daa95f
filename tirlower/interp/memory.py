"""Memory: allocations as bytes, pointers into them, and typed views of them with checks.

An allocation is a run of bytes with, unless it came from outside, a second run that says which of them were written.
A pointer is an allocation and a byte offset. A view reads and writes elements of a data type through a pointer, in
the layout of a buffer; any number of views of different types may share an allocation.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tirlower.diagnostics import InterpreterError
from tirlower.interp.values import UNDEF, Datum, Fault, Unary, decoder, encoder, integer_wrapper
from tirlower.ir.buffer import Buffer
from tirlower.ir.custom_datatype import element_numpy, storage_dtype
from tirlower.ir.dtype import Array, DataType

if TYPE_CHECKING:
    from tirlower.interp.races import Shadow

__all__ = [
    "Memory",
    "OutsideMemory",
    "Pointer",
    "ReadOnlyMemory",
    "UnwrittenMemory",
    "View",
    "compact_strides",
    "join_overlapping",
]


class OutsideMemory(Exception):
    """An element index outside the allocation."""


class UnwrittenMemory(Exception):
    """A read of bytes that were never written."""


class ReadOnlyMemory(Exception):
    """A write to constant memory or to a read-only array."""


def join_overlapping(memories: Sequence[Memory]) -> None:
    """Let memories of arguments whose bytes overlap know each other (:meth:`Memory.place`)."""
    held = sorted((memory.address, n) for n, memory in enumerate(memories) if memory.size)
    if len(held) < 2:
        return
    first, end = memories[held[0][1]], 0
    for address, n in held:
        memory = memories[n]
        if memory is first or address >= end:
            first, end = memory, max(end, address + memory.size)
        else:
            memory.within = (first, address - first.address)
            end = max(end, address + memory.size)


class _Window:
    """The bytes that an array spans, for NumPy: from its lowest element to its highest, gaps included."""

    def __init__(self, array: Array) -> None:
        reach = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
        self.below = -sum(r for r in reach if r < 0)
        size = self.below + sum(r for r in reach if r > 0) + array.itemsize
        self.array = array  # NumPy holds on to this object, and it to the array
        self.__array_interface__ = {
            "data": (array.ctypes.data - self.below, not array.flags.writeable),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


class Memory:
    """A run of bytes. ``written`` has a nonzero byte for each byte that holds a value, or is None where all do.

    ``objects`` holds the handles stored in it, by element; ``fragments`` the shapes of its tensor-core fragments.
    ``private`` says that one thread has it to itself; ``shadow`` is what a race detector notes about it. ``copies`` is
    the memory of each thread, where threads have each their own of one allocation, with the bytes as they left them.
    ``within`` is another memory with the byte of it at which this one begins, where arguments overlap.
    """

    __slots__ = ("copies", "fragments", "name", "objects", "private", "raw", "readonly", "shadow", "within", "written")

    def __init__(self, raw: Array, name: str, *, known: bool, readonly: bool = False) -> None:
        self.raw = raw
        self.name = name
        self.written = None if known else bytearray(len(raw))
        self.readonly = readonly
        self.objects: dict[int, Datum] = {}
        self.fragments: dict[int, tuple[int, int]] = {}
        self.private = False
        self.shadow: Shadow | None = None
        self.within: tuple[Memory, int] | None = None
        self.copies: tuple[dict[object, Memory], bytes] | None = None

    @classmethod
    def allocate(cls, size: int, name: str) -> Memory:
        """Fresh memory of ``size`` bytes, none of them written. Raises InterpreterError when there is not enough."""
        try:
            return cls(np.zeros(size, np.uint8), name, known=False)
        except (MemoryError, ValueError) as error:
            raise InterpreterError(
                f"no memory for {size} bytes of buffer {name!r}", origin="interpret", help="use smaller extents"
            ) from error

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.raw)

    @property
    def address(self) -> int:
        """The address of the first byte in this process."""
        return int(self.raw.ctypes.data)

    def place(self, start: int) -> tuple[Memory, int]:
        """The memory, and the byte in it, by which a byte of this one is known to be the same as another's."""
        if self.within is None:
            return self, start
        whole, begin = self.within
        return whole, begin + start

    def mark(self, start: int, stop: int, written: bool = True) -> None:
        """Note bytes as holding values, or as holding none."""
        if self.written is not None:
            self.written[start:stop] = (b"\1" if written else b"\0") * (stop - start)

    def of_threads(self, keys: list[object], alone: bool = True) -> list[Memory]:
        """The memory of each of some threads (``alone``), or groups of them, by their keys: what it had, with what was
        written here since; else a copy of this."""
        copies, before = self.copies or ({}, self.raw.tobytes())
        if before != (now := self.raw.tobytes()):
            changed = self.raw != np.frombuffer(before, np.uint8)
            for copy in copies.values():
                copy.raw[changed] = self.raw[changed]
                if copy.written is not None:
                    for at in np.flatnonzero(changed):
                        copy.written[at] = 1
            before = now
        made = []
        for key in keys:
            mine = copies.get(key)
            if mine is None:
                mine = copies[key] = Memory(self.raw.copy(), self.name, known=True)
                mine.written = None if self.written is None else bytearray(self.written)
                mine.private = alone
            mine.objects, mine.fragments = self.objects, self.fragments
            made.append(mine)
        self.copies = copies, before
        return made

    def leave_as(self, other: Memory) -> None:
        """What stands outside of the threads goes on with what one of them has."""
        self.raw[:] = other.raw
        if self.written is not None and other.written is not None:
            self.written[:] = other.written
        if self.copies is not None:
            self.copies = self.copies[0], self.raw.tobytes()

    def __repr__(self) -> str:
        return f"Memory({self.name!r}, {self.size} bytes)"


class Pointer:
    """A place in an allocation, in bytes from its start. Foreign functions receive these for handles."""

    __slots__ = ("memory", "offset")

    def __init__(self, memory: Memory, offset: int = 0) -> None:
        self.memory = memory
        self.offset = offset

    @classmethod
    def of_array(cls, array: Array, name: str, *, known: bool = True) -> Pointer:
        """The pointer to the first element of a NumPy array, in place; any strides will do."""
        readonly = not array.flags.writeable
        if array.size == 0:
            return cls(Memory(np.zeros(0, np.uint8), name, known=known, readonly=readonly))
        window = _Window(array)
        return cls(Memory(np.asarray(window), name, known=known, readonly=readonly), window.below)

    def __add__(self, count: int) -> Pointer:
        return Pointer(self.memory, self.offset + count)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pointer) and other.memory is self.memory and other.offset == self.offset

    def __hash__(self) -> int:
        return hash((id(self.memory), self.offset))

    def __repr__(self) -> str:
        return f"Pointer({self.memory.name!r}, {self.offset})"

    @property
    def address(self) -> int:
        """The address in this process."""
        return self.memory.address + self.offset

    def view(self, dtype: DataType | str, count: int | None = None) -> View:
        """``count`` elements (all that fit, by default) from here on, as a one-dimensional view."""
        kind = DataType(dtype)
        if count is None:
            count = max(0, self.memory.size - self.offset) // (element_numpy(kind).itemsize * kind.lanes)
        return View(self, kind, (count,), (1,), 0)

    def array(self, dtype: DataType | str, count: int) -> Array:
        """``count`` elements from here on as a NumPy array on the same bytes, for a foreign function to fill.

        The bytes count as written from then on. Raises Fault when they reach outside the allocation.
        """
        kind = element_numpy(DataType(dtype))
        stop = self.offset + count * kind.itemsize
        if self.offset < 0 or stop > self.memory.size:
            raise Fault(f"{count} elements from byte {self.offset} of {self.memory!r} reach outside it")
        self.memory.mark(self.offset, stop)
        return self.memory.raw[self.offset : stop].view(kind)

    def copy_from(self, source: Pointer, size: int) -> None:
        """Copy ``size`` bytes from another place (which may overlap), with what is known about them."""
        for place in (self, source):
            if place.offset < 0 or place.offset + size > place.memory.size:
                raise Fault(f"a copy of {size} bytes at byte {place.offset} of {place.memory!r} reaches outside it")
        self.memory.raw[self.offset : self.offset + size] = source.memory.raw[
            source.offset : source.offset + size
        ].copy()
        if self.memory.written is not None:
            known = source.memory.written
            self.memory.written[self.offset : self.offset + size] = (
                b"\1" * size if known is None else known[source.offset : source.offset + size]
            )


@functools.cache
def _storage(dtype: DataType) -> tuple[str, int, Unary | None, Unary | None]:
    """How one lane lies in memory: memoryview format, bytes, and conversions of what the format reads and takes."""
    if dtype.is_bool:
        return "?", 1, None, None
    if dtype.is_handle:
        return "Q", 8, None, None
    dtype = storage_dtype(dtype)
    size = dtype.numpy.itemsize
    if dtype.is_integral:
        code = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
        odd = integer_wrapper(dtype) if dtype.bits != size * 8 else None
        return code.upper() if dtype.is_uint else code, size, odd, None
    if dtype.code == "float" and size >= 4:
        return {4: "f", 8: "d"}[size], size, None, None
    return {1: "B", 2: "H"}[size], size, decoder(dtype), encoder(dtype)


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a row-major array, in elements.

    >>> compact_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


class View:
    """Elements of a type in memory, laid out by shape and strides.

    ``start`` and positions count lanes (scalars) from the first whole one of the allocation; ``strides`` count
    elements of ``lanes`` scalars each.
    """

    __slots__ = (
        "_base",
        "_data",
        "_decode",
        "_encode",
        "_size",
        "_written",
        "dtype",
        "lanes",
        "length",
        "memory",
        "shape",
        "start",
        "strides",
    )

    def __init__(
        self, pointer: Pointer, dtype: DataType, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
    ) -> None:
        memory = pointer.memory
        code, size, self._decode, self._encode = _storage(dtype.element)
        base = pointer.offset % size
        self.length = max(0, (memory.size - base) // size)
        # A memoryview of no bytes cannot be cast; nothing will be read from it.
        whole: Datum = memoryview(memory.raw.data)
        self._data: Datum = whole[base : base + self.length * size].cast(code) if self.length else b""
        self._base, self._size, self._written = base, size, memory.written
        self.memory, self.dtype, self.lanes = memory, dtype, dtype.lanes
        self.shape, self.strides = shape, strides
        self.start = (pointer.offset - base) // size + offset * dtype.lanes

    def on(self, memory: Memory) -> View:
        """The same view of another allocation of the same size."""
        made = View(Pointer(memory, self._base), self.dtype, self.shape, self.strides, 0)
        made.start = self.start
        return made

    def pointer(self, position: int) -> Pointer:
        """The pointer to a position."""
        return Pointer(self.memory, self._base + position * self._size)

    def span(self, position: int) -> tuple[int, int]:
        """The first byte of the element at a position, and its bytes."""
        return self._base + position * self._size, self._size * self.lanes

    def get(self, position: int) -> Datum:
        """The scalar at a position. Raises OutsideMemory or UnwrittenMemory."""
        if not 0 <= position < self.length:
            raise OutsideMemory(position)
        written = self._written
        if written is not None:
            byte = self._base + position * self._size
            if written.find(0, byte, byte + self._size) >= 0:
                raise UnwrittenMemory(position)
        if self.dtype.is_handle:
            return self.memory.objects.get(position)
        value = self._data[position]
        decode = self._decode
        return value if decode is None else decode(value)

    def put(self, position: int, value: Datum) -> None:
        """Store a scalar; an undefined one leaves the place unwritten. Raises OutsideMemory or ReadOnlyMemory."""
        if not 0 <= position < self.length:
            raise OutsideMemory(position)
        memory = self.memory
        if memory.readonly:
            raise ReadOnlyMemory(position)
        written = self._written
        if value is UNDEF or written is not None:
            byte = self._base + position * self._size
            memory.mark(byte, byte + self._size, value is not UNDEF)
            if value is UNDEF:
                return
        if self.dtype.is_handle:
            memory.objects[position] = value
            return
        encode = self._encode
        self._data[position] = value if encode is None else encode(value)


def layout_size(buffer: Buffer, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> int:
    """The bytes that an allocation of a buffer with this layout takes.

    Raises Fault for a negative extent, stride or offset.
    """
    if any(extent < 0 for extent in shape):
        raise Fault(f"buffer {buffer.name!r} has a negative extent: {shape}")
    if any(stride < 0 for stride in strides):
        raise Fault(f"allocated buffer {buffer.name!r} has a negative stride: {strides}")
    if offset < 0:
        raise Fault(f"allocated buffer {buffer.name!r} has a negative element offset: {offset}")
    if any(extent == 0 for extent in shape):
        return 0
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    return (offset + last + 1) * buffer.dtype.lanes * element_numpy(buffer.dtype).itemsize
