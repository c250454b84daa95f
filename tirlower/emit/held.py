"""Stores under a condition of an element that was stored before the loop: a select, and the element stays in a register.

``B[i] = 0; for k: if c(k): B[i] = v(k)`` may store ``B[i]`` in an iteration, or not. LLVM keeps what a loop stores in a
register where each iteration stores it: a store that the program does not do could be seen by other threads. Here the
iterations belong to whoever stored the element just before, so that storing its own value once more changes nothing:
``B[i] = select(c(k), v(k), B[i])``. Without this LLVM stores in each iteration that takes the branch, or collects
the conditions of unrolled iterations and asks each of them twice.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from tirlower.emit.emitter import Emitter
from tirlower.emit.facts import FAULTS, HEAVY
from tirlower.ir.cancel import expr_key
from tirlower.ir.expr import (
    Add,
    And,
    BufferLoad,
    Call,
    Cast,
    Expr,
    IntImm,
    Let,
    Max,
    Min,
    Mul,
    Or,
    Select,
    Sub,
    Var,
)
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.stmt import BufferStore, IfThenElse, Seq
from tirlower.ir.structural import structural_equal

__all__ = ["note_store", "store_of_either"]

#: the types whose bits are the same after a load and a store
_KEPT: Final = frozenset(
    ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
)

#: what may be computed in vain around loads, and how much of it
_CHEAP: Final = (Add, Sub, Mul, Min, Max, Cast, Var, IntImm)
_MOST_NODES: Final = 8


def _place(em: Emitter, op: BufferStore) -> Hashable:
    """What identifies the element of a store as long as its variables are in scope; None where a load or a call does."""
    if str(op.buffer.dtype) not in _KEPT or op.predicate is not None:
        return None
    if not any(op.buffer.data is b.data for b in em.kernel.func.buffer_map.values()):
        return None  # memory of the function's own is in registers already
    if any(map(_asks_memory, op.indices)):
        return None
    return id(op.buffer), tuple(map(expr_key, op.indices))


def _asks_memory(expr: Expr) -> bool:
    found = False

    def look(node: Expr) -> bool:
        nonlocal found
        found = found or node.__class__ in (BufferLoad, Call)
        return not found

    pre_order_visit(expr, look)
    return found


def _may_be_computed(em: Emitter, op: BufferStore, condition: Expr) -> bool:
    """Whether a stored value may be computed where it is not stored: cheap, and loading only what is loaded anyway.

    Of floats only what loads nothing: a sum or maximum under a condition that seldom holds takes a cycle where the
    branch is predicted, and several where each iteration waits for a select. Those of integers LLVM makes vectors of.
    """
    if not em.facts.of(op.value).flags & (FAULTS | HEAVY):
        return True
    if not op.buffer.dtype.is_integral:
        return False
    loads = [BufferLoad(op.buffer, op.indices)]
    always = True

    def look(node: Expr) -> None:
        nonlocal always
        always = always and not isinstance(node, (And, Or, Select, Let, Call))
        if node.__class__ is BufferLoad:
            loads.append(node)

    pre_order_visit(condition, look)
    if not always:
        del loads[1:]
    left = [op.value]
    for _ in range(_MOST_NODES):
        if not left:
            return True
        node = left.pop()
        if node.__class__ is BufferLoad:
            if not any(structural_equal(node, load) for load in loads):
                return False
        elif isinstance(node, _CHEAP):
            left += node.children()
        else:
            return False
    return False


def note_store(em: Emitter, op: BufferStore) -> None:
    """Remember, until its scope ends, that an element was stored, and within how many loops."""
    if em.kernel.apart and (place := _place(em, op)) is not None:
        em.stored.setdefault(place, len(em.loops))


def store_of_either(em: Emitter, op: IfThenElse) -> BufferStore | None:
    """The store that does what ``op`` does, of the new value or the old; None where ``op`` stays as it is."""
    body = op.then_case
    while isinstance(body, Seq) and len(body.stmts) == 1:
        body = body.stmts[0]
    if not em.stored or op.else_case is not None or not isinstance(body, BufferStore):
        return None
    depth = em.stored.get(_place(em, body), len(em.loops))
    if depth == len(em.loops) or not _may_be_computed(em, body, op.condition):
        return None
    old = BufferLoad(body.buffer, body.indices, span=body.span)
    value = Select(op.condition, body.value, old, span=op.span)
    em.facts.kept.append(value)
    return body.with_(value=value)
