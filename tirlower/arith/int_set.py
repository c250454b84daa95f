"""Interval sets with symbolic ends, and what an expression ranges over when variables do.

``eval_set(i * 4 + j, {i: Range(0, n), j: Range(0, 4)})`` is ``[0, n * 4 - 1]``: variables of the map are relaxed over
their domains, others stay in the ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from tirlower import ir
from tirlower.arith import intervals
from tirlower.arith.arguments import list_of
from tirlower.arith.bounds import MAX_CHOICE_DEPTH, is_index_type
from tirlower.arith.conditions import negated
from tirlower.arith.narrow_domains import clips
from tirlower.diagnostics import TirError
from tirlower.ir import INT32, DataType, Expr, IntImm, Range, Var, as_expr, build, is_const_int
from tirlower.ir.build import BinaryBuilder
from tirlower.ir.expr import ExprLike
from tirlower.ir.op import Op
from tirlower.ir.query import mentions

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["IntSet", "IntervalSet", "SetEvaluator", "intersect_sets", "union_sets"]


class IntervalSet:
    """The integers from ``min_value`` to ``max_value``, both included; None means without end.

    >>> IntervalSet(0, 7)
    IntervalSet[0, 7]
    >>> IntervalSet.everything().is_everything()
    True
    """

    __slots__ = ("_empty", "max_value", "min_value")

    def __init__(self, min_value: ExprLike | None, max_value: ExprLike | None) -> None:
        self.min_value: Expr | None = None if min_value is None else as_expr(min_value)
        self.max_value: Expr | None = None if max_value is None else as_expr(max_value)
        self._empty = False

    @classmethod
    def everything(cls) -> IntervalSet:
        """All integers."""
        return cls(None, None)

    @classmethod
    def nothing(cls) -> IntervalSet:
        """The empty set."""
        made = cls(None, None)
        made._empty = True
        return made

    @classmethod
    def single_point(cls, value: ExprLike) -> IntervalSet:
        """The set of one value."""
        value = as_expr(value)
        return cls(value, value)

    @classmethod
    def from_range(cls, dom: Range) -> IntervalSet:
        """The integers of a range."""
        return cls(dom.min, build.sub(build.add(dom.min, dom.extent), 1))

    @classmethod
    def vector(cls, value: Expr) -> IntervalSet:
        """The least interval around the lanes of a vector; of a scalar the set of it alone.

        >>> from tirlower.ir import Ramp, Var
        >>> IntervalSet.vector(Ramp(Var("x"), 2, 4))
        IntervalSet[x, x + 6]
        """
        if isinstance(value, ir.Broadcast):
            return cls.single_point(value.value)
        exact = isinstance(value, ir.Ramp) and is_index_type(value.base.dtype)
        if isinstance(value, ir.Ramp) and exact and isinstance(value.stride, IntImm) and isinstance(value.lanes, int):
            last = build.add(value.base, value.stride.value * (value.lanes - 1))
            return cls(value.base, last) if value.stride.value >= 0 else cls(last, value.base)
        return cls.single_point(value) if value.dtype.is_scalar else cls.everything()

    def is_nothing(self) -> bool:
        """Whether it is the empty set."""
        return self._empty

    def is_everything(self) -> bool:
        """Whether it is known to be without end on both sides."""
        return not self.is_nothing() and self.min_value is None and self.max_value is None

    def is_single_point(self) -> bool:
        """Whether both ends are one expression."""
        low, high = self.min_value, self.max_value
        return low is not None and (low is high or (isinstance(low, IntImm) and is_const_int(high, low.value)))

    def to_range(self, analyzer: Analyzer | None = None) -> Range | None:
        """The set as a range, or None when it has no end."""
        if self.min_value is None or self.max_value is None:
            return None
        extent = build.add(build.sub(self.max_value, self.min_value), 1)
        return Range(self.min_value, analyzer.simplify(extent) if analyzer is not None else extent)

    def __repr__(self) -> str:
        if self.is_nothing():
            return "IntervalSet[]"
        low = "neg_inf" if self.min_value is None else str(self.min_value)
        high = "pos_inf" if self.max_value is None else str(self.max_value)
        return f"IntervalSet[{low}, {high}]"


IntSet = IntervalSet
"""TIR's name of sets of integers, of which intervals are the only ones."""


