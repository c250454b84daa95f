"""The header of a block in the imperative builder: iterators, predicate, regions, init, annotations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias, Unpack

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import (
    Buffer,
    BufferOptions,
    BufferRegion,
    IterKind,
    MatchBufferRegion,
    Range,
    Shape,
    decl_buffer,
)
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Expr, ExprLike, Ramp, Var, as_expr, const
from tirlower.ir.regions import block_access_regions
from tirlower.ir.stmt import AllocBuffer, Block, BlockIter, Seq, Stmt

if TYPE_CHECKING:
    from tirlower.ir.builder import IRBuilder

__all__ = ["BlockBuilder"]


Domain: TypeAlias = "ExprLike | Range | tuple[ExprLike, ExprLike]"
"""An extent, a range, or a pair of ends."""


class BlockBuilder:
    """What ``with ib.block(name) as block:`` gives: states the header of the block around it.

    Regions that are not stated are inferred from the accesses in the body.
    """

    def __init__(self, builder: IRBuilder, name: str) -> None:
        self.name = name
        self._builder = builder
        self._iters: list[BlockIter] = []
        self._predicate: Expr = as_expr(True)
        self._reads: list[BufferRegion] | None = None
        self._writes: list[BufferRegion] | None = None
        self._init: Stmt | None = None
        self._matches: list[MatchBufferRegion] = []
        self._annotations: dict[str, object] = {}

    def axis(self, kind: IterKind | str, domain: Domain, value: ExprLike, name: str | None = None) -> Var:
        """An iterator over an extent, a range or a pair (begin, end), bound to a value."""
        if isinstance(domain, tuple):
            first, last = build.match_types(*build.operands(*domain))
            domain = Range(first, build.sub(last, first))
        elif not isinstance(domain, Range):
            domain = Range.from_extent(domain)
        bound = as_expr(value)
        dtype = bound.dtype if domain.extent.dtype.bits < bound.dtype.bits else domain.extent.dtype
        if name is None:
            name = f"v{bound.name}" if isinstance(bound, Var) else f"v{len(self._iters)}"
        var = Var(name, dtype)
        domain = Range(build.cast(dtype, domain.min), build.cast(dtype, domain.extent))
        self._iters.append(BlockIter(var, domain, IterKind(kind), build.cast(dtype, bound)))
        return var

    def spatial(self, domain: Domain, value: ExprLike, name: str | None = None) -> Var:
        """An iterator whose instances are independent."""
        return self.axis(IterKind.SPATIAL, domain, value, name)

    def reduce(self, domain: Domain, value: ExprLike, name: str | None = None) -> Var:
        """An iterator whose instances combine into one result."""
        return self.axis(IterKind.REDUCE, domain, value, name)

    def where(self, condition: ExprLike) -> None:
        """Run only the instances for which this holds (in terms of what is outside the block)."""
        self._predicate = build.logical_and(self._predicate, condition)

    def reads(self, *regions: object) -> None:
        """State what the block reads: regions, buffers, or accesses such as ``A[vi, 0:4]``."""
        self._reads = [*(self._reads or []), *[_region(r) for r in regions]]

    def writes(self, *regions: object) -> None:
        """State what the block writes."""
        self._writes = [*(self._writes or []), *[_region(r) for r in regions]]

    def block_attr(self, key: str, value: object) -> None:
        """Annotate the block."""
        self._annotations[key] = value

    def match(
        self,
        source: object,
        name: str,
        shape: Shape,
        dtype: DataType | str | None = None,
        **options: Unpack[BufferOptions],
    ) -> Buffer:
        """A buffer that names a region of another one inside the block."""
        region = _region(source)
        options.setdefault("scope", region.buffer.scope)
        buffer = decl_buffer(shape, dtype or region.buffer.dtype, name, **options)
        self._matches.append(MatchBufferRegion(buffer, region))
        return buffer

    @contextlib.contextmanager
    def init(self) -> Iterator[None]:
        """The statements that run before the first instance of a reduction."""
        if self._init is not None:
            raise TirError(f"block {self.name!r} has an init already")
        with self._builder._scope():
            yield
            self._init = self._builder._close()

    def finish(self, body: Stmt) -> Block:
        """The block, with the missing regions inferred. Raises :class:`TirError` where an access is opaque."""
        block = Block(
            self.name,
            tuple(self._iters),
            self._predicate,
            tuple(self._reads or ()),
            tuple(self._writes or ()),
            self._init,
            tuple(self._matches),
            self._annotations,
            body,
        )
        if self._reads is not None and self._writes is not None:
            return block
        found = block_access_regions(block)
        own = {stmt.buffer for stmt in (body.stmts if isinstance(body, Seq) else (body,)) if type(stmt) is AllocBuffer}
        opaque = [buffer.name for buffer in found.opaque if buffer not in own]
        if opaque:
            raise TirError(
                f"block {self.name!r} uses {', '.join(opaque)} through a pointer, so its regions are not known",
                help="state them with reads(...) and writes(...)",
            )
        return block.with_(
            reads=block.reads if self._reads is not None else found.reads,
            writes=block.writes if self._writes is not None else found.writes,
        )


def _region(value: object) -> BufferRegion:
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, Buffer):
        return value.region()
    if isinstance(value, BufferLoad):
        ranges = []
        for index in value.indices:
            if isinstance(index, Ramp) and isinstance(index.lanes, int) and build.is_positive_const(index.stride):
                span = (index.lanes - 1) * index.stride.value + 1  # type: ignore[attr-defined]
                ranges.append(Range(index.base, const(span, index.base.dtype)))
            else:
                ranges.append(Range(index, const(1, index.dtype)))
        return BufferRegion(value.buffer, tuple(ranges))
    raise TirError(f"a region is a buffer or an access of one, got {value!r}")
