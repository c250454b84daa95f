"""Mathematical functions.

Those with an instruction (sqrt, floor, fma ...) are LLVM's; exp, log, tanh and their kin are those of
:mod:`tirlower.emit.vmath`, for scalars and vectors alike (so that LLVM can vectorize a scalar loop around them). On a GPU
vectors are taken apart. Types of at most 16 bits are computed in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tirlower.emit import vmath
from tirlower.emit.arithmetic import binary_value, divide, float_remainder
from tirlower.emit.casts import convert, narrow_float, widen_float
from tirlower.emit.emitter import Emitter, constant
from tirlower.emit.expressions import call_rule
from tirlower.emit.llvm_text import BFLOAT, DOUBLE, FLOAT, I1, FastMath, FunctionRef, Type, Value, const, zero
from tirlower.emit.vectors import map_lanes
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, Call, Mod, Mul
from tirlower.ir.intrinsics.arithmetic import BINARY_MATH, UNARY_MATH

__all__ = ["in_float", "math_function"]

#: LLVM intrinsics that are instructions (or close to it) on every processor of interest
_DIRECT: Final = {
    "sqrt": "llvm.sqrt",
    "fabs": "llvm.fabs",
    "floor": "llvm.floor",
    "ceil": "llvm.ceil",
    "trunc": "llvm.trunc",
    "round": "llvm.round",
    "nearbyint": "llvm.roundeven",
    "copysign": "llvm.copysign",
}
_WIDTHS: Final = {FLOAT.text: "f32", DOUBLE.text: "f64"}


def in_float(em: Emitter, kind: DataType, args: list[Value], fn: Callable[[list[Value]], Value]) -> Value:
    """A function of floats in the type that it is computed in, rounded to its own."""
    wide = [widen_float(em, arg, kind) for arg in args]
    if wide[0].type.scalar.bits == 16:  # native half floats have arithmetic only
        wide = [em.b.fpext(arg, arg.type.with_scalar(FLOAT)) for arg in wide]
    return narrow_float(em, fn(wide), kind)


def math_function(em: Emitter, name: str, args: list[Value]) -> Value:
    """A function of float32 or float64 values, scalars or vectors."""
    b, t = em.b, args[0].type
    stem = _DIRECT.get(name)
    if stem is not None:
        return b.intrinsic(stem, t, args, [t])
    if name == "fmod":
        return float_remainder(em, args[0], args[1])
    if em.machine.has_library:
        return b.call(_polynomial(em, name, t), args)
    return map_lanes(em, lambda xs: b.call(_polynomial(em, name, t.scalar), xs), args)


def _polynomial(em: Emitter, name: str, t: Type) -> FunctionRef:
    return vmath.emit(
        em.module,
        name,
        _WIDTHS[t.scalar.text],
        t.lanes,
        fast=em.machine.fast_vector_math,
        features=em.machine.features,
        attrs=[attr for attr in em.state.attrs if attr != "nounwind"],
    )


@call_rule(*[f"tir.{name}" for name in (*UNARY_MATH, *BINARY_MATH) if name != "nextafter"])
def _math(em: Emitter, op: Call, args: list[Value]) -> Value:
    name, kind = op.op.name.removeprefix("tir."), op.dtype
    if kind.is_float:
        return in_float(em, kind, args, lambda xs: math_function(em, name, xs))
    if kind.is_integral:
        found = _integer_function(em, op, name, args)
        if found is not None:
            return found
    raise em.error(f"{op.op.name} has no meaning on {kind!s}: {op}", op, "convert the argument to a float type")


def _integer_function(em: Emitter, op: Call, name: str, args: list[Value]) -> Value | None:
    kind, t = op.dtype, args[0].type
    if name in ("floor", "ceil", "round", "trunc", "nearbyint"):
        return args[0]
    if name == "fabs":
        if not kind.is_int:
            return args[0]
        return em.b.intrinsic("llvm.abs", t, [args[0], Value(I1, "false")], [t])
    if name == "fmod":
        facts = em.facts
        marker = Mod(op.args[0], op.args[1], span=op.span)
        return divide(em, marker, args[0], args[1], facts.value_range(op.args[0]), facts.value_range(op.args[1]))
    if name == "pow":
        helper = em.state.helper(("ipow", t.scalar.text), lambda: _make_integer_power(em, t.scalar))
        return map_lanes(em, lambda xs: em.b.call(helper, xs), args)
    return None


def _make_integer_power(em: Emitter, t: Type) -> FunctionRef:
    """``x ** y`` by squaring, wrapping; ``y`` is read as unsigned (a negative power of an integer has no meaning)."""
    f = em.module.function(
        em.module.unique_name(f"tirlower.pow.{t.text}"),
        t,
        [(t, "x"), (t, "y")],
        linkage="internal",
        attrs=["nounwind", "memory(none)", "willreturn"],
    )
    from_emitter = Emitter(em.state, em.kernel, f)
    b = from_emitter.b
    entry, loop, end = f.block("entry"), f.new_block("loop"), f.new_block("end")
    b.position_at_end(entry)
    x, y = f.args
    b.cond_br(b.icmp("eq", y, constant(t, 0)), end, loop)
    b.position_at_end(f.place(loop))
    power, left, total = b.phi(t, "power"), b.phi(t, "left"), b.phi(t, "total")
    odd = b.trunc(left, I1) if t is not I1 else left
    grown = b.select(odd, b.mul(total, power), total)
    squared, fewer = b.mul(power, power), b.lshr(left, constant(t, 1)) if t is not I1 else constant(t, 0)
    for phi, first, later in ((power, x, squared), (left, y, fewer), (total, constant(t, 1), grown)):
        phi.add(first, entry)
        phi.add(later, loop)
    b.cond_br(b.icmp("eq", fewer, constant(t, 0)), end, loop)
    b.position_at_end(f.place(end))
    b.ret(b.phi(t, "result", [(constant(t, 1), entry), (grown, loop)]))
    return f.ref


@call_rule("tir.fma")
def _fma(em: Emitter, op: Call, args: list[Value]) -> Value:
    dtype = op.dtype
    b = em.b
    if dtype.is_integral:
        return binary_value(em, Add, dtype, binary_value(em, Mul, dtype, args[0], args[1]), args[2])
    if not dtype.is_float:
        raise em.error(f"{op.op.name} has no meaning on {dtype!s}: {op}", op)
    if dtype.bits >= 32 or (em.machine.native_half and dtype.code == "float"):
        t = args[0].type
        return b.intrinsic("llvm.fma", t, args, [t], fast_math=FastMath.NONE)
    if dtype.is_bfloat16 and em.machine.computes_bfloat:
        t = args[0].type.with_scalar(BFLOAT)
        made = b.intrinsic("llvm.fma", t, [b.bitcast(arg, t) for arg in args], [t], fast_math=FastMath.NONE)
        return b.bitcast(made, args[0].type)
    return narrow_float(em, _odd_fma(em, [convert(em, arg, dtype, _double(dtype)) for arg in args]), dtype)


def _double(kind: DataType) -> DataType:
    return DataType.of("float", 64, kind.lanes)


def _odd_fma(em: Emitter, args: list[Value]) -> Value:
    """``a * b + c`` of numbers of at most 11 bits, in float64, rounded to odd: the product is exact, and what the sum
    loses is found by Knuth's two-sum."""
    b, none = em.b, FastMath.NONE
    x, y, c = args
    t = x.type
    i64 = t.with_scalar(em.type_of(DataType("int64")))

    def add(p: Value, q: Value) -> Value:
        return b.fadd(p, q, fast_math=none)

    def sub(p: Value, q: Value) -> Value:
        return b.fsub(p, q, fast_math=none)

    product = b.fmul(x, y, fast_math=none)
    total = add(product, c)
    back = sub(total, product)
    lost = add(sub(product, sub(total, back)), sub(c, back))
    bits = b.bitcast(total, i64)
    even = b.icmp("eq", b.and_(bits, constant(i64, 1)), constant(i64, 0))
    # An infinite or NaN total has a NaN error, for which "one" is false.
    inexact = b.fcmp("one", lost, zero(t), fast_math=none)
    away = b.icmp("sge", b.xor(bits, b.bitcast(lost, i64)), constant(i64, 0))
    step = b.select(away, constant(i64, 1), constant(i64, -1))
    odd = b.select(b.and_(even, inexact), b.add(bits, step), bits)
    return b.bitcast(odd, t)