def _checked(analyzer: object, sets: Iterable[IntervalSet], function: str) -> list[IntervalSet]:
    if not hasattr(analyzer, "can_prove"):
        raise TirError(
            f"{function}: analyzer is {analyzer!r}, which is no Analyzer",
            origin="arith",
            help="give tirlower.arith.Analyzer()",
        )
    return list_of(sets, IntervalSet, function, "sets", "give a list of sets: [IntervalSet(0, 7)]")


def union_sets(analyzer: Analyzer, sets: Iterable[IntervalSet]) -> IntervalSet:
    """The least interval around some sets."""
    result = IntervalSet.nothing()
    for one in _checked(analyzer, sets, "union_sets"):
        if one.is_nothing():
            continue
        if result.is_nothing():
            result = one
            continue
        low = _pick(analyzer, build.min_, result.min_value, one.min_value)
        high = _pick(analyzer, build.max_, result.max_value, one.max_value)
        result = IntervalSet(low, high)
    return result


def intersect_sets(analyzer: Analyzer, sets: Iterable[IntervalSet]) -> IntervalSet:
    """The interval common to some sets; nothing when they certainly do not meet."""
    low: Expr | None = None
    high: Expr | None = None
    for one in _checked(analyzer, sets, "intersect_sets"):
        if one.is_nothing():
            return one
        low = (
            one.min_value
            if low is None
            else low
            if one.min_value is None
            else _pick(analyzer, build.max_, low, one.min_value)
        )
        high = (
            one.max_value
            if high is None
            else high
            if one.max_value is None
            else _pick(analyzer, build.min_, high, one.max_value)
        )
    if low is not None and high is not None and analyzer.can_prove(build.lt(high, low)):
        return IntervalSet.nothing()
    return IntervalSet(low, high)


Quantifier: TypeAlias = "Callable[[Iterable[object]], bool]"


def _pick(analyzer: Analyzer, choose: BinaryBuilder, a: Expr | None, b: Expr | None) -> Expr | None:
    """``choose(a, b)`` simplified; an open end stays open."""
    if a is None or b is None:
        return None
    return a if a is b else analyzer.simplify(choose(a, b))


_ITE = Op.get("tir.if_then_else")
_SAME = (Op.get("tir.likely"), Op.get("tir.ignore_loop_partition"))
_SHIFTS = (Op.get("tir.shift_right"), Op.get("tir.shift_left"))
_EXACT: dict[object, Callable[[intervals.Bound, intervals.Bound], intervals.Bound]] = {
    ir.Add: intervals.add,
    ir.Sub: intervals.subtract,
    ir.Mul: intervals.multiply,
    _SHIFTS[1]: intervals.shift_left,
}


def _power(dtype: DataType, count: Expr) -> IntervalSet | None:
    """What a shift by a constant multiplies or divides by, None where the type does not hold it."""
    if not isinstance(count, IntImm) or not 0 <= count.value < dtype.bits or 1 << count.value > dtype.max_value:
        return None
    return IntervalSet.single_point(IntImm(dtype, 1 << count.value))


