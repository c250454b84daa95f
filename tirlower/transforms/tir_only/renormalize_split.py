"""RenormalizeSplitPattern: divisions inside, remainders outside, as the loops of a split index were written."""

from __future__ import annotations

import functools
import math

from tirlower.arith.bounds import is_index_type
from tirlower.ir import build
from tirlower.ir.expr import (
    GE,
    GT,
    LE,
    LT,
    Add,
    Broadcast,
    CompareOp,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Ramp,
    const,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["RenormalizeSplitPattern"]


def _value(expr: Expr) -> int | None:
    """The value of a constant, or of a broadcast of one."""
    inner = expr.value if isinstance(expr, Broadcast) else expr
    return inner.value if isinstance(inner, IntImm) else None


def _term(expr: Expr) -> tuple[Expr, int] | None:
    """``x`` and ``c`` of a product by a constant."""
    if isinstance(expr, Mul):
        for x, c in ((expr.a, expr.b), (expr.b, expr.a)):
            value = _value(c)
            if value is not None:
                return x, value
    return None


MAX_TERMS = 16
"""Longer sums are looked at as two parts."""


def _terms(expr: Expr) -> list[Expr]:
    """The terms of a sum, left to right, whatever way it leans; of a long one the two parts."""
    found: list[Expr] = []
    stack = [expr]
    while stack:
        part = stack.pop()
        if isinstance(part, Add):
            stack += [part.b, part.a]
        else:
            found.append(part)
        if len(found) + len(stack) > MAX_TERMS:
            return [expr.a, expr.b] if isinstance(expr, Add) else [expr]
    return found


class _Renormalizer(Mutator):
    folds = True

    def __init__(self, func: PrimFunc) -> None:
        self.analyzer, self.wrapping = analyzer_of(func)

    def visit_FloorDiv(self, op: FloorDiv) -> Expr:
        new = None if self.wrapping.wraps(op) else self._divided(op.a, op.b)
        return op if new is None else new

    def floordiv(self, a: Expr, b: Expr) -> Expr:
        new = self._divided(a, b)
        return build.floordiv(a, b) if new is None else new

    def _divided(self, a: Expr, b: Expr) -> Expr | None:
        """``a // b`` in its normal form; None where it has that form."""
        divisor = _value(b)
        dtype = b.dtype
        if divisor is None or divisor <= 0 or not dtype.is_integral:
            return None
        if isinstance(a, FloorMod):
            modulus = _value(a.b)
            if modulus is not None and modulus > 0 and modulus % divisor == 0:
                return build.floormod(self.floordiv(a.a, b), const(modulus // divisor, dtype))
            return None
        if not is_index_type(dtype.element):
            return None  # where sums wrap they cannot be divided term by term
        if isinstance(a, Ramp):
            return self._ramp(a, divisor)
        product = _term(a)
        if product is not None:
            common = math.gcd(product[1], divisor)
            if common == 1:
                return None
            scaled = build.mul(product[0], const(product[1] // common, dtype))
            return self.floordiv(scaled, const(divisor // common, dtype))
        if not isinstance(a, Add):
            return None
        terms = _terms(a)
        for at, first in enumerate(terms):
            term = _term(first)
            common = math.gcd(term[1], divisor) if term is not None else 1
            if term is None or common == 1:
                continue
            x, factor = term
            lead = build.mul(x, const(factor // common, dtype))
            rest = functools.reduce(build.add, terms[:at] + terms[at + 1 :])
            inner = self.floordiv(rest, const(common, dtype))
            total = build.add(lead, inner) if at == 0 else build.add(inner, lead)
            return self.floordiv(total, const(divisor // common, dtype))
        return None

    def _ramp(self, op: Ramp, divisor: int) -> Expr | None:
        stride = _value(op.stride)
        dtype = op.base.dtype
        if stride is None or not isinstance(op.lanes, int):
            return None
        base = self.floordiv(op.base, const(divisor, dtype))
        if stride % divisor == 0:
            return Ramp(base, const(stride // divisor, dtype), op.lanes)
        known = self.analyzer.modular_set(op.base)
        last = known.base + (op.lanes - 1) * stride
        if known.coeff % divisor == 0 and known.base // divisor == last // divisor:
            return Broadcast(base, op.lanes)  # all lanes fall into one multiple
        return None

    def visit_LT(self, op: LT) -> Expr:
        return self._shifted(op)

    def visit_LE(self, op: LE) -> Expr:
        return self._shifted(op)

    def visit_GT(self, op: GT) -> Expr:
        return self._shifted(op)

    def visit_GE(self, op: GE) -> Expr:
        return self._shifted(op)

    def _shifted(self, op: CompareOp) -> Expr:
        """``x + c1 < c2`` as ``x < c2 - c1``."""
        limit = _value(op.b)
        dtype = op.b.dtype
        if limit is None or not isinstance(op.a, Add) or not is_index_type(dtype) or self.wrapping.wraps(op):
            return op
        for x, c in ((op.a.a, op.a.b), (op.a.b, op.a.a)):
            shift = _value(c)
            if shift is not None and dtype.min_value <= limit - shift <= dtype.max_value:
                return op.with_(a=x, b=const(limit - shift, dtype))
        return op


class RenormalizeSplitPattern(FuncPass):
    """Quotients of remainders become remainders of quotients, ``x % 16 // 4`` to ``x // 4 % 4``.

    The rules, for integer constants of which one divides the other, scalars and vectors alike:
    ``floordiv(floormod(x, c3), c2)`` to ``floormod(floordiv(x, c2), c3 // c2)``; ``floordiv(x * c1 + y, c2)`` (and
    without ``y``) divided through by the greatest common divisor of ``c1`` and ``c2``; a ramp by its base and stride; ``x + c1 < c2`` to
    ``x < c2 - c1`` (and the other orders). Those with sums apply to int32 and int64, whose index arithmetic does not
    overflow; on data, whose arithmetic wraps, nothing is done. Loops fused and split again then show equal subterms, and divisions by one constant, to the passes
    after it (Simplify and CommonSubexprElimTIR). Needs nothing, raises nothing.

    >>> from tirlower.script import parse
    >>> print(RenormalizeSplitPattern()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((4, 4), "int32")):
    ...     for i in range(64):
    ...         if i + 1 < 17:
    ...             A[i % 16 // 4, (i * 6 + i % 4) // 2 % 4] = i
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((4, 4), "int32")):
        for i in range(64):
            if i < 16:
                A[i // 4 % 4, (i * 3 + i // 2 % 2) % 4] = i
    """

    name = "tir.RenormalizeSplitPattern"

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the divisions and comparisons of a function."""
        return func.with_body(_Renormalizer(func).visit(func.body))
