"""Conversions between types, and the bit patterns of bfloat16 and the floats of at most 8 bits.

Integers wrap, floats round to nearest even; a float converted to an integer truncates, saturates outside the range, and
is 0 for a NaN. Conversions to the narrow kinds go through float32: from float64 and from wide integers it is rounded to
odd there (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008), so that the second rounding is
the only one that shows.
"""

from __future__ import annotations

from tirlower.emit.emitter import Emitter, constant
from tirlower.emit.expressions import FLOAT_CONSTANT
from tirlower.emit.llvm_text import BFLOAT as BFLOAT_FORMAT
from tirlower.emit.llvm_text import DOUBLE, FLOAT, HALF, I32, I64, FastMath, Type, Value, const, float_bits, zero
from tirlower.emit.types import FLOAT_FORMATS, FloatFormat, is_bits_float
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import FloatImm

__all__ = ["convert", "float_constant", "narrow_float", "truth", "widen_float"]


def widen_float(em: Emitter, value: Value, kind: DataType) -> Value:
    """A float value as float32 (exactly); float32 and float64 stay, native half floats too where arithmetic has them."""
    if is_bits_float(kind):
        return _bits_to_f32(em, value, kind)
    if kind.bits == 16 and not em.machine.native_half:
        return em.b.fpext(value, value.type.with_scalar(FLOAT))
    return value


def to_f32(em: Emitter, value: Value, kind: DataType) -> Value:
    """A float value of at most 32 bits as float32."""
    if is_bits_float(kind):
        return _bits_to_f32(em, value, kind)
    return em.b.fpext(value, value.type.with_scalar(FLOAT)) if kind.bits == 16 else value


def narrow_float(em: Emitter, value: Value, kind: DataType) -> Value:
    """A float32 (or half, or double) value rounded to a float type."""
    if is_bits_float(kind):
        if value.type.scalar is DOUBLE:
            value = _f64_to_odd_f32(em, value)
        return _f32_to_bits(em, value, kind)
    t = value.type
    target = t.with_scalar({16: HALF, 32: FLOAT, 64: DOUBLE}[kind.bits])
    if t == target:
        return value
    if t.scalar.bits < target.scalar.bits:
        return em.b.fpext(value, target)
    if target.scalar is HALF and t.scalar is DOUBLE and not em.machine.native_half:
        # x86 has no instruction from double to half, and not every system the function for it.
        value = _f64_to_odd_f32(em, value)
    return em.b.fptrunc(value, target)


def _splat(t: Type, value: int) -> Value:
    return constant(t, value)


def _ints(value: Value, scalar: Type) -> Type:
    return value.type.with_scalar(scalar)


def _f64_to_odd_f32(em: Emitter, value: Value) -> Value:
    """A double rounded to a float32 with an odd last bit where it is inexact."""
    b, none = em.b, FastMath.NONE
    near = b.fptrunc(value, _ints(value, FLOAT))
    back = b.fpext(near, value.type)
    bits = b.bitcast(near, _ints(value, I32))
    t = bits.type
    # Inexact, finite, with an even last bit: step to the odd neighbour on the value's side. NaN compares false.
    inexact = b.fcmp("one", back, value, fast_math=none)
    finite = b.icmp("ult", b.shl(bits, _splat(t, 1)), _splat(t, 0xFF000000))
    overflow_step = _splat(t, -1)
    even = b.icmp("eq", b.and_(bits, _splat(t, 1)), zero(t))
    magnitude_near = b.intrinsic("llvm.fabs", back.type, [back], [back.type], fast_math=none)
    magnitude = b.intrinsic("llvm.fabs", value.type, [value], [value.type], fast_math=none)
    too_small = b.fcmp("olt", magnitude_near, magnitude, fast_math=none)
    step = b.select(too_small, _splat(t, 1), overflow_step)
    # An even zero steps away from zero, with the value's sign, which the conversion kept.
    move = b.and_(b.and_(inexact, finite), even)
    odd = b.select(move, b.add(bits, step), bits)
    return b.bitcast(odd, near.type)


