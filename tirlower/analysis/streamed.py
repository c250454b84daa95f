"""Which arrays a region only fills: their stores may go past the caches."""

from __future__ import annotations

from collections.abc import Iterable

from tirlower.ir.annotations import NONTEMPORAL
from tirlower.ir.expr import BufferLoad, Var
from tirlower.ir.query import each, statements
from tirlower.ir.stmt import AttrStmt, BufferStore, Stmt

__all__ = ["has_streams", "streamed"]


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
