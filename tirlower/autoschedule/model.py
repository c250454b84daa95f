"""What candidates are predicted to take: floating-point operations, memory, and what a thread costs.

The numbers are of one core at a usual clock. They choose between candidates and say from where on threads pay; no test
rests on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tirlower.autoschedule.classify import Nest, elements_of, extent_of, same_for_all, strides_of
from tirlower.autoschedule.points import point_of
from tirlower.autoschedule.sizes import typical
from tirlower.ir.expr import Add, BinaryOp, BufferLoad, Call, Expr, Mul, Sub
from tirlower.ir.query import has
from tirlower.ir.stmt import Bind, BufferStore, For
from tirlower.machine.processor import Processor
from tirlower.poly import Loop, Statement

__all__ = [
    "LATENCY",
    "PARALLEL_SECONDS",
    "cycles_each",
    "cycles_of",
    "is_slow",
    "is_triangle",
    "seconds_of",
    "trips",
    "written_seconds",
]

CLOCK: Final = 3e9
"""Cycles a second."""

LATENCY: Final = 4
"""Cycles until the result of an addition can be added to."""

LINE: Final = 64
"""Bytes of a line of the caches."""

PARALLEL_SECONDS: Final = 4e-6
"""The work below which a second thread costs more than it saves: twice what a launch of the pool was measured to take."""

ENTRY: Final = 4
"""Cycles to begin a loop."""

UNROLLED: Final = 4
"""Vectors of a sum of integers that are written out, so that no loop is begun."""

CALL: Final = 12
"""Cycles of an exponential, or another function, of one element."""

OPERATIONS: Final = 2
"""Operations of vectors in a cycle."""

UNKNOWN: Final = 64
"""How often a loop is taken to run of which nothing is known."""


def seconds_of(cycles: float) -> float:
    """The time of so many cycles."""
    return cycles / CLOCK


def trips(loop: Loop) -> int:
    """How often a loop runs, or is taken to run: half as often as those around it where its bounds move with them."""
    found = extent_of(loop)
    if found is None and isinstance(loop.node, For):
        around = {outer.var: trips(outer) // 2 for outer in loop.outer}
        found = typical(loop.node.extent, around)
    return UNKNOWN if found is None else max(0, found)


def cycles_of(statement: Statement, order: Iterable[Loop], processor: Processor) -> float:
    """The cycles of a statement with its loops in an order, as a compiler without a schedule leaves it: vectors along the
    innermost loop where all is contiguous there and no float is summed up (nor the greatest of some is looked for), scalars else.
    """
    loops = list(order)
    if not loops:
        return 1.0
    *around, inner = loops
    entries = 1.0
    for loop in around:
        entries *= trips(loop)
    sums = statement.reduction is not None and statement.reduction.dtype.is_float
    each, vector, chained, held = max(1.0, len(statement.accesses) / 2), True, False, False
    for access in statement.accesses:
        stride = strides_of(access).get(inner, 0)
        size = 1 if access.buffer is None else -(-access.buffer.dtype.bits // 8)
        if stride is None or abs(stride) > 1:
            vector = False
            far = LINE if stride is None else min(LINE, abs(stride) * size)
            each += far / LINE * 4
        elif stride == 0 and access.is_write:
            chained, held = sums, True
            vector = vector and not sums
    width = processor.lanes(_dtype(statement)) if vector else 1
    steps = -(-trips(inner) // width)
    short = vector and held and steps <= UNROLLED and extent_of(inner) is not None
    entry = 0 if short else ENTRY
    return entries * (entry + steps * max(each, LATENCY if chained else 0))


def cycles_each(statement: Statement) -> float:
    """The cycles of a vector of what a statement computes, where nothing waits: one at least."""
    return max(1.0, _operations(statement) / OPERATIONS)


def _operations(statement: Statement) -> int:
    """The operations of an element that a statement stores: a product that something is added to is one with the addition, and
    subscripts are no part of it."""
    count, stack = 0, [statement.node.value] if isinstance(statement.node, (BufferStore, Bind)) else []
    while stack:
        one = stack.pop()
        inside = [] if isinstance(one, BufferLoad) else [child for child in one.children() if isinstance(child, Expr)]
        count += isinstance(one, (BinaryOp, Call))
        if isinstance(one, (Add, Sub)) and any(isinstance(child, Mul) for child in inside):
            count -= 1
        stack += inside
    return count


def _dtype(statement: Statement) -> str:
    for access in statement.accesses:
        if access.is_write and access.buffer is not None:
            return str(access.buffer.dtype)
    return "float32"


def written_seconds(nest: Nest, processor: Processor) -> float:
    """The time of a nest as it is written. What stands in one loop with a sum that is kept in order is no vector either, nor what
    reads elements that one of the iterations writes."""
    summed = {one.loops[-1] for one in nest.statements if one.loops and (_chained(one) or _waits(one))}
    total = 0.0
    for statement in nest.statements:
        cycles = cycles_of(statement, statement.loops, processor)
        if statement.loops and statement.loops[-1] in summed:
            count = float(CALL) if has(Call, statement.node) else 1.0
            for loop in statement.loops:
                count *= trips(loop)
            cycles = max(cycles, count)
        total += cycles
    return seconds_of(total)


def is_slow(nest: Nest, processor: Processor) -> bool:
    """Whether a nest has loops inside of its outermost one, and something to gain there: statements that are no vectors along their
    innermost loop, or several threads."""
    if nest.left or len(nest.loops) < 2:
        return False
    return processor.threads > 1 or any(not _is_vector(one) for one in nest.statements if len(one.loops) > 1)


def is_triangle(nest: Nest) -> bool:
    """Whether loops of a nest run otherwise in each iteration of those around: what is known of rows is not known of theirs."""
    return any(not same_for_all(loop) for loop in nest.loops)


def _is_vector(statement: Statement) -> bool:
    """Whether a statement runs in vectors along its innermost loop."""
    if _chained(statement) or _waits(statement):
        return False
    return all(strides_of(access).get(statement.loops[-1], 0) in (0, 1, -1) for access in statement.accesses)


def _waits(statement: Statement) -> bool:
    """Whether all iterations of the innermost loop around a statement read what one of them writes."""
    return point_of((statement,), statement.loops[-1]) is not None


def _chained(statement: Statement) -> bool:
    """Whether a statement adds floats up along its innermost loop, or takes the least or greatest of them, which LLVM leaves one
    behind the other too."""
    if statement.reduction is None or not statement.reduction.dtype.is_float or statement.starts:
        return False
    return any(access.is_write and not strides_of(access).get(statement.loops[-1], 0) for access in statement.accesses)


def footprints(nest: Nest) -> Mapping[str, int]:
    """The bytes of the buffers that a nest touches, by name; 0 where a size is no number."""
    found: dict[str, int] = {}
    for access in nest.accesses():
        buffer = access.buffer
        if buffer is not None and buffer.shape:
            first, extent = elements_of(buffer)[0], typical(buffer.shape[0])
            size = 0 if first is None or extent is None else first * extent
            found[buffer.name] = size * -(-buffer.dtype.bits // 8)
    return found
