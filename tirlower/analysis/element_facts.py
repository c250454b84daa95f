"""Which elements facts are about: parameters solved from indices, lanes of stored vectors, places of iterations.

What is said here are guesses where it says so; :mod:`tirlower.rewrite.buffer_contents` proves what it uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tirlower.analysis.buffer_facts import Fact, is_pure
from tirlower.arith import Analyzer
from tirlower.arith.linear import linear_coefficients
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import Add, Broadcast, Cast, Expr, IntImm, Max, Min, Mul, Ramp, Sub, Var, const
from tirlower.ir.functor import Dispatch, substitute
from tirlower.ir.query import mentions
from tirlower.ir.stmt import BufferStore, For, IfThenElse, Seq, Stmt

__all__ = ["guessed", "is_apart", "lane_value", "path_to", "reached", "vector_fact"]


def guessed(fact: Fact, asked: Sequence[Expr], analyzer: Analyzer) -> dict[Var, Expr]:
    """Values of a fact's parameters with which its element may be the one at some indices: guesses, to be proved.

    An index that is a sum of parameters times constants is read as a number of so many digits: of ``i * 4 + j`` with
    ``j`` below 4, ``i`` is the quotient and ``j`` the remainder.
    """
    ranges = {var: (low, extent) for var, low, extent in fact.params}
    bound: dict[Var, Expr] = {}
    for index, at in zip(fact.indices, asked, strict=True):
        free = [var for var in ranges if var not in bound and mentions(index, (var,))]
        if not free or index.dtype is not at.dtype or any(var.dtype is not index.dtype for var in free):
            continue
        form = linear_coefficients(analyzer.simplify(substitute(index, bound)), free)
        factors = [] if form is None else [(form[var], var) for var in free if var in form]
        digits = [(factor.value, var) for factor, var in factors if isinstance(factor, IntImm) and factor.value]
        if form is None or len(digits) != len(free):
            continue
        rest = build.sub(at, form.get(None, const(0, at.dtype)))
        for factor, var in digits:
            rest = build.sub(rest, build.mul(ranges[var][0], const(factor, at.dtype)))
        if all(factor < 0 for factor, _ in digits):
            rest, digits = build.sub(const(0, rest.dtype), rest), [(-factor, var) for factor, var in digits]
        if any(factor < 0 for factor, _ in digits):
            continue
        digits.sort(key=lambda digit: digit[0])
        for number, (factor, var) in enumerate(digits):
            low, extent = ranges[var]
            digit = build.floordiv(rest, const(factor, at.dtype))
            if number + 1 < len(digits):
                if not isinstance(extent, IntImm) or extent.value <= 0:
                    break
                digit = build.floormod(digit, extent)
            bound[var] = analyzer.simplify(build.add(digit, low))
    return bound


def is_apart(index: Expr, var: Var, fact: Fact, analyzer: Analyzer) -> bool:
    """Whether an index certainly differs between the iterations of a loop, whatever the parameters of a fact are: the
    loop's variable moves it farther than they do together."""
    others = [param for param, _, _ in fact.params]
    if index.dtype is not var.dtype:
        return False
    form = linear_coefficients(analyzer.simplify(index), [var, *others])
    factor = None if form is None else form.get(var)
    if form is None or not isinstance(factor, IntImm) or factor.value == 0:
        return False
    width = 0
    for param, _, extent in fact.params:
        moved = form.get(param)
        if moved is None:
            continue
        if not isinstance(moved, IntImm) or not isinstance(extent, IntImm):
            return False
        width += abs(moved.value) * max(extent.value - 1, 0)
    return width < abs(factor.value)


