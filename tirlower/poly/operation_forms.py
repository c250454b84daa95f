"""The forms of operations other than sums and products: divisions, choices, extremes, casts, lanes, calls, bindings.

A rule for each class, which makes a form of those of the operands; None where the operation has none that is affine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tirlower import ir
from tirlower.arith.intervals import INF, Bound
from tirlower.ir import Call, DataType, Expr, IntImm, Op
from tirlower.ir.functor import by_class
from tirlower.poly.affine import limits_of
from tirlower.poly.bitwise import BITWISE, bitwise
from tirlower.poly.conditions import negate
from tirlower.poly.forms import Form, constant, single

if TYPE_CHECKING:
    from tirlower.poly.expressions import Converter

__all__ = ["RULES", "chain", "holds_all", "is_index"]


def _division(conv: Converter, op: ir.FloorDiv | ir.FloorMod | ir.Div | ir.Mod) -> Form | None:
    if not is_index(op.dtype):
        return None
    a, b = conv.lin(op.a), conv.lin(op.b)
    kind = op.__class__
    space = conv.space
    if b.is_constant:
        if b.const == 0:
            return None
        if b.const == -1 and kind in (ir.FloorDiv, ir.Div):
            return conv.wrapped(op, -a)
        if kind is ir.FloorDiv:
            return space.floordiv(a, b.const)
        if kind is ir.FloorMod:
            return space.floormod(a, b.const)
        quotient = space.truncdiv(a, b.const)
        return quotient if kind is ir.Div else a.plus(quotient, -b.const)
    low, high = space.interval(b)
    if kind in (ir.Div, ir.Mod) and (space.interval(a)[0] < 0 or low < 0):
        return None
    if low < 0 < high and kind is ir.FloorMod:
        return None
    if conv.wrapping and low < 0 and conv.is_data(op.a, a):
        return None  # the least integer by -1 wraps
    return space.symbolic_div(a, b, kind in (ir.FloorMod, ir.Mod))


def _extremum(conv: Converter, op: ir.Min | ir.Max) -> Form | None:
    if not op.dtype.is_integral:
        return None
    return conv.space.extremum([conv.lin(part) for part in chain(op, op.__class__)], op.__class__ is ir.Max)


def _select(conv: Converter, op: ir.Select) -> Form | None:
    if not op.dtype.is_integral:
        return None
    return _choice(conv, op.condition, op.true_value, op.false_value)


def _choice(conv: Converter, condition: Expr, then: Expr, other: Expr) -> Form:
    """A choice; each value where it is chosen."""
    chosen = conv.condition(condition)
    arms = []
    for holds, value in ((chosen, then), (negate(chosen), other)):
        conv.local.append(holds)
        arms.append(conv.lin(value))
        conv.local.pop()
    return conv.space.choice(chosen, *arms)


def _cast(conv: Converter, op: ir.Cast) -> Form | None:
    source, target = op.value.dtype, op.dtype
    if source.is_bool:
        return conv.space.choice(conv.condition(op.value), constant(1), constant(0))
    if not source.is_integral or not target.is_integral or target.is_bool:
        return None
    lin = conv.lin(op.value)
    if is_index(target) and ((source.is_int and source.bits <= target.bits) or source.bits < target.bits):
        return lin
    if not conv.wrapping and is_index(target) and is_index(source):
        return lin
    if not conv.wrapping:
        return _fitting(conv, target, lin)
    if is_index(source) and target.bits > source.bits:
        lin = conv.wrapped(op.value, lin, always=True)  # a wider unsigned type takes what the index's own holds
    return conv.wrapped(op, lin, always=True)


def _fitting(conv: Converter, target: DataType, lin: Form) -> Form | None:
    return lin if holds_all(target, conv.space.interval(lin)) else None


def _ramp(conv: Converter, op: ir.Ramp) -> Form | None:
    if conv.lane is None or op.base.dtype.is_vector:
        return None
    lane = conv.lin(op.base) + conv.space.multiply(conv.lin(op.stride), single(conv.lane))
    narrow = not is_index(op.dtype)  # its lanes wrap, also those of constants
    if narrow and not conv.wrapping:
        return _fitting(conv, op.dtype, lane)
    return conv.wrapped(op, lane, always=narrow)


def _call(conv: Converter, op: Call) -> Form | None:
    name = op.op.name if isinstance(op.op, Op) else ""
    if name == "tir.if_then_else" and op.dtype.is_integral:
        return _choice(conv, *op.args)
    if name in ("tir.likely", "tir.ignore_loop_partition"):
        return conv.lin(op.args[0])
    if not name:
        value = conv.returned(op)
        return None if value is None else conv.computed_by_callee(value)
    if is_index(op.dtype):
        if name in ("tir.shift_left", "tir.shift_right") and op.args[1].__class__ is IntImm:
            if not 0 <= op.args[1].value < op.dtype.bits:
                return None
            by = 1 << op.args[1].value
            lin = conv.lin(op.args[0])
            if name == "tir.shift_right":
                return conv.space.floordiv(lin, by)
            return conv.wrapped(op, lin.scaled(by))
        if name == "tir.bitwise_and" and op.args[1].__class__ is IntImm:
            mask = op.args[1].value
            if mask >= 0 and mask & (mask + 1) == 0:  # 2**k - 1: the last k bits
                return conv.space.floormod(conv.lin(op.args[0]), mask + 1)
        if name in BITWISE:
            return bitwise(conv.space, name, conv.lin(op.args[0]), conv.lin(op.args[1]))
    if name == "tir.vscale":
        return conv.space.opaque(("vscale",), "vscale", frozenset(), (1, INF), None)
    return None


def _let(conv: Converter, op: ir.Let) -> Form | None:
    conv.bind(op.var, op.value)
    return conv.lin(op.body)


def _broadcast(conv: Converter, op: ir.Broadcast) -> Form | None:
    return conv.lin(op.value)


def chain(op: Expr, kind: type[ir.And | ir.Or | ir.Min | ir.Max]) -> list[Expr]:
    """The operands of a chain of one operation, in order."""
    found: list[Expr] = []
    stack: list[Expr] = [op]
    while stack:
        part = stack.pop()
        if part.__class__ is kind:
            stack += [part.b, part.a]
        else:
            found.append(part)
    return found


def holds_all(dtype: DataType, values: Bound) -> bool:
    """Whether a type certainly has all values of an interval."""
    low, high = limits_of(dtype)
    return low <= values[0] and values[1] <= high


def is_index(dtype: DataType) -> bool:
    """Whether arithmetic on it is that of indices, in each lane: int32 and int64."""
    return dtype.is_int and dtype.bits in (32, 64)


RULES: dict[type, Callable[[Converter, object], Form | None]] = by_class(
    {
        ir.FloorDiv: _division,
        ir.FloorMod: _division,
        ir.Div: _division,
        ir.Mod: _division,
        ir.Min: _extremum,
        ir.Max: _extremum,
        ir.Select: _select,
        ir.Cast: _cast,
        ir.Ramp: _ramp,
        ir.Broadcast: _broadcast,
        ir.Call: _call,
        ir.Let: _let,
    }
)
"""The rules, by the classes of operations."""
