"""A part of a buffer in memory of its own while a statement runs: what its accesses touch, the copies in and out, and the
accesses in between redirected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument, NotFound, TirError, nearest_name
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind, Range
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Select, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.path import Path
from tirlower.ir.query import each, has, mentions
from tirlower.ir.stmt import (
    AllocBuffer,
    Assert,
    Block,
    BlockIter,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Stmt,
    While,
)
from tirlower.poly.footprint import Footprint, times
from tirlower.poly.scop import Access
from tirlower.poly.verdict import Verdict
from tirlower.schedule.draft import Draft, Made, mapped, with_headers
from tirlower.schedule.expressions import expression, names_at, parts_of
from tirlower.schedule.places import blocks_at, headers, loads_in, loops_at, using
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Steps
from tirlower.schedule.step import Step

__all__ = [
    "Box",
    "Candidates",
    "Staged",
    "box_of",
    "buffer_named",
    "copy_nest",
    "no_pointers",
    "redirect",
    "stage",
    "touched_under",
    "window_of",
]


def buffer_named(step: Step, func: PrimFunc, given: object, under: Steps = ("body",)) -> Buffer:
    """The buffer of a name that is accessed under a place (the first one, where several have the name), or the buffer that is given.
    Raises :class:`NotFound`."""
    root = Path(under).chain(func)[-1]
    assert isinstance(root, Stmt)
    known: dict[str, Buffer] = {}
    for buffer in _accessed(step, root):
        if buffer is given or buffer.name == given:
            return buffer
        known[buffer.name] = buffer
    if isinstance(given, Buffer):
        raise NotFound(f"the buffer {given.name!r} is not accessed there", help=f"accessed are: {', '.join(known)}")
    near = nearest_name(str(given), known)
    raise NotFound(
        f"no buffer {given!r} is accessed there",
        help=f"did you mean {near!r}?" if near else f"accessed are: {', '.join(known) or 'none'}",
    )


def _accessed(step: Step, root: Stmt) -> Iterator[Buffer]:
    for _, stmt in step.facts.inside(root):
        if isinstance(stmt, BufferStore):
            yield stmt.buffer
        for child in stmt.children():
            if isinstance(child, Expr):
                yield from (load.buffer for load in each(BufferLoad, child))


def touched_under(step: Step, func: PrimFunc, buffer: Buffer, path: Steps) -> list[Access]:
    """The accesses of a buffer under a place."""
    root = Path(path).chain(func)[-1]
    assert isinstance(root, Stmt)
    inside = {id(stmt) for _, stmt in step.facts.inside(root)}
    scop = step.facts.part(func, path)
    found = [a for a in scop.accesses if a.data is buffer.data and id(a.statement.node) in inside]
    for access in found:
        if access.buffer is not buffer or access.indices is None:
            step.refuse(
                f"{access.text} sees the memory of {buffer.name} another way, which cannot be redirected",
                access.statement.node,
            )
    return found


@dataclass(frozen=True)
class Box:
    """The box around what is touched: where it starts, how wide it may be, and (where that is less) how wide it is.

    ``ends`` are those of the buffer, in the dimensions in which a box that is touched under conditions may lie outside of it. ``masks`` are
    conditions on the ``axes``, which count from the start, under which alone something is touched.
    """

    mins: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    widths: tuple[Expr | None, ...]
    ends: tuple[Expr | None, ...] = ()
    masks: tuple[Expr, ...] = ()
    axes: tuple[Var, ...] = ()

    @classmethod
    def of(cls, ranges: Sequence[Range]) -> Box:
        """A box of given ranges."""
        return cls(tuple(x.min for x in ranges), tuple(x.extent for x in ranges), (None,) * len(ranges))

    def room(self, dim: int) -> Expr:
        """A width of a dimension: a constant, if there is one that is enough, else how wide it is."""
        width = self.widths[dim]
        return self.shape[dim] if width is None or isinstance(self.shape[dim], IntImm) else width

    def inside(self, axes: Sequence[Expr]) -> Expr | None:
        """Whether indices that count from the start are in it; None where all within the shape are."""
        parts = [
            build.lt(axis, build.cast(axis.dtype, width))
            for axis, width in zip(axes, self.widths, strict=True)
            if width is not None
        ]
        for axis, low, end in zip(axes, self.mins, self.ends, strict=False):
            if end is not None:
                at = build.add(low, build.cast(low.dtype, axis))
                parts += [build.ge(at, 0), build.lt(at, build.cast(at.dtype, end))]
        parts += [substitute(mask, dict(zip(self.axes, axes, strict=True))) for mask in self.masks]
        return reduce(build.logical_and, parts) if parts else None


def box_of(step: Step, func: PrimFunc, buffer: Buffer, path: Steps, accesses: Sequence[Access]) -> Box:
    """The box around what accesses touch at a place, in terms of the loops around it."""
    scop = step.facts.part(func, path)
    around = {loop.loop_var for _, loop in loops_at(func, path)}
    fixed = [loop for loop in scop.loops if loop.var in around]
    analyzer = Analyzer()
    for loop in fixed:
        assert isinstance(loop.node, For)
        analyzer.bind(loop.var, Range(loop.node.min, loop.node.extent))
    try:
        touched = Footprint(scop, buffer, fixed, accesses)
        box, widths = touched.box, touched.extents
    except TirError as error:
        step.refuse(f"what is touched of {buffer.name} has no box: {error.message}", help=error.help)
    mins: list[Expr] = []
    shape: list[Expr] = []
    exact: list[Expr | None] = []
    ends: list[Expr | None] = []
    always = _always_touched(step, func, path, accesses, around)
    guarded = not always and any(access.conditions for access in accesses)
    steady = touched.steady if always else (False,) * len(widths)
    for part, width, extent, one in zip(box, widths, buffer.shape, steady, strict=True):
        low = analyzer.simplify(part.min)
        size = analyzer.simplify(part.extent)
        room: Expr = const(width, low.dtype) if width is not None else size
        size = room if one else size  # so wide in all iterations, which the expression need not show
        if mentions(room, {loop.var for loop in fixed}):
            room = extent  # memory of one shape in all iterations
        if isinstance(low, IntImm) and low.value == 0 and analyzer.can_prove(build.eq(size, extent)):
            room = size = extent
        mins.append(low)
        shape.append(room)
        exact.append(None if room is size or analyzer.can_prove(build.eq(room, size)) else size)
        # Where a condition of the loops around fails nothing is touched, and the box is anywhere.
        end = build.cast(low.dtype, extent)
        held = guarded and exact[-1] is None and not _between(analyzer, low, build.cast(low.dtype, room), end)
        ends.append(end if held else None)
    return Box(tuple(mins), tuple(shape), tuple(exact), tuple(ends))


def _always_touched(
    step: Step, func: PrimFunc, path: Steps, accesses: Sequence[Access], around: Collection[Var]
) -> bool:
    """Whether something is touched whenever a place runs: no condition stands under it, and an access is in loops that run."""
    root = Path(path).chain(func)[-1]
    assert isinstance(root, Stmt)
    for _, stmt in step.facts.inside(root):
        if isinstance(stmt, _CONDITIONAL) or any(has(Call, one) or has(Select, one) for one in headers(stmt)):
            return False
        if isinstance(stmt, Block) and (stmt.init is not None or not is_const_int(stmt.predicate, 1)):
            return False
    return any(all(times(loop) for loop in access.loops if loop.var not in around) for access in accesses)


_CONDITIONAL = (IfThenElse, While, Assert, Evaluate)


def _between(known: Analyzer, low: Expr, room: Expr, end: Expr) -> bool:
    """Whether all that begins somewhere lies in a dimension."""
    return known.can_prove(build.ge(low, 0)) and known.can_prove(build.le(build.add(low, room), end))


def redirect(
    draft: Draft,
    buffer: Buffer,
    target: Buffer,
    path: Steps,
    indices: Callable[[Sequence[Expr]], Sequence[Expr]],
    *,
    loads: bool = True,
    stores: bool = True,
    only: Callable[[Stmt], bool] = lambda stmt: True,
) -> None:
    """All accesses of a buffer under a place access another one, at other indices. What a block needs of the loops around it
    for these is bound to iterators of its own."""
    root = draft.stmt(path)
    draft.renamed[buffer] = target
    binders: dict[Steps, _Binder] = {}

    for way, stmt in using(draft.step.facts, root, buffer):
        writes = isinstance(stmt, BufferStore) and stmt.buffer is buffer and stores
        if not only(stmt) or not (writes or (loads and loads_in(stmt, buffer))):
            continue
        place = (*path, *way)
        around = blocks_at(draft.old, place)
        binder = None
        if around:
            at = around[-1][0]
            if at not in binders:
                binders[at] = _Binder(draft, at, around[-1][1], target)
            binder = binders[at]

        def rewritten(old: Stmt, stmt: Stmt = stmt, writes: bool = writes, binder: _Binder | None = binder) -> Stmt:
            def new_indices(given: Sequence[Expr]) -> tuple[Expr, ...]:
                found = tuple(indices(given))
                return found if binder is None else tuple(binder.bound(n, at) for n, at in enumerate(found))

            def replace(load: BufferLoad, new: BufferLoad) -> Expr:
                made = new
                if load.buffer is buffer and loads:
                    made = BufferLoad(target, new_indices(new.indices), new.predicate, span=new.span)
                return draft.load(made, stmt, load)

            made = with_headers(old, lambda expr: mapped(expr, replace))
            if writes:
                assert isinstance(made, BufferStore)
                made = made.with_(buffer=target, indices=new_indices(made.indices))
            return made

        draft.header(place, rewritten)
    for at, binder in binders.items():
        draft.header(at, binder.finished, then=True)


class _Binder:
    """New iterators of a block for what its accesses need of the loops around it."""

    def __init__(self, draft: Draft, path: Steps, block: Block, target: Buffer) -> None:
        self.draft = draft
        self.block = block
        self.target = target
        self.values = {it.var: it.value for it in block.iters if it.value is not None}
        self.outside = {loop.loop_var for _, loop in loops_at(draft.old, path)}
        self.around = around = blocks_at(draft.old, path)
        self.hidden = {loop.loop_var for _, loop in loops_at(draft.old, around[-1][0])} if around else set[Var]()
        self.known = Analyzer()
        for _, loop in loops_at(draft.old, path):
            self.known.bind(loop.loop_var, Range(loop.min, loop.extent))
        self.made: dict[str, BlockIter] = {}
        self.names = {it.var.name for it in block.iters}

    def bound(self, dim: int, index: Expr) -> Expr:
        """An index that only names what the block may name."""
        if not mentions(index, self.outside):
            return index
        value = self.known.simplify(substitute(index, self.values))
        if mentions(value, self.hidden):
            self.draft.step.refuse(f"what {self.target.name} starts at is not known inside of the block", self.block)
        if isinstance(value, IntImm):
            return value
        free = set(each(Var, value))
        if not free <= self.outside | self._iterators():
            self.draft.step.refuse(
                f"the index {value} of {self.target.name} mixes loops inside and outside of the block", self.block
            )
        key = f"{dim}:{value}"
        found = self.made.get(key)
        if found is None:
            name = f"v{value.name}" if isinstance(value, Var) else f"v{dim}_{self.target.name}"
            while name in self.names:
                name += "_"
            self.names.add(name)
            reduced = {
                var for it in self.block.iters if it.kind is IterKind.REDUCE and it.value is not None
                for var in each(Var, it.value)
            }  # fmt: skip
            # The init runs where all iterators of the sum begin: what moves with other loops too is none of them.
            sums = mentions(value, reduced) and (self.block.init is None or free <= reduced)
            kind = IterKind.REDUCE if sums else IterKind.SPATIAL
            domain = Range(const(0, value.dtype), build.cast(value.dtype, self.target.shape[dim]))
            found = self.made[key] = BlockIter(Var(name, value.dtype), domain, kind, value)
        return found.var

    def _iterators(self) -> set[Var]:
        """The iterators of the blocks around."""
        return {it.var for _, block in self.around for it in block.iters}

    def finished(self, block: Stmt) -> Stmt:
        """The block with the new iterators."""
        assert isinstance(block, Block)
        return with_regions(block.with_(iters=(*block.iters, *self.made.values())), renamed=self.draft.renamed)


def copy_nest(
    target: Buffer,
    source: Buffer,
    extents: Sequence[Expr],
    to: Callable[[Sequence[Var]], Sequence[Expr]],
    of: Callable[[Sequence[Var]], Sequence[Expr]],
    *,
    names: Sequence[str] = (),
    where: Callable[[Sequence[Var]], Expr | None] = lambda axes: None,
    value: Callable[[Sequence[Var], Expr], Expr] = lambda axes, load: load,
) -> tuple[Stmt, BufferStore]:
    """Loops that copy elements of one buffer to another; and the store in them."""
    axes = [Var(names[n] if names else f"ax{n}", extent.dtype) for n, extent in enumerate(extents)]
    load = BufferLoad(source, tuple(of(axes)))
    store = BufferStore(target, value(axes, load), tuple(to(axes)))
    condition = where(axes)
    nest: Stmt = store if condition is None else IfThenElse(condition, store)
    for axis, extent in zip(reversed(axes), reversed(extents), strict=True):
        nest = For(axis, const(0, axis.dtype), extent, ForKind.SERIAL, None, {}, nest)
    return nest, store


@dataclass(frozen=True)
class Staged:
    """A drafted stage: the new buffer, its copies in and out (None where there are none)."""

    draft: Draft
    buffer: Buffer
    load: Stmt | None
    store: Stmt | None


def stage(
    step: Step,
    func_name: str,
    path: Steps,
    buffer: Buffer,
    box: Box,
    *,
    name: str,
    scope: str,
    load: bool,
    store: bool,
    unless: Expr | None = None,
) -> Staged:
    """A part of a buffer in memory of its own around a statement. ``unless``: where it is not loaded."""
    draft = Draft(step, func_name)
    # A block without iterators, such as those around parts of loops, sees the loops around it.
    blocks = [found for found in blocks_at(draft.old, path) if found[1].iters]
    if blocks and any(mentions(low, {x.loop_var for _, x in loops_at(draft.old, blocks[-1][0])}) for low in box.mins):
        step.refuse(f"what is touched of {buffer.name} depends on loops around the block", blocks[-1][1])
    target = Buffer(name, box.shape, buffer.dtype, scope=scope)
    mins = box.mins
    known = Analyzer()
    for _, loop in loops_at(draft.old, path):
        known.bind(loop.loop_var, Range(loop.min, loop.extent))

    def inner(indices: Sequence[Expr]) -> list[Expr]:
        return [
            known.simplify(build.sub(index, build.cast(index.dtype, low)))
            for index, low in zip(indices, mins, strict=True)
        ]

    def outer(axes: Sequence[Var]) -> list[Expr]:
        return [build.add(low, axis) for low, axis in zip(mins, axes, strict=True)]

    redirect(draft, buffer, target, path, inner)
    nests: list[Stmt | None] = [None, None]
    if load:
        nest, copied = copy_nest(target, buffer, box.shape, list, outer, where=box.inside)
        draft.copy(copied)
        if unless is not None:
            nest = IfThenElse(build.logical_not(unless), nest)
        nests[0] = nest
    if store:
        nests[1], copied = copy_nest(buffer, target, box.shape, outer, list, where=box.inside)
        draft.copy(copied)
    draft.before(path, AllocBuffer(target), *([nests[0]] if nests[0] is not None else []))
    if nests[1] is not None:
        draft.after(path, nests[1])
    return Staged(draft, target, nests[0], nests[1])


class Candidates:
    """Several drafts of one step, from the one that does least; the first that is proved is taken."""

    def __init__(self, make: Callable[[Step], Sequence[Callable[[], Made]]]) -> None:
        self.make = make

    def check(self, step: Step) -> Verdict:
        """The verdict on the first draft that is proved; on the last one where none is."""
        verdict: Verdict | None = None
        for one in self.make(step):
            made = one()
            verdict = made.draft.verdict()
            step.plan = made
            if verdict.proved:
                return verdict
        assert verdict is not None
        return verdict

    def rewrite(self, step: Step) -> Change:
        """The change."""
        if step.plan is None:
            self.check(step)
        made = step.plan
        assert isinstance(made, Made)
        return made.draft.change(made.outputs, made.exactness)


def no_pointers(step: Step, func: PrimFunc, buffer: Buffer, path: Steps) -> None:
    """Refuse a buffer whose address is taken under a place."""
    root = Path(path).chain(func)[-1]
    assert isinstance(root, Stmt)
    for _, stmt in using(step.facts, root, buffer):
        for child in stmt.children():
            if isinstance(child, Expr) and any(op is buffer.data for op in each(Var, child)):
                step.refuse(f"the address of {buffer.name} is taken", stmt)


def window_of(step: Step, func: PrimFunc, path: Steps, text: str) -> tuple[str, list[Range]]:
    """A window ``"C[i0*8:+8, j0*32:+32]"``: the name of the buffer, and its ranges. Raises :class:`BadArgument`."""
    name, _, rest = text.partition("[")
    if not rest:
        return text, []
    names = names_at(func, path)
    made: list[Range] = []
    for part in parts_of(rest.rstrip().removesuffix("]")):
        low, found, width = part.partition(":+")
        if not found:
            raise BadArgument(f"{part!r} is no window", help='write "C[i0*8:+8, j0*32:+32]"')
        made.append(Range(expression(low, names), expression(width, names)))
    return name.strip(), made
