"""float16 and bfloat16: converted to float32, computed there, and rounded back once."""

from __future__ import annotations

from tirlower.emit.llvm_text import BFLOAT, FLOAT, I16, I32, Builder, Type, Value, const

__all__ = ["from_float", "to_float"]


def to_float(b: Builder, x: Value) -> Value:
    """Half or bfloat lanes as float32 (exact).

    bfloat goes through its bits: they are the upper half of the float32's, and LLVM's own conversions flush subnormal
    numbers on some targets.
    """
    t = x.type
    if t.scalar != BFLOAT:
        return b.fpext(x, t.with_scalar(FLOAT))
    wide = b.zext(b.bitcast(x, t.with_scalar(I16)), t.with_scalar(I32))
    return b.bitcast(b.shl(wide, const(wide.type, 16)), t.with_scalar(FLOAT))


def from_float(b: Builder, x: Value, scalar: Type) -> Value:
    """Float32 lanes rounded to half or bfloat, ties to even; a NaN stays one (and becomes quiet)."""
    t = x.type
    if scalar != BFLOAT:
        return b.fptrunc(x, t.with_scalar(scalar))
    bits = b.bitcast(x, t.with_scalar(I32))
    u = bits.type
    odd = b.and_(b.lshr(bits, const(u, 16)), const(u, 1))
    rounded = b.add(bits, b.add(odd, const(u, 0x7FFF)))
    quiet = b.or_(bits, const(u, 0x400000))
    chosen = b.select(b.fcmp("uno", x, x), quiet, rounded)
    return b.bitcast(b.trunc(b.lshr(chosen, const(u, 16)), t.with_scalar(I16)), t.with_scalar(BFLOAT))
