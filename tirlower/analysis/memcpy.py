"""Which loops copy one region of memory to another, element after element."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.arith import Analyzer, IterMapLevel, detect_iter_map, estimate_region_strict_bound
from tirlower.diagnostics import ArgumentTypeError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.expr import BufferLoad, Expr, Var, is_const_int
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import BufferStore, For, Seq, Stmt

__all__ = ["MemCpy", "identify_memcpy"]


@dataclass(frozen=True)
class MemCpy:
    """The elements of ``source`` go to those of ``dest``, in the order in which both lie in memory."""

    source: BufferRegion
    dest: BufferRegion


def identify_memcpy(loop: For, analyzer: Analyzer | None = None) -> MemCpy | None:
    """The copy that a loop nest is, or None where it is none.

    It is one if each iteration stores one element of another buffer unchanged, and both the elements read and those
    written are a contiguous box of their buffers, each taken once, at equal distances: ``memcpy`` does the same. The
    buffers are taken not to overlap. Raises :class:`ArgumentTypeError` for what is no loop.

    >>> i, A, B = Var("i"), Buffer("A", (8,)), Buffer("B", (32,))
    >>> found = identify_memcpy(For(i, 0, 8, "serial", None, {}, BufferStore(A, B[i + 16], (i,))))
    >>> print(found.source, "->", found.dest)
    B[16:24] -> A[0:8]
    """
    if not isinstance(loop, For):
        raise ArgumentTypeError(f"identify_memcpy takes a loop, got {type(loop).__name__}")
    iters: dict[Var, Range] = {}
    op: Stmt = loop
    while not isinstance(op, BufferStore):
        if isinstance(op, For) and op.thread_tag is None:
            iters[op.loop_var] = Range(op.min, op.extent)
            op = op.body
        elif isinstance(op, Seq) and len(op.stmts) == 1:
            op = op.stmts[0]
        else:
            return None
    load = op.value
    if not isinstance(load, BufferLoad) or op.predicate is not None or load.predicate is not None:
        return None
    source, dest = load.buffer, op.buffer
    if source.data is dest.data or source.dtype is not dest.dtype:
        return None
    if any(not index.dtype.is_scalar or mentions_memory(index) for index in (*load.indices, *op.indices)):
        return None
    analyzer = analyzer if analyzer is not None else Analyzer()
    written, read = dest.offset_of(op.indices), source.offset_of(load.indices)
    gap = analyzer.simplify(build.sub(*build.match_types(read, written)))
    if mentions(gap, iters):
        return None
    found = detect_iter_map([written], iters, True, IterMapLevel.BIJECTIVE, analyzer=analyzer)
    if not found.indices or any(not is_const_int(arg.scale, 1) for arg in found.indices[0].args):
        return None
    count: Expr = build.const(1, written.dtype)
    for dom in iters.values():
        count = build.mul(count, build.cast(written.dtype, dom.extent))
    regions = [
        _box(buffer, indices, iters, count, analyzer)
        for buffer, indices in ((source, load.indices), (dest, op.indices))
    ]
    return None if regions[0] is None or regions[1] is None else MemCpy(regions[0], regions[1])


def mentions_memory(index: Expr) -> bool:
    """Whether an index is read from memory."""
    return next(iter(each(BufferLoad, index)), None) is not None


def _box(
    buffer: Buffer, indices: tuple[Expr, ...], iters: dict[Var, Range], count: Expr, analyzer: Analyzer
) -> BufferRegion | None:
    """The box of a buffer that some indices fill, where it has exactly as many elements as there are iterations."""
    points = [Range(index, build.const(1, index.dtype)) for index in indices]
    sets = estimate_region_strict_bound(points, iters, analyzer=analyzer)
    if sets is None:
        return None
    ranges = [one.to_range(analyzer) for one in sets]
    size: Expr = build.const(1, count.dtype)
    for part in ranges:
        if part is None:
            return None
        size = build.mul(size, build.cast(count.dtype, part.extent))
    if not analyzer.can_prove_equal(size, count):
        return None
    return BufferRegion(buffer, tuple(part for part in ranges if part is not None))
