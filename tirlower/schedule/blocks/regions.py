"""``annotate_buffer_access`` and ``unsafe_hide_buffer_access``: what a block declares that it reads and writes."""

from __future__ import annotations

from tirlower.analysis.access_region import get_block_read_write_region
from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.annotations import EXPLICIT_READ, EXPLICIT_WRITE, entries_of
from tirlower.ir.buffer import BufferRegion, Range
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.index_map import IndexMap
from tirlower.ir.stmt import Block
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import SIDES, Kind, Slot, Takes
from tirlower.schedule.regions import has_opaque_call
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["ANNOTATE_BUFFER_ACCESS", "UNSAFE_HIDE_BUFFER_ACCESS"]


def _block(step: Step) -> Block:
    block = step.stmt(step.handle("block"))
    if isinstance(block, PrimFunc):
        step.refuse("a function without blocks has no root block that declares regions")
    assert isinstance(block, Block)
    return block


def _side(step: Step) -> str:
    side = step["buf_type"]
    if side not in SIDES:
        raise BadArgument(f"buf_type= is 'read' or 'write', got {side!r}")
    return str(side)


def _with(step: Step, block: Block, **parts: object) -> Change:
    new, forward = block.with_(**parts), Forward()
    forward.keep(block, new)
    return Change(Edit(step.site(step.handle("block")), new), forward)


def _declared(step: Step) -> tuple[Block, str, int, BufferRegion]:
    """The block, the side, the number of the region, and the region that it shall be."""
    block, side, index = _block(step), _side(step), step.number(step["buffer_index"])
    regions: tuple[BufferRegion, ...] = getattr(block, f"{side}s")
    if not isinstance(index, int) or not 0 <= index < len(regions):
        raise BadArgument(f"buffer_index={index} is out of range: the block has {len(regions)} {side} regions")
    ends, buffer = step["gen_new_ranges"], regions[index].buffer
    assert isinstance(ends, IndexMap)
    if len(ends.final_indices) != 2 * len(buffer.shape):
        raise BadArgument(
            f"{buffer.name} has {len(buffer.shape)} dimensions, got {len(ends.final_indices) // 2} ranges"
        )
    own = dict(zip(ends.initial_indices, (it.var for it in block.iters), strict=True))
    found = [substitute(end, own) for end in ends.final_indices]
    analyzer = step.analyzer(step.site(step.handle("block")))
    for it in block.iters:
        analyzer.bind(it.var, it.domain)
    ranges = [
        Range(begin, analyzer.simplify(build.sub(end, begin)))
        for begin, end in zip(found[::2], found[1::2], strict=True)
    ]
    return block, side, index, BufferRegion(buffer, tuple(ranges))


def _check(step: Step) -> Verdict:
    block, side, _, region = _declared(step)
    touched = get_block_read_write_region(block)[SIDES.index(side)]
    analyzer = step.analyzer(step.site(step.handle("block")))
    for it in block.iters:
        analyzer.bind(it.var, it.domain)
    for own in touched:
        if own.buffer is not region.buffer:
            continue
        for axis, (part, wide) in enumerate(zip(own.region, region.region, strict=True)):
            ends = build.add(part.min, part.extent), build.add(wide.min, wide.extent)
            inside = build.ge(part.min, wide.min), build.le(*ends)
            if not all(map(analyzer.can_prove, inside)):
                step.refuse(
                    f"the block {side}s {own.buffer.name} at {part.min} up to {ends[0]} in dimension {axis}, which is not known "
                    f"to lie in {wide.min} up to {ends[1]}",
                    block,
                    "declare a region that has all accesses in it",
                )
    return PROVED


def _rewrite(step: Step) -> Change:
    block, side, index, region = _declared(step)
    regions = list(getattr(block, f"{side}s"))
    regions[index] = region
    key = EXPLICIT_READ if side == "read" else EXPLICIT_WRITE
    known = [at for at in entries_of(block.annotations, key) if isinstance(at, int)]
    marked = {**block.annotations, key: [*known, index] if index not in known else known}
    return _with(step, block, annotations=marked, **{f"{side}s": tuple(regions)})


ANNOTATE_BUFFER_ACCESS = Kind(
    "AnnotateBufferAccess",
    "annotate_buffer_access",
    (
        Slot("block", Takes.BLOCK),
        Slot("buffer_index", Takes.INTEGER),
        Slot("buf_type", Takes.STRING),
        Slot("gen_new_ranges", Takes.REGIONS),
    ),
    _rewrite,
    """Declare the region of a buffer that a block reads or writes: a function of the iterators to an index or (begin, end) for
    each dimension. Refused where an access may lie outside. Steps leave the region as it is then.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(7):
    ...         with T.block("B"):
    ...             vi = T.axis.spatial(7, i)
    ...             B[vi] = A[vi]
    ... '''))
    >>> sch.annotate_buffer_access("B", 0, "read", lambda vi: [(vi, vi + 2)])
    >>> [str(region) for region in sch.get(sch.get_block("B")).reads]
    ['A[vi:vi + 2]']
    """,
    check=_check,
)


def _hidden(step: Step) -> tuple[Block, str, list[int]]:
    block, side, given = _block(step), _side(step), step["buf_index_array"]
    assert isinstance(given, (list, tuple))
    count = len(getattr(block, f"{side}s"))
    numbers = [number for number in map(step.number, given) if isinstance(number, int)]
    if len(set(numbers)) < len(given) or not all(0 <= number < count for number in numbers):
        raise BadArgument(f"{list(given)} are no numbers of the block's {count} {side} regions, each once")
    return block, side, numbers


def _check_hidden(step: Step) -> Verdict:
    block, _, _ = _hidden(step)
    if has_opaque_call(block.body):
        step.said = "trusted"
        step.notes.append("what is hidden is not touched by the calls in the block")
    return PROVED


def _hide(step: Step) -> Change:
    block, side, numbers = _hidden(step)
    regions = [region for at, region in enumerate(getattr(block, f"{side}s")) if at not in numbers]
    return _with(step, block, **{f"{side}s": tuple(regions)})


UNSAFE_HIDE_BUFFER_ACCESS = Kind(
    "UnsafeHideBufferAccess",
    "unsafe_hide_buffer_access",
    (
        Slot("block", Takes.BLOCK),
        Slot("buf_type", Takes.STRING),
        Slot("buf_index_array", Takes.INTEGERS),
    ),
    _hide,
    """Take regions, given by their numbers, from what a block declares that it reads or writes. What the block does is asked of
    its body, so that nothing is misled but what is believed of calls that are not known.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             vi = T.axis.spatial(8, i)
    ...             B[vi] = A[vi]
    ... '''))
    >>> sch.unsafe_hide_buffer_access("B", "read", [0])
    >>> sch.get(sch.get_block("B")).reads
    ()
    """,
    check=_check_hidden,
)
