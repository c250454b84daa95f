"""Arithmetic on data wraps; arithmetic on indices does not.

The analyzer takes ``int32`` and ``int64`` arithmetic not to overflow, as the language says of indices: loop
variables, sizes, and what is computed from them. Values that come from memory or from calls may be anything, and sums
of them wrap: ``A[i] * 4 // 2`` is not ``A[i] * 2``. :class:`Wrapping` tells the two apart. An operation on data is safe
for the analyzer where its operands are bounded well inside their type (half of its range leaves room for what a rule
may build of them); any other is *wrapping*, and so is every expression around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tirlower.arith import Analyzer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, BinaryOp, BufferLoad, Call, Cast, CompareOp, Expr, Mul, Sub, Var
from tirlower.ir.functor import fold, pre_order_visit
from tirlower.ir.op import Op, Purity

__all__ = ["Wrapping"]


def _is_index_type(kind: DataType) -> bool:
    return kind.is_int and kind.bits in (32, 64)


class Wrapping:
    """Finds the operations of an expression that may wrap; ``data`` are variables bound to values from memory."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.data: set[Var] = set()

    def is_data(self, root: Expr) -> bool:
        """Whether a value depends on memory, on a call with effects, or on a variable bound to such a value."""
        return bool(self._classify(root)[0])

    def wraps(self, root: Expr) -> bool:
        """Whether an expression holds a wrapping operation."""
        return id(root) in self._classify(root)[1]

    def overflows(self, root: Expr) -> bool:
        """Whether a sum or product of data inside an expression may leave its type: bounds of it mean nothing then."""
        found = False

        def look(op: Any) -> bool:
            nonlocal found
            if isinstance(op, (Add, Sub, Mul)) and _is_index_type(op.dtype) and self.is_data(op):
                bound = self.analyzer.const_int_bound(op)
                found = found or bound.min_value < op.dtype.min_value or bound.max_value > op.dtype.max_value
            return not found and op.__class__ is not BufferLoad

        pre_order_visit(root, look)
        return found

    def _classify(self, root: Expr) -> tuple[bool, set[int]]:
        """Whether the root is data, and the ids of the wrapping nodes: operations and everything around them."""
        data: dict[int, bool] = {}
        wrapping: set[int] = set()
        stack: list[Any] = [root]
        while stack:
            op = stack[-1]
            key = id(op)
            if key in data:
                stack.pop()
                continue
            # The indices of a load are index arithmetic of their own.
            operands = () if op.__class__ is BufferLoad or op.is_leaf else tuple(op.children())
            waiting = [c for c in operands if id(c) not in data]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            data[key] = self._is_data_node(op) or any(data[id(c)] for c in operands)
            if any(id(c) in wrapping for c in operands) or self._wraps_here(op, data):
                wrapping.add(key)
        return data[id(root)], wrapping

    def _is_data_node(self, op: Any) -> bool:
        kind = op.__class__
        if kind is BufferLoad:
            return True
        if kind is Var:
            return op in self.data
        return kind is Call and (not isinstance(op.op, Op) or op.op.purity is not Purity.PURE)

    def _wraps_here(self, op: Any, data: dict[int, bool]) -> bool:
        if not isinstance(op, (BinaryOp, CompareOp)) or not _is_index_type(op.a.dtype):
            return False
        return any(data[id(x)] and not self._is_small(x) for x in (op.a, op.b, op))

    def _is_small(self, expr: Expr) -> bool:
        """Whether a value is known to lie in the middle half of its type."""
        kind = expr.dtype
        if not _is_index_type(kind):
            return True
        limit = 1 << (kind.bits - 2)
        if isinstance(expr, Cast) and expr.value.dtype.is_integral and expr.value.dtype.bits < kind.bits - 1:
            return True
        bound = self.analyzer.const_int_bound(expr)
        return -limit <= bound.min_value and bound.max_value <= limit

    def simplify(self, root: Expr, simplify: Callable[[Expr], Expr]) -> Expr:
        """``simplify`` applied to the largest parts of an expression that do not wrap; the rest is folded only."""
        wrapping = self._classify(root)[1]
        if id(root) not in wrapping:
            return simplify(root)

        def visit(op: Expr) -> Expr:
            if id(op) not in wrapping:
                return simplify(op)
            new = op.map_children(visit)
            return fold(new) if new is not op else op

        return visit(root)
