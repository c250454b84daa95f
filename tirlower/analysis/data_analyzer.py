"""An analyzer to which data wraps: what may leave its type stands as a variable of which nothing is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tirlower.analysis.overflow import Wrapping, leaves, may_overflow
from tirlower.analysis.purity import side_effect
from tirlower.analysis.word_reach import WordReach
from tirlower.arith import Analyzer, ConstIntBound, IntervalSet, ModularSet, ProofStrength
from tirlower.arith.conditions import conjuncts
from tirlower.arith.intervals import is_finite
from tirlower.ir.buffer import Range
from tirlower.ir.build import all_of, as_expr
from tirlower.ir.data import chosen_of
from tirlower.ir.expr import BufferLoad, Expr, ExprLike, Var, is_const_int
from tirlower.ir.op import Purity
from tirlower.ir.query import mentions

__all__ = ["DataAnalyzer"]


class DataAnalyzer(Analyzer):
    """An analyzer to which data wraps: what it is told and asked has a variable of which nothing is known in the place
    of every operation on data that may leave its type, and with ``words`` of every one on indices that may leave 64 bits.

    >>> x = Var("x")
    >>> analyzer = DataAnalyzer({x})
    >>> analyzer.can_prove(x + 1 > x)
    False
    >>> with analyzer.constraint_scope(x >= 0), analyzer.constraint_scope(x < 16):
    ...     print(analyzer.can_prove(x + 1 > x))
    True
    """

    def __init__(self, data: Iterable[Var] = (), words: bool = True) -> None:
        super().__init__()
        self.wrapping = Wrapping(self, data, wrapping_bounds=True)
        self.wrapping.words = WordReach(self._reach) if words else None
        self._opaque: dict[Expr, tuple[Expr, bool]] = {}

    def _reach(self, var: Var) -> int | None:
        """How far from 0 a variable is said to be; one that may be anything its type holds is taken for a size."""
        ends = self.facts.bounds.get(var)
        if ends is not None and is_finite(ends):
            reach = int(max(map(abs, ends)))
            return None if var.dtype.bits == 32 and abs(reach - var.dtype.max_value) <= 1 else reach
        stated = max((abs(end) for end in ends or () if isinstance(end, int)), default=0)
        return max(stated, self.wrapping.reached.get(var, 0))

    def opaque(self, root: Expr) -> Expr:
        """An expression with variables in the place of what may wrap."""
        memo = self._opaque
        found = memo.get(root)
        if found is not None:
            return found[0]
        leaving = self.wrapping.past(root)
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            if op in memo:
                stack.pop()
                continue
            operands = () if op.is_leaf and op.__class__ is not BufferLoad else tuple(op.children())
            waiting = [c for c in operands if c not in memo]
            if waiting:
                self.wrapping.note_let(op)
                stack += waiting
                continue
            stack.pop()
            memo[op] = (self.wrapping.atom(op), False) if id(op) in leaving else self._opaque_node(op, operands)
        return memo[root][0]

    def _opaque_node(self, op: Expr, operands: tuple[Expr, ...]) -> tuple[Expr, bool]:
        """A node with what may wrap replaced, and whether it is data."""
        memo = self._opaque
        data = self.wrapping.is_data_node(op) or any(memo[c][1] for c in chosen_of(op) or operands)
        new = op
        if any(memo[c][0] is not c for c in operands):
            new = op.map_children(lambda c: memo[c][0])
        if data and may_overflow(op):
            if leaves(Analyzer.const_int_bound(self, new), op.dtype.element):
                new = self.wrapping.atom(op)
        return new, data

    def bind(self, var: Var, value: Expr | Range | int, allow_override: bool = False) -> None:
        """State what a variable is."""
        if isinstance(value, Range):
            single = is_const_int(value.extent, 1) and side_effect(value.min) is Purity.PURE
            value = value.min if single else self._opaque_range(value)
        if isinstance(value, Expr):
            self.wrapping.note(var, value)
            if self.wrapping.wraps(value):
                return  # in its place it would be taken not to wrap
        self._opaque = {}
        super().bind(var, value, allow_override)

    def _opaque_range(self, value: Range) -> Range:
        ends = []
        for end in (value.min, value.extent):
            # What reads memory has this value here alone: it is read once, and another load may find another one.
            ends.append(self.opaque(end) if side_effect(end) is Purity.PURE else self.wrapping.unknown(end.dtype))
        return value if ends[0] is value.min and ends[1] is value.extent else Range(*ends)

    def enter_constraint(self, condition: ExprLike) -> None:
        """Take a condition as true, but for the parts that read memory."""
        condition = as_expr(condition)
        if side_effect(condition) is not Purity.PURE:
            pure = [part for part in conjuncts(condition) if side_effect(part) is Purity.PURE]
            condition = all_of(*pure)
        made = self.opaque(condition)
        self._opaque = {}
        super().enter_constraint(made)

    def leave_constraint(self) -> None:
        """Forget the condition entered last."""
        self._opaque = {}
        super().leave_constraint()

    def wraps_around(self, expr: Expr) -> bool:
        """Whether arithmetic of an index type wraps around where it leaves it: that on data does."""
        return self.wrapping.is_data(expr)

    def simplify(self, expr: ExprLike, steps: int = 2) -> Expr:
        """The simplest form known."""
        plain = super().simplify
        return self.wrapping.simplify(as_expr(expr), lambda part: plain(part, steps))

    def rewrite_simplify(self, expr: ExprLike) -> Expr:
        """The normal form under the rules."""
        return self.wrapping.simplify(as_expr(expr), super().rewrite_simplify)

    def canonical_simplify(self, expr: ExprLike) -> Expr:
        """The canonical form."""
        return self.wrapping.simplify(as_expr(expr), super().canonical_simplify)

    def const_int_bound(self, expr: ExprLike) -> ConstIntBound:
        """Constant bounds of an integer expression."""
        return super().const_int_bound(self.opaque(as_expr(expr)))

    def modular_set(self, expr: ExprLike) -> ModularSet:
        """What is known of an expression's remainder."""
        return super().modular_set(self.opaque(as_expr(expr)))

    def int_set(self, expr: ExprLike, dom_map: Mapping[Var, Range | IntervalSet] | None = None) -> IntervalSet:
        """The interval that an expression ranges over; an end that is arithmetic on data that may wrap is none."""
        found, invented = super().int_set(self.opaque(as_expr(expr)), dom_map), self.wrapping.invented
        if not invented:
            return found
        low, high = (
            None if end is not None and mentions(end, invented) else end for end in (found.min_value, found.max_value)
        )
        return found if found.is_nothing() else IntervalSet(low, high)

    def can_prove(self, condition: ExprLike, strength: ProofStrength | int = ProofStrength.DEFAULT) -> bool:
        """Whether a condition is certainly true under what is known."""
        return super().can_prove(self.opaque(as_expr(condition)), strength)

    def can_prove_greater_equal(self, expr: ExprLike, lower: int) -> bool:
        """Whether an expression is at least a number."""
        return super().can_prove_greater_equal(self.opaque(as_expr(expr)), lower)

    def can_prove_less(self, expr: ExprLike, upper: int) -> bool:
        """Whether an expression is below a number."""
        return super().can_prove_less(self.opaque(as_expr(expr)), upper)
