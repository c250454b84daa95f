"""Plain loops whose iterations may run in step, and gain much by it: those with a function that has a rare slow path.

LLVM makes vectors of loops with ``T.exp`` in them, whose code has no branches. ``sin``, ``cos``, ``tan`` and ``pow`` have
one, for large angles and special powers, behind which stands a call: their loops stay scalar, at a fourth to a sixth of
the speed. In vectors the branch is taken where a lane needs it, so that it is for us to vectorize such loops.
"""

from __future__ import annotations

from collections.abc import Iterator

from tirlower.analysis.aliasing import Aliases, same_place
from tirlower.analysis.purity import side_effect
from tirlower.arith.analyzer import Analyzer
from tirlower.ir import build
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Let, Var, const
from tirlower.ir.functor import substitute
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each, has, may_divide_by_zero, mentions, statements
from tirlower.ir.stmt import Bind, BufferStore, For, ForKind, IfThenElse, Seq

__all__ = ["gains_in_step"]

_SLOW = frozenset(Op.get(f"tir.{name}") for name in ("sin", "cos", "tan", "pow"))
#: shorter loops are left alone
_LEAST_LANES = 4
#: elements that iterations lie apart at most: further, lanes are stored one by one to as many lines
_MOST_APART = 4


def gains_in_step(loop: For, aliases: Aliases) -> bool:
    """Whether a plain loop calls a function with a slow path, and its iterations certainly do the same as lanes in step.

    They do where each element that the loop stores to is one that no other iteration accesses: all accesses to that
    memory are at one place, which moves on by one or a few elements an iteration, or between the places that this one
    goes to. Nothing in the loop may fail, so that no lane has done more than it would have.
    """
    if loop.kind is not ForKind.SERIAL or loop.annotations or loop.thread_tag is not None:
        return False
    if isinstance(loop.extent, IntImm) and loop.extent.value < _LEAST_LANES:
        return False
    body = list(statements(loop.body))
    if not all(isinstance(stmt, (Seq, Bind, BufferStore, IfThenElse)) for stmt in body):
        return False
    parts = [part for stmt in body for part in stmt.children() if isinstance(part, Expr)]
    if not any(call.op in _SLOW and call.dtype.is_float for call in each(Call, *parts)):
        return False
    if any(side_effect(part) > Purity.READS for part in parts) or any(map(_may_fail, each(Expr, *parts))):
        return False
    stores = [stmt for stmt in body if isinstance(stmt, BufferStore)]
    own = {loop.loop_var} | {stmt.var for stmt in body if isinstance(stmt, Bind)}
    for store in stores:
        step = _step(store, loop.loop_var, own)
        if step is None or not _alone(store, step, stores, parts, aliases):
            return False
    return True


def _may_fail(op: Expr) -> bool:
    """What an expression may not be: a division by zero, a binding, or a vector."""
    return may_divide_by_zero(op) or isinstance(op, Let) or op.dtype.is_vector


def _step(store: BufferStore, var: Var, own: set[Var]) -> int | None:
    """By how many elements a store goes on with each iteration; None where it does not, or by many."""
    if store.predicate is not None or len(store.indices) != 1 or store.value.dtype.is_vector:
        return None
    (index,) = store.indices
    if has(BufferLoad, index) or mentions(index, own - {var}):
        return None
    step = _difference(substitute(index, {var: build.add(var, const(1, var.dtype))}), index)
    return step if step is not None and 1 <= step <= _MOST_APART else None


def _difference(a: Expr, b: Expr) -> int | None:
    """The number that ``a - b`` is, if it is one."""
    found = Analyzer().simplify(build.sub(a, b))
    return found.value if isinstance(found, IntImm) else None


def _alone(store: BufferStore, step: int, stores: list[BufferStore], parts: list[Expr], aliases: Aliases) -> bool:
    """Whether all accesses to what a store may write are at its place, or between the places that it goes to."""
    data = store.buffer.data

    def is_apart(other: BufferLoad | BufferStore) -> bool:
        if other.buffer is not store.buffer or other.predicate is not None:
            return False
        distance = _difference(other.indices[0], store.indices[0])
        return distance is not None and distance % step != 0

    def accesses() -> Iterator[BufferLoad | BufferStore]:
        yield from stores
        yield from each(BufferLoad, *parts)

    return all(
        same_place(store, other) or is_apart(other)
        for other in accesses()
        if aliases.may_alias(data, other.buffer.data)
    )
