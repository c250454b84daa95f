"""The sums and products that a loop carries from one iteration to the next, for loops that permit another order of them."""

from __future__ import annotations

from typing import Final

from tirlower.ir.expr import Add, BinaryOp, BufferLoad, Expr, Mul, Sub, Var
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.query import mentions, statements
from tirlower.ir.stmt import AllocBuffer, Bind, BlockIter, BufferStore, For, Stmt, While
from tirlower.ir.structural import structural_equal

__all__ = ["carried_by_all_loops", "reassociable", "sums_of_updates"]

#: how many operands of a sum are looked at
_MOST_OPERANDS: Final = 64
_LOOPS: Final = (For, While)
#: how many sums a processor waits for: two take 3 cycles on Zen apart from their products, 4 fused with them; of four, all
#: ports are busy either way
_FEW: Final = 2


def reassociable(loop: For) -> list[Expr]:
    """The operations of the sums and products that a loop carries, for loops that permit another order of them."""
    found: list[Expr] = []
    changing: set[Var] = {loop.loop_var}
    for stmt in statements(loop.body):
        if isinstance(stmt, Bind) or (isinstance(stmt, BlockIter) and _changes(stmt, changing)):
            changing.add(stmt.var)
        elif isinstance(stmt, BufferStore) and stmt.buffer.dtype.is_float and _stays(stmt, changing):
            found += _chain(stmt, (Add, Sub)) or _chain(stmt, (Mul,))
    return found


def carried_by_all_loops(body: Stmt) -> list[Expr]:
    """The operations of the sums of a nest of loops in elements that none of them changes, as of a dot product, where they
    are one or two. Sums that begin anew in the nest, in memory inside or outside of it, are none.

    Each waits for the one before, whatever the order of the loops, and there are too few others to do meanwhile.
    """
    found: list[Expr] = []
    inner: set[int] = set()
    for loop in statements(body):
        if isinstance(loop, _LOOPS) and id(loop) not in inner:
            inside = list(statements(loop.body))
            inner.update(id(stmt) for stmt in inside if isinstance(stmt, _LOOPS))
            changing = _changing(loop, *inside)
            own = {stmt.buffer.data for stmt in inside if isinstance(stmt, AllocBuffer)}
            stores = [stmt for stmt in inside if isinstance(stmt, BufferStore) and stmt.buffer.data not in own]
            sums = [
                (stmt.buffer.data, _chain(stmt, (Add, Sub)))
                for stmt in stores
                if stmt.buffer.dtype.is_float and _stays(stmt, changing)
            ]
            anew = {data for data, operations in sums if not operations}
            carried = [operations for data, operations in sums if data not in anew]
            if len(carried) <= _FEW:
                found += [operation for operations in carried for operation in operations]
    return found


def sums_of_updates(body: Stmt) -> list[Expr]:
    """The operations of all sums in which a float element is updated."""
    found: list[Expr] = []
    for stmt in statements(body):
        if isinstance(stmt, BufferStore) and stmt.buffer.dtype.is_float:
            found += _chain(stmt, (Add, Sub))
    return found


def _changing(*stmts: Node) -> set[Var]:
    """The variables that change in a loop around statements, which is the first of them."""
    found: set[Var] = set()
    for stmt in stmts:
        if isinstance(stmt, For):
            found.add(stmt.loop_var)
        elif isinstance(stmt, Bind) or (isinstance(stmt, BlockIter) and _changes(stmt, found)):
            found.add(stmt.var)
    return found


def _changes(block_iter: BlockIter, changing: set[Var]) -> bool:
    return block_iter.value is None or mentions(block_iter.value, changing)


def _chain(store: BufferStore, kinds: tuple[type[BinaryOp], ...]) -> list[Expr]:
    """The operations of some kinds between a stored value and the element's old value in it; none if it is not there."""
    left: list[tuple[Expr, tuple[Expr, ...]]] = [(store.value, ())]
    looked = 0
    while left and looked < _MOST_OPERANDS:
        expr, above = left.pop()
        looked += 1
        if isinstance(expr, kinds):
            left += [(expr.b, (*above, expr)), (expr.a, (*above, expr))]
        elif isinstance(expr, BufferLoad) and above and expr.buffer is store.buffer:
            if all(map(structural_equal, expr.indices, store.indices)):
                return list(above)
    return []


def _stays(store: BufferStore, changing: set[Var]) -> bool:
    """Whether a store meets the same element in every iteration."""
    moves = False

    def look(node: Expr) -> None:
        nonlocal moves
        moves |= node in changing if node.__class__ is Var else node.__class__ is BufferLoad

    for index in store.indices:
        pre_order_visit(index, look)
    return not moves
