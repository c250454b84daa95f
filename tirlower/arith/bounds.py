"""Constant bounds of integer expressions.

A bound is an interval (:mod:`tirlower.arith.intervals`). It is computed once for each distinct node of an expression,
bottom-up, and tightened by the facts in scope. Index arithmetic (int32
and int64) is exact here; other integer types wrap, so a result that leaves the type's range is worth nothing but that
range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tirlower import ir
from tirlower.arith import intervals
from tirlower.arith.conditions import negated
from tirlower.arith.fold import LOG2_LIMITS
from tirlower.arith.intervals import EVERYTHING, Bound, saturated, union
from tirlower.ir import INT32, INT64, DataType, Expr, IntImm, Var
from tirlower.ir.op import Op

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["BINARY", "BoundAnalysis", "dtype_bound", "is_index_type"]

_INDEX_BITS = (32, 64)
MAX_CHOICES = 16
MAX_CHOICE_DEPTH = 4
"""How many selects of an expression are looked into, and how deep in one another."""


def is_index_type(dtype: DataType) -> bool:
    """Whether arithmetic on it is taken not to overflow: int32 and int64, scalar."""
    return dtype is INT32 or dtype is INT64


def dtype_bound(dtype: DataType) -> Bound:
    """The range of a data type; an int64's ends count as infinite (nothing leaves it), floats have none.

    >>> dtype_bound(DataType("uint8"))
    (0, 255)
    """
    if dtype.is_int:
        if dtype.bits == 64:
            return EVERYTHING
        half = 1 << (dtype.bits - 1)
        return (-half, half - 1)
    if dtype.is_uint or dtype.is_bool:
        return (0, (1 << dtype.bits) - 1)
    return EVERYTHING


BINARY: dict[object, Callable[[Bound, Bound], Bound]] = {
    ir.Add: intervals.add,
    ir.Sub: intervals.subtract,
    ir.Mul: intervals.multiply,
    ir.Div: intervals.truncdiv,
    ir.Mod: intervals.truncmod,
    ir.FloorDiv: intervals.floordiv,
    ir.FloorMod: intervals.floormod,
    ir.Min: intervals.minimum,
    ir.Max: intervals.maximum,
}
"""The interval of a binary operation's exact results, from those of its operands."""
_CALLS: dict[object, Callable[[Bound, Bound], Bound]] = {
    Op.get("tir.bitwise_and"): intervals.bitwise_and,
    Op.get("tir.bitwise_or"): intervals.bitwise_or_xor,
    Op.get("tir.bitwise_xor"): intervals.bitwise_or_xor,
    Op.get("tir.shift_right"): intervals.shift_right,
    Op.get("tir.shift_left"): intervals.shift_left,
}
_IF_THEN_ELSE = Op.get("tir.if_then_else")
_LIKELY = Op.get("tir.likely")
_COUNTS = (Op.get("tir.clz"), Op.get("tir.popcount"))
_SAME = (Op.get("tir.likely"), Op.get("tir.ignore_loop_partition"))
_VSCALE = Op.get("tir.vscale")
_CEIL, _LOG2 = Op.get("tir.ceil"), Op.get("tir.log2")

_DTYPE_BOUNDS: dict[DataType, Bound] = {}
_INT32_BOUND = dtype_bound(INT32)


