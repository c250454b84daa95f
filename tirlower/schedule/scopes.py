"""The blocks of a scope and the edges between them, as TVM sees them: by declared regions alone.

None of our own checks asks this; it is what ``accept="tvm"`` and the views of :mod:`tirlower.schedule.views` are made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tirlower.arith import Analyzer
from tirlower.arith.iter_detect import detect_iter_map
from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, IterKind, Range
from tirlower.ir.expr import Expr, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.path import Path
from tirlower.ir.query import each, mentions
from tirlower.ir.regions import relax_region
from tirlower.ir.stmt import AllocBuffer, Block, BufferStore, For, Stmt
from tirlower.schedule.edits import Steps

__all__ = ["DepKind", "Edge", "Placed", "Scope", "blocks_below", "is_affine", "loops_of", "scope_of"]


def blocks_below(stmt: Stmt | PrimFunc, steps: Steps = ()) -> Iterator[tuple[Steps, Block]]:
    """The blocks directly inside a block, loop or function, in the order of the text, with the way to each from a root."""
    stack: list[tuple[Steps, Stmt]] = []
    if isinstance(stmt, (Block, For, PrimFunc)):
        stack.append(((*steps, "body"), stmt.body))
    while stack:
        way, one = stack.pop()
        if isinstance(one, Block):
            yield way, one
            continue
        inside: list[tuple[Steps, Stmt]] = []
        for name in one.child_names:
            value = getattr(one, name)
            if isinstance(value, Stmt):
                inside.append(((*way, name), value))
            elif isinstance(value, tuple):
                inside += [((*way, name, at), x) for at, x in enumerate(value) if isinstance(x, Stmt)]
        stack += inside[::-1]


class DepKind(IntEnum):
    """The kinds of edges between blocks, by TVM's numbers."""

    RAW = 0
    WAW = 1
    WAR = 2
    OPAQUE = 3


@dataclass(frozen=True)
class Placed:
    """A block with the way to it from the function."""

    way: Steps
    block: Block

    @property
    def writes(self) -> set[Buffer]:
        """The buffers that it declares to write."""
        return {region.buffer for region in self.block.writes}

    @property
    def reads(self) -> set[Buffer]:
        """The buffers that it declares to read."""
        return {region.buffer for region in self.block.reads}


@dataclass(frozen=True)
class Edge:
    """The second block depends on the first one."""

    src: Placed
    dst: Placed
    kind: DepKind


def loops_of(func: PrimFunc, way: Steps) -> list[tuple[Steps, For]]:
    """The loops around a place up to the next block outside, outermost first, each with the way to it."""
    found: list[tuple[Steps, For]] = []
    for at, value in enumerate(Path(way).chain(func)[:-1]):
        if isinstance(value, Block):
            found = []
        elif isinstance(value, For):
            found.append((way[:at], value))
    return found


def scope_of(func: PrimFunc, way: Steps) -> Scope:
    """The scope that a place is in: the block around it, or the function."""
    root: Steps = ()
    for at, value in enumerate(Path(way).chain(func)[:-1]):
        if isinstance(value, Block):
            root = way[:at]
    return Scope(func, root)


def is_affine(func: PrimFunc, placed: Placed) -> bool:
    """Whether a block's bindings are independent sums of digits of the loops around it, with no scale."""
    values = [it.value for it in placed.block.iters if it.value is not None]
    ranges = {loop.loop_var: Range(loop.min, loop.extent) for _, loop in loops_of(func, placed.way)}
    if len(values) < len(placed.block.iters):
        return False
    try:
        found = detect_iter_map(values, ranges, placed.block.predicate, "surjective")
    except TirError:
        return False
    if len(found.indices) != len(values):
        return False
    return all(not one.args or is_const_int(one.args[-1].scale, 1) for one in found.indices)


