"""The array checks of an entry in LLVM IR: from a Python object to its data pointer, extents and strides.

An exact ``ndarray`` is read through its header; a PyTorch tensor through DLPack's C exchange API, once Python has seen
one (it registers the class). Everything else, and everything not as declared, is left to Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tirlower.call.dtypes import element_type, numpy_dtype
from tirlower.call.signature import BufferParam, Extent, Sym
from tirlower.call.vectorcall import TYPE
from tirlower.emit.llvm_text import I1, I8, I32, I64, PTR, Value, null
from tirlower.llvm.entry import layout
from tirlower.llvm.entry.emit_extents import emit_compound
from tirlower.llvm.entry.entry_frame import Frame
from tirlower.llvm.entry.helpers import COMPACT, WRITTEN

__all__ = ["ArrayFacts", "ArrayReader", "extent_value"]


@dataclass(slots=True)
class ArrayFacts:
    """What the entry knows of one array: its data pointer, and extents and strides (in elements) as ``i64``."""

    data: Value
    dims: list[Value] = field(default_factory=list)
    strides: list[Value] = field(default_factory=list)

    def elements(self, frame: Frame, param: BufferParam) -> Value:
        """The number of elements."""
        total = 1
        dynamic: Value | None = None
        for extent, dim in zip(param.shape, self.dims, strict=True):
            if isinstance(extent, int):
                total *= extent
            else:
                dynamic = dim if dynamic is None else frame.b.mul(dynamic, dim)
        if dynamic is None:
            return frame.b.i64(total)
        return dynamic if total == 1 else frame.b.mul(dynamic, frame.b.i64(total))

    @staticmethod
    def constant_bytes(param: BufferParam) -> int:
        """The size of a compact array whose extents are numbers; 0 for others."""
        size = 0 if param.strides is not None else element_type(param.dtype).itemsize
        for extent in param.shape:
            size *= extent if isinstance(extent, int) else 0
        return size

    def byte_range(self, frame: Frame, param: BufferParam) -> tuple[Value, Value]:
        """The addresses where the array's memory begins and ends (of any use only where it is not empty)."""
        b = frame.b
        itemsize = element_type(param.dtype).itemsize
        start = b.ptrtoint(self.data)
        if param.strides is None:
            return start, b.add(start, b.mul(self.elements(frame, param), b.i64(itemsize)))
        low, high = b.i64(0), b.i64(0)
        for dim, stride in zip(self.dims, self.strides, strict=True):
            last = b.mul(b.sub(dim, b.i64(1)), stride)
            low = b.add(low, b.intrinsic("llvm.smin", I64, [last, b.i64(0)], [I64]))
            high = b.add(high, b.intrinsic("llvm.smax", I64, [last, b.i64(0)], [I64]))
        size = b.i64(itemsize)
        return b.add(start, b.mul(low, size)), b.add(start, b.mul(b.add(high, b.i64(1)), size))


def extent_value(frame: Frame, extent: Extent, env: Mapping[str, Value]) -> Value:
    """An extent as ``i64``; all its symbols must be bound."""
    if isinstance(extent, int):
        return frame.b.i64(extent)
    if isinstance(extent, Sym):
        return frame.as_i64(env[extent.name])
    return frame.as_i64(emit_compound(frame.b, extent, env))