class BoundAnalysis:
    """Bounds of expressions under the facts of one analyzer."""

    __slots__ = ("_analyzer", "memo")

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self.memo: dict[Expr, Bound] = {}

    def of(self, root: Expr) -> Bound:
        """The bound of an integer (or bool) expression; of a vector, over all its lanes."""
        memo = self.memo
        found = memo.get(root)
        if found is not None:
            return found
        if root.__class__ is IntImm:
            return (root.value, root.value)
        facts = self._analyzer.facts.bounds
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            if op in memo:
                stack.pop()
                continue
            kind = op.__class__
            if kind is IntImm and isinstance(op, IntImm):
                memo[op] = (op.value, op.value)
                stack.pop()
                continue
            dtype = op.dtype
            limits = _INT32_BOUND if dtype is INT32 else _DTYPE_BOUNDS.get(dtype)
            if limits is None:
                limits = _DTYPE_BOUNDS[dtype] = dtype_bound(dtype)
            if kind is Var and isinstance(op, Var):
                bound = limits
                if op.nonneg and bound[0] < 0:
                    bound = (0, bound[1])
                known = facts.get(op)
                if known is not None:
                    bound = (max(bound[0], known[0]), min(bound[1], known[1]))
                stack.pop()
                memo[op] = bound
                continue
            elif not (dtype.is_int or dtype.is_uint or dtype.is_bool):
                bound = limits
            elif isinstance(op, ir.BinaryOp):
                left, right = op.a, op.b
                a = memo.get(left)
                if right.__class__ is IntImm:
                    b: Bound | None = (right.value, right.value)
                else:
                    b = memo.get(right)
                    if b is None:
                        stack.append(right)
                if a is None:
                    stack.append(left)
                if a is None or b is None:
                    continue
                bound = BINARY[kind](a, b)
                if left is right and kind is ir.Mul and a[0] < 0 < a[1]:
                    bound = (0, bound[1])  # a square
                elif kind is ir.FloorMod and isinstance(b[0], int) and bound == (0, b[0] - 1) and b[0] == b[1] > 1:
                    # Of multiples of 4 only 0 and 4 are remainders by 8.
                    coeff, base = self._analyzer.modular.of(left)
                    step = math.gcd(coeff, b[0])
                    if step > 1:
                        bound = (base % step, b[0] - step + base % step)
            else:
                if op.__class__ is ir.Let:
                    own = self._analyzer.lets.own(op)
                    if own is not op:
                        if own in memo:
                            memo[op] = memo[own]
                        else:
                            stack.append(own)
                        continue
                if op.__class__ is ir.Let and op.body not in memo:
                    if op.value in memo and op.value.dtype.is_integral and op.value.dtype.is_scalar:
                        self._analyzer.facts.restrict(op.var, memo[op.value])
                    elif op.value not in memo and op.value.dtype.is_integral:
                        stack.append(op.value)
                        continue
                parts = _operands(op)
                waiting = [part for part in parts if part not in memo]
                if waiting:
                    stack += waiting
                    continue
                bound = _other(op, [memo[part] for part in parts], limits)
            stack.pop()
            memo[op] = self._tighten(op, bound, limits, dtype)
        return memo[root]

    def of_choices(self, root: Expr, depth: int = 0) -> Bound:
        """The bound of an expression in whose selects each arm is bounded under its condition.

        It takes as long as the facts of each condition take to be noted, so rules ask :meth:`of`.
        """
        choices = _outermost_choices(root) if depth < MAX_CHOICE_DEPTH else []
        if not choices or len(choices) > MAX_CHOICES:
            return self.of(root)
        analyzer = self._analyzer
        outer, modular = self.memo, analyzer.modular.memo
        known: dict[Expr, Bound] = {}
        for op, condition, arms in choices:
            parts: list[Bound] = []
            for fact, arm in zip((condition, negated(condition)), arms, strict=True):
                mark = analyzer.facts.mark()
                self.memo, analyzer.modular.memo = {}, {}
                analyzer.facts.add(fact)
                parts.append(self.of_choices(arm, depth + 1))
                analyzer.facts.rollback(mark)
            # Under a condition that is never true everything holds, also an empty bound.
            whole = [part for part in parts if part[0] <= part[1]] or parts
            known[op] = whole[0] if len(whole) == 1 else union(*whole)
        self.memo, analyzer.modular.memo = known, {}
        found = self.of(root)
        self.memo, analyzer.modular.memo = outer, modular
        return found

    def _tighten(self, op: Expr, bound: Bound, limits: Bound, dtype: DataType) -> Bound:
        low, high = saturated(*bound)
        if (low < limits[0] or high > limits[1]) and not (dtype.is_int and dtype.bits in _INDEX_BITS):
            low, high = limits  # it may have wrapped
        facts = self._analyzer.facts
        if facts.beyond_variables or op.__class__ is Var:
            known = facts.bounds.get(self._analyzer.interner.representative(op))
            if known is not None:
                low, high = max(low, known[0]), min(high, known[1])
        return (low, high)

    def enter(self) -> dict[Expr, Bound]:
        """Start a scope of more facts; returns what :meth:`leave` needs."""
        outer = self.memo
        self.memo = {}
        return outer

    def leave(self, outer: dict[Expr, Bound]) -> None:
        """Back to the facts before."""
        self.memo = outer