class Scope:
    """The blocks directly inside a block, loop or function, in the order of the text, and what TVM asks of them."""

    def __init__(self, func: PrimFunc, root: Steps, under: Steps | None = None) -> None:
        self.func = func
        self.root = root
        place = root if under is None else under
        stmt = Path(place).chain(func)[-1]
        assert isinstance(stmt, (Stmt, PrimFunc))
        self.children = [Placed(way, block) for way, block in blocks_below(stmt, place)]
        node = Path(root).chain(func)[-1]
        assert isinstance(node, (Block, PrimFunc))
        if isinstance(node, Block):
            self.allocated = set(node.alloc_buffers)
        else:
            self.allocated = {one.buffer for one in each(AllocBuffer, node.body)}

    def under(self, way: Steps) -> Scope:
        """The blocks under a loop of this scope."""
        return Scope(self.func, self.root, way)

    def edges(self) -> list[Edge]:
        """The edges: for each later block RAW, WAW, WAR, each with every earlier block, the first one first."""
        found: list[Edge] = []
        for at, dst in enumerate(self.children):
            for kind, mine, other in (
                (DepKind.RAW, dst.reads, "writes"),
                (DepKind.WAW, dst.writes, "writes"),
                (DepKind.WAR, dst.writes, "reads"),
            ):
                found += [Edge(src, dst, kind) for src in self.children[:at] if getattr(src, other) & mine]
        return found

    def child(self, way: Steps) -> Placed:
        """The block at a place."""
        return next(one for one in self.children if one.way == way)

    def producers(self, placed: Placed) -> list[Placed]:
        """The earlier blocks that write what a block reads."""
        at = self.children.index(placed)
        return [one for one in self.children[:at] if one.writes & placed.reads]

    def consumers(self, placed: Placed) -> list[Placed]:
        """The later blocks that read what a block writes."""
        at = self.children.index(placed)
        return [one for one in self.children[at + 1 :] if one.reads & placed.writes]

    def is_output(self, placed: Placed) -> bool:
        """Whether a block writes what the scope does not allocate."""
        return bool(placed.writes - self.allocated)

    def _only_writer(self, placed: Placed) -> bool:
        return not any(one is not placed and one.writes & placed.writes for one in self.children)

    def not_complete(self, placed: Placed) -> str:
        """Why a block is not complete; nothing where it is."""
        if any(it.kind is not IterKind.SPATIAL for it in placed.block.iters):
            return "not all of its iterators are spatial"
        if not self._only_writer(placed):
            return "another block of the scope writes its buffers too"
        return "it reads what it writes" if placed.reads & placed.writes else ""

    def not_reduction(self, placed: Placed) -> str:
        """Why a block is no reduction block; nothing where it is one."""
        block = placed.block
        if block.init is None:
            return "it has no init"
        if not is_affine(self.func, placed):
            return "its bindings are not affine"
        if any(it.kind not in (IterKind.SPATIAL, IterKind.REDUCE) for it in block.iters):
            return "an iterator is neither spatial nor a reduction"
        if not self._only_writer(placed):
            return "another block of the scope writes its buffers too"
        reduced = {it.var for it in block.iters if it.kind is IterKind.REDUCE}
        for store in each(BufferStore, block.body):
            if store.buffer in placed.writes and any(mentions(index, reduced) for index in store.indices):
                return "a reduction iterator indexes its output"
        return ""

    def is_compact(self, way: Steps) -> str:
        """Why a loop's blocks are not all complete or reductions with respect to it; nothing where they are."""
        inner = self.under(way)
        for one in inner.children:
            if inner.not_complete(one) and inner.not_reduction(one):
                return f"the block `{one.block.name}` is neither a complete block ({inner.not_complete(one)}) nor a reduction block ({inner.not_reduction(one)})"
        return ""

    def covered(self) -> bool:
        """Whether every block of the scope reads only what the blocks before it certainly write, of what the scope allocates."""
        return all(self.region_cover(one) for one in self.children)

    def region_cover(self, placed: Placed, buffer: Buffer | None = None) -> bool:
        """Whether what a block reads of the scope's buffers (of one of them) is within what its producers write."""
        for region in placed.block.reads:
            if buffer is not None and region.buffer is not buffer:
                continue
            writers = [one for one in self.producers(placed) if region.buffer in one.writes]
            if region.buffer not in self.allocated or not writers:
                continue
            wanted = self._relaxed(placed, region, writers)
            written = [
                self._relaxed(one, other, [placed])
                for one in writers
                for other in one.block.writes
                if other.buffer is region.buffer
            ]
            if not any(_contains(outer, wanted) for outer in written):
                return False
        return True

    def _relaxed(self, placed: Placed, region: BufferRegion, others: Sequence[Placed]) -> BufferRegion:
        """A region over the loops that a block does not have in common with others."""
        values: Mapping[Var, Expr] = {it.var: it.value for it in placed.block.iters if it.value is not None}
        inner = build_region(region, values)
        common = {loop.loop_var for one in others for _, loop in loops_of(self.func, one.way)}
        loops = [
            (loop.loop_var, Range(loop.min, loop.extent))
            for _, loop in loops_of(self.func, placed.way)
            if loop.loop_var not in common
        ]
        return relax_region(inner, loops)

    def stage_pipeline(self) -> str:
        """Why the scope is no pipeline of stages; nothing where it is."""
        if not self.covered():
            return "a block reads more than the blocks before it write"
        for edge in self.edges():
            if edge.kind in (DepKind.WAR, DepKind.OPAQUE):
                return f"`{edge.dst.block.name}` writes what `{edge.src.block.name}` reads before"
        return ""


def build_region(region: BufferRegion, values: Mapping[Var, Expr]) -> BufferRegion:
    """A region in terms of the loops around a block."""
    parts = [Range(substitute(one.min, values), substitute(one.extent, values)) for one in region.region]
    return BufferRegion(region.buffer, tuple(parts))


def _contains(outer: BufferRegion, inner: BufferRegion) -> bool:
    analyzer = Analyzer()
    for a, b in zip(outer.region, inner.region, strict=True):
        if not analyzer.can_prove(build.le(a.min, b.min)) or not analyzer.can_prove(
            build.ge(build.add(a.min, a.extent), build.add(b.min, b.extent))
        ):
            return False
    return True
