"""Indices that LLVM's loop vectorizer gets wrong: remainders by powers of two, inside arithmetic that may wrap.

To LLVM 22.1 ``i & 7`` is a counter of three bits. Where it vectorizes a loop around an
index like ``(row + (i & 7))`` of 32 bits it must check at run time that neither the three bits nor the 32 wrap, and takes
the second check for one that implies the first: elements beyond the remainder are then written in a row. Loops in which
such an index changes keep their order: they would be gathers and scatters at best. In the loops inside of those it is a
number like any other (`ring[step % 4, x]`).
"""

from __future__ import annotations

from typing import Final

from tirlower.emit.emitter import Emitter
from tirlower.ir.expr import BufferLoad, Call, Cast, Expr, FloorMod, IntImm, Mod, Var
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.op import Op

__all__ = ["is_masked", "keep_order"]

_AND: Final = Op.get("tir.bitwise_and")


def is_masked(root: Expr, known: set[Var]) -> bool:
    """Whether an index takes the low bits of something; ``known`` are variables bound to what does."""
    found = False

    def look(op: Expr) -> bool:
        nonlocal found
        if isinstance(op, Var):
            found = found or op in known
        elif isinstance(op, Call) and op.op is _AND:
            found = found or any(isinstance(a, IntImm) and a.value > 0 and not a.value & (a.value + 1) for a in op.args)
        elif isinstance(op, (Mod, FloorMod)):
            found = found or (isinstance(op.b, IntImm) and op.b.value > 1 and not op.b.value & (op.b.value - 1))
        elif isinstance(op, Cast):
            found = found or (op.dtype.is_integral and 1 < op.dtype.bits < min(op.value.dtype.bits, 32))
        return not found

    pre_order_visit(root, look)
    return found


def keep_order(em: Emitter, index: Expr) -> None:
    """Let the loops in which a masked index changes keep their order: those that its variables are defined in."""
    depth = 0

    def look(op: Expr) -> bool:
        nonlocal depth
        if isinstance(op, Var):
            depth = max(depth, em.depths.get(op, 0))
        elif isinstance(op, BufferLoad) or (isinstance(op, Call) and op.op is not _AND):
            depth = len(em.loops)  # what it reads may change in any of them
        return True

    pre_order_visit(index, look)
    for loop in em.loops[:depth]:
        loop.in_order = True
