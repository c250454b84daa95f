"""``transform_layout`` and ``set_axis_separator``: the elements of a buffer at other addresses."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.diagnostics import BadArgument, WellFormedError
from tirlower.ir import build
from tirlower.ir.annotations import BUFFER_DIM_ALIGN
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Kept
from tirlower.ir.index_map import IndexMap
from tirlower.ir.op import Op
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import AllocBuffer, AllocConst, Block, BufferStore, DeclBuffer, For, Stmt
from tirlower.ir.verify import verify_well_formed
from tirlower.poly.bounds import check_bounds
from tirlower.poly.injective import injective, may_pad
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.rewrite.fact_mutator import FactMutator
from tirlower.schedule.edits import edits_between
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.layout_padding import LayoutPadding
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Edit, Forward, Relaid, Site
from tirlower.schedule.step import Step
from tirlower.schedule.uses import UsesOf

__all__ = ["SET_AXIS_SEPARATOR", "TRANSFORM_LAYOUT"]


class _Relaid(FactMutator):
    """Puts a buffer in the place of another one, with its subscripts."""

    def __init__(
        self,
        func: PrimFunc,
        old: Buffer,
        new: Buffer,
        indices: Callable[[list[Expr]], list[Expr]],
        aligned: Callable[[Block], Block],
        uses: UsesOf,
    ) -> None:
        super().__init__(func)
        self.old, self.new, self.indices, self.aligned, self.uses = old, new, indices, aligned, uses

    def visit(self, op: Kept) -> Kept:
        """A node; nests that do not name the buffer are not looked into, and state nothing for what stands behind them."""
        if isinstance(op, (For, Block, BufferStore)) and self.old.data not in self.uses(op).named:
            return op
        return super().visit(op)

    def _moved(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(self.analyzer.simplify(index) for index in self.indices(list(indices)))

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        """A read at its new place."""
        return op.with_(buffer=self.new, indices=self._moved(op.indices)) if op.buffer is self.old else op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        """A write at its new place."""
        made = self.generic(op)
        assert isinstance(made, BufferStore)
        return made.with_(buffer=self.new, indices=self._moved(made.indices)) if op.buffer is self.old else made

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        """The memory itself."""
        return op.with_(buffer=self.new) if op.buffer is self.old else op

    def visit_Block(self, op: Block) -> Stmt:
        """The regions of a block that touches the buffer are those of its body; whole where it declares no more."""
        touched = any(region.buffer is self.old for region in (*op.reads, *op.writes))
        if not touched:
            return super().visit_Block(op)
        whole = BufferRegion(self.new, tuple(Range(build.int32(0), extent) for extent in self.new.shape))
        reads, writes = (
            tuple(whole if region.buffer is self.old else region for region in side) for side in (op.reads, op.writes)
        )
        made = super().visit_Block(op.with_(reads=reads, writes=writes))
        assert isinstance(made, Block)
        return self.aligned(with_regions(made))


def _asked(step: Step) -> tuple[Site, PrimFunc, Buffer, bool]:
    """The function, the buffer, and whether it is a parameter. Refused where not all accesses are seen."""
    stage = step.stage()
    site = Site(stage.site.func)
    func, buffer = step.func(site), step.buffer()
    uses = step.facts.uses(func.body)
    stated = step.facts.declaring(func.body)
    if buffer.data in uses.pointers or any(
        match.source.buffer is buffer or match.buffer is buffer
        for block in stated
        if isinstance(block, Block)
        for match in block.match_buffers
    ):
        step.refuse(f"the memory of {buffer.name} is used by a pointer or a view, whose accesses would stay behind")
    views = [op.buffer for op in stated if isinstance(op, (DeclBuffer, AllocConst))]
    others = [*func.buffers, *(op.buffer for op in stated if isinstance(op, AllocBuffer))]
    shared = any(other is not buffer and other.data is buffer.data for other in others)
    if shared or any(view is buffer or view.data is buffer.data for view in views):
        step.refuse(f"the memory of {buffer.name} has another view, or is a constant")
    if buffer.strides or not (isinstance(buffer.elem_offset, IntImm) and buffer.elem_offset.value == 0):
        step.refuse(f"{buffer.name} has strides or an offset of its own", help="they would have to be laid out anew")
    parameter = buffer in func.buffers
    if parameter and not step["interface"] and step.policy.accept != "tvm":
        step.refuse(
            f"{buffer.name} is a parameter: its layout is what callers are to give",
            help="say interface=True, and give it so; or cache it, and lay out the cache",
        )
    if parameter:
        for name, other in step.state.mod.items():
            if name != site.func and any(not isinstance(call.op, Op) for call in each(Call, other.body)):
                step.refuse(f"{name}, which calls functions of the module, would have to give {buffer.name} so too")
    return site, func, buffer, parameter


def _map(step: Step) -> IndexMap:
    found = step["index_map"]
    assert isinstance(found, IndexMap)
    return found


def _check_layout(step: Step) -> Verdict:
    _, func, buffer, _ = _asked(step)
    index_map = _map(step)
    if len(index_map.initial_indices) != len(buffer.shape):
        raise BadArgument(
            f"{buffer.name} has {len(buffer.shape)} dimensions, the map takes {len(index_map.initial_indices)} indices"
        )
    _inside(step, buffer, index_map)
    if not step["assume_injective_transform"]:
        verdict = injective(step.facts.part(func, step.stage().site.steps), index_map, buffer.shape)
        if not verdict.proved:
            return verdict
    new = _new(step, buffer)
    if may_pad(index_map, buffer.shape):
        verdict = _in_bounds(step, func, buffer)
        if not verdict.proved:
            return verdict
        padding = _padding(step, buffer, new)
        if padding is not None:
            draft, verdict = padding.drafted()
            step.plan = draft, padding
            if not verdict.proved:
                return verdict
    return PROVED


def _new(step: Step, buffer: Buffer) -> Buffer:
    separators = step["axis_separators"]
    assert isinstance(separators, (list, tuple))
    return buffer.with_(shape=tuple(_map(step).map_shape(buffer.shape)), axis_separators=tuple(separators))


def _padding(step: Step, old: Buffer, new: Buffer) -> LayoutPadding | None:
    """What is to be filled; None where nothing is asked for, or there is nothing to fill."""
    if step["pad_value"] is None:
        return None
    made = LayoutPadding.of(step, Site(step.stage().site.func), old, new, _map(step), step["pad_value"])
    return None if made.empty else made


def _in_bounds(step: Step, func: PrimFunc, buffer: Buffer) -> Verdict:
    """Whether all accesses are inside of a buffer: in a layout with padding some that are outside would go unseen."""
    for one in check_bounds(step.facts.scop(func), of={buffer.data}):
        if not one.verdict.proved:
            said = "is" if one.verdict.refuted else "is not known not to be"
            reason = f"{one.access.text} {said} outside of {buffer.name}, and would be in its padding"
            return Verdict("unknown", f"{reason}: {one.verdict.reason}", help="state what its indices are with assume")
    return PROVED


def _inside(step: Step, buffer: Buffer, index_map: IndexMap) -> None:
    """Refuse a map whose indices are not known to lie in the new shape."""
    analyzer = step.analyzer(step.stage().site)
    for var, extent in zip(index_map.initial_indices, buffer.shape, strict=True):
        analyzer.bind(var, Range(const(0, var.dtype), build.cast(var.dtype, extent)))
    for index, extent in zip(index_map.final_indices, index_map.map_shape(buffer.shape), strict=True):
        for held in (build.ge(index, 0), build.lt(index, extent)):
            if not analyzer.can_prove(held):
                step.refuse(f"the index {index} of the map is not known to lie in 0 to {extent}")


def _rewrite_layout(step: Step) -> Change:
    site, func, buffer, parameter = _asked(step)
    index_map = _map(step)
    draft, padding = step.plan if isinstance(step.plan, tuple) else (None, None)
    new = _new(step, buffer) if padding is None else padding.new
    aligned = _aligned(step, new, index_map)
    made, forward = _relaid(step, func if draft is None else draft.func(), buffer, new, index_map.map_indices, aligned)
    if draft is not None:
        draft.change(())  # tells what of the old program is no more
        forward = _one_after_other(step, func, draft.forward, forward)
    interface: dict[Var, Relaid] = {}
    if parameter:
        step.exactness = f"interface({buffer.name}, {index_map})"
        value = None if padding is None else IndexMap(padding.inverse.initial_indices, (padding.value,))
        interface = {param: Relaid(index_map, value) for param, one in func.buffer_map.items() if one is buffer}
    if draft is None and not parameter:
        edits: Edit | tuple[Edit, ...] = edits_between(site / ("body",), func.body, made.body)
    else:
        edits = Edit(site, made)
    return Change(edits, forward, buffers={buffer: new}, interface=interface)


def _one_after_other(step: Step, func: PrimFunc, first: Forward, second: Forward) -> Forward:
    """What became of statements in two rewrites."""
    made = Forward()
    for _, old in step.facts.inside(func.body):
        if old in first.ended:
            made.end(old, *(second.after(one) for one in first.ended[old]))
        else:
            made.keep(old, second.after(first.after(old)))
    return made


def _aligned(step: Step, new: Buffer, index_map: IndexMap) -> Callable[[Block], Block]:
    """Puts the alignments of a buffer's dimensions at their new places; one of a dimension that was taken apart goes."""
    finals, places = index_map.final_indices, dict[int, int]()
    for at, var in enumerate(index_map.initial_indices):
        if var in finals and sum(mentions(one, {var}) for one in finals) == 1:
            places[at] = finals.index(var)

    def aligned(block: Block) -> Block:
        entries = block.annotations.get(BUFFER_DIM_ALIGN)
        if not isinstance(entries, tuple):
            return block
        kept: list[tuple[object, ...]] = []
        for entry in entries:
            assert isinstance(entry, tuple)
            index, axis, *rest = (int(str(one)) for one in entry)
            if index >= len(block.writes) or block.writes[index].buffer is not new:
                kept.append(entry)
            elif axis in places:
                kept.append((index, places[axis], *rest))
            else:
                step.notes.append(f"the alignment of dimension {axis} of {new.name} is no more")
        others = {key: value for key, value in block.annotations.items() if key != BUFFER_DIM_ALIGN}
        return block.with_(annotations={**others, BUFFER_DIM_ALIGN: tuple(kept)} if kept else others)

    return aligned


