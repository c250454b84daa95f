"""Forms over regions of buffers that TIR has as nodes: ``T.realize`` and ``T.prefetch``."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Expr, ExprLike, Var, is_const_int
from tirlower.ir.op import Op
from tirlower.ir.stmt import Evaluate, For, ForKind, Stmt
from tirlower.script.builder import Builder
from tirlower.script.forms import Frame, Sliced, as_region
from tirlower.script.operators import OpFunction
from tirlower.script.scope import active

__all__ = ["prefetch", "realize"]

LINE = 64
"""The bytes that one prefetch fetches: a line of every CPU that this is compiled for."""
_PREFETCH = OpFunction(Op.get("tir.prefetch"))


class _Realize(Frame):
    __slots__ = ("condition", "region", "scope")
    what = "T.realize"

    def __init__(self, region: BufferRegion, scope: str, condition: ExprLike) -> None:
        super().__init__()
        self.region = region
        self.scope = scope
        self.condition = condition

    def enter(self, builder: Builder, name: str | None) -> None:
        buffer = self.region.buffer
        func = builder.need_function(self.what)
        if buffer.data in func.data_buffers or buffer in func.buffer_map.values():
            raise TirError(
                f"T.realize gives buffer {buffer.name!r} memory, which it has already",
                help="declare the buffer without memory: B = T.Buffer(shape, dtype)",
            )
        if self.scope and self.scope != buffer.scope:
            # Nothing uses the buffer yet: its declaration said no scope.
            buffer.scope = self.scope
            buffer.data.type = PointerType(buffer.data.type.element, self.scope)
        builder.allocate(buffer, self.condition)


def realize(buffer_slice: object, storage_scope: str = "", condition: ExprLike = True) -> Frame:
    """Memory for a buffer that was declared without any (``B = T.Buffer(shape, dtype)``), in a storage scope.

    The region says which part of the buffer is accessed; indices are those of the whole buffer, which the memory holds.
    It lasts for the rest of the scope, or the body of the ``with``. Raises :class:`TirError` for a buffer with memory.
    """
    return _Realize(as_region(buffer_slice, "T.realize"), str(storage_scope), condition)


def prefetch(
    buffer: ExprLike | Buffer | BufferRegion | Sliced,
    *args: ExprLike | Sequence[Range | ExprLike | tuple[ExprLike, ExprLike]],
) -> Expr | None:
    """``T.prefetch(address, rw, locality, kind)``, the operation; ``T.prefetch(B, bounds)`` fetches a region ahead.

    ``bounds`` are ranges (or pairs of a first index and an extent); without them the buffer, or the region given, is
    fetched whole. Each line of 64 bytes of a row is asked for once, for reading, into all caches.
    """
    if not isinstance(buffer, (Buffer, BufferRegion, Sliced)):
        return _PREFETCH(buffer, *args)  # type: ignore[arg-type]
    region = as_region(buffer, "T.prefetch")
    if args:
        given = args[0]
        if not isinstance(given, Sequence):
            raise TirError(f"the bounds of T.prefetch are a list of ranges, got {type(given).__name__}")
        bounds = [_range_of(bound) for bound in given]
        if len(args) > 1 or len(bounds) != len(region.buffer.shape):
            raise TirError(
                f"T.prefetch takes a buffer and its {len(region.buffer.shape)} ranges, got {len(bounds)} of them"
            )
        region = BufferRegion(region.buffer, tuple(bounds))
    builder = active("T.prefetch")
    builder.emit(_fetched(region))
    return None


def _range_of(bound: object) -> Range:
    if isinstance(bound, Range):
        return bound
    if isinstance(bound, (tuple, list)) and len(bound) == 2:
        return Range.from_min_extent(bound[0], bound[1])
    raise TirError(f"the bounds of T.prefetch are ranges, got {type(bound).__name__}", help="write T.Range(begin, end)")


def _fetched(region: BufferRegion) -> Stmt:
    """Loops over the lines of a region, each of which is fetched."""
    buffer = region.buffer
    step = max(LINE // max(buffer.dtype.bytes * buffer.dtype.lanes, 1), 1)
    loops: list[tuple[Var, Expr]] = []
    indices: list[Expr] = []
    for axis, part in enumerate(region.region):
        stride = step if axis == len(region.region) - 1 else 1
        extent = build.ceildiv(part.extent, stride) if stride > 1 else part.extent
        if is_const_int(extent, 1):
            indices.append(part.min)
            continue
        var = Var(f"ax{axis}", extent.dtype)
        loops.append((var, extent))
        indices.append(build.add(part.min, build.mul(var, stride)))
    address = build.call("tir.address_of", BufferLoad(buffer, tuple(indices)))
    body: Stmt = Evaluate(build.call("tir.prefetch", address, 0, 3, 1))
    for var, extent in reversed(loops):
        body = For(var, build.const(0, extent.dtype), extent, ForKind.SERIAL, None, {}, body)
    return body
