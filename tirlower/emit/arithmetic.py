"""Sums, products, quotients, comparisons and logic, on scalars and vectors of every type.

Integers wrap. A quotient by zero fails the call with ZeroDivisionError (nothing is emitted for divisors that cannot be
zero), the least integer by -1 wraps. Floats of at most 16 bits are computed in float32 and rounded once, which gives
the correctly rounded result of + - * / and sqrt (24 >= 2 * 11 + 2 bits). The minimum and maximum of a NaN and a number
is the number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tirlower.diagnostics import CodegenError, DivisionByZeroError
from tirlower.emit import vmath
from tirlower.emit.branches import guards
from tirlower.emit.casts import narrow_float, to_f32, widen_float
from tirlower.emit.emitter import Emitter, constant
from tirlower.emit.expressions import INDEX, Run, combine, control, in_branches
from tirlower.emit.facts import FAULTS
from tirlower.emit.llvm_text import BFLOAT, DOUBLE, FALSE, FLOAT, HALF, I1, I32, TRUE, Builder, FastMath, Value
from tirlower.emit.types import compute_type
from tirlower.emit.vectors import map_lanes
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)

__all__ = ["binary_float", "binary_value", "compare", "divide", "float_remainder", "select_lanes"]

_RING: Final[dict[type, tuple[str, str]]] = {Add: ("add", "fadd"), Sub: ("sub", "fsub"), Mul: ("mul", "fmul")}


@combine(Add, Sub, Mul)
def _ring(em: Emitter, op: BinaryOp, a: Value, b: Value) -> Value:
    dtype: DataType = op.dtype
    integer, floating = _RING[op.__class__]
    if dtype.is_integral:
        return em.b.binary(integer, a, b)
    if dtype.is_float:
        flags = None
        if id(op) in em.reassociable:
            flags = em.machine.fast_math | FastMath.REASSOC
        elif id(op) in em.contracted:
            flags = em.machine.fast_math
        return simple_float(em, dtype, a, b, lambda x, y: em.b._float(floating, x, y, "", flags))
    raise _no_arithmetic(em, op)


def _no_arithmetic(em: Emitter, op: Expr) -> CodegenError:
    return em.error(f"{type(op).__name__} has no meaning on {op.dtype!s}: {op}", op, "convert the operands first")


def binary_float(em: Emitter, kind: DataType, a: Value, b: Value, compute: Callable[[Value, Value], Value]) -> Value:
    """A float operation in the type that it is computed in, rounded to its own."""
    wide = compute_type(kind, em.machine.native_half)
    if wide is kind:
        return compute(a, b)
    x = widen_float(em, a, kind)
    y = x if b is a else widen_float(em, b, kind)
    return narrow_float(em, compute(x, y), kind)


def simple_float(em: Emitter, kind: DataType, a: Value, b: Value, compute: Callable[[Value, Value], Value]) -> Value:
    """A sum, product, minimum or maximum of floats: in bfloat16 itself where there are instructions, with the same result."""
    if not (kind.is_bfloat16 and em.machine.computes_bfloat):
        return binary_float(em, kind, a, b, compute)
    t = a.type.with_scalar(BFLOAT)
    x = em.b.bitcast(a, t)
    y = x if b is a else em.b.bitcast(b, t)
    return em.b.bitcast(compute(x, y), a.type)


@combine(Div, Mod, FloorDiv, FloorMod)
def _division(em: Emitter, op: BinaryOp, a: Value, b: Value) -> Value:
    dtype: DataType = op.dtype
    if dtype.is_integral:
        ranges = em.facts.value_range(op.a), em.facts.value_range(op.b)
        if 8 < dtype.bits < 32 and a.type.scalar.bits == dtype.bits and ranges[1][0] != ranges[1][1]:
            # a division of 16 bits takes an x86 four times as long as one of 32, and no quotient leaves those
            wide, extend = a.type.with_scalar(I32), em.b.sext if dtype.is_int else em.b.zext
            return em.b.trunc(divide(em, op, extend(a, wide), extend(b, wide), *ranges), a.type)
        return divide(em, op, a, b, *ranges)
    if not dtype.is_float:
        raise _no_arithmetic(em, op)
    if op.__class__ is Div:
        return binary_float(em, dtype, a, b, em.b.fdiv)
    if op.__class__ is Mod:
        return binary_float(em, dtype, a, b, lambda x, y: float_remainder(em, x, y))
    if dtype.bits < 32:
        a, b = to_f32(em, a, dtype), to_f32(em, b, dtype)
    floored = _floor_quotient(em, a, b) if op.__class__ is FloorDiv else _floor_remainder(em, a, b)
    return narrow_float(em, floored, dtype) if dtype.bits < 32 else floored


def float_remainder(em: Emitter, a: Value, b: Value) -> Value:
    """C's ``fmod`` of floats, scalars or vectors. Our own: LLVM's code for GPUs takes one rounded quotient, so that it is exact
    only where that is small, and a C library's takes twice the time."""
    narrow = a.type.scalar is HALF
    if narrow:
        a, b = (em.b.fpext(x, x.type.with_scalar(FLOAT)) for x in (a, b))
    width = "f64" if a.type.scalar is DOUBLE else "f32"
    machine = em.machine
    attrs = [attr for attr in em.state.attrs if attr != "nounwind"]

    def of(xs: list[Value]) -> Value:
        callee = vmath.emit(em.module, "fmod", width, xs[0].type.lanes, features=machine.features, attrs=attrs)
        return em.b.call(callee, xs)

    made = of([a, b]) if machine.has_library else map_lanes(em, of, [a, b])
    return em.b.fptrunc(made, made.type.with_scalar(HALF)) if narrow else made


