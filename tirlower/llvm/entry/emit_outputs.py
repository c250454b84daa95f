"""Outputs that a call allocates, in LLVM IR: through NumPy's C functions, aligned to 64 bytes."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.call.bind import OUTPUT_ALIGNMENT
from tirlower.call.dtypes import element_type
from tirlower.call.rules import MAX_OUTPUT_BYTES
from tirlower.call.signature import BufferParam
from tirlower.emit.llvm_text import I1, I64, PTR, Value, array, struct
from tirlower.llvm.entry.emit_arrays import extent_value
from tirlower.llvm.entry.entry_frame import Frame

__all__ = ["OutputMaker"]


class OutputMaker:
    """Emits the allocation of an entry's outputs: sizes first (Python may still take over), then the arrays."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._sizes: dict[str, tuple[Value, Value]] = {}

    def measure(self, param: BufferParam, env: Mapping[str, Value]) -> Value:
        """Compute extents and size of an output; negative or gigantic ones are Python's to refuse. Gives the size."""
        frame, b = self.frame, self.frame.b
        dims = b.alloca(array(max(1, param.ndim), I64), align=8, name="dims")
        total = b.i64(element_type(param.dtype).itemsize)
        conds: list[Value] = []
        for axis, extent in enumerate(param.shape):
            value = extent_value(frame, extent, env)
            b.store(value, b.gep(I64, dims, axis), 8)
            # As an unsigned number a negative extent is gigantic, unless it is multiplied by zero.
            product = b.intrinsic("llvm.umul.with.overflow", struct(I64, I1), [total, value], [I64])
            total = b.extract_value(product, 0)
            conds.append(b.not_(b.extract_value(product, 1)))
            if not isinstance(extent, int):
                conds.append(b.icmp("sge", value, b.i64(0)))
        conds.append(b.icmp("ule", total, b.i64(MAX_OUTPUT_BYTES)))
        frame.require(frame.all_of(conds), "measured")
        self._sizes[param.name] = dims, total
        return total

    def allocate(self, param: BufferParam) -> Value:
        """A new array for a measured output: an ``ndarray`` object, or null with an error set."""
        dims, total = self._sizes[param.name]
        b = self.frame.b
        alignment = b.i64(max(OUTPUT_ALIGNMENT, param.alignment))
        descr = self.frame.slot(f"dtype:{param.dtype}")
        helper = self.frame.slot("helper:allocate")
        return b.call_pointer(helper, PTR, [descr, b.i32(param.ndim), dims, total, alignment])
