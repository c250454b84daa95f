"""Reductions recognised by meaning: a statement that updates one element by an associative operation.

``a = a + x``, ``a += x``, ``a = x + a + y``, ``a = a - x``, products, minima and maxima (also spelt as a select, an
``if_then_else`` or an ``if``), and/or, bitwise and/or/xor; ``a = if_then_else(c, a + x, a)`` is a guarded update.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tirlower import ir
from tirlower.ir import Buffer, BufferLoad, BufferStore, Call, DataType, Expr, IfThenElse, Op, Stmt, Var
from tirlower.ir.cancel import expr_key

__all__ = ["Reduction", "guarded_extremum", "reduction_of", "used_again"]


@dataclass(frozen=True)
class Reduction:
    """An associative and commutative update of an element: the operation's name, the buffer and its dtype.

    ``reorders`` says that the terms may be combined in any order without a change of the result: integers (they
    wrap), booleans, minima and maxima. Sums and products of floats round differently.
    """

    op: str
    buffer: Buffer
    dtype: DataType

    @property
    def reorders(self) -> bool:
        """Whether the order of the updates cannot be told from the result."""
        return self.op in ("min", "max") or not self.dtype.is_float

    def __str__(self) -> str:
        return f"{self.op} into {self.buffer.name}"


_BINARY: dict[type, str] = {ir.Mul: "product", ir.Min: "min", ir.Max: "max", ir.And: "and", ir.Or: "or"}
_BITWISE = {"tir.bitwise_and": "bitwise and", "tir.bitwise_or": "bitwise or", "tir.bitwise_xor": "bitwise xor"}
_IsSelf = Callable[[Expr], bool]  # whether an expression is the element that is updated
_LESS: dict[type, bool] = {ir.LT: True, ir.LE: True, ir.GT: False, ir.GE: False}


def reduction_of(store: BufferStore, value: Expr | None = None) -> Reduction | None:
    """The reduction that a store is, or None. ``value`` replaces the stored value (bindings substituted)."""
    if store.predicate is not None or any(_mentions(index, store.buffer) for index in store.indices):
        return None
    target = tuple(expr_key(index) for index in store.indices)

    def is_self(expr: Expr) -> bool:
        return (
            isinstance(expr, BufferLoad)
            and expr.buffer is store.buffer
            and expr.predicate is None
            and tuple(expr_key(index) for index in expr.indices) == target
        )

    stored = store.value if value is None else value
    op = _operation(stored, is_self, store.buffer)
    return None if op is None else Reduction(op, store.buffer, stored.dtype)


def guarded_extremum(stmt: IfThenElse) -> tuple[BufferStore, Reduction] | None:
    """``if x > a: a = x``: the store and its reduction, or None."""
    store = stmt.then_case
    if stmt.else_case is not None or not isinstance(store, BufferStore):
        return None
    own = BufferLoad(store.buffer, store.indices)
    found = reduction_of(store, ir.Select(stmt.condition, store.value, own))
    return None if found is None else (store, found)


def _mentions(expr: Expr, buffer: Buffer) -> bool:
    """Whether an expression reads a buffer (or its data through another view, or calls what might)."""
    stack, seen = [expr], set()
    while stack:
        op = stack.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        if isinstance(op, BufferLoad) and op.buffer.data is buffer.data:
            return True
        if op is buffer.data:
            return True
        stack += op.children()
    return False


def _operation(value: Expr, is_self: _IsSelf, buffer: Buffer) -> str | None:
    if isinstance(value, (ir.Add, ir.Sub)):
        return _sum(value, is_self, buffer)
    if value.__class__ in _BINARY:
        return _chain(value, is_self, buffer)
    if isinstance(value, Call):
        name = value.op.name if isinstance(value.op, Op) else ""
        if name in _BITWISE:
            a, b = value.args
            one = (is_self(a) and not _mentions(b, buffer)) or (is_self(b) and not _mentions(a, buffer))
            return _BITWISE[name] if one else None
        if name == "tir.fma":
            a, b, c = value.args
            return "sum" if is_self(c) and not _mentions(a, buffer) and not _mentions(b, buffer) else None
        if name == "tir.if_then_else":
            return _select(value.args[0], value.args[1], value.args[2], is_self, buffer)
        return None
    if isinstance(value, ir.Select):
        return _select(value.condition, value.true_value, value.false_value, is_self, buffer)
    return None


def _sum(value: Expr, is_self: _IsSelf, buffer: Buffer) -> str | None:
    """One operand of a chain of additions and subtractions is the element itself, with the sign plus."""
    found = 0
    stack = [(value, True)]
    while stack:
        op, positive = stack.pop()
        if isinstance(op, ir.Add):
            stack += [(op.a, positive), (op.b, positive)]
        elif isinstance(op, ir.Sub):
            stack += [(op.a, positive), (op.b, not positive)]
        elif is_self(op):
            if not positive:
                return None
            found += 1
        elif _mentions(op, buffer):
            return None
    return "sum" if found == 1 else None


def _chain(value: Expr, is_self: _IsSelf, buffer: Buffer) -> str | None:
    kind, found = value.__class__, 0
    stack = [value]
    while stack:
        op = stack.pop()
        if op.__class__ is kind:
            stack += op.children()
        elif is_self(op):
            found += 1
        elif _mentions(op, buffer):
            return None
    # Repeating the element changes a product, but no minimum.
    return _BINARY[kind] if found == 1 or (found and kind is not ir.Mul) else None


def _select(condition: Expr, then: Expr, other: Expr, is_self: _IsSelf, buffer: Buffer) -> str | None:
    if is_self(then) or is_self(other):
        kept_when_true = is_self(then)
        update = other if kept_when_true else then
        if isinstance(condition, ir.CompareOp) and (less := _LESS.get(condition.__class__)) is not None:
            own_first = is_self(condition.a)
            x = condition.b if own_first else condition.a
            if (own_first or is_self(condition.b)) and expr_key(x) == expr_key(update) and not _mentions(x, buffer):
                # select(a < x, a, x) keeps the lesser; each swap of a side turns it round.
                return "min" if less == (own_first == kept_when_true) else "max"
        if not _mentions(condition, buffer):
            return _operation(update, is_self, buffer)
        return None
    return None


def used_again(body: Stmt, bound: Collection[Var]) -> set[Var]:
    """Those of the variables that more than one statement uses."""
    uses = dict.fromkeys(bound, 0)
    statements = [body] if uses else []
    while statements:
        parts = list(statements.pop().children())
        statements += [part for part in parts if isinstance(part, Stmt)]
        exprs = [part for part in parts if not isinstance(part, Stmt)]
        seen: set[int] = set()
        while exprs:
            op = exprs.pop()
            if id(op) in seen:
                continue
            seen.add(id(op))
            if isinstance(op, Var) and op in uses:
                uses[op] += 1
            exprs += op.children()
    return {var for var, count in uses.items() if count > 1}
