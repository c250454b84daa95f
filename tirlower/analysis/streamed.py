"""Which arrays a region only fills: their stores may go past the caches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.annotations import NONTEMPORAL
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Ramp, Var, const
from tirlower.ir.functor import substitute
from tirlower.ir.query import each, statements
from tirlower.ir.stmt import AttrStmt, BufferStore, For, Stmt

__all__ = ["has_streams", "is_sequential", "streamed"]


def streamed(region: Stmt, arrays: Iterable[Var]) -> frozenset[Var]:
    """Those of some data pointers through which a region stores, and does nothing else: it reads nothing of the array, and
    hands out no address of it."""
    stored = {op.buffer.data for op in each(BufferStore, region)}
    other = {op.buffer.data for op in each(BufferLoad, region)}
    other.update(op for op in each(Var, region) if op.dtype.is_handle)
    return frozenset(stored.intersection(arrays) - other)


def has_streams(body: Stmt) -> bool:
    """Whether statements have a region whose stores may go past the caches."""
    return any(isinstance(op, AttrStmt) and op.key == NONTEMPORAL for op in statements(body))


def is_sequential(region: Stmt, data: Var) -> bool:
    """Whether each loop that stores to an array does so one element behind the other, across its iterations too: pieces of a
    line follow each other at once then.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    ...     for i in range(8):
    ...         A[i * 8:i * 8 + 4] = T.broadcast(T.float32(0), 4)
    ...         A[i * 8 + 4:i * 8 + 8] = T.broadcast(T.float32(0), 4)
    ...         B[i * 8:i * 8 + 4] = T.broadcast(T.float32(0), 4)
    ... ''')
    >>> [is_sequential(func.body, buffer.data) for buffer in func.buffers]
    [True, False]
    """
    analyzer = Analyzer()
    for loop, stores in _by_loop(region, None, data):
        places = [_span(store) for store in stores]
        first = places[0][0]
        if loop is None or any(at.dtype != first.dtype for at, _ in places):
            return False
        offsets = [(analyzer.simplify(build.sub(at, first)), lanes) for at, lanes in places]
        known = sorted((at.value, lanes) for at, lanes in offsets if isinstance(at, IntImm))
        if len(known) < len(offsets):
            return False
        if any(at + lanes != following for (at, lanes), (following, _) in itertools.pairwise(known)):
            return False
        after = substitute(first, {loop.loop_var: build.add(loop.loop_var, const(1, loop.loop_var.dtype))})
        step = analyzer.simplify(build.sub(after, first))
        if not isinstance(step, IntImm) or step.value != sum(lanes for _, lanes in known):
            return False
    return True


def _by_loop(stmt: Stmt, around: For | None, data: Var) -> Iterator[tuple[For | None, list[BufferStore]]]:
    """The stores to an array, by the innermost loop around them."""
    mine: list[BufferStore] = []
    pending = [stmt]
    while pending:
        op = pending.pop()
        if isinstance(op, For):
            yield from _by_loop(op.body, op, data)
        elif isinstance(op, BufferStore):
            if op.buffer.data is data:
                mine.append(op)
        else:
            pending.extend(child for child in op.children() if isinstance(child, Stmt))
    if mine:
        yield around, mine


def _span(store: BufferStore) -> tuple[Expr, int]:
    """The first element that a store writes, and how many."""
    index = store.indices[-1]
    if isinstance(index, Ramp):
        return index.base, index.dtype.lanes
    return index, 1