def _bits_to_f32(em: Emitter, value: Value, kind: DataType) -> Value:
    """The float32 of bit patterns."""
    b = em.b
    t = _ints(value, I32)
    floats = _ints(value, FLOAT)
    wide = b.zext(value, t)
    name = str(kind.element)
    if kind.is_bfloat16:
        return b.bitcast(b.shl(wide, _splat(t, 16)), floats)
    if name == "float8_e8m0fnu":
        # 2**(code - 127); code 0 is the subnormal 2**-127, 255 the NaN.
        normal = b.shl(wide, _splat(t, 23))
        small = b.select(b.icmp("eq", wide, zero(t)), _splat(t, 0x00400000), normal)
        return b.bitcast(b.select(b.icmp("eq", wide, _splat(t, 255)), _splat(t, 0x7FC00000), small), floats)
    form = FLOAT_FORMATS[name]
    top = form.exponent + form.mantissa
    sign = b.shl(b.and_(wide, _splat(t, 1 << top)), _splat(t, 31 - top))
    code = b.and_(wide, _splat(t, (1 << top) - 1))
    shift = 23 - form.mantissa
    normal = b.add(b.shl(code, _splat(t, shift)), _splat(t, (127 - form.bias) << 23))
    scale = const(floats, 2.0 ** (1 - form.bias - form.mantissa))
    small = b.bitcast(b.fmul(b.uitofp(code, floats), scale, fast_math=FastMath.NONE), t)
    magnitude = b.select(b.icmp("ult", code, _splat(t, 1 << form.mantissa)), small, normal)
    if form.unsigned_zero:
        whole = b.or_(magnitude, sign)
        return b.bitcast(b.select(b.icmp("eq", wide, _splat(t, 0x80)), _splat(t, 0x7FC00000), whole), floats)
    if form.infinity is not None:
        magnitude = b.select(b.icmp("eq", code, _splat(t, form.infinity)), _splat(t, 0x7F800000), magnitude)
        nan = b.icmp("ugt", code, _splat(t, form.infinity))
    elif form.nan is not None:
        nan = b.icmp("eq", code, _splat(t, form.nan))
    else:
        return b.bitcast(b.or_(magnitude, sign), floats)
    magnitude = b.select(nan, _splat(t, 0x7FC00000), magnitude)
    return b.bitcast(b.or_(magnitude, sign), floats)


def _f32_to_bits(em: Emitter, value: Value, kind: DataType) -> Value:
    """float32 rounded to nearest even, as bit patterns of a narrow kind."""
    b = em.b
    t = _ints(value, I32)
    target = em.type_of(kind)
    bits = b.bitcast(value, t)
    name = str(kind.element)
    if kind.is_bfloat16:
        if em.machine.native_bfloat:
            return b.bitcast(b.fptrunc(value, _ints(value, BFLOAT_FORMAT)), target)
        odd = b.and_(b.lshr(bits, _splat(t, 16)), _splat(t, 1))
        rounded = b.lshr(b.add(b.add(bits, odd), _splat(t, 0x7FFF)), _splat(t, 16))
        nan = b.or_(b.and_(b.lshr(bits, _splat(t, 16)), _splat(t, 0x8000)), _splat(t, 0x7FC0))
        is_nan = b.fcmp("uno", value, value, fast_math=FastMath.NONE)
        return b.trunc(b.select(is_nan, nan, rounded), target)
    if name == "float8_e8m0fnu":
        return b.trunc(_f32_to_e8m0(em, bits), target)
    return b.trunc(_f32_to_f8(em, value, bits, FLOAT_FORMATS[name]), target)


def _f32_to_e8m0(em: Emitter, bits: Value) -> Value:
    """The exponent, rounded half up in the mantissa; zero, negative numbers, infinities and NaN have none but 255."""
    b, t = em.b, bits.type
    rounded = b.lshr(b.add(bits, _splat(t, 0x00400000)), _splat(t, 23))
    # Subnormals as ml_dtypes has them: up to 2**-127 the least value (code 0), above the next.
    least = b.zext(b.icmp("ugt", bits, _splat(t, 0x00400000)), t)
    rounded = b.select(b.icmp("ult", bits, _splat(t, 0x00800000)), least, rounded)
    valid = b.icmp("ult", b.sub(bits, _splat(t, 1)), _splat(t, 0x7F800000 - 1))
    return b.select(valid, rounded, _splat(t, 255))