def _outermost_choices(root: Expr) -> list[tuple[Expr, Expr, tuple[Expr, Expr]]]:
    """The selects of an expression that stand in no arm of another one, with their conditions and arms."""
    found: list[tuple[Expr, Expr, tuple[Expr, Expr]]] = []
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        op = stack.pop()
        if op.is_leaf or op in seen:
            continue
        seen.add(op)
        if op.__class__ is ir.Select and op.condition.dtype.is_scalar:
            found.append((op, op.condition, (op.true_value, op.false_value)))
        elif op.__class__ is ir.Call and op.op is _IF_THEN_ELSE:
            found.append((op, op.args[0], (op.args[1], op.args[2])))
        else:
            stack += op.children()
    return found


def _operands(op: Expr) -> tuple[Expr, ...]:
    """The operands whose bounds decide a node's."""
    if op.__class__ is ir.Select:
        return (op.true_value, op.false_value)
    if op.__class__ is ir.Cast:
        return (op.value,) if op.value.dtype.is_integral else _logarithm_of(op.value)
    if op.__class__ is ir.Ramp:
        return (op.base, op.stride) if isinstance(op.lanes, int) else (op.base, op.stride, op.lanes)
    if op.__class__ is ir.Broadcast:
        return (op.value,)
    if op.__class__ is ir.Let:
        return (op.body,)
    if op.__class__ is ir.Shuffle:
        return op.vectors
    if op.__class__ is ir.Call:
        if op.op in _CALLS:
            return op.args
        if op.op is _IF_THEN_ELSE:
            return (op.args[1], op.args[2])
        if op.op in _SAME:
            return (op.args[0],)
    return ()


def _logarithm_of(value: Expr) -> tuple[Expr, ...]:
    """The integer ``n`` of ``ceil(log2(float(n)))``, which extents of loops hold."""
    if value.__class__ is ir.Call and value.op is _CEIL:
        inner = value.args[0]
        if inner.__class__ is ir.Call and inner.op is _LOG2:
            number = inner.args[0]
            if number.__class__ is ir.Cast and number.value.dtype.is_integral and number.dtype.bits in LOG2_LIMITS:
                return (number.value,)
    return ()


def _other(op: Expr, parts: list[Bound], limits: Bound) -> Bound:
    """The bound of a node that is no plain arithmetic."""
    if op.__class__ is ir.Call:
        combine = _CALLS.get(op.op)
        if combine is not None:
            return combine(*parts)
        if op.op is _IF_THEN_ELSE:
            return union(*parts)
        if op.op in _SAME:
            return parts[0]
        if op.op in _COUNTS:
            return (0, op.args[0].dtype.bits)
        if op.op is _VSCALE:
            return (1, 16)  # SVE's limit: 2048 bits are 16 times 128
        return limits
    if op.__class__ in (ir.Select, ir.Shuffle):
        bound = parts[0]
        for part in parts[1:]:
            bound = union(bound, part)
        return bound
    if op.__class__ is ir.Cast:
        if not parts:
            return limits
        bound = parts[0]
        if not op.value.dtype.is_integral:
            # The least integer that is at least a logarithm.
            low, high = bound
            if low < 1 or high > LOG2_LIMITS[op.value.dtype.bits]:
                return limits
            return ((int(low) - 1).bit_length(), (int(high) - 1).bit_length())
        if op.dtype.is_bool:
            return (int(bound[0] > 0 or bound[1] < 0), int(bound != (0, 0)))
        if op.value.dtype.is_uint and op.dtype.is_int and bound[1] > op.dtype.max_value:
            return limits  # the upper half of a uint64 is negative as an int64
        return bound if limits[0] <= bound[0] and bound[1] <= limits[1] else limits
    if op.__class__ is ir.Ramp:
        last = op.lanes - 1 if isinstance(op.lanes, int) else parts[2][1] - 1
        return union(parts[0], intervals.add(parts[0], intervals.multiply(parts[1], (last, last))))
    if op.__class__ in (ir.Broadcast, ir.Let):
        return parts[0]
    return limits
