"""Reduction of angles of any size (M. Payne and R. Hanek, "Radian reduction for trigonometric functions", 1983).

A large float32 ``x`` is ``M * 2**E`` with an integer ``M`` below 2**24. Of ``x / (2*pi)`` only the fraction matters, so the bits of
``1/(2*pi)`` before position ``E`` may be dropped, and 96 bits behind it give the fraction to 2**-72 of a turn. No float32
comes nearer than about 2**-32 turns to a multiple of a quarter turn, so 2**-64 leaves every result its 24 bits. For a
float64 it is 192 bits and a fraction of 128; none comes nearer than about 2**-63 turns (J.-M. Muller, "Elementary
Functions", on worst cases of range reduction).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.emit.llvm_text import (
    DOUBLE,
    FLOAT,
    I1,
    I32,
    I64,
    I128,
    Attribute,
    Builder,
    FunctionRef,
    Module,
    Type,
    Value,
    const,
    const_array,
    i32,
    i64,
    poison,
    struct,
)
from tirlower.emit.vmath.algebra import Formula, V

__all__ = ["angle", "turns"]

#: 32 zero bits, then the first 256 bits of 1/(2*pi), as words; `tests/emit/vmath` recomputes them
WORDS: Final = (
    0x00000000,
    0x28BE60DB,
    0x9391054A,
    0x7F09D5F4,
    0x7D4D3770,
    0x36D8A566,
    0x4F10E410,
    0x7F9458EA,
    0xF7AEF158,
)
#: 64 zero bits, then the first 1216 bits of 1/(2*pi), as words
WORDS64: Final = (
    0x0000000000000000, 0x28BE60DB9391054A, 0x7F09D5F47D4D3770, 0x36D8A5664F10E410,
    0x7F9458EAF7AEF158, 0x6DC91B8E909374B8, 0x01924BBA82746487, 0x3F877AC72C4A69CF,
    0xBA208D7D4BAED121, 0x3A671C09AD17DF90, 0x4E64758E60D4CE7D, 0x272117E2EF7E4A0E,
    0xC7FE25FFF7816603, 0xFBCBC462D6829B47, 0xDB4D9FB3C9F2C26D, 0xD3D18FD9A797FA8B,
    0x5D49EEB1FAF97C5E, 0xCF41CE7DE294A4BA, 0x9AFED7EC47E35742, 0x1580CC11BF1EDAEA,
)  # fmt: skip
_TWO_PI: Final = (6.283185307179586, 2.4492935982947064e-16)
_SCALAR: Final = "tirlower.vmath.turns"
_ANGLE: Final = "tirlower.vmath.angle"


def turns(k: Formula, x: V) -> V:
    """``x / (2*pi)`` without its integer part, in units of 2**-64, for each finite lane ``x >= 2**17``."""
    return V(k, k.b.call(_lanes(k.module, _SCALAR, _turns_of_one(k.module, k.attrs), x.type, k.attrs), [x.value]))


def _lanes(module: Module, symbol: str, one: FunctionRef, type: Type, attrs: Sequence[Attribute]) -> FunctionRef:
    """A function of a scalar over all lanes: cold, out of line, one after the other; of a struct, a vector for each part."""
    if not type.is_vector:
        return one
    name = f"{symbol}.{type.lanes}"
    found = module.symbol(name)
    if isinstance(found, FunctionRef):
        return found
    parts = one.ret.fields or (one.ret,)
    shapes = [type.with_scalar(part) for part in parts]
    result = struct(*shapes) if one.ret.fields else shapes[0]
    f = module.function(name, result, [(type, "x")], linkage="internal", attrs=[*_ATTRS, *attrs])
    b = Builder(f, f.block("entry"))
    before = b.block
    with b.for_range(i32(0), i32(type.lanes), nonempty=True) as lane:
        partial = [b.phi(shape, "partial", [(poison(shape), before)]) for shape in shapes]
        value = b.call(one, [b.extract_element(f.args[0], lane)])
        values = [b.extract_value(value, i) for i in range(len(parts))] if one.ret.fields else [value]
        whole = [b.insert_element(phi, v, lane) for phi, v in zip(partial, values, strict=True)]
        for phi, v in zip(partial, whole, strict=True):
            phi.add(v, b.block)
    if not one.ret.fields:
        b.ret(whole[0])
        return f.ref
    made = poison(result)
    for i, v in enumerate(whole):
        made = b.insert_value(made, v, i)
    b.ret(made)
    return f.ref


_ATTRS: Final = ("noinline", "cold", "nounwind", "willreturn", "memory(none)")


def _turns_of_one(module: Module, attrs: Sequence[Attribute]) -> FunctionRef:
    found = module.symbol(_SCALAR)
    if isinstance(found, FunctionRef):
        return found
    f = module.function(_SCALAR, I64, [(FLOAT, "x")], linkage="internal", attrs=[*_ATTRS, *attrs])
    b = Builder(f, f.block("entry"))
    words = const_array([const(I32, w) for w in WORDS])
    table = module.global_constant(f"{_SCALAR}.words", words, align=64)
    bits = b.bitcast(f.args[0], I32)
    mantissa = b.zext(b.or_(b.and_(bits, i32(0x7FFFFF)), i32(0x800000)), I64)
    # x = mantissa * 2**(exponent - 150); the table begins 32 bits early. Infinity reads the last window: 137 + 96 bits.
    # A lane that did not ask for this may be smaller, and then gets anything.
    offset = b.sub(b.lshr(b.and_(bits, i32(0x7FFFFFFF)), i32(23)), i32(150 - 32))
    offset = b.intrinsic("llvm.smax", I32, [offset, i32(0)], [I32])
    word, shift = b.lshr(offset, i32(5)), b.zext(b.and_(offset, i32(31)), I64)

    def pair(first: int) -> Value:
        index = b.add(word, i32(first))
        high = b.zext(b.load(I32, b.gep(words.type, table, i32(0), index), align=4), I64)
        low = b.zext(b.load(I32, b.gep(words.type, table, i32(0), b.add(index, i32(1))), align=4), I64)
        return b.or_(b.shl(high, i64(32)), low)

    w0, w1 = pair(0), pair(2)
    top = b.intrinsic("llvm.fshl", I64, [w0, w1, shift], [I64])
    rest = b.lshr(b.shl(w1, shift), i64(32))
    low = b.lshr(b.mul(mantissa, rest), i64(32))
    b.ret(b.add(b.mul(mantissa, top), low))
    return f.ref


def angle(k: Formula, x: V) -> tuple[V, V, V]:
    """``x = n*pi/2 + r + low`` with ``|r| <= pi/4``, for each finite float64 lane ``x >= 2**30``: ``r``, ``low``, ``n``."""
    found = k.b.call(_lanes(k.module, _ANGLE, _angle_of_one(k.module, k.attrs), x.type, k.attrs), [x.value])
    main, low, quarters = (V(k, k.b.extract_value(found, i)) for i in range(3))
    return main, low, quarters


def _angle_of_one(module: Module, attrs: Sequence[Attribute]) -> FunctionRef:
    found = module.symbol(_ANGLE)
    if isinstance(found, FunctionRef):
        return found
    f = module.function(
        _ANGLE, struct(DOUBLE, DOUBLE, I64), [(DOUBLE, "x")], linkage="internal", attrs=[*_ATTRS, *attrs]
    )
    b = Builder(f, f.block("entry"))
    words = const_array([const(I64, w) for w in WORDS64])
    table = module.global_constant(f"{_ANGLE}.words", words, align=64)
    bits = b.bitcast(f.args[0], I64)
    mantissa = b.or_(b.and_(bits, i64((1 << 52) - 1)), i64(1 << 52))
    # x = mantissa * 2**(exponent - 1075); the table begins 64 bits early, and infinity reads its last window.
    offset = b.sub(b.and_(b.lshr(bits, i64(52)), i64(0x7FF)), i64(1075 - 64))
    offset = b.intrinsic("llvm.smax", I64, [offset, i64(0)], [I64])
    word, shift = b.lshr(offset, i64(6)), b.and_(offset, i64(63))
    row = [b.load(I64, b.gep(words.type, table, i32(0), b.add(word, i64(i))), align=8) for i in range(4)]
    top, middle, rest = (b.intrinsic("llvm.fshl", I64, [row[i], row[i + 1], shift], [I64]) for i in range(3))

    def times(part: Value) -> Value:
        return b.mul(b.zext(mantissa, I128), b.zext(part, I128))

    # the fraction of a turn in units of 2**-128, and of it the nearest quarter
    sixty_four = const(I128, 64)
    fraction = b.add(times(middle), b.lshr(times(rest), sixty_four))
    fraction = b.add(fraction, b.shl(b.zext(b.mul(mantissa, top), I128), sixty_four))
    quarters = b.lshr(b.add(fraction, const(I128, 1 << 125)), const(I128, 126))
    signed = b.sub(fraction, b.shl(quarters, const(I128, 126)))
    negative = b.icmp("slt", signed, const(I128, 0))
    size = b.or_(b.select(negative, b.neg(signed), signed), const(I128, 1))
    zeros = b.intrinsic("llvm.ctlz", I128, [size, Value(I1, "true")], [I128])
    shifted = b.shl(size, zeros)
    high_word, low_word = b.trunc(b.lshr(shifted, sixty_four), I64), b.trunc(shifted, I64)
    # 53 bits and the next 64, times 2**(-53 - zeros) turns
    unit = b.bitcast(b.shl(b.sub(i64(1023 - 53), b.trunc(zeros, I64)), i64(52)), DOUBLE)
    head = b.fmul(b.uitofp(b.lshr(high_word, i64(11)), DOUBLE), unit)
    tail_bits = b.or_(b.shl(high_word, i64(53)), b.lshr(low_word, i64(11)))
    tail = b.fmul(b.uitofp(tail_bits, DOUBLE), b.fmul(unit, const(DOUBLE, 2.0**-64)))

    def fma(x: Value, y: Value, z: Value) -> Value:
        return b.intrinsic("llvm.fma", DOUBLE, [x, y, z], [DOUBLE])

    pi, pi_low = (const(DOUBLE, p) for p in _TWO_PI)
    product = b.fmul(head, pi)
    lost = fma(tail, pi, fma(head, pi_low, fma(head, pi, b.fneg(product))))
    total = b.fadd(product, lost)
    low = b.fadd(b.fsub(product, total), lost)
    made = poison(f.ref.ret)
    for i, part in enumerate((total, low)):
        made = b.insert_value(made, b.select(negative, b.fneg(part), part), i)
    b.ret(b.insert_value(made, b.trunc(quarters, I64), 2))
    return f.ref