class ArrayReader:
    """Emits the reading of array arguments of one entry."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._tensor: Value | None = None

    def read(self, param: BufferParam, obj: Value) -> ArrayFacts:
        """Check class, rank, dtype, layout, alignment and writeability; extents are for the caller to compare.

        Both arms end with the same facts, in memory that the object owns: the data pointer, the extents (``int64`` in
        both), and the strides, which NumPy counts in bytes and DLPack in elements.
        """
        frame, b = self.frame, self.frame.b
        cls = frame.field(obj, TYPE, PTR)
        as_array, as_tensor, merged = (frame.new_block(name) for name in ("array", "tensor", "read"))
        b.cond_br(b.icmp("eq", cls, frame.slot("ndarray")), as_array, as_tensor)
        frame.enter(as_array)
        from_array = self._read_ndarray(param, obj)
        array_end = b.block
        b.br(merged)
        frame.enter(as_tensor)
        from_tensor = self._read_tensor(param, obj, cls)
        tensor_end = b.block
        b.br(merged)
        frame.enter(merged)
        joined = [
            b.phi(one.type, "", [(one, array_end), (other, tensor_end)])
            for one, other in zip(from_array, from_tensor, strict=True)
        ]
        facts = ArrayFacts(joined[0])
        if param.ndim:
            facts.dims = [frame.field(joined[1], 8 * i, I64) for i in range(param.ndim)]
        if param.ndim and param.strides is not None:
            found = [frame.field(joined[2], 8 * i, I64) for i in range(param.ndim)]
            shift = joined[3]
            facts.strides = [b.ashr(stride, shift) for stride in found]
            wholes = [b.shl(stride, shift) for stride in facts.strides]
            exact = [b.icmp("eq", whole, stride) for whole, stride in zip(wholes, found, strict=True)]
            frame.require(frame.all_of(exact), "strides")
            if param.broadcast:
                # The one element along an axis stands for all that the program reads there.
                pairs = zip(facts.dims, facts.strides, strict=True)
                facts.strides = [b.select(b.icmp("eq", dim, b.i64(1)), b.i64(0), stride) for dim, stride in pairs]
        return facts

    def _read_ndarray(self, param: BufferParam, obj: Value) -> list[Value]:
        """Data, then (where they are needed) the addresses of extents and strides, and log2 of the strides' unit."""
        frame, b = self.frame, self.frame.b
        wanted = layout.ALIGNED | (layout.C_CONTIGUOUS if param.strides is None else 0)
        wanted |= layout.WRITEABLE if param.written else 0
        flags = b.and_(frame.field(obj, layout.FLAGS, I32), b.i32(wanted))
        conds = [
            b.icmp("eq", frame.field(obj, layout.DESCR, PTR), frame.slot(f"dtype:{param.dtype}")),
            b.icmp("eq", frame.field(obj, layout.NDIM, I32), b.i32(param.ndim)),
            b.icmp("eq", flags, b.i32(wanted)),
        ]
        frame.require(frame.all_of(conds), "array")
        facts = [frame.field(obj, layout.DATA, PTR)]
        if param.ndim:
            facts.append(frame.field(obj, layout.DIMS, PTR))
            if param.strides is not None:
                facts.append(frame.field(obj, layout.STRIDES, PTR))
                facts.append(b.i64(element_type(param.dtype).itemsize.bit_length() - 1))
        return facts

    def _read_tensor(self, param: BufferParam, obj: Value, cls: Value) -> list[Value]:
        """The same of a tensor, through the helper that the first tensor of the process made."""
        frame, b = self.frame, self.frame.b
        helper = frame.slot("helper:dlpack")
        frame.require(b.icmp("ne", helper, null()), "known")
        if self._tensor is None:
            self._tensor = b.alloca(I8, layout.DL_SIZE, 8, "tensor")
        natural = numpy_dtype(param.dtype).alignment
        mode = (WRITTEN if param.written else 0) | (COMPACT if param.strides is None else 0)
        expected = [element_type(param.dtype).dlpack, param.ndim, mode, natural - 1]
        args = [obj, cls, self._tensor, *[b.i32(number) for number in expected]]
        frame.require(b.call_pointer(helper, I1, args), "tensor")
        facts = [frame.field(self._tensor, layout.DL_DATA, PTR)]
        if param.ndim:
            facts.append(frame.field(self._tensor, layout.DL_SHAPE, PTR))
            if param.strides is not None:
                facts.append(frame.field(self._tensor, layout.DL_STRIDES, PTR))
                facts.append(b.i64(0))
        return facts
