"""LowerIntrin: operations become what the target has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    EQ,
    NE,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Mod,
    Mul,
    Select,
    Var,
    const,
    is_const_int,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each
from tirlower.ir.stmt import Bind, For, IfThenElse, Seq, Stmt
from tirlower.rewrite.base import Fact, FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator, stated_fact

__all__ = ["LowerIntrin", "constant_power"]

_POW = Op.get("tir.pow")
_SHIFT_LEFT = Op.get("tir.shift_left")


def _power_of_two(expr: Expr) -> int | None:
    """The exponent of a constant power of two."""
    value = expr.value if isinstance(expr, Broadcast) else expr
    if isinstance(value, IntImm) and value.value > 0 and value.value & (value.value - 1) == 0:
        return value.value.bit_length() - 1
    return None


def _correction(b: Expr, rest: Expr) -> Expr:
    """-1 where a truncated quotient is one more than the one rounded down, else 0: where the rest has not b's sign.

    Without a compare: the sign bit of ``rest ^ b``, of a rest other than 0 (that, or its negation, is negative then;
    a rest is nearer to 0 than its divisor, so that its negation cannot overflow).
    """
    dtype = rest.dtype
    negated = build.sub(const(0, dtype), rest)
    value = b.value if isinstance(b, Broadcast) else b
    if isinstance(value, IntImm) and value.value < 0:
        differs = negated
    else:
        differs = build.bitwise_and(build.bitwise_xor(rest, b), build.bitwise_or(rest, negated))
    return build.shift_right(differs, const(dtype.bits - 1, dtype))


def constant_power(op: Call) -> Expr | None:
    """``T.pow`` with one of the exponents that NumPy has operations for, and 3, as those operations; None for others.

    ``x ** 0.5`` is the square root: -0.0 for -0.0 and NaN for -inf, where C's pow gives 0.0 and inf. A base that is a
    call with effects keeps its pow, which evaluates it once.
    """
    base, exponent = op.args
    value = exponent.value if isinstance(exponent, Broadcast) else exponent
    if not isinstance(value, (IntImm, FloatImm)) or not (op.dtype.is_float or op.dtype.is_integral) or _acts(base):
        return None
    span = op.span
    if value.value == 0:
        return const(1, op.dtype)
    if value.value == 1:
        return base
    if value.value == 2:
        return Mul(base, base, span=span)
    if value.value == 3:
        return Mul(Mul(base, base, span=span), base, span=span)
    if op.dtype.is_float and value.value == -1:
        return Div(const(1, op.dtype), base, span=span)
    if op.dtype.is_float and value.value == 0.5:
        return build.call("tir.sqrt", base, span=span)
    return None


def _acts(expr: Expr) -> bool:
    return any(not isinstance(op.op, Op) or op.op.purity > Purity.READS for op in each(Call, expr))


class _Lowerer(FactMutator):
    """Divisions rounding down, by what is known of the signs of their operands."""

    def __init__(self, func: PrimFunc, branches: bool) -> None:
        super().__init__(func)
        self.may_branch = branches
        self.known_nonneg: set[Var] = set()

    # What is known is said by the statements as they were: rewritten divisions tell less.
    def visit_For(self, op: For) -> Stmt:
        # The bounds are evaluated whether the loop runs or not; that it runs is known in its body alone.
        low, extent = self.visit(op.min), self.visit(op.extent)
        with self.in_loop(op.loop_var, op.min, op.extent):
            body = self.visit(op.body)
        return op.with_(min=low, extent=extent, body=body)

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        return self.branches(op, self.visit(op.condition), op.condition)

    def visit_Seq(self, op: Seq) -> Stmt:
        done = []
        with ExitStack() as facts:
            for stmt in op.stmts:
                done.append(self.visit(stmt))
                fact = stated_fact(stmt)
                if fact is not None:
                    facts.enter_context(self.holding(fact))
        return op.with_(stmts=tuple(done)) if any(a is not b for a, b in zip(done, op.stmts, strict=True)) else op

    def visit_Bind(self, op: Bind) -> Stmt:
        dtype = op.var.dtype
        self.note_binding(op)
        if dtype.is_int and dtype.is_scalar and not self.wrapping.overflows(op.value):
            bound = self.analyzer.const_int_bound(op.value)
            low, count = bound.min_value, bound.max_value - bound.min_value + 1
            if low >= 0:
                self.known_nonneg.add(op.var)
            if low >= dtype.min_value and 0 < count <= dtype.max_value:
                self.analyzer.bind(op.var, Range(const(low, dtype), const(count, dtype)), allow_override=True)
        return self.generic(op)

    def _nonneg(self, expr: Expr) -> bool:
        if expr.dtype.is_uint or (isinstance(expr, Var) and (expr.nonneg or expr in self.known_nonneg)):
            return True
        return not self.wrapping.overflows(expr) and self.analyzer.can_prove_greater_equal(expr, 0)

    def _shift(self, a: Expr, b: Expr) -> int | None:
        """A numerator lower bound makes ``a + c * b`` nonnegative for a small constant c; that c."""
        if not self._nonneg(b) or self.wrapping.overflows(a):
            return None
        low = self.analyzer.const_int_bound(a).min_value
        least = self.analyzer.const_int_bound(b).min_value
        if low >= 0 or low < -(2**31) or least < 1:
            return None
        c = -(low // least)
        most_a, most_b = self.analyzer.const_int_bound(a).max_value, self.analyzer.const_int_bound(b).max_value
        # Neither the product nor the sum may overflow.
        return c if c * most_b <= a.dtype.max_value and most_a + c * most_b <= a.dtype.max_value else None

    def _exponent(self, b: Expr) -> Expr | None:
        """What ``e`` is where a divisor is ``2 ** e``, written as a shift, that does not leave its type."""
        if isinstance(b, Mul):
            more, inner = _power_of_two(b.b), self._exponent(b.a)
        elif isinstance(b, Call) and b.op is _SHIFT_LEFT:
            more, inner = _power_of_two(b.args[0]), b.args[1]
        else:
            return None
        if more is None or inner is None or self.wrapping.overflows(inner):
            return None
        bound = self.analyzer.const_int_bound(inner)
        if bound.min_value < 0 or bound.max_value + more >= b.dtype.bits - b.dtype.is_int:
            return None
        return build.add(inner, const(more, b.dtype)) if more else inner

    def visit_FloorDiv(self, op: FloorDiv) -> Expr:
        a, b, kind = op.a, op.b, op.dtype
        if kind.is_float:
            return op  # by the remainder, which machine code computes exactly
        shift = _power_of_two(b)
        if shift is not None:
            return a if shift == 0 else build.shift_right(a, const(shift, kind))
        exponent = self._exponent(b)
        if exponent is not None:
            return build.shift_right(a, exponent)
        if kind.is_uint or is_const_int(b, 0):
            return Div(a, b, span=op.span)
        if self._nonneg(b):
            if self._nonneg(a) or self._nonneg(op):
                return build.truncdiv(a, b)
            c = self._shift(a, b)
            if c is not None:
                return build.sub(build.truncdiv(build.add(a, build.mul(const(c, kind), b)), b), const(c, kind))
            quotient, rest = build.truncdiv(a, b), build.truncmod(a, b)
            if kind.element in ("int32", "int64"):
                # rest < 0 exactly where the truncated quotient is one too large: its sign bit is the correction.
                return build.add(quotient, build.shift_right(rest, const(kind.bits - 1, kind)))
            zero = const(0, kind)
            return Select(build.ge(rest, zero), quotient, build.sub(quotient, const(1, kind)), span=op.span)
        # No lets: the division may be shared, and a variable is defined once.
        return self._by_signs(op, build.truncdiv, build.add(Div(a, b), _correction(b, Mod(a, b))))

    def visit_FloorMod(self, op: FloorMod) -> Expr:
        a, b, kind = op.a, op.b, op.dtype
        if kind.is_float:
            return op
        shift = _power_of_two(b)
        if shift is not None:
            return build.bitwise_and(a, const((1 << shift) - 1, kind))
        if self._exponent(b) is not None:
            return build.bitwise_and(a, build.sub(b, const(1, kind)))
        if kind.is_uint or is_const_int(b, 0):
            return Mod(a, b, span=op.span)
        if self._nonneg(b):
            if self._nonneg(a):
                return build.truncmod(a, b)
            c = self._shift(a, b)
            if c is not None:
                return build.truncmod(build.add(a, build.mul(const(c, kind), b)), b)
            rest = build.truncmod(a, b)
            if kind.element in ("int32", "int64"):
                return build.add(rest, build.bitwise_and(b, build.shift_right(rest, const(kind.bits - 1, kind))))
            return Select(build.ge(rest, const(0, kind)), rest, build.add(rest, b), span=op.span)
        rest = Mod(a, b)
        rounded = build.add(rest, build.bitwise_and(b, _correction(b, rest)))
        return self._by_signs(op, build.truncmod, rounded)

    def _by_signs(self, op: FloorDiv | FloorMod, divide: Callable[[Expr, Expr], Expr], rounded: Expr) -> Expr:
        """Operands that turn out not to be negative are divided without signs: nothing waits for the correction then.

        Only where a division takes so long that a branch is worth it, which processors foresee as long as the signs
        are what they were: of 64-bit scalars.
        """
        dtype = op.dtype
        if not self.may_branch or dtype.bits < 64 or not dtype.is_scalar or isinstance(op.b, IntImm):
            return rounded
        unsigned = DataType.of("uint", dtype.bits)
        found = divide(Cast(unsigned, op.a), Cast(unsigned, op.b))
        positive = build.ge(build.bitwise_or(op.a, op.b), const(0, dtype))
        return build.if_then_else(positive, Cast(dtype, found), rounded, span=op.span)

    def enter_Max(self, op: Max) -> Expr | None:
        """Of what is not negative both roundings are the same; a power of two has its shift already."""
        quotient, least = op.a, op.b
        if not isinstance(quotient, FloorDiv) or not isinstance(least, IntImm) or least.value < 0:
            return None
        if not quotient.dtype.is_int or _power_of_two(quotient.b) is not None or not self._nonneg(quotient.b):
            return None
        return build.max_(build.truncdiv(self.visit(quotient.a), self.visit(quotient.b)), least, span=op.span)

    def visit_Call(self, op: Call) -> Expr:
        made = constant_power(op) if op.op is _POW else None
        return op if made is None else made

    # A test of divisibility needs no rounding down: it holds for both remainders alike.
    def enter_EQ(self, op: EQ) -> Expr | None:
        return self._divisibility(op, EQ)

    def enter_NE(self, op: NE) -> Expr | None:
        return self._divisibility(op, NE)

    def _divisibility(self, op: EQ | NE, kind: type[EQ] | type[NE]) -> Expr | None:
        if isinstance(op.a, FloorMod) and is_const_int(op.b, 0) and op.a.dtype.is_integral:
            rest = Mod(self.visit(op.a.a), self.visit(op.a.b), span=op.a.span)
            return kind(rest, op.b, span=op.span)
        return None


class LowerIntrin(FuncPass):
    """Divisions rounding down become truncating ones, shifts and masks, by what is known of the operands' signs.

    Powers with the exponents 0, 1, 2, 3 and, of floats, -1 and 0.5 become products, reciprocals and square roots. A
    divisor that is a power of two, or is written as one (``T.shift_left(1, s)``), becomes a shift or a mask; operands known not to be negative need no correction; others get the
    cheapest exact one; with ``branches``, 64-bit scalars whose signs nothing tells are divided without signs where both turn out
    not to be negative. Divisions of floats become a division and a floor. Other mathematical intrinsics are left to the code
    generator, which has its own forms of them. Needs nothing; it stands last, since the passes before it reason about
    the divisions that it hides. Raises nothing.

    >>> from tirlower.script import parse
    >>> print(LowerIntrin()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((64,), "int32"), n: T.int32):
    ...     for i in range(64):
    ...         A[i] = i // 8 + i // 3 + (n - i) // 3
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(64):
            A[i] = T.shift_right(i, 3) + T.Div(i, 3) + (T.Div(n - i, 3) + T.shift_right(T.truncmod(n - i, 3), 31))
    """

    name = "tir.LowerIntrin"
    breaks = (Fact.DIVISIONS,)
    branches: bool = False

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the divisions of a function."""
        return func.with_body(_Lowerer(func, self.branches).visit(func.body))