@call_rule("tir.ldexp")
def _ldexp(em: Emitter, op: Call, args: list[Value]) -> Value:
    kind, power_kind = op.dtype, op.args[1].dtype
    if not kind.is_float:
        raise em.error(f"{op.op.name} has no meaning on {kind!s}: {op}", op)
    power = convert(em, args[1], power_kind, DataType.of("int", 32, kind.lanes))
    i32 = power.type

    def scale(x: Value) -> Value:
        return em.b.intrinsic("llvm.ldexp", x.type, [x, power], [x.type, i32], fast_math=FastMath.NONE)

    if kind.bits >= 32:
        return scale(args[0])
    # In float64 no power that a narrow result can show underflows before it is rounded.
    clipped = em.b.intrinsic("llvm.smin", i32, [power, constant(i32, 500)], [i32])
    power = em.b.intrinsic("llvm.smax", i32, [clipped, constant(i32, -500)], [i32])
    return narrow_float(em, scale(convert(em, args[0], kind, _double(kind))), kind)


@call_rule("tir.nextafter")
def _next_after(em: Emitter, op: Call, args: list[Value]) -> Value:
    """The neighbour in the type's own format: a step of the bit pattern."""
    dtype = op.dtype
    if not dtype.is_float or dtype.element == "float8_e8m0fnu":
        raise em.error(f"{op.op.name} has no meaning on {dtype!s}: {op}", op)
    b, none = em.b, FastMath.NONE
    held = em.type_of(dtype.element)
    i = args[0].type.with_scalar(held if held.is_int else em.type_of(DataType.of("int", dtype.bits)))
    x, y = (widen_float(em, arg, dtype) for arg in args)
    bits, other = (b.bitcast(arg, i) for arg in args)
    grows = b.icmp("eq", b.fcmp("ogt", y, x, fast_math=none), b.fcmp("ogt", x, zero(x.type), fast_math=none))
    stepped = b.add(bits, b.select(grows, constant(i, 1), constant(i, -1)))
    least_bits = b.or_(b.and_(other, constant(i, 1 << (dtype.bits - 1))), constant(i, 1))
    from_zero = b.fcmp("oeq", x, zero(x.type), fast_math=none)
    moved = b.select(from_zero, least_bits, stepped)
    equal = b.fcmp("oeq", x, y, fast_math=none)
    made = b.select(equal, other, moved)
    nan_x = b.fcmp("uno", x, x, fast_math=none)
    nan_y = b.fcmp("uno", y, y, fast_math=none)
    made = b.select(nan_y, other, b.select(nan_x, bits, made))
    return b.bitcast(made, args[0].type)


@call_rule("tir.isnan", "tir.isinf", "tir.isfinite")
def _classify(em: Emitter, op: Call, args: list[Value]) -> Value:
    kind, name = op.args[0].dtype, op.op.name
    b, none = em.b, FastMath.NONE
    t = em.type_of(op.dtype)
    if not kind.is_float:
        return constant(t, int(name == "tir.isfinite"))
    wide = widen_float(em, args[0], kind)
    if name == "tir.isnan":
        return b.fcmp("uno", wide, wide, fast_math=none)
    size = b.intrinsic("llvm.fabs", wide.type, [wide], [wide.type], fast_math=none)
    infinity = const(wide.type, float("inf"))
    return b.fcmp("oeq" if name == "tir.isinf" else "olt", size, infinity, fast_math=none)