def reached(fact: Fact, place: BufferStore, loops: Mapping[Var, Range], analyzer: Analyzer) -> dict[Var, Expr]:
    """For a store to the element that a fact's one parameter names: the loop's variable that reaches it, by the
    parameter and the other loops. Nothing where no variable moves the index by one."""
    if len(fact.params) != 1:
        return {}
    param = fact.params[0][0]
    for index, wanted in zip(place.indices, fact.indices, strict=True):
        if not mentions(wanted, (param,)) or index.dtype is not wanted.dtype:
            continue
        form = linear_coefficients(analyzer.simplify(index), list(loops))
        for var in loops if form is not None else ():
            factor = form.get(var) if form is not None else None
            if isinstance(factor, IntImm) and abs(factor.value) == 1 and var.dtype is index.dtype:
                rest = analyzer.simplify(build.sub(index, build.mul(var, factor)))
                if not mentions(rest, (var,)):
                    return {var: build.mul(build.sub(wanted, rest), factor)}
    return {}


def lane_value(value: Expr, lane: Var) -> Expr | None:
    """The value of one lane of a vector, by the lane's number; None where it has no such form."""
    made = _Lane(lane).dispatch(value)
    return made if made is not None and made.dtype.is_scalar else None


class _Lane(Dispatch[Expr, Expr | None]):
    """What one lane of an expression is."""

    def __init__(self, lane: Var) -> None:
        self.lane = lane

    def on_Broadcast(self, op: Broadcast) -> Expr | None:
        return op.value

    def on_Ramp(self, op: Ramp) -> Expr | None:
        return build.add(op.base, build.mul(build.cast(op.stride.dtype, self.lane), op.stride))

    def on_Cast(self, op: Cast) -> Expr | None:
        inner = self.dispatch(op.value)
        return None if inner is None else build.cast(op.dtype.element, inner)

    def on_Add(self, op: Add | Sub | Mul | Min | Max) -> Expr | None:
        a, b = self.dispatch(op.a), self.dispatch(op.b)
        return None if a is None or b is None else type(op)(a, b)

    on_Sub = on_Mul = on_Min = on_Max = on_Add

    def otherwise(self, op: Expr) -> Expr | None:
        return None


def vector_fact(op: BufferStore, analyzer: Analyzer) -> Fact | None:
    """What a store of a vector to a run of elements says of each of them; None where it says nothing."""
    *outer, last = op.indices or (None,)
    if not isinstance(last, Ramp) or not isinstance(last.lanes, int) or not op.buffer.dtype.is_scalar:
        return None
    if not isinstance(last.stride, IntImm) or last.stride.value == 0 or not last.base.dtype.is_scalar:
        return None
    lane = Var("lane", last.base.dtype)
    value = lane_value(op.value, lane)
    if value is None or value.dtype is not op.buffer.dtype or not is_pure(value):
        return None
    analyzer.bind(lane, Range(const(0, lane.dtype), const(last.lanes, lane.dtype)))
    if mentions(value, (lane,)):
        # A ramp of data wraps lane by lane; its form here must not.
        if not value.dtype.is_int:
            return None
        known = analyzer.const_int_bound(value)
        if known.min_value < value.dtype.min_value or known.max_value > value.dtype.max_value:
            return None
    index = build.add(last.base, build.mul(lane, last.stride))
    lanes = (lane, const(0, lane.dtype), const(last.lanes, lane.dtype))
    return Fact(op.buffer, (*[i for i in outer if i is not None], index), value, const(True, "bool"), (lanes,), True)


def path_to(stmt: Stmt, wanted: BufferStore) -> list[For | Expr] | None:
    """The loops, and the conditions that hold, on the way to a store inside a statement, outermost first; None where
    something else stands around it."""
    if stmt is wanted:
        return []
    below: Iterable[tuple[Stmt | None, list[For | Expr]]]
    if isinstance(stmt, Seq):
        below = [(child, []) for child in stmt.stmts]
    elif isinstance(stmt, For):
        below = [(stmt.body, [stmt])]
    elif isinstance(stmt, IfThenElse):
        below = [(stmt.then_case, [stmt.condition]), (stmt.else_case, [build.logical_not(stmt.condition)])]
    else:
        return None
    for child, step in below:
        rest = None if child is None else path_to(child, wanted)
        if rest is not None:
            return [*step, *rest]
    return None