def _turns(em: Emitter, rest: Value, divisor: Value) -> Value:
    """Whether a remainder is not zero and has another sign than the divisor: Python's is greater by one divisor then."""
    zero = constant(rest.type, 0)
    differ = em.b.xor(em.b.fcmp("olt", rest, zero), em.b.fcmp("olt", divisor, zero))
    return em.b.and_(em.b.fcmp("one", rest, zero), differ)


def _copysign(b: Builder, x: Value, sign: Value) -> Value:
    return b.intrinsic("llvm.copysign", x.type, [x, sign], [x.type])


def _floor_remainder(em: Emitter, x: Value, y: Value) -> Value:
    """``x % y`` of floats, as Python and NumPy have it: with the sign of ``y``, and exact where ``x`` has it too."""
    b, none = em.b, FastMath.NONE
    zero = constant(x.type, 0)
    rest = float_remainder(em, x, y)
    turned = b.select(_turns(em, rest, y), b.fadd(rest, y, fast_math=none), rest)
    return b.select(b.fcmp("oeq", rest, zero), _copysign(b, zero, y), turned)


def _floor_quotient(em: Emitter, x: Value, y: Value) -> Value:
    """``x // y`` of floats: of the difference that the remainder leaves, so that rounding it does not lead past a whole number."""
    b, none = em.b, FastMath.NONE
    zero, one, half = (constant(x.type, value) for value in (0, 1, 0.5))
    rest = float_remainder(em, x, y)
    plain = b.fdiv(x, y, fast_math=none)
    whole = b.fdiv(b.fsub(x, rest, fast_math=none), y, fast_math=none)
    whole = b.select(_turns(em, rest, y), b.fsub(whole, one, fast_math=none), whole)
    floored = b.intrinsic("llvm.floor", x.type, [whole], [x.type])
    short = b.fcmp("ogt", b.fsub(whole, floored, fast_math=none), half)
    floored = b.select(short, b.fadd(floored, one, fast_math=none), floored)
    floored = b.select(b.fcmp("oeq", whole, zero), _copysign(b, zero, plain), floored)
    return b.select(b.fcmp("oeq", y, zero), plain, floored)