def _relaid(
    step: Step,
    func: PrimFunc,
    old: Buffer,
    new: Buffer,
    indices: Callable[[list[Expr]], list[Expr]],
    aligned: Callable[[Block], Block] = lambda block: block,
) -> tuple[PrimFunc, Forward]:
    body = _Relaid(func, old, new, indices, aligned, step.facts.uses).visit(func.body)
    forward = Forward()
    forward.like(func.body, body)
    buffers = {param: new if buffer is old else buffer for param, buffer in func.buffer_map.items()}
    made = func.with_(body=body, buffer_map=buffers)
    if old in func.buffers:
        verify_well_formed(made)  # its extents may have been what told symbols
    return made, forward


TRANSFORM_LAYOUT = Kind(
    "TransformLayout",
    "transform_layout",
    (
        Slot("block", Takes.STAGE),
        Slot("buffer", Takes.BUFFER, attr=True),
        Slot("index_map", Takes.INDEX_MAP, of="buffer"),
        Slot("pad_value", Takes.EXPR, default=None, attr=True, of="index_map"),
        Slot("assume_injective_transform", Takes.FLAG, default=False, attr=True),
        Slot("axis_separators", Takes.INTEGERS, default=(), extra=True),
        Slot("interface", Takes.FLAG, default=False, extra=True),
    ),
    _rewrite_layout,
    """Lay a buffer out anew: the element of some indices stands at what the map gives for them, in all of the function.

    Legal where no two elements come to one place, and no view or pointer escapes. A parameter is laid out anew only with
    ``interface=True``: callers then give it so. The map is a function of indices, with ``IndexMap.AXIS_SEPARATOR`` where
    groups of dimensions are to be flattened apart. Where the new shape has room that no element comes to, all accesses must be
    known to be inside of the old one.

    ``pad_value`` is written to that room: a number, an expression, or a function of the new indices, which may load the buffer itself (at its old
    indices). The nest that writes all of the buffer writes it too, else a nest of its own behind the last writer; of a parameter that is only
    read it is what callers are to give, stated by ``T.assume``.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    ...     C = T.alloc_buffer((8, 8), "int32")
    ...     for i, j in T.grid(8, 8):
    ...         C[i, j] = A[i, j]
    ...     for i, j in T.grid(8, 8):
    ...         B[i, j] = C[i, j]
    ... '''))
    >>> sch.transform_layout("C", "C", lambda i, j: [i // 4, j, i % 4])
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
        C = T.alloc_buffer((2, 8, 4), "int32")
        for i, j in T.grid(8, 8):
            C[i // 4, j, i % 4] = A[i, j]
        for i, j in T.grid(8, 8):
            B[i, j] = C[i // 4, j, i % 4]
    """,
    check=_check_layout,
)


