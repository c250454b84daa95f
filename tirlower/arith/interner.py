"""Structural identity inside one analyzer: equal expressions share a representative.

The rules ask "are these two operands the same expression?" all the time. Each analyzer owns a table that maps the
structure of an expression to the first expression of that structure it met, so that the question is one comparison of
pointers, and the cost of walking an expression is paid once. The table dies with its analyzer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tirlower.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Sub,
    Var,
)
from tirlower.ir.expr import Binary
from tirlower.ir.op import Op, Purity

__all__ = ["Interner", "is_impure_call"]

BINARY: frozenset[type[Binary]] = frozenset(
    (Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or)
)
"""The classes with exactly the operands ``a`` and ``b``."""


def is_impure_call(expr: Expr | None) -> bool:
    """Whether the node itself (not its operands) may do more than compute or read."""
    if expr.__class__ is not Call:
        return False
    return not isinstance(expr.op, Op) or expr.op.purity > Purity.READS


class Interner:
    """The representatives of one analyzer.

    >>> from tirlower.ir import Var
    >>> i, interner = Var("i"), Interner()
    >>> interner.same(i * 4 + 1, i * 4 + 1), interner.same(i * 4, i * 5)
    (True, False)
    """

    __slots__ = ("reps", "table")

    def __init__(self) -> None:
        self.reps: dict[Expr, Expr] = {}
        self.table: dict[object, Expr] = {}

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether two expressions have the same structure (calls with effects equal only themselves)."""
        if a is b:
            return True
        kind = a.__class__
        if kind is not b.__class__ or kind is Var:
            return False
        if kind in BINARY:
            if TYPE_CHECKING:
                assert isinstance(a, Binary) and isinstance(b, Binary)
            # Most pairs differ near the root.
            p, q = a.b, b.b
            if p is not q and (
                p.__class__ is not q.__class__
                or (p.__class__ is IntImm and q.__class__ is IntImm and p.value != q.value)
            ):
                return False
            if a.a.__class__ is not b.a.__class__:
                return False
        elif a.__class__ is IntImm and b.__class__ is IntImm:
            return a.value == b.value and a.dtype is b.dtype
        return self.representative(a) is self.representative(b)

    def representative(self, root: Expr) -> Expr:
        """The representative of an expression's structure. Takes chains of any length."""
        reps = self.reps
        found = reps.get(root)
        if found is not None:
            return found
        if root.__class__ is Var:
            return root
        table = self.table
        if root.__class__ in BINARY:
            # By far the most frequent: the operands are leaves, or were met before.
            a, b = self._known(root.a), self._known(root.b)
            if a is not None and b is not None:
                found = reps[root] = table.setdefault((root.__class__, a, b), root)
                return found
        stack = [root]
        while stack:
            op = stack[-1]
            if op in reps:
                stack.pop()
                continue
            kind = op.__class__
            if kind in BINARY:
                if TYPE_CHECKING:
                    assert isinstance(op, Binary)
                a, b = reps.get(op.a), reps.get(op.b)
                if a is None or b is None:
                    if b is None:
                        stack.append(op.b)
                    if a is None:
                        stack.append(op.a)
                    continue
                key: object = (kind, a, b)
            elif kind is Var:
                reps[op] = op
                stack.pop()
                continue
            elif op.__class__ is IntImm:
                key = (op.value, op.dtype)
            else:
                waiting = [c for c in op.children() if c not in reps]
                if waiting:
                    stack += reversed(waiting)
                    continue
                if is_impure_call(op):
                    reps[op] = op
                    stack.pop()
                    continue
                key = self._key(op)
            reps[op] = table.setdefault(key, op)
            stack.pop()
        return reps[root]

    def _known(self, op: Expr) -> Expr | None:
        """The representative of a leaf, or of an expression met before; None for others."""
        if op.__class__ is Var:
            return op
        found = self.reps.get(op)
        if found is None and op.__class__ is IntImm:
            found = self.reps[op] = self.table.setdefault((op.value, op.dtype), op)
        return found

    def _key(self, op: Expr) -> object:
        """The structure of a node that is neither a variable, an integer, nor a plain binary operation."""
        reps = self.reps
        if op.__class__ is FloatImm:
            # 0.0 and -0.0 differ, and a NaN equals itself.
            return (FloatImm, op.dtype, op.value.hex() if not math.isnan(op.value) else "nan")
        parts: list[object] = [op.__class__, op.dtype]
        if op.__class__ is BufferLoad:
            parts.append(op.buffer)
        elif op.__class__ is Call:
            parts.append(op.op)
            if op.annotations:
                parts.append(id(op.annotations))
        else:
            for field in op.fields:
                if field.role.value in ("data", "binds"):
                    value = getattr(op, field.name)
                    # A data field may hold an expression (the scalable lanes of a ramp).
                    parts.append(self.representative(value) if isinstance(value, Expr) else value)
        for name in op.child_names:
            value = getattr(op, name)
            if value.__class__ is tuple:
                parts.append(tuple([reps[v] for v in value]))
            else:
                parts.append(reps[value] if isinstance(value, Expr) else value)
        return tuple(parts)
