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

from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer
from tirlower.ir.build import logical_not
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, BinaryOp, BufferLoad, Call, Cast, CompareOp, Expr, IntImm, Mul, Sub, Var
from tirlower.ir.functor import fold, pre_order_visit, substitute
from tirlower.ir.op import Op, Purity

__all__ = ["Wrapping"]

_RING = frozenset((Add, Sub, Mul))
_SUMS = frozenset((Add, Sub))
_ITE = Op.get("tir.if_then_else")


def _is_index_type(kind: DataType) -> bool:
    return kind.is_int and kind.bits in (32, 64)


class Wrapping:
    """Finds the operations of an expression that may wrap; ``data`` are variables bound to values from memory."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.data: set[Var] = set()
        self.atoms: dict[Expr, Var] = {}
        """A variable for each operand of sums that wrap."""

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
        """``simplify`` applied to the largest parts of an expression that do not wrap.

        Of the rest, sums and products are simplified as the ring that they are however they wrap, each arm of a
        choice under its condition, and what becomes constant is folded.
        """
        wrapping = self._classify(root)[1]
        if id(root) not in wrapping:
            return simplify(root)

        def visit(op: Expr) -> Expr:
            if id(op) not in wrapping:
                return simplify(op)
            if op.__class__ in _RING:
                return self._ring(op, wrapping, visit, simplify)
            if op.__class__ is Call and op.op is _ITE:
                return self._choice(op, visit)
            new = op.map_children(visit)
            return fold(new) if new is not op else op

        return visit(root)

    def _choice(self, op: Any, visit: Callable[[Expr], Expr]) -> Expr:
        """An if_then_else, each arm under the condition: a fact where it does not depend on memory."""
        test: Any = visit(op.args[0])
        if test.__class__ is IntImm or side_effect(test) is not Purity.PURE or self.wraps(test):
            return _chosen(op.map_children(lambda c: test if c is op.args[0] else visit(c)))
        with self.analyzer.constraint_scope(test):
            yes = visit(op.args[1])
        with self.analyzer.constraint_scope(logical_not(test)):
            self.analyzer.facts.deny(test)
            no = visit(op.args[2])
        same = test is op.args[0] and yes is op.args[1] and no is op.args[2]
        made: Expr = op if same else op.with_(args=(test, yes, no))
        return made

    def _ring(
        self, root: Any, wrapping: set[int], visit: Callable[[Expr], Expr], simplify: Callable[[Expr], Expr]
    ) -> Expr:
        """A sum or product that wraps. Its identities hold modulo ``2**bits``, with anything in place of its operands:
        they are simplified, then stand as variables of which nothing is known.
        """
        keys = self.analyzer.keys
        rebuilt: dict[int, Expr] = {}
        plain: dict[int, Expr] = {}
        values: dict[Var, Expr] = {}
        # Without two constants, an operand met twice or a sum on the right of another one there is nothing to do.
        constants = 0
        worthwhile = False
        used: set[int] = set()
        stack: list[Any] = [root]
        while stack:
            op = stack[-1]
            if id(op) in plain:
                stack.pop()
                continue
            if op.__class__ in _RING and (op is root or id(op) in wrapping):
                waiting = [c for c in (op.a, op.b) if id(c) not in plain]
                if waiting:
                    stack += reversed(waiting)
                    continue
                stack.pop()
                worthwhile = (
                    worthwhile
                    or op.a.__class__ is IntImm
                    or (op.b.__class__ in _SUMS and op.__class__ in _SUMS)
                    or not used.isdisjoint((id(op.a), id(op.b)))
                    or op.a is op.b
                )
                used.update(id(c) for c in (op.a, op.b) if c.__class__ is not IntImm)
                a, b = rebuilt[id(op.a)], rebuilt[id(op.b)]
                rebuilt[id(op)] = op if a is op.a and b is op.b else fold(op.with_(a=a, b=b))
                plain[id(op)] = op.with_(a=plain[id(op.a)], b=plain[id(op.b)])
                continue
            stack.pop()
            made = rebuilt[id(op)] = visit(op)
            if made.__class__ is IntImm:
                plain[id(op)] = made
                constants += 1
                continue
            rep = keys.rep(made)
            name = self.atoms.get(rep)
            if name is None:
                name = self.atoms[rep] = Var("atom", made.dtype)
            worthwhile = worthwhile or name in values
            values.setdefault(name, made)
            plain[id(op)] = name
        result, start = rebuilt[id(root)], plain[id(root)]
        if not (worthwhile or constants > 1) or any(side_effect(value) > Purity.READS for value in values.values()):
            return result
        found = simplify(start)
        if found is start or keys.same(found, start):
            return result
        simpler: Expr = substitute(found, values)
        return simpler


def _chosen(op: Any) -> Expr:
    """An if_then_else whose condition is constant is the arm chosen."""
    test = op.args[0]
    made: Expr = op if test.__class__ is not IntImm else op.args[1] if test.value else op.args[2]
    return made