class SetEvaluator:
    """Evaluates expressions over the domains of some variables."""

    def __init__(self, analyzer: Analyzer, dom_map: Mapping[Var, IntervalSet | Range], depth: int = 0) -> None:
        self._analyzer = analyzer
        self._depth = depth
        self._domains = {v: IntervalSet.from_range(d) if isinstance(d, Range) else d for v, d in dom_map.items()}
        for var, dom in self._domains.items():
            if not isinstance(dom, IntervalSet):
                raise TirError(
                    f"the variable {var!r} ranges over a Range or an IntervalSet, got {dom!r}",
                    help="write Range(min, extent) or IntervalSet(min, max)",
                )
        self._given = frozenset(self._domains)
        self._memo: dict[Expr, IntervalSet] = {}

    def of(self, root: Expr) -> IntervalSet:
        """The interval that an expression ranges over."""
        memo = self._memo
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            if op in memo:
                stack.pop()
                continue
            if op.__class__ is ir.Let:
                own = self._analyzer.lets.own(op, self._given)
                if own is not op:
                    if own in memo:
                        memo[op] = memo[own]
                    else:
                        stack.append(own)
                    continue
            if op.__class__ is ir.Let and op.body not in memo:
                if op.value not in memo:
                    stack.append(op.value)
                    continue
                self._domains[op.var] = memo[op.value]
            chosen = self._choice(op)
            if chosen is not None:
                stack.pop()
                memo[op] = chosen
                continue
            parts = self._operands(op)
            waiting = [part for part in parts if part not in memo]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            memo[op] = self._combine(op, [memo[part] for part in parts])
        return memo[root]

    def _choice(self, op: Expr) -> IntervalSet | None:
        """What a choice ranges over whose condition leaves less of the domains in one of its arms; None for others."""
        if op.__class__ is ir.Select:
            condition, arms = op.condition, (op.true_value, op.false_value)
        elif op.__class__ is ir.Call and op.op is _ITE:
            condition, arms = op.args[0], (op.args[1], op.args[2])
        else:
            return None
        if self._depth >= MAX_CHOICE_DEPTH or not condition.dtype.is_scalar or not mentions(condition, self._domains):
            return None
        narrowed = [self._where(fact) for fact in (condition, negated(condition))]
        if all(domains is self._domains for domains in narrowed):
            return None
        parts: list[IntervalSet] = []
        for arm, domains in zip(arms, narrowed, strict=True):
            if domains is not None:
                parts.append(SetEvaluator(self._analyzer, domains, self._depth + 1).of(arm))
        return union_sets(self._analyzer, parts)

    def _where(self, fact: Expr) -> dict[Var, IntervalSet] | None:
        """The domains where a fact holds; None where it cannot."""
        found = clips(self._analyzer, fact, self._domains, self.of)
        if not found:
            return self._domains
        domains = dict(self._domains)
        for var, low, high in found:
            domains[var] = intersect_sets(self._analyzer, [domains[var], IntervalSet(low, high)])
            if domains[var].is_nothing():
                return None
        return domains

    def _operands(self, op: Expr) -> tuple[Expr, ...]:
        if isinstance(op, ir.BinaryOp):
            return (op.a, op.b)
        if op.__class__ is ir.Select:
            return (op.true_value, op.false_value)
        if op.__class__ is ir.Cast:
            return (op.value,) if op.value.dtype.is_integral else ()
        if op.__class__ is ir.Ramp:
            return (op.base, op.stride)
        if op.__class__ is ir.Broadcast:
            return (op.value,)
        if op.__class__ is ir.Let:
            return (op.body,)
        if op.__class__ is ir.Call:
            if op.op is _ITE:
                return (op.args[1], op.args[2])
            if op.op in _SAME:
                return (op.args[0],)
            if op.op in _SHIFTS and isinstance(op.args[1], IntImm):
                return (op.args[0],)
        return ()

    def _combine(self, op: Expr, parts: list[IntervalSet]) -> IntervalSet:
        kind = op.__class__
        if op.__class__ is Var:
            return self._variable(op)
        if any(part.is_nothing() for part in parts):
            return IntervalSet.nothing()
        chooses = kind is ir.Select or (op.__class__ is ir.Call and op.op is _ITE)
        if parts and all(part.is_single_point() for part in parts) and kind is not ir.Ramp and not op.dtype.is_vector:
            if not chooses and kind is not ir.Let:
                return self._point(op, parts)
        if self._leaves_its_type(op, parts):
            return self._constant_bounds(op)
        if kind is ir.Add or kind is ir.Sub:
            a, b = parts
            first, second = (b.min_value, b.max_value) if kind is ir.Add else (b.max_value, b.min_value)
            step = build.add if kind is ir.Add else build.sub
            return IntervalSet(self._apply(step, a.min_value, first), self._apply(step, a.max_value, second))
        if kind is ir.Min:
            return self._extreme(parts, build.min_, low_open=any, high_open=all)
        if kind is ir.Max:
            return self._extreme(parts, build.max_, low_open=all, high_open=any)
        if kind is ir.Mul:
            return self._product(*parts)
        if kind in _DIVISIONS:
            return self._division(op, *parts)
        if chooses:
            return union_sets(self._analyzer, parts)
        if op.__class__ is ir.Cast and parts and is_index_type(op.dtype) and is_index_type(op.value.dtype):
            low, high = (
                None if e is None else build.cast(op.dtype, e) for e in (parts[0].min_value, parts[0].max_value)
            )
            return IntervalSet(low, high)
        if op.__class__ is ir.Ramp:
            return self._ramp(op, *parts)
        if kind is ir.Broadcast or kind is ir.Let or (op.__class__ is ir.Call and op.op in _SAME):
            return parts[0]
        if op.__class__ is ir.Call and parts and op.op in _SHIFTS and (factor := _power(op.dtype, op.args[1])):
            return self._product(parts[0], factor) if op.op is _SHIFTS[1] else self._floordiv(parts[0], factor)
        if mentions(op, self._domains):
            return self._constant_bounds(op)
        return IntervalSet.single_point(op)

    def _leaves_its_type(self, op: Expr, parts: list[IntervalSet]) -> bool:
        """Whether an operation on the ends may wrap: data does, and no constant says where an index past its type is."""
        dtype = op.dtype
        exact = _EXACT.get(op.op if op.__class__ is ir.Call else op.__class__)
        if exact is None or dtype is INT32 or not parts or not dtype.is_integral or dtype.is_vector:
            return False
        bounds: list[intervals.Bound] = []
        for part in parts:
            ends = (part.min_value, part.max_value)
            if is_index_type(dtype):
                known = [end.value if isinstance(end, IntImm) else 0 for end in ends]
                bounds.append((known[0], known[1]))
            else:
                first, last = (
                    intervals.EVERYTHING if end is None else self._analyzer.const_int_bound(end).ends for end in ends
                )
                bounds.append((max(first[0], dtype.min_value), min(last[1], dtype.max_value)))
        if op.__class__ is ir.Call:
            bounds.append(self._analyzer.const_int_bound(op.args[1]).ends)
        least, most = exact(*bounds)
        return least < dtype.min_value or most > dtype.max_value

    def _constant_bounds(self, op: Expr) -> IntervalSet:
        """What the type and the facts say of an expression that cannot be followed."""
        if not op.dtype.is_integral or op.dtype.is_vector:
            return IntervalSet.everything()
        least, most = self._analyzer.const_int_bound(op).ends
        low = None if least <= op.dtype.min_value else IntImm(op.dtype, int(least))
        high = None if most >= op.dtype.max_value else IntImm(op.dtype, int(most))
        return IntervalSet(low, high)

    def _variable(self, var: Var) -> IntervalSet:
        domain = self._domains.get(var)
        if domain is None:
            return IntervalSet.single_point(var)
        if domain.is_nothing():
            return domain
        # A domain may be in terms of other variables of the map (a triangular loop): those are relaxed too.
        others = SetEvaluator(self._analyzer, {v: d for v, d in self._domains.items() if v is not var})
        low, high = domain.min_value, domain.max_value
        return IntervalSet(
            None if low is None else others.of(low).min_value, None if high is None else others.of(high).max_value
        )

    def _point(self, op: Expr, parts: list[IntervalSet]) -> IntervalSet:
        """An operation on points is the point of the operation."""
        operands = self._operands(op)
        if all(part.min_value is operand for part, operand in zip(parts, operands, strict=True)):
            return IntervalSet.single_point(op)
        points = {e: part.min_value for e, part in zip(operands, parts, strict=True) if part.min_value is not None}
        new = op.map_children({**{c: c for c in op.children()}, **points}.__getitem__)
        return IntervalSet.single_point(self._analyzer.simplify(new))

    def _apply(self, step: BinaryBuilder, a: Expr | None, b: Expr | None) -> Expr | None:
        return None if a is None or b is None else self._analyzer.simplify(step(a, b))

    def _extreme(
        self, parts: list[IntervalSet], choose: BinaryBuilder, low_open: Quantifier, high_open: Quantifier
    ) -> IntervalSet:
        lows, highs = [p.min_value for p in parts], [p.max_value for p in parts]
        return IntervalSet(self._fold(lows, choose, low_open), self._fold(highs, choose, high_open))

    def _fold(self, ends: list[Expr | None], choose: BinaryBuilder, is_open: Quantifier) -> Expr | None:
        if is_open(end is None for end in ends):
            return None
        known = [end for end in ends if end is not None]
        return known[0] if len(known) == 1 else self._analyzer.simplify(choose(known[0], known[1]))

    def _product(self, a: IntervalSet, b: IntervalSet) -> IntervalSet:
        if not b.is_single_point():
            a, b = b, a
        prove = self._analyzer.can_prove
        if not b.is_single_point():
            if all(e is not None and prove(build.ge(e, 0)) for e in (a.min_value, b.min_value)):
                return IntervalSet(
                    self._apply(build.mul, a.min_value, b.min_value), self._apply(build.mul, a.max_value, b.max_value)
                )
            return IntervalSet.everything()
        factor = b.min_value
        assert factor is not None
        low, high = (self._apply(build.mul, end, factor) for end in (a.min_value, a.max_value))
        if is_const_int(factor, 0):
            return b
        if prove(build.ge(factor, 0)):
            return IntervalSet(low, high)
        if prove(build.le(factor, 0)):
            return IntervalSet(high, low)
        if low is None or high is None:
            return IntervalSet.everything()
        sign = build.ge(factor, 0)
        return IntervalSet(build.select(sign, low, high), build.select(sign, high, low))

    def _division(self, op: Expr, a: IntervalSet, b: IntervalSet) -> IntervalSet:
        kind = op.__class__
        prove = self._analyzer.can_prove
        if not b.is_single_point() or b.min_value is None or not prove(build.gt(b.min_value, 0)):
            if (
                b.is_single_point()
                and isinstance(b.min_value, IntImm)
                and b.min_value.value < 0
                and kind is ir.FloorDiv
            ):
                negated = IntervalSet(self._negated(a.max_value), self._negated(a.min_value))
                return self._floordiv(negated, IntervalSet.single_point(build.neg(b.min_value)))
            return IntervalSet.everything()
        if kind in (ir.Div, ir.Mod) and not (a.min_value is not None and prove(build.ge(a.min_value, 0))):
            if kind is ir.Div:
                step = build.truncdiv
                return IntervalSet(
                    self._apply(step, a.min_value, b.min_value), self._apply(step, a.max_value, b.min_value)
                )
            last = build.sub(b.min_value, 1)
            return IntervalSet(self._analyzer.simplify(build.neg(last)), self._analyzer.simplify(last))
        if kind in (ir.FloorDiv, ir.Div):
            return self._floordiv(a, b, build.floordiv if kind is ir.FloorDiv else build.truncdiv)
        return self._floormod(a, b, build.floormod if kind is ir.FloorMod else build.truncmod)

    def _negated(self, end: Expr | None) -> Expr | None:
        return None if end is None else self._analyzer.simplify(build.neg(end))

    def _floordiv(self, a: IntervalSet, b: IntervalSet, step: BinaryBuilder = build.floordiv) -> IntervalSet:
        return IntervalSet(self._apply(step, a.min_value, b.min_value), self._apply(step, a.max_value, b.min_value))

    def _floormod(self, a: IntervalSet, b: IntervalSet, step: BinaryBuilder) -> IntervalSet:
        divisor = b.min_value
        assert divisor is not None
        if a.min_value is not None and a.max_value is not None:
            first, last = build.floordiv(a.min_value, divisor), build.floordiv(a.max_value, divisor)
            if self._analyzer.can_prove_equal(first, last):
                return IntervalSet(self._apply(step, a.min_value, divisor), self._apply(step, a.max_value, divisor))
            top = self._analyzer.simplify(build.sub(divisor, 1))
            # From 0 on, the remainder is at most the value itself.
            if self._analyzer.can_prove(build.ge(a.min_value, 0)) and self._analyzer.can_prove(
                build.lt(a.max_value, divisor)
            ):
                return a
            return IntervalSet(IntImm(divisor.dtype, 0), top)
        return IntervalSet(IntImm(divisor.dtype, 0), self._analyzer.simplify(build.sub(divisor, 1)))

    def _ramp(self, op: ir.Ramp, base: IntervalSet, stride: IntervalSet) -> IntervalSet:
        if not stride.is_single_point() or stride.min_value is None:
            return IntervalSet.everything()
        lanes = op.lanes if isinstance(op.lanes, int) else build.cast(stride.min_value.dtype, op.lanes)
        reach = build.mul(stride.min_value, build.sub(lanes, 1))
        if self._analyzer.can_prove(build.ge(reach, 0)):
            return IntervalSet(base.min_value, self._apply(build.add, base.max_value, reach))
        if self._analyzer.can_prove(build.le(reach, 0)):
            return IntervalSet(self._apply(build.add, base.min_value, reach), base.max_value)
        return IntervalSet.everything()


_DIVISIONS = frozenset((ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod))
