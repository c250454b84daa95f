"""The sums and products that a loop carries from one iteration to the next, for loops that permit another order of them."""

from __future__ import annotations

from typing import Final

from tirlower.ir.expr import Add, BinaryOp, BufferLoad, Expr, Mul, Sub, Var
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.query import mentions, statements
from tirlower.ir.stmt import AllocBuffer, Bind, Block, BlockIter, BufferStore, For, Stmt, While
from tirlower.ir.structural import structural_equal

__all__ = ["carried_by_all_loops", "reassociable"]

#: how many operands of a sum are looked at
_MOST_OPERANDS: Final = 64


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
    """The operations of sums in one element that no loop around changes: the result of a whole nest, whatever its order.

    Each waits for the one before, and nothing else is there to do meanwhile.
    """
    found: list[Expr] = []
    inner: set[int] = set()
    for loop in statements(body):
        if not isinstance(loop, (For, While)) or id(loop) in inner:
            continue
        changing: set[Var] = {loop.loop_var} if isinstance(loop, For) else set()
        own: set[Var] = set()
        for stmt in statements(loop.body):
            if isinstance(stmt, (For, While)):
                inner.add(id(stmt))
                changing |= {stmt.loop_var} if isinstance(stmt, For) else set()
            elif isinstance(stmt, Bind) or (isinstance(stmt, BlockIter) and _changes(stmt, changing)):
                changing.add(stmt.var)
            elif isinstance(stmt, AllocBuffer):
                own.add(stmt.buffer.data)
            elif isinstance(stmt, Block):
                own.update(buffer.data for buffer in stmt.alloc_buffers)
            elif isinstance(stmt, BufferStore) and stmt.buffer.dtype.is_float and stmt.buffer.data not in own:
                if _stays(stmt, changing):
                    found += _chain(stmt, (Add, Sub))
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
