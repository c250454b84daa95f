"""Reduction of float32 angles of any size (M. Payne and R. Hanek, "Radian reduction for trigonometric functions", 1983).

A large ``x`` is ``M * 2**E`` with an integer ``M`` below 2**24. Of ``x / (2*pi)`` only the fraction matters, so the bits of
``1/(2*pi)`` before position ``E`` may be dropped, and 96 bits behind it give the fraction to 2**-72 of a turn. No float32
comes nearer than about 2**-32 turns to a multiple of a quarter turn, so 2**-64 leaves every result its 24 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.emit.vmath.algebra import Kernel, V
from tirlower.emit.writer import (
    FLOAT,
    I32,
    I64,
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
)

__all__ = ["turns"]

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
_SCALAR: Final = "tirlower.vmath.turns"


def turns(k: Kernel, x: V) -> V:
    """``x / (2*pi)`` without its integer part, in units of 2**-64, for each finite lane ``x >= 2**17``."""
    return V(k, k.b.call(_lanes(k.module, x.type, k.attrs), [x.value]))


def _lanes(module: Module, type: Type, attrs: Sequence[Attribute]) -> FunctionRef:
    """The function over all lanes: cold, out of line, one scalar after the other."""
    scalar = _scalar(module, attrs)
    if not type.is_vector:
        return scalar
    name = f"{_SCALAR}.{type.lanes}"
    found = module.symbol(name)
    if isinstance(found, FunctionRef):
        return found
    result = type.with_scalar(I64)
    f = module.function(name, result, [(type, "x")], linkage="internal", attrs=[*_ATTRS, *attrs])
    b = Builder(f, f.block("entry"))
    before = b.block
    with b.for_range(i32(0), i32(type.lanes), nonempty=True) as lane:
        partial = b.phi(result, "partial", [(poison(result), before)])
        one = b.call(scalar, [b.extract_element(f.args[0], lane)])
        whole = b.insert_element(partial, one, lane)
        partial.add(whole, b.block)
    b.ret(whole)
    return f.ref


_ATTRS: Final = ("noinline", "cold", "nounwind", "willreturn", "memory(none)")


def _scalar(module: Module, attrs: Sequence[Attribute]) -> FunctionRef:
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
