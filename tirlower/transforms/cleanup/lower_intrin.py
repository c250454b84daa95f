"""LowerIntrin: operations become what the target has."""

from __future__ import annotations

from typing import Any

from tirlower.ir import build
from tirlower.ir.expr import (
    EQ,
    NE,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Select,
    Var,
    const,
    is_const_int,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import Bind, Stmt
from tirlower.transforms.analyzed import AnalyzedMutator
from tirlower.transforms.base import FuncPass
from tirlower.transforms.context import PassContext

__all__ = ["LowerIntrin"]


def _power_of_two(expr: Expr) -> int | None:
    """The exponent of a constant power of two, above 1."""
    value = getattr(expr, "value", None) if expr.__class__.__name__ == "Broadcast" else expr
    if isinstance(value, IntImm) and value.value > 0 and value.value & (value.value - 1) == 0:
        return value.value.bit_length() - 1
    return None


class _Lowerer(AnalyzedMutator):
    """Divisions rounding down, by what is known of the signs of their operands."""

    def visit_Bind(self, op: Bind) -> Stmt:
        op = self.generic(op)
        if op.var.dtype.is_integral:
            bound = self.analyzer.const_int_bound(op.value)
            if bound.min_value >= 0:
                self.known_nonneg.add(op.var)
        return op

    @property
    def known_nonneg(self) -> set[Var]:
        found: set[Var] = self.__dict__.setdefault("_known_nonneg", set())
        return found

    def _nonneg(self, expr: Expr) -> bool:
        if expr.dtype.is_uint or (isinstance(expr, Var) and (expr.nonneg or expr in self.known_nonneg)):
            return True
        return self.analyzer.can_prove_greater_equal(expr, 0)

    def _shift(self, a: Expr, b: Expr) -> int | None:
        """A numerator lower bound makes ``a + c * b`` nonnegative for a small constant c; that c."""
        if not self._nonneg(b):
            return None
        low = self.analyzer.const_int_bound(a).min_value
        least = self.analyzer.const_int_bound(b).min_value
        if not isinstance(low, int) or low >= 0 or low < -(2**31) or least < 1:
            return None
        c = -(low // least)
        most_a, most_b = self.analyzer.const_int_bound(a).max_value, self.analyzer.const_int_bound(b).max_value
        limit = a.dtype.max_value
        return c if most_a + c * most_b <= limit else None

    def visit_FloorDiv(self, op: FloorDiv) -> Expr:
        a, b, kind = op.a, op.b, op.dtype
        shift = _power_of_two(b)
        if shift is not None:
            return a if shift == 0 else build.shift_right(a, const(shift, kind))
        if kind.is_uint:
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
        quotient, rest, zero = Div(a, b), Mod(a, b), const(0, kind)
        exact = build.logical_or(
            build.logical_and(build.ge(b, zero), build.ge(rest, zero)),
            build.logical_and(build.lt(b, zero), build.le(rest, zero)),
        )
        return Select(exact, quotient, build.sub(quotient, const(1, kind)), span=op.span)

    def visit_FloorMod(self, op: FloorMod) -> Expr:
        a, b, kind = op.a, op.b, op.dtype
        shift = _power_of_two(b)
        if shift is not None:
            return build.bitwise_and(a, const((1 << shift) - 1, kind))
        if kind.is_uint:
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
        rest, zero = Mod(a, b), const(0, kind)
        exact = build.logical_or(
            build.logical_and(build.ge(b, zero), build.ge(rest, zero)),
            build.logical_and(build.lt(b, zero), build.le(rest, zero)),
        )
        return Select(exact, rest, build.add(rest, b), span=op.span)

    # A test of divisibility needs no rounding down: it holds for both remainders alike.
    def enter_EQ(self, op: EQ) -> Expr | None:
        return self._divisibility(op, EQ)

    def enter_NE(self, op: NE) -> Expr | None:
        return self._divisibility(op, NE)

    def _divisibility(self, op: Any, kind: Any) -> Expr | None:
        if isinstance(op.a, FloorMod) and is_const_int(op.b, 0) and _power_of_two(op.a.b) is None:
            rest = Mod(self.visit(op.a.a), self.visit(op.a.b), span=op.a.span)
            made: Expr = kind(rest, op.b, span=op.span)
            return made
        return None


class LowerIntrin(FuncPass):
    """Divisions rounding down become truncating ones, shifts and masks, by what is known of the operands' signs.

    A power of two becomes a shift or a mask; operands known not to be negative need no correction; others get the
    cheapest exact one. Mathematical intrinsics are left to the code generator, which has its own forms of them.
    """

    name = "tir.LowerIntrin"

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the divisions of a function."""
        return func.with_body(_Lowerer().visit(func.body))