def divide(
    em: Emitter,
    op: BinaryOp,
    a: Value,
    b: Value,
    a_range: tuple[int, int],
    b_range: tuple[int, int],
    signed: bool = True,
) -> Value:
    """An integer quotient or remainder (``op.__class__`` says which), of values in the given ranges."""
    cls, t, builder = op.__class__, a.type, em.b
    signed = signed and not (op.dtype.is_uint or op.dtype.is_bool)
    if b_range[0] <= 0 <= b_range[1]:
        b = _nonzero(em, op, a, b)
    quotient = cls is Div or cls is FloorDiv
    if not signed or (a_range[0] >= 0 and b_range[0] >= 0):
        return builder.udiv(a, b) if quotient else builder.urem(a, b)
    low, high = b_range
    if cls in (FloorDiv, FloorMod) and low == high and low > 0 and low & (low - 1) == 0:
        if not quotient:
            return builder.and_(a, constant(t, low - 1))
        return builder.ashr(a, constant(t, low.bit_length() - 1)) if low > 1 else a
    least = -(1 << (op.dtype.bits - 1)) if t.scalar.bits == op.dtype.bits else -(1 << 63)
    negated = None
    divisor = b
    if low <= -1 <= high and a_range[0] <= least:
        # The least integer by -1 traps on x86: divide by 1 there, and negate (which wraps).
        negated = builder.icmp("eq", b, constant(t, -1))
        divisor = builder.select(negated, constant(t, 1), b)
    if cls is Mod:
        return builder.srem(a, divisor)
    if cls is Div:
        result = builder.sdiv(a, divisor)
        return result if negated is None else builder.select(negated, builder.neg(a), result)
    rest = builder.srem(a, divisor)
    zero = constant(t, 0)
    if low > 0:
        off = builder.icmp("slt", rest, zero)
    else:
        different = builder.icmp("slt", builder.xor(rest, b), zero)
        off = builder.and_(builder.icmp("ne", rest, zero), different)
    if cls is FloorMod:
        return builder.select(off, builder.add(rest, b), rest)
    result = builder.sdiv(a, divisor)
    if negated is not None:
        result = builder.select(negated, builder.neg(a), result)
    return builder.add(result, builder.sext(off, t))


def _nonzero(em: Emitter, op: BinaryOp, a: Value, b: Value) -> Value:
    """The divisor, after failing where it (or an active lane of it) is zero."""
    builder = em.b
    zero = builder.icmp("eq", b, constant(b.type, 0))
    if not b.type.is_vector:
        shown, how = em.recorded(a, op.dtype)
        code = em.state.errors.code(
            DivisionByZeroError, f"division by zero: {{0}} divided by 0 in `{em.kernel.name}`", (how,), op.span
        )
        em.fail_if(zero, code, [shown])
        return b
    mask = em.lane_mask
    if mask is not None and mask.type.lanes == b.type.lanes:
        # Lanes that are not taken divide by one.
        b = builder.select(mask, b, constant(b.type, 1))
        zero = builder.and_(zero, mask)
    code = em.state.errors.code(DivisionByZeroError, f"division by zero in `{em.kernel.name}`", (), op.span)
    em.fail_if(builder.intrinsic("llvm.vector.reduce.or", I1, [zero], [zero.type]), code)
    return b


@combine(Min, Max)
def _extremum(em: Emitter, op: BinaryOp, a: Value, b: Value) -> Value:
    return extremum(em, op.__class__ is Min, op.dtype, a, b)


def extremum(em: Emitter, least: bool, kind: DataType, a: Value, b: Value) -> Value:
    """The smaller or greater of two."""
    builder = em.b
    if kind.is_integral:
        stem = ("s" if kind.is_int else "u") + ("min" if least else "max")
        return builder.intrinsic(f"llvm.{stem}", a.type, [a, b], [a.type])
    if not kind.is_float:
        raise em.error(f"there is no order of values of {kind!s}")
    # Not minnum and maxnum: LLVM 22 stops the process over many a loop that reduces by these ("VPlan cost model and
    # legacy cost model disagreed", of a row's maximum over 72 to 79 elements with 512-bit vectors, for one). These are
    # the same but for signaling NaNs, and in as many instructions where the sign of a zero is open.
    stem = "llvm.minimumnum" if least else "llvm.maximumnum"
    flags = builder.fast_math | FastMath.NSZ
    return simple_float(em, kind, a, b, lambda x, y: builder.intrinsic(stem, x.type, [x, y], [x.type], fast_math=flags))


def binary_value(em: Emitter, cls: type, kind: DataType, a: Value, b: Value) -> Value:
    """``a op b`` for Add, Sub, Mul, Min or Max, on values."""
    if cls in (Min, Max):
        return extremum(em, cls is Min, kind, a, b)
    integer, floating = _RING[cls]
    if kind.is_integral:
        return em.b.binary(integer, a, b)
    return simple_float(em, kind, a, b, lambda x, y: em.b._float(floating, x, y, "", None))


# -- index arithmetic: i64, no wrap-around ---------------------------------------------------------------------------


