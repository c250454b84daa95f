"""Smart constructors: operators with literal typing, type matching and the constant folding that users expect.

Integer literals take the type of the typed operand they meet; operands of different types are converted (int32 with
int64 gives int64, an integer with a float the float, a scalar with a vector is broadcast). Folded are: two
constants; ``x + 0``, ``x - 0``, ``x * 1``, ``x * 0``, ``x // 1``, ``x % 1`` on integers; the units of boolean
algebra. On floats only what changes no bit of any value is folded. The node constructors themselves never fold.
"""

from __future__ import annotations

import math
from typing import Protocol

from tirlower.diagnostics import Span, TirError
from tirlower.ir import expr as ir
from tirlower.ir.dtype import BOOL, INT32, DataType, wrap_int
from tirlower.ir.expr import (
    And,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Expr,
    ExprLike,
    FloatImm,
    IntImm,
    Not,
    Or,
    as_expr,
    const,
    is_const_int,
)
from tirlower.ir.integers import EXACT
from tirlower.ir.op import Op

__all__ = [
    "abs_", "add", "all_of", "any_of", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "call", "cast",
    "ceildiv", "common_type", "eq", "exact_ceildiv", "floordiv", "floormod", "ge", "gt", "if_then_else", "is_positive_const", "le", "likely",
    "logical_and", "logical_not", "logical_or", "lt", "match_types", "max_", "max_value", "min_", "min_value", "mul",
    "ne", "neg", "reinterpret", "select", "shift_left", "shift_right", "sub", "true_div", "truncdiv", "truncmod",
]  # fmt: skip

_LITERALS = (bool, int, float)


class BinaryBuilder(Protocol):
    """A smart constructor of two operands."""

    def __call__(self, a: ExprLike, b: ExprLike, span: Span | None = None, /) -> Expr:
        """The operation on them, or what it folds to."""


def _fits(value: float, dtype: DataType) -> bool:
    return bool(dtype.min_value <= value <= dtype.max_value)


def _literal_like(value: float, other: Expr) -> Expr:
    """A Python number next to a typed operand takes its type, unless that would change its value."""
    dtype = other.dtype
    element = dtype.element
    if element.is_custom:
        return const(value, dtype)
    if isinstance(value, bool):
        return const(value, BOOL)
    if isinstance(value, int):
        if element.is_bool:
            return as_expr(value)
        if element.is_integral and not _fits(value, element):
            return as_expr(value)
        if element.is_handle:
            return as_expr(value)
        return const(value, dtype)
    return const(value, dtype) if element.is_float else as_expr(value)


