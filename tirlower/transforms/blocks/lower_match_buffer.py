"""LowerMatchBuffer: a buffer that names a region of another becomes index arithmetic on that other buffer."""

from __future__ import annotations

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import ALLOC_ALIGNMENT, Buffer, BufferRegion, MatchBufferRegion, Range
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Substituter
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import Bind, Block, BufferStore, For, Stmt
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["LowerMatchBuffer"]


class _Lowerer(Substituter):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__({})
        self.analyzer, _ = analyzer_of(func)
        # What is defined outside the matches is checked, not bound.
        self.defined: set[Var] = set(func.params)
        for buffer in func.buffers:
            self.defined.update(each(Var, *buffer.shape, *buffer.strides, buffer.elem_offset))
        self.matched: dict[Buffer, BufferRegion] = {}
        # Pointers to the start of a region, where the match states no offset: the source's data and the offset.
        self.starts: dict[Var, tuple[Buffer, Expr]] = {}
        self.pointers: dict[Expr, Var] = {}

    def visit_expr(self, root: Expr) -> Expr:
        """Without a match around there is nothing to replace."""
        return super().visit_expr(root) if self.vmap else root

    def visit_Bind(self, op: Bind) -> Stmt:
        self.defined.add(op.var)
        return self.generic(op)

    def visit_For(self, op: For) -> Stmt:
        self.defined.add(op.loop_var)
        if isinstance(op.extent, IntImm) and op.extent.value > 0:
            self.analyzer.bind(op.loop_var, Range(op.min, op.extent), allow_override=True)
            return self.generic(op)
        # That the range is not empty is a fact only inside the loop.
        with self.analyzer.constraint_scope(const(True, "bool")):
            self.analyzer.bind(op.loop_var, Range(op.min, op.extent), allow_override=True)
            return self.generic(op)

    def visit_Block(self, op: Block) -> Stmt:
        with self.analyzer.constraint_scope(const(True, "bool")):
            for it in op.iters:
                self.defined.add(it.var)
                self.analyzer.bind(it.var, it.domain, allow_override=True)
            for match in op.match_buffers:
                self._match(match, op)
            made = self.generic(op.with_(match_buffers=()))
        for match in op.match_buffers:
            del self.matched[match.buffer]
        return made

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        source = self.matched.get(op.buffer)
        if source is None:
            return op
        return op.with_(buffer=source.buffer, indices=self._indices(source, op.indices))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        source = self.matched.get(op.buffer)
        if source is None:
            return op
        return op.with_(buffer=source.buffer, indices=self._indices(source, op.indices))

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """A view of a matched buffer's data becomes a view of the source's, shifted to where the region starts."""
        known = self.buffers.get(buffer)
        if known is None and buffer.data in self.starts:
            outer, offset = self.starts[buffer.data]
            have, need = buffer.dtype.bits * buffer.dtype.lanes, outer.dtype.bits * outer.dtype.lanes
            if have != need:
                raise TransformError(
                    f"the view {buffer.name!r} of a matched buffer's data has dtype {buffer.dtype!s}, not {outer.dtype!s}",
                    help="declare the matched buffer with offset_factor=1, or view the source buffer",
                )
            moved = buffer.with_(data=outer.data, elem_offset=build.add(buffer.elem_offset, offset))
            known = super().map_buffer(moved)
            self.buffers[buffer] = known
        return known if known is not None else super().map_buffer(buffer)

    def visit_Call(self, op: Call) -> Expr:
        """An access pointer is based on the source's data, the start of the region added to its offset."""
        if op.op is not Op.get("tir.tvm_access_ptr") or op.args[1] not in self.pointers:
            return op
        kind, pointer, first, *rest = op.args
        outer, start = self.starts[self.pointers[pointer]]
        have, need = kind.dtype.bits * kind.dtype.lanes, outer.dtype.bits * outer.dtype.lanes
        if have != need:
            return op
        return op.with_(args=(kind, outer.data, build.add(first, start), *rest))

    def visit_BufferRegion(self, op: BufferRegion) -> BufferRegion:
        op = self.generic(op)
        source = self.matched.get(op.buffer)
        if source is None:
            return op
        lead = len(source.region) - len(op.region)
        ranges = [Range(r.min, const(1, r.min.dtype)) for r in source.region[:lead]]
        for outer, inner in zip(source.region[lead:], op.region, strict=True):
            ranges.append(Range(build.add(outer.min, inner.min), inner.extent))
        return BufferRegion(source.buffer, tuple(ranges), span=op.span)

    def _indices(self, source: BufferRegion, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        lead = len(source.region) - len(indices)
        made = [r.min for r in source.region[:lead]]
        made += [build.add(r.min, index) for r, index in zip(source.region[lead:], indices, strict=True)]
        return tuple(made)

    def _match(self, match: MatchBufferRegion, block: Block) -> None:
        """Bind the target's data, offset, strides and shape to what the source region gives."""
        target = match.buffer
        source: BufferRegion = self.visit(match.source)
        outer = source.buffer
        lead = len(source.region) - len(target.shape)
        where = f"match_buffer {target.name!r} of block {block.name!r}"
        if lead < 0:
            raise TransformError(
                f"{where} has {len(target.shape)} dimensions, its source {len(source.region)}", span=match.span
            )
        if target.dtype is not outer.dtype:
            raise TransformError(f"{where} has dtype {target.dtype!s}, its source {outer.dtype!s}", span=match.span)
        if target.scope != outer.scope:
            raise TransformError(f"{where} has scope {target.scope!r}, its source {outer.scope!r}", span=match.span)
        has = outer.align or ALLOC_ALIGNMENT
        if target.align > has:
            raise TransformError(
                f"{where} asks for an alignment of {target.align} bytes, its source has {has}", span=match.span
            )
        for axis, extra in enumerate(source.region[:lead]):
            if not self.analyzer.can_prove_equal(extra.extent, const(1, extra.extent.dtype)):
                raise TransformError(
                    f"{where} drops dimension {axis} of its source, whose extent {extra.extent} is not 1",
                    span=match.span,
                )
        starts = [r.min for r in source.region]
        self._bind(target.data, outer.data, f"{where}: data", match)
        if outer.axis_separators:
            self._bind(target.elem_offset, const(0, target.elem_offset.dtype), f"{where}: elem_offset", match)
        else:
            offset = self.analyzer.simplify(outer.offset_of(starts))
            if isinstance(target.elem_offset, Var) or not is_const_int(target.elem_offset, 0):
                self._bind(target.elem_offset, offset, f"{where}: elem_offset", match)
            elif not is_const_int(offset, 0):
                # No offset is stated: the data variable points to where the region starts.
                self._aligned(target, offset, where, match)
                pointer = build.call("tir.address_of", BufferLoad(outer, tuple(starts)))
                self.vmap[target.data] = pointer
                self.starts[target.data] = (outer, offset)
                self.pointers[pointer] = target.data
            if target.offset_factor > 1 and not self.analyzer.can_prove_equal(
                build.truncmod(offset, const(target.offset_factor, offset.dtype)), const(0, offset.dtype)
            ):
                raise TransformError(
                    f"{where} promises an offset that is a multiple of {target.offset_factor}, the region starts at {offset}",
                    span=match.span,
                )
        if target.strides:
            if outer.strides:
                actual = list(outer.strides[lead:])
            else:
                actual = []
                stride: Expr = const(1, target.strides[-1].dtype)
                for extent in reversed(outer.shape[lead:]):
                    actual.insert(0, stride)
                    stride = build.mul(stride, extent)
            for axis, (name, value) in enumerate(zip(target.strides, actual, strict=True)):
                self._bind(name, value, f"{where}: stride {axis}", match)
        for axis, (extent, r) in enumerate(zip(target.shape, source.region[lead:], strict=True)):
            self._bind(extent, r.extent, f"{where}: extent {axis}", match)
        # Accesses are found by the buffer itself: its data variable is replaced only where it stands alone.
        self.buffers[target] = target
        self.matched[target] = source

    def _aligned(self, target: Buffer, offset: Expr, where: str, match: MatchBufferRegion) -> None:
        """Refuse a stated alignment that the start of the region may not have."""
        size = target.dtype.bytes * target.dtype.lanes
        if target.align <= size:
            return
        start = build.mul(build.cast("int64", offset), const(size, "int64"))
        rest = build.floormod(start, const(target.align, "int64"))
        if not self.analyzer.can_prove_equal(rest, const(0, "int64")):
            raise TransformError(
                f"{where} asks for an alignment of {target.align} bytes, the region starts {offset} elements of {size} "
                "bytes behind the data of its source",
                span=match.span,
                help="state the offset (elem_offset=T.int32()), or the alignment that every region has",
            )

    def _bind(self, name: Expr, value: Expr, what: str, match: MatchBufferRegion) -> None:
        if isinstance(name, Var) and name not in self.vmap and name not in self.defined:
            self.vmap[name] = value if value.dtype is name.dtype else build.cast(name.dtype, value)
            return
        have = self.visit(name)
        if have is value:
            return
        if have.dtype.is_handle or not self.analyzer.can_prove_equal(have, value):
            raise TransformError(f"{what} is declared as {name}, the region gives {value}", span=match.span)


class LowerMatchBuffer(FuncPass):
    """Accesses through a matched region become accesses of the source buffer; ``match_buffers`` go away.

    The variables of the match (data, element offset, strides, extents) are replaced by what the region gives; what
    is declared as a value, or as a variable defined elsewhere, is checked against it. Raises :class:`TransformError`
    where they differ, where the dtype or scope does, where more alignment is asked for than the source has, where a
    dropped leading dimension is not of extent one, or where ``offset_factor`` does not divide. In a pipeline it stands
    after ConvertBlocksToOpaque.

    >>> from tirlower.script import parse
    >>> print(LowerMatchBuffer()(parse('''
    ... @T.prim_func
    ... def fill(A: T.Buffer((8, 8), "float32")):
    ...     for i in range(2):
    ...         with T.block("A"):
    ...             T.reads()
    ...             T.writes(A[i * 4 : i * 4 + 4, 0:8])
    ...             S = T.match_buffer(A[i * 4 : i * 4 + 4, 0:8], (4, 8), offset_factor=8)
    ...             S[1, 2] = T.float32(0)
    ... ''')).script())
    @T.prim_func
    def fill(A: T.Buffer((8, 8), "float32")):
        for i in range(2):
            with T.block("A"):
                T.reads()
                T.writes(A[i * 4:i * 4 + 4, 0:8])
                A[i * 4 + 1, 2] = T.float32(0)
    """

    name = "tir.LowerMatchBuffer"
    stage = Stage.OPAQUE

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower every matched region of a function."""
        return func.with_body(_Lowerer(func).visit(func.body))
