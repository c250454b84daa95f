"""Sums whose speed is that of one addition after the other: where a fused multiply-add would be slower than two instructions.

``for k: acc[0] += a[k] * b[k]`` keeps its order, so that each iteration waits for the one before. On processors that add in
fewer cycles than they multiply and add, the product is best computed beside that chain and only the addition stands in
it: a dot product of float64 takes 3 cycles an element instead of 4 on Zen. With many sums in flight the pipes are full
either way, and the fused instruction is half the work; so this is for loops with few sums. (GCC avoids fused chains on
these processors too.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tirlower.emit.llvm_text import FastMath
from tirlower.emit.machine import Machine
from tirlower.ir.expr import Add, BinaryOp, BufferLoad, Expr, IntImm, Mul, Sub, Var
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.query import statements
from tirlower.ir.stmt import AttrStmt, Bind, BufferStore, For, IfThenElse, Seq, Stmt, While
from tirlower.ir.structural import structural_equal

__all__ = ["additions_in_chains", "adds_faster_than_it_fuses", "reassociable", "statements_of"]

#: families of processors whose float addition takes fewer cycles than a fused multiply-add
_FAST_ADDERS: Final = (
    "znver",
    "alderlake",
    "raptorlake",
    "meteorlake",
    "sapphirerapids",
    "emeraldrapids",
    "graniterapids",
)

#: so many sums at once leave the pipes waiting, with two instructions for each as with one
_MOST_SUMS: Final = 4

#: loops of fewer iterations overlap with what stands around them
_LEAST_ITERATIONS: Final = 16

#: how many operands of a sum are looked at
_MOST_OPERANDS: Final = 64


def adds_faster_than_it_fuses(machine: Machine) -> bool:
    """Whether chains of additions are kept apart from products. With reassociation allowed there are no chains."""
    flags = machine.fast_math
    return bool(flags & FastMath.CONTRACT) and not flags & FastMath.REASSOC and machine.cpu.startswith(_FAST_ADDERS)


def additions_in_chains(loop: For | While, vector_bits: int) -> list[Expr]:
    """The additions of a loop through which a sum goes from one iteration to the next, if few sums are all that it waits for.

    A vector is as many sums as it fills registers of ``vector_bits``. A loop around other loops has none: what it adds
    waits for those.
    """
    if isinstance(loop, For) and isinstance(loop.extent, IntImm) and loop.extent.value < _LEAST_ITERATIONS:
        return []
    stores: list[BufferStore] = []
    changing: set[Var] = {loop.loop_var} if isinstance(loop, For) else set()
    for stmt in statements_of(loop.body):
        if isinstance(stmt, (For, While)):
            return []
        if isinstance(stmt, Bind):
            changing.add(stmt.var)
        elif isinstance(stmt, BufferStore) and stmt.buffer.dtype.is_float:
            stores.append(stmt)
    found: list[Expr] = []
    sums = 0
    for store in stores:
        chain = _chain(store)
        if chain and _stays(store, changing):
            found += chain
            sums += max(1, store.value.dtype.bits * store.value.dtype.lanes // vector_bits)
    return found if sums <= _MOST_SUMS else []


def statements_of(body: Stmt) -> Iterator[Stmt]:
    """The statements of a body; of loops in it, the loops alone."""
    left = [body]
    while left:
        stmt = left.pop()
        yield stmt
        if isinstance(stmt, Seq):
            left += stmt.stmts
        elif isinstance(stmt, AttrStmt):
            left.append(stmt.body)
        elif isinstance(stmt, IfThenElse):
            left.append(stmt.then_case)
            if stmt.else_case is not None:
                left.append(stmt.else_case)


def reassociable(loop: For) -> list[Expr]:
    """The operations of the sums and products that a loop carries, for loops that permit another order of them."""
    found: list[Expr] = []
    changing: set[Var] = {loop.loop_var}
    for stmt in statements(loop.body):
        if isinstance(stmt, Bind):
            changing.add(stmt.var)
        elif isinstance(stmt, BufferStore) and stmt.buffer.dtype.is_float and _stays(stmt, changing):
            found += _chain(stmt) or _chain(stmt, (Mul,))
    return found


def _chain(store: BufferStore, kinds: tuple[type[BinaryOp], ...] = (Add, Sub)) -> list[Expr]:
    """The sums and differences (or what ``kinds`` says) between a stored value and the element's old value in it; none if it
    is not there."""
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