def _f32_to_f8(em: Emitter, value: Value, bits: Value, form: FloatFormat) -> Value:
    b, t, none = em.b, bits.type, FastMath.NONE
    top = form.exponent + form.mantissa
    sign = b.and_(b.lshr(bits, _splat(t, 31 - top)), _splat(t, 1 << top))
    magnitude = b.and_(bits, _splat(t, 0x7FFFFFFF))
    shift = 23 - form.mantissa
    odd = b.and_(b.lshr(magnitude, _splat(t, shift)), _splat(t, 1))
    bumped = b.add(b.add(magnitude, odd), _splat(t, (1 << (shift - 1)) - 1))
    normal = b.sub(b.lshr(bumped, _splat(t, shift)), _splat(t, (127 - form.bias) << form.mantissa))
    # Below the least normal number the code counts units of the least subnormal: adding 2**23 rounds to them.
    floats = value.type
    positive = b.bitcast(magnitude, floats)
    scaled = b.fmul(positive, const(floats, 2.0 ** (form.bias - 1 + form.mantissa)), fast_math=none)
    small = b.sub(b.bitcast(b.fadd(scaled, const(floats, 8388608.0), fast_math=none), t), _splat(t, 0x4B000000))
    least_normal = _splat(t, (128 - form.bias) << 23)
    code = b.select(b.icmp("ult", magnitude, least_normal), small, normal)
    no_number = form.largest if form.nan is None else form.nan
    beyond = form.infinity if form.infinity is not None else no_number
    code = b.select(b.icmp("sgt", code, _splat(t, form.largest)), _splat(t, beyond), code)
    if form.infinity is not None:
        code = b.select(b.icmp("eq", magnitude, _splat(t, 0x7F800000)), _splat(t, form.infinity), code)
    keeps_infinity = form.infinity is not None or form.nan is None
    nan = b.icmp("ugt" if keeps_infinity else "uge", magnitude, _splat(t, 0x7F800000))
    code = b.select(nan, _splat(t, no_number), code)
    if form.nan is None:
        return b.or_(code, b.select(nan, zero(t), sign))
    if form.unsigned_zero:
        # No minus zero: that pattern is the NaN, which has no sign.
        plain = b.or_(b.icmp("eq", code, zero(t)), b.icmp("eq", code, _splat(t, no_number)))
        sign = b.select(plain, zero(t), sign)
    return b.or_(code, sign)


# -- constants -------------------------------------------------------------------------------------------------------


def float_constant(em: Emitter, op: FloatImm) -> Value:
    """A float constant in the representation of its type."""
    dtype = op.dtype
    t = em.type_of(dtype)
    if dtype.is_bfloat16:
        return constant(t, float_bits(BFLOAT_FORMAT, op.value))
    if dtype.is_minifloat:
        return constant(t, int(dtype.numpy.type(op.value).view("uint8")))
    return const(t, op.value)


FLOAT_CONSTANT[:] = [float_constant]

# -- conversions -----------------------------------------------------------------------------------------------------


def truth(em: Emitter, value: Value, kind: DataType) -> Value:
    """Whether values are not zero (a NaN is not)."""
    if kind.is_bool:
        return value
    if kind.is_float:
        wide = widen_float(em, value, kind)
        return em.b.fcmp("une", wide, const(wide.type, 0.0), fast_math=FastMath.NONE)
    return em.b.icmp("ne", value, zero(value.type) if kind.is_handle else constant(value.type, 0))


def convert(em: Emitter, value: Value, source: DataType, target: DataType) -> Value:
    """A value of one type as another (of as many lanes)."""
    if source is target:
        return value
    b, t = em.b, em.type_of(target)
    if target.is_bool:
        return truth(em, value, source)
    if target.is_integral:
        if source.is_float:
            wide = to_f32(em, value, source) if source.bits < 32 else value
            if em.machine.is_x86:
                return _saturated(em, wide, target)
            stem = "llvm.fptosi.sat" if target.is_int else "llvm.fptoui.sat"
            return b.intrinsic(stem, t, [wide], [t, wide.type])
        if source.is_integral:
            return _convert_int(em, value, source, t)
        if source.is_handle:
            number = b.ptrtoint(value, t.with_scalar(I64))
            return number if target.bits == 64 else b.trunc(number, t)
    elif target.is_float:
        if source.is_float:
            return _convert_float(em, value, source, target)
        if source.is_integral:
            return _int_to_float(em, value, source, target)
    elif target.is_handle:
        if source.is_handle:
            return value
        if source.is_integral:
            wide = value if source.bits == 64 else b.zext(value, t.with_scalar(I64))
            return b.inttoptr(wide, t)
    raise em.error(f"there is no conversion from {source!s} to {target!s}")