def operands(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    """Both operands as expressions, literals typed by the other one."""
    if isinstance(a, _LITERALS):
        if not isinstance(b, _LITERALS):
            b = as_expr(b)
            return _literal_like(a, b), b
    elif isinstance(b, _LITERALS):
        a = as_expr(a)
        return a, _literal_like(b, a)
    return as_expr(a), as_expr(b)


def match_types(a: Expr, b: Expr, span: Span | None = None) -> tuple[Expr, Expr]:
    """Convert two operands to one dtype: lanes are broadcast, then the element types promoted."""
    x, y = a.dtype, b.dtype
    if x is y:
        return a, b
    if x.lanes != y.lanes or x.scalable != y.scalable:
        if x.is_scalar:
            a = Broadcast(a, _lanes_of(y), span=span)
        elif y.is_scalar:
            b = Broadcast(b, _lanes_of(x), span=span)
        else:
            raise TirError(f"vectors of different lanes: {x!s} and {y!s} in {a} and {b}", span=span)
        x, y = a.dtype, b.dtype
    p, q = x.element, y.element
    if p is q:
        return a, b
    wanted = _promote(p, q)
    if wanted is None:
        raise TirError(f"no common type of {x!s} and {y!s} in {a} and {b}", span=span, help="convert one with T.Cast")
    if p is not wanted:
        a = cast(wanted.with_lanes(x.lanes, x.scalable), a, span=span)
    if q is not wanted:
        b = cast(wanted.with_lanes(y.lanes, y.scalable), b, span=span)
    return a, b


def _lanes_of(kind: DataType) -> int | Expr:
    return ir.vscale(kind.lanes) if kind.scalable else kind.lanes


def _promote(p: DataType, q: DataType) -> DataType | None:
    if p.is_custom or q.is_custom:
        return p if p.is_custom and not q.is_custom else q if q.is_custom and not p.is_custom else None
    if p.is_float and q.is_float:
        if p.bits != q.bits:
            return p if p.bits > q.bits else q
        return DataType("float32") if p.bits <= 16 else None
    if p.is_float and q.is_integral:
        return p
    if q.is_float and p.is_integral:
        return q
    if p.is_integral and q.is_integral:
        if p.bits != q.bits:
            return p if p.bits > q.bits else q
        return p if p.is_uint else q  # the same width, mixed signs: unsigned, as in C
    return None


def common_type(x: DataType, y: DataType) -> DataType:
    """The dtype to which operands of two dtypes are converted. Raises :class:`TirError` where there is none."""
    if x is y:
        return x
    kind = x.element if x.element is y.element else _promote(x.element, y.element)
    if kind is None or not (x.is_scalar or y.is_scalar or (x.lanes, x.scalable) == (y.lanes, y.scalable)):
        raise TirError(f"no common type of {x!s} and {y!s}", help="convert one with T.Cast")
    wide = y if x.is_scalar else x
    return kind.with_lanes(wide.lanes, wide.scalable)


def _const_pair(a: Expr, b: Expr) -> tuple[float, float] | None:
    if a.__class__ is IntImm and b.__class__ is IntImm:
        return a.value, b.value
    if a.__class__ is FloatImm and b.__class__ is FloatImm and not a.dtype.is_custom:
        return a.value, b.value
    return None


def _prepare(a: ExprLike, b: ExprLike, span: Span | None) -> tuple[Expr, Expr]:
    if not (isinstance(a, Expr) and isinstance(b, Expr)):
        a, b = operands(a, b)
    return (a, b) if a.dtype is b.dtype else match_types(a, b, span)


def _int_of(value: int, dtype: DataType, span: Span | None) -> IntImm | None:
    """An integer constant, wrapped as data is; None where it is none of int32: numbers are indices, whose arithmetic is
    exact, and an operation on them that leaves the type stays."""
    if dtype is INT32 and not -0x80000000 <= value <= 0x7FFFFFFF:
        return None
    return IntImm(dtype, wrap_int(value, dtype), span=span)


def _fold(node: type[ir.BinaryOp], a: Expr, b: Expr, span: Span | None) -> Expr | None:
    if a.__class__ is IntImm and b.__class__ is IntImm:
        return _int_of(EXACT[node](a.value, b.value), a.dtype, span)
    if a.__class__ is FloatImm and b.__class__ is FloatImm and not a.dtype.is_custom:
        return FloatImm(a.dtype, EXACT[node](a.value, b.value), span=span)
    return None


def add(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """``a + b``."""
    a, b = _prepare(a, b, span)
    folded = _fold(ir.Add, a, b, span)
    if folded is not None:
        return folded
    if a.dtype.is_integral:
        if is_const_int(a, 0):
            return b
        if is_const_int(b, 0):
            return a
    return ir.Add(a, b, span=span)


def sub(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """``a - b``."""
    a, b = _prepare(a, b, span)
    folded = _fold(ir.Sub, a, b, span)
    if folded is not None:
        return folded
    if a.dtype.is_integral and is_const_int(b, 0):
        return a
    return ir.Sub(a, b, span=span)


def mul(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """``a * b``."""
    a, b = _prepare(a, b, span)
    folded = _fold(ir.Mul, a, b, span)
    if folded is not None:
        return folded
    if a.dtype.is_integral:
        if is_const_int(a, 1) or is_const_int(b, 0):
            return b
        if is_const_int(b, 1) or is_const_int(a, 0):
            return a
    return ir.Mul(a, b, span=span)


def neg(a: ExprLike, span: Span | None = None) -> Expr:
    """``-a``: a folded constant, else ``a * -1`` for integers and floats (exact for both)."""
    a = as_expr(a)
    if isinstance(a, IntImm) and (folded := _int_of(-a.value, a.dtype, span)) is not None:
        return folded
    if isinstance(a, FloatImm):
        return FloatImm(a.dtype, -a.value, span=span)
    return ir.Mul(a, const(wrap_int(-1, a.dtype) if a.dtype.is_uint else -1, a.dtype), span=span)


def _need_ints(name: str, a: Expr, span: Span | None) -> None:
    if not a.dtype.is_integral:
        raise TirError(f"{name} takes integers, got {a.dtype!s}: {a}", span=span)


def _need_divisor(b: Expr, span: Span | None) -> None:
    if is_const_int(b, 0):
        raise TirError("division by zero", span=span)


def true_div(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """``a / b`` on floats. Raises on integers, which have floordiv and truncdiv."""
    a, b = _prepare(a, b, span)
    if a.dtype.is_integral:
        raise TirError(
            f"/ on integers is ambiguous: {a} / {b}",
            span=span,
            help="use T.floordiv (//) or T.truncdiv, or cast to a float",
        )
    pair = _const_pair(a, b)
    if pair is not None and pair[1] != 0:
        return FloatImm(a.dtype, pair[0] / pair[1], span=span)
    if b.__class__ is FloatImm and b.value == 1.0:
        return a
    return ir.Div(a, b, span=span)


def truncdiv(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """Integer division that truncates toward zero."""
    a, b = _prepare(a, b, span)
    _need_ints("truncdiv", a, span)
    _need_divisor(b, span)
    folded = _fold(ir.Div, a, b, span)
    if folded is not None:
        return folded
    if is_const_int(a, 0) or is_const_int(b, 1):
        return a
    return ir.Div(a, b, span=span)


def truncmod(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """Remainder of the truncating division; on floats, ``fmod``."""
    a, b = _prepare(a, b, span)
    if a.dtype.is_float:
        return call("tir.fmod", a, b, span=span)
    _need_divisor(b, span)
    folded = _fold(ir.Mod, a, b, span)
    if folded is not None:
        return folded
    if is_const_int(a, 0):
        return a
    if is_const_int(b, 1):
        return const(0, a.dtype)
    return ir.Mod(a, b, span=span)


def floordiv(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """Division rounding down; on floats as Python's and NumPy's ``//``: by zero it is an infinity or NaN."""
    a, b = _prepare(a, b, span)
    if a.dtype.is_float:
        return ir.FloorDiv(a, b, span=span)
    _need_divisor(b, span)
    folded = _fold(ir.FloorDiv, a, b, span)
    if folded is not None:
        return folded
    if is_const_int(a, 0) or is_const_int(b, 1):
        return a
    return ir.FloorDiv(a, b, span=span)


def floormod(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """Remainder of the division rounding down; on floats as Python's and NumPy's ``%``: it has the sign of ``b``, and is exact
    where ``a`` has it too."""
    a, b = _prepare(a, b, span)
    if a.dtype.is_float:
        return ir.FloorMod(a, b, span=span)
    _need_divisor(b, span)
    folded = _fold(ir.FloorMod, a, b, span)
    if folded is not None:
        return folded
    if is_const_int(a, 0):
        return a
    if is_const_int(b, 1):
        return const(0, a.dtype)
    return ir.FloorMod(a, b, span=span)


def ceildiv(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """Division rounding up, ``(a + b - 1) // b``."""
    a, b = _prepare(a, b, span)
    return floordiv(sub(add(a, b, span), const(1, a.dtype), span), b, span)


def exact_ceildiv(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """Division rounding up, of any two numbers: as :func:`ceildiv` where the sum in that certainly stays in its type, else by
    what the quotient rounding down leaves.

    >>> i = ir.Var("i", "int32")
    >>> print(exact_ceildiv(i % 8, 3), exact_ceildiv(i, 3), exact_ceildiv(7, i), exact_ceildiv(-7, -2), sep="; ")
    (i % 8 + 3 - 1) // 3; i // 3 + T.min(i % 3, 1); 7 // i + T.Cast("int32", 7 % i != 0); 4
    """
    a, b = _prepare(a, b, span)
    if a.dtype.is_float:
        return sub(0, floordiv(sub(0, a, span), b, span), span)
    _need_divisor(b, span)
    down, rest = floordiv(a, b, span), floormod(a, b, span)
    if isinstance(b, ir.IntImm) and b.value < 0:
        return sub(down, max_(rest, const(-1, a.dtype), span), span)
    if isinstance(b, ir.IntImm) or a.dtype.is_uint:
        if isinstance(b, ir.IntImm) and not isinstance(a, ir.IntImm) and _most(a) + b.value <= a.dtype.max_value:
            return ceildiv(a, b, span)
        return add(down, min_(rest, const(1, a.dtype), span), span)
    return add(down, cast(a.dtype, ne(rest, const(0, a.dtype), span), span), span)


def _most(a: Expr) -> int:
    """A bound of an integer from above that its outermost operation gives."""
    most = int(a.dtype.max_value)
    if isinstance(a, ir.FloorMod) and isinstance(a.b, ir.IntImm) and a.b.value > 0:
        return min(most, a.b.value - 1)
    if isinstance(a, ir.Cast) and a.value.dtype.is_integral:
        return min(most, int(a.value.dtype.max_value))
    return most


def min_(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """The smaller of two."""
    a, b = _prepare(a, b, span)
    if a is b:
        return a
    folded = _fold(ir.Min, a, b, span) if not _has_nan(a, b) else None
    return folded if folded is not None else ir.Min(a, b, span=span)


def max_(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """The larger of two."""
    a, b = _prepare(a, b, span)
    if a is b:
        return a
    folded = _fold(ir.Max, a, b, span) if not _has_nan(a, b) else None
    return folded if folded is not None else ir.Max(a, b, span=span)


def _has_nan(a: Expr, b: Expr) -> bool:
    return any(isinstance(x, FloatImm) and (x.value != x.value or x.value == 0.0) for x in (a, b))


def _compare(node: type[CompareOp]) -> BinaryBuilder:
    def build(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
        a, b = _prepare(a, b, span)
        pair = _const_pair(a, b)
        if pair is not None:
            return IntImm(BOOL, int(EXACT[node](*pair)), span=span)
        return node(a, b, span=span)

    build.__doc__ = f"The comparison {node.__name__}, folded on constants."
    return build


eq = _compare(ir.EQ)
ne = _compare(ir.NE)
lt = _compare(ir.LT)
le = _compare(ir.LE)
gt = _compare(ir.GT)
ge = _compare(ir.GE)


def as_bool(a: ExprLike, span: Span | None = None) -> Expr:
    """A condition: a number becomes a comparison with zero."""
    a = as_expr(a)
    if a.dtype.is_bool:
        return a
    return ne(a, const(0, a.dtype), span)


def _bool_pair(a: ExprLike, b: ExprLike, span: Span | None) -> tuple[Expr, Expr]:
    return match_types(as_bool(a, span), as_bool(b, span), span)


def logical_and(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """``a and b``; the units fold."""
    a, b = _bool_pair(a, b, span)
    if is_const_int(a, 1) or is_const_int(b, 0):
        return b
    if is_const_int(a, 0) or is_const_int(b, 1):
        return a
    return And(a, b, span=span)


def logical_or(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
    """``a or b``; the units fold."""
    a, b = _bool_pair(a, b, span)
    if is_const_int(a, 0) or is_const_int(b, 1):
        return b
    if is_const_int(a, 1) or is_const_int(b, 0):
        return a
    return Or(a, b, span=span)


def logical_not(a: ExprLike, span: Span | None = None) -> Expr:
    """``not a``."""
    a = as_bool(a, span)
    if isinstance(a, IntImm):
        return IntImm(BOOL, 1 - a.value, span=span)
    return Not(a, span=span)


def all_of(*conditions: ExprLike) -> Expr:
    """The conjunction of conditions, left to right; true of none."""
    result: Expr = IntImm(BOOL, 1)
    for condition in conditions:
        result = logical_and(result, condition)
    return result


def any_of(*conditions: ExprLike) -> Expr:
    """The disjunction of conditions, left to right; false of none."""
    result: Expr = IntImm(BOOL, 0)
    for condition in conditions:
        result = logical_or(result, condition)
    return result


def cast(dtype: DataType | str, value: ExprLike, span: Span | None = None) -> Expr:
    """``value`` converted to a dtype: nothing when it has it, a constant when it is one, a scalar is broadcast."""
    wanted = DataType(dtype)
    if isinstance(value, _LITERALS):
        return const(value, wanted, span)
    value = as_expr(value)
    kind = value.dtype
    if kind is wanted:
        return value
    if wanted.is_vector and kind.is_scalar:
        return Broadcast(cast(wanted.element, value, span), _lanes_of(wanted), span=span)
    same_lanes = kind.lanes == wanted.lanes and kind.scalable == wanted.scalable
    if value.__class__ is Broadcast and same_lanes and value.value.dtype.is_scalar:
        return Broadcast(cast(wanted.element, value.value, span), value.lanes, span=span)
    if isinstance(value, IntImm) and not wanted.is_custom and not wanted.is_handle:
        return const(value.value, wanted, span)
    if isinstance(value, FloatImm) and not wanted.is_custom and not kind.is_custom:
        if wanted.is_bool:
            return IntImm(wanted, int(value.value != 0), span=span)
        if wanted.is_float:
            return FloatImm(wanted, value.value, span=span)
        if wanted.is_integral and math.isfinite(value.value) and _fits(math.trunc(value.value), wanted):
            return IntImm(wanted, math.trunc(value.value), span=span)
    return Cast(wanted, value, span=span)


def reinterpret(dtype: DataType | str, value: ExprLike, span: Span | None = None) -> Expr:
    """The bits of ``value`` seen as another dtype of the same total width."""
    value = as_expr(value)
    wanted = DataType(dtype)
    if value.dtype is wanted:
        return value
    have, need = value.dtype.bits * value.dtype.lanes, wanted.bits * wanted.lanes
    if have != need:
        raise TirError(f"reinterpret keeps the bits: {value.dtype!s} has {have}, {wanted!s} has {need}", span=span)
    return Call(Op.get("tir.reinterpret"), (value,), wanted, span=span)


def select(condition: ExprLike, true_value: ExprLike, false_value: ExprLike, span: Span | None = None) -> Expr:
    """``Select`` with the values brought to one type."""
    t, f = _prepare(true_value, false_value, span)
    return ir.Select(as_bool(condition, span), t, f, span=span)


def if_then_else(condition: ExprLike, true_value: ExprLike, false_value: ExprLike, span: Span | None = None) -> Expr:
    """The value of one arm; the other is not evaluated. Folds when the condition is constant."""
    condition = as_bool(condition, span)
    t, f = _prepare(true_value, false_value, span)
    if condition.__class__ is IntImm:
        return t if condition.value else f
    if not condition.dtype.is_scalar:
        raise TirError(f"if_then_else needs a scalar condition, got {condition.dtype!s}: {condition}", span=span)
    return Call(Op.get("tir.if_then_else"), (condition, t, f), t.dtype, span=span)


def likely(condition: ExprLike, span: Span | None = None) -> Expr:
    """The condition, marked as usually true."""
    condition = as_expr(condition)
    if condition.__class__ is IntImm:
        return condition
    return Call(Op.get("tir.likely"), (condition,), condition.dtype, span=span)


def _bit_op(short: str) -> BinaryBuilder:
    name = f"tir.{short}"

    def build(a: ExprLike, b: ExprLike, span: Span | None = None) -> Expr:
        a, b = _prepare(a, b, span)
        _need_ints(short, a, span)
        if short.startswith("shift") and isinstance(b, IntImm) and not 0 <= b.value < a.dtype.bits:
            raise TirError(f"a shift of {a.dtype!s} is by 0 to {a.dtype.bits - 1} bits, got {b.value}: {a}", span=span)
        if a.dtype.is_bool and short.startswith("bitwise") and a.dtype is b.dtype and _const_pair(a, b) is None:
            return Call(Op.get(name), (a, b), a.dtype, span=span)
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            folded = _int_of(EXACT[name](a.value, b.value), a.dtype, span)
            if folded is not None:
                return folded
        if short.startswith("shift") and is_const_int(b, 0):
            return a
        return Call(Op.get(name), (a, b), a.dtype, span=span)

    build.__doc__ = f"``{short}`` of integers, folded on constants; the right shift is arithmetic on signed types."
    return build


bitwise_and = _bit_op("bitwise_and")
bitwise_or = _bit_op("bitwise_or")
bitwise_xor = _bit_op("bitwise_xor")
shift_left = _bit_op("shift_left")
shift_right = _bit_op("shift_right")


def bitwise_not(a: ExprLike, span: Span | None = None) -> Expr:
    """``~a``; on bool the logical negation."""
    a = as_expr(a)
    if a.dtype.is_bool:
        return logical_not(a, span)
    _need_ints("bitwise_not", a, span)
    if isinstance(a, IntImm):
        return IntImm(a.dtype, wrap_int(~a.value, a.dtype), span=span)
    return Call(Op.get("tir.bitwise_not"), (a,), a.dtype, span=span)


def abs_(a: ExprLike, span: Span | None = None) -> Expr:
    """``|a|``: ``select(a >= 0, a, -a)`` on integers, ``fabs`` on floats."""
    a = as_expr(a)
    if isinstance(a, IntImm) and (folded := _int_of(abs(a.value), a.dtype, span)) is not None:
        return folded
    if a.dtype.is_int:
        return ir.Select(ge(a, const(0, a.dtype)), a, sub(const(0, a.dtype), a), span=span)
    if a.dtype.is_uint or a.dtype.is_bool:
        return a
    return call("tir.fabs", a, span=span)


def call(name: str, *args: ExprLike, dtype: DataType | str | None = None, span: Span | None = None) -> Expr:
    """A call of a registered operation; the type follows from the arguments unless it is given."""
    op = Op.get(name)
    exprs = tuple(as_expr(a) for a in args)
    if dtype is None:
        if op.infer is None:
            raise TirError(f"a call of {name} needs its dtype stated", span=span)
        dtype = op.infer(exprs)
    return Call(op, exprs, DataType(dtype), span=span)


def min_value(dtype: DataType | str, span: Span | None = None) -> Expr:
    """The least finite value of a dtype, as a constant."""
    kind = DataType(dtype)
    return const(kind.element.min_value, kind, span)


def max_value(dtype: DataType | str, span: Span | None = None) -> Expr:
    """The greatest finite value of a dtype, as a constant."""
    kind = DataType(dtype)
    return const(kind.element.max_value, kind, span)


def is_positive_const(expr: Expr) -> bool:
    """Whether an expression is an integer constant above zero."""
    if expr.__class__ is Broadcast:
        expr = expr.value
    return isinstance(expr, IntImm) and expr.value > 0


def int32(value: int) -> IntImm:
    """An int32 constant."""
    return IntImm(INT32, value)