def _separated(step: Step) -> tuple[Site, PrimFunc, Buffer, Buffer, bool]:
    site, func, buffer, parameter = _asked(step)
    separators = step["axis_separators"]
    assert isinstance(separators, (list, tuple))
    try:
        new = buffer.with_(axis_separators=tuple(int(str(one)) for one in separators))
    except WellFormedError as error:
        raise BadArgument(error.message) from error
    return site, func, buffer, new, parameter


def _check_separators(step: Step) -> Verdict:
    _separated(step)
    return PROVED


def _rewrite_separators(step: Step) -> Change:
    site, func, buffer, new, parameter = _separated(step)
    made, forward = _relaid(step, func, buffer, new, lambda indices: indices)
    if parameter:
        step.exactness = f"interface({buffer.name}, axis separators)"
    return Change(Edit(site, made), forward, buffers={buffer: new})


SET_AXIS_SEPARATOR = Kind(
    "SetAxisSeparator",
    "set_axis_separator",
    (
        Slot("block", Takes.STAGE),
        Slot("buffer", Takes.BUFFER, attr=True),
        Slot("axis_separators", Takes.INTEGERS, attr=True),
        Slot("interface", Takes.FLAG, default=False, extra=True),
    ),
    _rewrite_separators,
    """Say where the dimensions of a buffer part into groups, each of which is flattened by itself.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 8), "int32")):
    ...     C = T.alloc_buffer((8, 8), "int32")
    ...     for i, j in T.grid(8, 8):
    ...         C[i, j] = A[i, j]
    ... '''))
    >>> sch.set_axis_separator("C", "C", [1])
    >>> sch.get(sch.buffer("C")).axis_separators
    (1,)
    """,
    check=_check_separators,
)