def _index_ring(em: Emitter, op: BinaryOp, a: Value, b: Value) -> Value:
    return em.b.binary(f"{_RING[op.__class__][0]} nsw", a, b)


def _index_divide(em: Emitter, op: BinaryOp, a: Value, b: Value) -> Value:
    facts = em.facts
    return divide(em, op, a, b, facts.index_range(op.a), facts.index_range(op.b))


def _index_extremum(em: Emitter, op: BinaryOp, a: Value, b: Value) -> Value:
    stem = "llvm.smin" if op.__class__ is Min else "llvm.smax"
    return em.b.intrinsic(stem, a.type, [a, b], [a.type])


INDEX.update(
    {
        **dict.fromkeys((Add, Sub, Mul), _index_ring),
        **dict.fromkeys((Div, Mod, FloorDiv, FloorMod), _index_divide),
        **dict.fromkeys((Min, Max), _index_extremum),
    }
)

# -- comparison ------------------------------------------------------------------------------------------------------

_PREDICATES: Final[dict[type, tuple[str, str, str]]] = {
    EQ: ("eq", "eq", "oeq"),
    NE: ("ne", "ne", "une"),
    LT: ("slt", "ult", "olt"),
    LE: ("sle", "ule", "ole"),
    GT: ("sgt", "ugt", "ogt"),
    GE: ("sge", "uge", "oge"),
}


def compare(em: Emitter, cls: type, kind: DataType, a: Value, b: Value) -> Value:
    """A comparison of two values of a type; with a NaN, only NE is true."""
    signed, unsigned, floating = _PREDICATES[cls]
    if kind.is_float:
        return em.b.fcmp(floating, widen_float(em, a, kind), widen_float(em, b, kind))
    return em.b.icmp(signed if kind.is_int else unsigned, a, b)


# -- logic -----------------------------------------------------------------------------------------------------------


def _logic(run: Run, op: And | Or) -> None:
    """Vectors and cheap scalars are computed; a right side that may fault is evaluated only where it decides."""
    em, both = run.em, op.__class__ is And
    if op.dtype.is_vector or not _may_fault(run, op.b):

        def join(_: object) -> None:
            a, b = run.get(op.a), run.get(op.b)
            run.set(op, em.b.and_(a, b) if both else em.b.or_(a, b))

        run.then(join)
        run.evaluate(op.b)
        run.evaluate(op.a)
        return

    def decide(_: object) -> None:
        first = run.get(op.a)
        then, otherwise = (op.b, FALSE) if both else (TRUE, op.b)
        likely = both if em.choosing and guards(op) else None
        in_branches(run, first, then, otherwise, lambda phi: run.set(op, phi), likely=likely, odds=_GUARDED)

    run.then(decide)
    run.evaluate(op.a)


#: how many times the guarded side is evaluated for once that it is not: so few that LLVM may still make a select of it
_GUARDED: Final = 4


def _may_fault(run: Run, op: Expr) -> bool:
    """Whether something in an expression may fail that was not computed before."""
    facts = run.em.facts
    left = [op]
    while left:
        expr = left.pop()
        if run.is_known(expr) or not facts.of(expr).flags & FAULTS:
            continue
        if not isinstance(expr, _TRANSPARENT):
            return True
        left += [expr.a, expr.b]
    return False


control(And)(_logic)
control(Or)(_logic)

_TRANSPARENT: Final = (Add, Sub, Mul, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or)
"""Nodes that fail where an operand does, and not by themselves."""


@combine(Not)
def _not(em: Emitter, op: Not, a: Value) -> Value:
    return em.b.not_(a)


@control(Select)
def _select(run: Run, op: Select) -> None:
    """Both values are computed, whatever is chosen; first where that saves the condition branches around what they share."""
    run.then(lambda _: run.set(op, select_lanes(run.em, *map(run.get, (op.condition, op.true_value, op.false_value)))))
    order = [op.condition, op.true_value, op.false_value]
    if run.em.facts.of(op.condition).flags & FAULTS:
        order.append(order.pop(0))
    for expr in reversed(order):
        run.evaluate(expr)


def select_lanes(em: Emitter, cond: Value, a: Value, b: Value) -> Value:
    """``a`` where ``cond`` else ``b``; a condition of another number of lanes than the values chooses all of them."""
    return em.b.select(cond, a, b, fast_math=FastMath.NONE)