def _saturated(em: Emitter, x: Value, target: DataType) -> Value:
    """A float as an integer, where no instruction saturates: LLVM has ``llvm.fptosi.sat`` for scalars only there, and takes vectors
    apart. What the conversion makes of a float that is out of range is poison, and never chosen."""
    b, t, none = em.b, em.type_of(target), FastMath.NONE
    bits, signed = target.bits, target.is_int
    low, end = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)  # floats of every type have both
    wide = t.with_scalar(I32) if bits < 32 else t
    outside = [("oge", end, end - 1), ("ole", low, low), ("uno", 0, 0)]
    held, narrow = x, bits <= (16 if x.type.scalar is FLOAT else 32)
    if narrow:  # the last one is a float too, and the lesser of two is one instruction
        for predicate, bound in (("ogt", float(low)), ("olt", float(end - 1))):  # a NaN becomes the lower end
            limit = const(x.type, bound)
            held = b.select(b.fcmp(predicate, held, limit, fast_math=none), held, limit, fast_math=none)
        outside = outside[2:] if signed else []
    made = b.fptosi(held, wide) if signed or bits < 32 else b.fptoui(held, wide)
    for predicate, bound, instead in outside:
        test = b.fcmp(predicate, x, const(x.type, float(bound)), fast_math=none)
        made = b.select(test, constant(wide, instead), made)
    return made if wide is t else b.trunc(made, t)


def _convert_int(em: Emitter, value: Value, source: DataType, t: Type) -> Value:
    have, want = value.type.scalar.bits, t.scalar.bits
    if have == want:
        return value
    if have > want:
        return em.b.trunc(value, t)
    return em.b.sext(value, t) if source.is_int else em.b.zext(value, t)


def _convert_float(em: Emitter, value: Value, source: DataType, target: DataType) -> Value:
    if source.bits == 64:
        return narrow_float(em, value, target)
    wide = to_f32(em, value, source)
    if target.bits == 64:
        return em.b.fpext(wide, wide.type.with_scalar(DOUBLE))
    return wide if target.bits == 32 else narrow_float(em, wide, target)


def _int_to_float(em: Emitter, value: Value, source: DataType, target: DataType) -> Value:
    b = em.b
    signed = source.is_int

    def to_float(x: Value, scalar: Type) -> Value:
        t = x.type.with_scalar(scalar)
        return b.sitofp(x, t) if signed else b.uitofp(x, t)

    if target.bits >= 32:
        return to_float(value, FLOAT if target.bits == 32 else DOUBLE)
    # Up to 2**24 float32 is exact; beyond, all these kinds have overflowed, but for two.
    if source.bits <= 24 or not (target.is_bfloat16 or target.element == "float8_e8m0fnu"):
        wide = to_float(value, FLOAT)
        if target.code == "float" and source.bits > 16:
            # LLVM 22 takes the way to half and back for exact where the mantissa suffices, and forgets overflow.
            size = b.intrinsic("llvm.fabs", wide.type, [wide], [wide.type], fast_math=FastMath.NONE)
            overflow = b.fcmp("oge", size, const(wide.type, 65520.0), fast_math=FastMath.NONE)
            infinity = b.intrinsic(
                "llvm.copysign",
                wide.type,
                [const(wide.type, float("inf")), wide],
                [wide.type],
                fast_math=FastMath.NONE,
            )
            wide = b.select(overflow, infinity, wide, fast_math=FastMath.NONE)
        return narrow_float(em, wide, target)
    if source.bits > 53:
        # Keep what lies below float64's precision as one bit that marks it inexact.
        t = value.type
        kept = b.and_(value, constant(t, ~2047))
        rest = b.icmp("ne", b.and_(value, constant(t, 2047)), constant(t, 0))
        marked = b.or_(kept, b.select(rest, constant(t, 2048), constant(t, 0)))
        magnitude = b.intrinsic("llvm.abs", t, [value, Value(em.type_of(DataType("bool")), "false")], [t])
        big = b.icmp("ugt", magnitude if signed else value, constant(t, 1 << 53))
        value = b.select(big, marked, value)
    return narrow_float(em, to_float(value, DOUBLE), target)
