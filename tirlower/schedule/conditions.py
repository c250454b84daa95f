"""What TVM asks of a step beyond its being legal, as named conditions; asked with ``accept="tvm"`` alone.

Each says what is wrong in TVM's words, or nothing. A step whose program has no blocks is asked nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tirlower.arith import detect_iter_map
from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import IterKind, Range
from tirlower.ir.expr import Call, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.index_map import IndexMap
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import Block, BufferStore, For, ForKind
from tirlower.poly.injective import may_pad
from tirlower.schedule.edits import Site, Steps
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import BufferAt
from tirlower.schedule.scopes import DepKind, Placed, Scope, is_affine, loops_of, scope_of

if TYPE_CHECKING:
    from tirlower.schedule.step import Step

__all__ = ["CONDITIONS", "violated"]


def _loop_at(step: Step, handle: Handle) -> tuple[PrimFunc, Site, For, Scope]:
    site = step.site(handle)
    func = step.func(site)
    return func, site, step.loop(handle), scope_of(func, site.steps)


def _bare_zero(loop: For) -> str:
    """BARE and ZERO: no annotation, no thread axis, a start of 0."""
    name = loop.loop_var.name
    if loop.annotations:
        return f"The loop `{name}` has annotations"
    if loop.kind is ForKind.THREAD_BINDING:
        return f"The loop `{name}` is bound to a thread axis"
    return "" if is_const_int(loop.min, 0) else f"The loop `{name}` does not start with 0"


def _split(step: Step) -> str:
    return _bare_zero(step.loop(step.handle("loop")))


def _annotated(step: Step) -> str:
    loop = step.loop(step.handle("loop"))
    return f"The loop `{loop.loop_var.name}` has annotations" if loop.annotations else ""


def _fuse(step: Step) -> str:
    loops = [step.loop(one) for one in step.handles("loops")]
    for loop in loops:
        if said := _bare_zero(loop):
            return said
    for outer, inner in itertools.pairwise(loops):
        if outer.body is not inner:
            return f"The loop `{inner.loop_var.name}` is not the only child of the loop `{outer.loop_var.name}`"
        if mentions(inner.extent, [one.loop_var for one in loops]):
            return f"The extent of the loop `{inner.loop_var.name}` depends on another loop"
    return ""


def _reorder(step: Step) -> str:
    handles = step.handles("ordered_loops")
    if not handles:
        return ""
    loops = [step.loop(one) for one in handles]
    bottom = max((step.site(one) for one in handles), key=lambda site: len(site.steps))
    func, scope = step.func(bottom), scope_of(step.func(bottom), bottom.steps)
    for loop in loops:
        if mentions(loop.min, [one.loop_var for one in loops]) or mentions(
            loop.extent, [one.loop_var for one in loops]
        ):
            return f"The bounds of the loop `{loop.loop_var.name}` depend on another one of the loops"
    for placed in scope.under(bottom.steps).children:
        for it in placed.block.iters:
            if it.kind not in (IterKind.SPATIAL, IterKind.REDUCE):
                return f"The block `{placed.block.name}` has an iterator that is neither data parallel nor a commutative reduction"
        if not is_affine(func, placed):
            return f"The block `{placed.block.name}` is not affine: its bindings are no independent sums of loops"
    return ""


def _concurrent(step: Step) -> str:
    _, site, loop, scope = _loop_at(step, step.handle("loop"))
    if said := scope.is_compact(site.steps):
        return f"The loop `{loop.loop_var.name}` is not of compact dataflow: {said}"
    tag = str(step.values.get("thread_axis", ""))
    allowed = {IterKind.SPATIAL, IterKind.REDUCE} if tag.startswith("threadIdx") else {IterKind.SPATIAL}
    for placed in scope.under(site.steps).children:
        for it in placed.block.iters:
            if it.value is not None and mentions(it.value, [loop.loop_var]) and it.kind not in allowed:
                return f"The iterator `{it.var.name}` of the block `{placed.block.name}` is bound to the loop and is not data parallel"
    return ""


def _placed(step: Step, name: str = "block") -> tuple[Scope, Placed] | None:
    """The block of an argument in its scope; None for what is no block, or the root."""
    handle = step.handle(name)
    stmt = step.stmt(handle)
    if not isinstance(stmt, Block):
        return None
    site = step.site(handle)
    scope = scope_of(step.func(site), site.steps)
    return scope, Placed(site.steps, stmt) if len(site.steps) <= 1 else scope.child(site.steps)


def _complete_or_reduction(scope: Scope, placed: Placed) -> str:
    complete, reduction = scope.not_complete(placed), scope.not_reduction(placed)
    if complete and reduction:
        return (
            f"The block `{placed.block.name}` is not a complete block: {complete}; nor a reduction block: {reduction}"
        )
    return ""


def _stage(scope: Scope) -> str:
    said = scope.stage_pipeline()
    return f"The scope is not a stage pipeline: {said}" if said else ""


def _output(scope: Scope, placed: Placed) -> str:
    return f"The block `{placed.block.name}` is an output block" if scope.is_output(placed) else ""


def _moved(step: Step, backwards: bool) -> str:
    if mark := step.mark():
        return "" if mark == "root" else _reverse_inline(step) if backwards else _inline(step)
    found = _placed(step)
    if found is None:
        return ""
    scope, placed = found
    loop = step.site(step.handle("loop"))
    if scope_of(step.func(loop), loop.steps).root != scope.root:
        return "The block and the loop are not under the same block scope"
    if placed.way[: len(loop.steps)] == loop.steps:
        return f"The loop is an ancestor of block `{placed.block.name}`"
    if said := _stage(scope) or _complete_or_reduction(scope, placed):
        return said
    if not backwards and (said := _output(scope, placed)):
        return said
    others = scope.producers(placed) if backwards else scope.consumers(placed)
    if any(one.way[: len(loop.steps)] != loop.steps for one in others):
        what = "producer(s)" if backwards else "consumer(s)"
        return f"The step requires all the {what} of the block `{placed.block.name}` to be under the loop"
    return ""


def _inline(step: Step) -> str:
    found = _placed(step)
    if found is None:
        return ""
    scope, placed = found
    said = scope.not_complete(placed)
    return (
        _stage(scope)
        or _output(scope, placed)
        or (f"The block `{placed.block.name}` is not a complete block: {said}" if said else "")
    )


def _reverse_inline(step: Step) -> str:
    found = _placed(step)
    if found is None:
        return ""
    scope, placed = found
    said = scope.not_complete(placed)
    if said or placed.block.init is not None:
        return f"The block `{placed.block.name}` is not a complete block: {said or 'it has an init'}"
    producers = scope.producers(placed)
    if len(producers) != 1:
        return f"The block `{placed.block.name}` has {len(producers)} producers, not one"
    return _stage(scope) or _output(scope, producers[0])


def _decompose(step: Step) -> str:
    found = _placed(step)
    if found is None:
        return ""
    scope, placed = found
    if said := scope.not_reduction(placed):
        return f"The block `{placed.block.name}` is not a reduction block: {said}"
    loop = step.loop(step.handle("loop"))
    for way, one in _around(step, placed):
        if len(way) < len(step.site(step.handle("loop")).steps) and any(
            it.kind is IterKind.REDUCE and it.value is not None and mentions(it.value, [one.loop_var])
            for it in placed.block.iters
        ):
            return f"The loop `{loop.loop_var.name}` is not above all the reduction loops"
    return ""


def _around(step: Step, placed: Placed) -> Sequence[tuple[Steps, For]]:
    return loops_of(step.func(step.site(step.handle("block"))), placed.way)


def _rfactor(step: Step) -> str:
    _, site, loop, scope = _loop_at(step, step.handle("loop"))
    if loop.kind is not ForKind.SERIAL:
        return f"The loop `{loop.loop_var.name}` is not serial"
    children = scope.under(site.steps).children
    if len(children) != 1:
        return f"The loop `{loop.loop_var.name}` has {len(children)} blocks under it, not a single one"
    placed = scope.child(children[0].way)
    said = scope.not_reduction(placed)
    if said := _stage(scope) or (f"The block `{placed.block.name}` is not a reduction block: {said}" if said else ""):
        return said
    return _mixed(scope, placed, loop, loops_of(step.func(site), placed.way))


def _mixed(scope: Scope, placed: Placed, factor: For, loops: Sequence[tuple[Steps, For]]) -> str:
    """What is wrong with the loops around a reduction of which one shall become an axis: each is of one kind, those from the first
    reduction loop on are all bound and have nothing besides, and the block is the first one in them."""
    name, summed = placed.block.name, False
    for way, loop in loops:
        used = {
            it.kind is IterKind.REDUCE
            for it in placed.block.iters
            if it.value is not None and mentions(it.value, [loop.loop_var])
        }
        this = f"The loop `{loop.loop_var.name}`"
        if len(used) > 1:
            return (
                f"{this} is touched by both data parallel block iters and reduction block iters of the block `{name}`"
            )
        if used == {False} and loop is factor:
            return f"{this} is touched by a data parallel block iter of the block `{name}`"
        if used == {True} and not summed:
            summed = True
            if len(scope.under(way).children) > 1:
                return f"{this} has {len(scope.under(way).children)} blocks under it, not a single one"
        elif not used and summed and not is_const_int(loop.extent, 1):
            return f"{this} under the outermost reduction loop is not bound to a block iter of the block `{name}`"
    if loops and scope.under(loops[0][0]).children[0].way != placed.way:
        return f"The block `{name}` is not the first child block of the outermost loop outside of it"
    return ""


def _one_writer(step: Step) -> str:
    found = _placed(step)
    if found is None:
        return ""
    buffer = step.buffer(
        next(slot.name for slot in step.kind.slots if slot.name in step.values and "buffer" in slot.name)
    )
    writers = [one for one in found[0].children if buffer in one.writes]
    return f"The buffer `{buffer.name}` has {len(writers)} writer blocks in the scope" if len(writers) > 1 else ""


def _cache_read(step: Step) -> str:
    """1WRITER, and COVER of whoever reads the buffer."""
    if said := _one_writer(step):
        return said
    found = _placed(step)
    if found is None:
        return ""
    buffer = step.buffer("buffer")
    for one in found[0].children:
        if buffer in one.reads and not found[0].region_cover(one, buffer):
            return f"The block `{one.block.name}` reads more of `{buffer.name}` than the blocks before it write: its region is not covered"
    return ""


def _reindex(step: Step) -> str:
    """One block of the scope reads or writes the buffer, in loops of one body each."""
    found = _placed(step)
    if found is None:
        return ""
    scope, placed = found
    buffer, at = step.buffer("buffer"), step["buffer"]
    side = at.side if isinstance(at, BufferAt) else "read"
    users = [one for one in scope.children if buffer in (one.reads if side == "read" else one.writes)]
    if len(users) > 1:
        return f"The buffer `{buffer.name}` has {len(users)} {'readers' if side == 'read' else 'writers'} in the scope, not one block"
    return _alone(step, scope, placed)


def _alone(step: Step, scope: Scope, placed: Placed) -> str:
    """CHAIN: no loop around a block has anything besides."""
    for way, loop in _around(step, placed):
        if len(scope.under(way).children) > 1:
            return f"The block `{placed.block.name}` is not the only block in the loop `{loop.loop_var.name}`"
    return ""


def _blockize(step: Step) -> str:
    """SINGLE: one block below a loop. Several blocks are of one scope."""
    target = step["target"]
    if not isinstance(target, (list, tuple)):
        _, site, loop, scope = _loop_at(step, step.handle("target"))
        count = len(scope.under(site.steps).children)
        return "" if count == 1 else f"The loop `{loop.loop_var.name}` has {count} blocks under it, not a single one"
    sites = [step.site(one) for one in step.handles("target")]
    if len({(site.func, scope_of(step.func(site), site.steps).root) for site in sites}) > 1:
        return "The blocks are not under the same block scope"
    return ""


def _merge(step: Step) -> str:
    handles = step.handles("loops")
    sites = [step.site(one) for one in handles]
    if len({(site.func, scope_of(step.func(site), site.steps).root) for site in sites}) > 1:
        return "The loops are not under the same block scope"
    for handle, site in zip(handles, sites, strict=True):
        around = [loop for _, loop in loops_of(step.func(site), site.steps)]
        nest = [*around, step.loop(handle)]
        others = {loop for other in sites if other is not site for _, loop in loops_of(step.func(other), other.steps)}
        own = [loop for loop in nest if loop not in others]
        for loop in own:
            if said := _bare_zero(loop):
                return said
        for outer, inner in itertools.pairwise(own):
            if outer.body is not inner:
                return f"The loop `{inner.loop_var.name}` is not the only child of the loop `{outer.loop_var.name}`"
    return ""


def _staged(step: Step) -> str:
    found = _placed(step)
    return "" if found is None else _stage(found[0])


def _complete(step: Step) -> str:
    found = _placed(step)
    if found is None:
        return ""
    scope, placed = found
    said = scope.not_complete(placed)
    return f"The block `{placed.block.name}` is not a complete block: {said}" if said else ""


def _padding(step: Step) -> str:
    """A complete block, of which the part that is not padding is a box: each of its iterators one loop, or a part of one, by ones."""
    if said := _complete(step):
        return said
    found = _placed(step)
    stores = () if found is None else [*each(BufferStore, found[1].block.body)]
    if found is None or len(stores) != 1 or not isinstance(stores[0].value, Call) or not stores[0].value.args:
        return ""
    block = found[1].block
    bindings = {it.var: it.value for it in block.iters if it.value is not None}
    ranges = {loop.loop_var: Range(loop.min, loop.extent) for _, loop in _around(step, found[1])}
    inside = build.logical_and(block.predicate, substitute(stores[0].value.args[0], bindings))
    try:
        region = detect_iter_map([*bindings.values()], ranges, inside, "surjective").indices
    except TirError:
        region = []
    by_ones = (len(one.args) < 2 and all(is_const_int(part.scale, 1) for part in one.args) for one in region)
    if len(region) == len(bindings) and all(by_ones):
        return ""
    return f"The in-bound region of the block `{block.name}` is not told: its iterators are no loops with a stride of 1"


def _rolling(step: Step) -> str:
    found = _placed(step)
    if found is None:
        return ""
    scope, placed = found
    if said := _output(scope, placed):
        return said
    for edge in scope.edges():
        if placed in (edge.src, edge.dst) and edge.kind is not DepKind.RAW:
            return (
                f"The block `{placed.block.name}` has a dependence on `{edge.src.block.name}` that is no flow of values"
            )
    return ""


def _covered(step: Step) -> str:
    found = _placed(step)
    if found is None or found[0].region_cover(found[1]):
        return ""
    return f"The block `{found[1].block.name}` reads more than the blocks before it write: its region is not covered"


def _point(step: Step) -> str:
    found = _placed(step)
    if found is None:
        return ""
    buffer, block = step.buffer("buffer"), found[1].block
    for region in (*block.reads, *block.writes):
        if region.buffer is buffer and not all(is_const_int(part.extent, 1) for part in region.region):
            return f"The region of `{buffer.name}` in the block `{block.name}` is not a single point"
    return ""


def _leaf(step: Step) -> str:
    found = _placed(step)
    if found is None or not any(one is not found[1].block for one in each(Block, found[1].block)):
        return ""
    return f"The block `{found[1].block.name}` is not a leaf block: it has child blocks"


def _layout(step: Step) -> str:
    index_map, buffer = step["index_map"], step.buffer()
    if step["pad_value"] is not None or step["assume_injective_transform"] or not isinstance(index_map, IndexMap):
        return ""
    if len(index_map.initial_indices) != len(buffer.shape) or not may_pad(index_map, buffer.shape):
        return ""
    return f"The transformation of `{buffer.name}` introduces padding, and no pad_value is given"


def _block_layout(step: Step) -> str:
    """SINGLE, TRIVIAL, ZERO: a block alone in its loops, which are its iterators, and begin at 0."""
    found = _placed(step)
    if found is None:
        return ""
    scope, placed = found
    if said := _alone(step, scope, placed):
        return said
    loops = _around(step, placed)
    for _, loop in loops:
        if not is_const_int(loop.min, 0):
            return f"The loop `{loop.loop_var.name}` does not start with 0"
    if [it.value for it in placed.block.iters] != [loop.loop_var for _, loop in loops]:
        return f"The bindings of the block `{placed.block.name}` are not trivial: they are not its loops, one by one"
    return ""


CONDITIONS: Final[dict[str, Callable[[Step], str]]] = {
    "Split": _split,
    "LoopPartition": _annotated,
    "Fuse": _fuse,
    "Reorder": _reorder,
    "Parallel": _concurrent,
    "Vectorize": _concurrent,
    "Bind": _concurrent,
    "ComputeAt": lambda step: _moved(step, backwards=False),
    "ReverseComputeAt": lambda step: _moved(step, backwards=True),
    "ComputeInline": _inline,
    "ReverseComputeInline": _reverse_inline,
    "DecomposeReduction": _decompose,
    "RFactor": _rfactor,
    "Blockize": _blockize,
    "CacheRead": _cache_read,
    "CacheWrite": _one_writer,
    "CacheInplace": _covered,
    "CacheIndex": _leaf,
    "DecomposePadding": _padding,
    "Merge": _merge,
    "PadEinsum": _staged,
    "ReadAt": _staged,
    "ReIndex": _reindex,
    "ReindexCacheRead": _point,
    "ReindexCacheWrite": _point,
    "RollingBuffer": _rolling,
    "TransformBlockLayout": _block_layout,
    "TransformLayout": _layout,
    "WriteAt": _staged,
}
"""The conditions of each primitive, by its name in traces."""


def violated(step: Step) -> str:
    """What TVM has against a step, in its words; nothing where it would take it."""
    asked = CONDITIONS.get(step.kind.name)
    return "" if asked is None else asked(step)
