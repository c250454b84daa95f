"""Integer expressions as sums: what two bounds share cancels, so that the extent of ``i*4 : i*4 + 4`` is 4.

This is the little that the language itself needs to state a region; ``tirlower.arith`` has the full machinery.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.dtype import wrap_int
from tirlower.ir.expr import (
    Add,
    BufferLoad,
    Call,
    Cast,
    Expr,
    ExprLike,
    IntImm,
    Mul,
    StringImm,
    Sub,
    Var,
    as_expr,
    const,
    is_const_int,
)

__all__ = ["cancelled", "expr_key", "linear_difference", "range_between", "span_difference", "terms_of"]


_KeyOf: TypeAlias = "Callable[[Expr], object]"
_LEAF_KEYS = cast(
    "dict[type, _KeyOf]",
    {
        Var: id,
        IntImm: lambda expr: (expr.dtype, expr.value),
        StringImm: lambda expr: expr.value,
    },
)
_OWN_KEYS = cast(
    "dict[type, _KeyOf]",
    {
        BufferLoad: lambda expr: id(expr.buffer),
        Call: lambda expr: (expr.op, expr.dtype),
        Cast: lambda expr: expr.dtype,
    },
)
"""What tells apart two nodes of a class with equal operands."""


def expr_key(expr: Expr) -> object:
    """A hashable key under which structurally equal expressions meet (variables and buffers by identity)."""
    kind = expr.__class__
    leaf = _LEAF_KEYS.get(kind)
    if leaf is not None:
        return leaf(expr)
    if expr.is_leaf:
        return (kind, expr.dtype, repr(getattr(expr, "value", None)))  # a NaN is itself, 0.0 is not -0.0
    own = _OWN_KEYS.get(kind)
    extra = None if own is None else own(expr)
    return (kind, extra, getattr(expr, "lanes", None), *[expr_key(c) for c in expr.children()])


def terms_of(expr: Expr, sign: int, into: dict[object, tuple[int, Expr]]) -> int:
    """Add ``sign * expr`` to a sum ``{key: (coefficient, term)}``; returns the constant part."""
    constant = 0
    stack: list[tuple[Expr, int]] = [(expr, sign)]
    while stack:
        op, factor = stack.pop()
        kind = op.__class__
        if kind is IntImm:
            constant += factor * op.value  # type: ignore[attr-defined]
        elif kind is Add or kind is Sub:
            stack.append((op.b, factor if kind is Add else -factor))  # type: ignore[attr-defined]
            stack.append((op.a, factor))  # type: ignore[attr-defined]
        elif kind is Mul and IntImm in (op.a.__class__, op.b.__class__):  # type: ignore[attr-defined]
            rest, times = (op.a, op.b) if op.b.__class__ is IntImm else (op.b, op.a)  # type: ignore[attr-defined]
            stack.append((rest, factor * times.value))
        else:
            key = expr_key(op)
            known = into.get(key)
            if known is None:
                into[key] = (factor, op)
            else:
                into[key] = (known[0] + factor, known[1])
    return constant


def linear_difference(a: Expr, b: Expr, plus: int = 0, always: bool = False) -> Expr:
    """``a - b + plus`` with equal terms cancelled; both have one integer dtype.

    Nothing is rewritten where ``b`` and ``plus`` are 0, unless ``always``.

    >>> from tirlower.ir import Var
    >>> i = Var("i", "int32")
    >>> linear_difference(i * 4 + 4, i * 4).value
    4
    """
    dtype = a.dtype
    if plus == 0 and not always and is_const_int(b, 0):
        return a
    terms: dict[object, tuple[int, Expr]] = {}
    constant = terms_of(a, 1, terms) + terms_of(b, -1, terms) + plus
    result: Expr | None = None
    negative: list[tuple[int, Expr]] = []
    for factor, term in terms.values():
        factor = wrap_int(factor, dtype)
        if factor > 0:
            piece = build.mul(term, const(factor, dtype))
            result = piece if result is None else build.add(result, piece)
        elif factor < 0:
            negative.append((-factor, term))
    constant = wrap_int(constant, dtype)
    if result is None and negative and constant > 0:
        result, constant = const(constant, dtype), 0
    for factor, term in negative:
        piece = build.mul(term, const(factor, dtype))
        result = build.sub(const(0, dtype) if result is None else result, piece)
    if result is None:
        return const(constant, dtype)
    if constant < 0:
        return build.sub(result, const(-constant, dtype))
    return build.add(result, const(constant, dtype))


def cancelled(expr: Expr) -> Expr:
    """An integer expression with its equal terms gathered, where there are any; else the same object."""
    if expr.is_leaf:
        return expr
    leaves = 0
    stack: list[Expr] = [expr]
    while stack:
        op = stack.pop()
        if op.__class__ is Add or op.__class__ is Sub:
            stack += (op.a, op.b)
        else:
            leaves += 1
    terms: dict[object, tuple[int, Expr]] = {}
    constant = terms_of(expr, 1, terms)
    if leaves <= sum(1 for factor, _ in terms.values() if factor) + (constant != 0):
        return expr
    return linear_difference(expr, const(0, expr.dtype), always=True)


def span_difference(start: ExprLike, stop: ExprLike) -> Expr:
    """``stop - start`` as the extent of a range, simplified where the ends share terms."""
    if isinstance(start, int) and isinstance(stop, int):
        return as_expr(stop - start)
    first, last = build.match_types(*build.operands(start, stop))
    return linear_difference(last, first)


def range_between(start: ExprLike, stop: ExprLike) -> Range:
    """The range from ``start`` up to, not including, ``stop``."""
    first, last = build.match_types(*build.operands(start, stop))
    return Range(first, linear_difference(last, first))
