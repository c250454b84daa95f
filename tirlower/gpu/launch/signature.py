"""What a call takes: the signature of a prim func whose arrays are in device memory, and which of them it writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.call.parameters import signature_with_symbols
from tirlower.call.signature import Signature
from tirlower.diagnostics import deep_recursion
from tirlower.ir.buffer import MatchBufferRegion
from tirlower.ir.expr import BufferLoad, Call, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.op import Op, Purity
from tirlower.ir.stmt import BufferStore

__all__ = ["device_signature", "written_data"]

VECTOR_ALIGN: Final = 16
"""Bytes to which kernels expect arrays to be aligned unless their buffers say otherwise: the longest access."""

# Operations that only read through a pointer, by the positions of those arguments.
_READS: Final[dict[str, tuple[int, ...]]] = {
    "tir.ptx_cp_async": (2,),
    "tir.ptx_cp_async_bulk": (2,),
    "tir.ptx_cp_async_bulk_tensor": (2,),
    "tir.ptx_ldg32": (2,),
    "tir.prefetch": (0,),
    "tir.isnullptr": (0,),
}
_ADDRESS: Final = Op.get("tir.address_of")
_ACCESS: Final = Op.get("tir.tvm_access_ptr")


class _Writes(Visitor):
    """The data variables that a function writes through, or lets out to what may write."""

    def __init__(self) -> None:
        self.found: set[Var] = set()
        self.sources: dict[Var, Var] = {}

    def visit_MatchBufferRegion(self, op: MatchBufferRegion) -> None:
        self.sources[op.buffer.data] = op.source.buffer.data

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.found.add(op.buffer.data)
        self.generic(op)

    def visit_Call(self, op: Call) -> None:
        if op.op is _ACCESS:
            mask = op.args[4]
            if isinstance(op.args[1], Var) and not (isinstance(mask, IntImm) and not mask.value & 2):
                self.found.add(op.args[1])
            return
        callee = op.op
        if callee is _ADDRESS or (isinstance(callee, Op) and callee.purity <= Purity.READS):
            return
        reads = _READS.get(callee.name, ()) if isinstance(callee, Op) else ()
        for position, arg in enumerate(op.args):
            if position in reads:
                continue
            if isinstance(arg, Var) and arg.dtype.is_handle:
                self.found.add(arg)
            elif isinstance(arg, Call) and arg.op is _ADDRESS and isinstance(arg.args[0], BufferLoad):
                self.found.add(arg.args[0].buffer.data)


def written_data(func: PrimFunc) -> set[Var]:
    """The data variables through which a function writes, as far as its own statements say."""
    finder = _Writes()
    with deep_recursion():
        finder.visit(func.body)
    found = set(finder.found)
    for var in finder.found:
        while var in finder.sources:
            var = finder.sources[var]
            found.add(var)
    return found


def device_signature(
    func: PrimFunc, outputs: Sequence[str] = (), written: set[Var] | None = None
) -> tuple[Signature, tuple[Var, ...]]:
    """The signature of a prim func as it was given to the build, and the variables of its symbols.

    ``outputs`` are named, or those of ``tir.outputs``; ``written`` are the data variables of its buffers that are written,
    where its own body does not say. Raises :class:`LoweringError` as
    :func:`~tirlower.call.parameters.signature_with_symbols` does.
    """
    writes = written_data(func) if written is None else written
    return signature_with_symbols(func.name, func, writes, outputs, None, alignment=VECTOR_ALIGN, integral=False)
