"""Scalars in LLVM IR: checked conversion of Python and NumPy numbers, and return values back to Python.

Exact ints, floats and bools and NumPy's scalars of the parameter's dtype (and int64, float64) are converted here.
Everything else, and every value out of range, is left to Python.
"""

from __future__ import annotations

import math
from typing import Final

from tirlower.call.dtypes import ElementType, element_type
from tirlower.call.scalars import BadScalar, scalar_bits
from tirlower.call.signature import ScalarParam
from tirlower.call.vectorcall import HEADER, TYPE
from tirlower.emit.llvm_text import (
    DOUBLE,
    FALSE,
    FLOAT,
    HALF,
    I1,
    I8,
    I16,
    I32,
    I64,
    PTR,
    TRUE,
    VOID,
    Block,
    Type,
    Value,
    const,
    const_bits,
    int_type,
    null,
)
from tirlower.llvm.entry.entry_frame import Frame

__all__ = ["box", "default_value", "read_optional", "read_scalar", "scalar_type"]

# bfloat16 travels as its bits: on processors with AVX512-BF16 LLVM passes a `bfloat` through a conversion that flushes
# subnormals to zero.
_TYPES: Final = {"bool": I1, "handle": PTR, "float16": HALF, "float32": FLOAT, "float64": DOUBLE}
_Arms = list[tuple[Value, Block]]


def scalar_type(dtype: str) -> Type:
    """The LLVM type of a scalar parameter: narrow floats without one are their bits."""
    found = element_type(dtype)
    return _TYPES.get(dtype) or int_type(max(found.bits, 8) if found.kind == "float" else found.bits)


def default_value(param: ScalarParam) -> Value | None:
    """The default as a constant of the kernel's parameter; None where there is none, or Python says what is wrong with it."""
    if param.default is None:
        return None
    try:
        bits, _ = scalar_bits(param.dtype, param.default)
    except BadScalar:
        return None
    type = scalar_type(param.dtype)
    if type is PTR:
        return None
    return const_bits(type, bits) if type.kind == "float" else const(type, bits)


def read_optional(frame: Frame, param: ScalarParam, default: Value, passed: Value, args: Value, offset: int) -> Value:
    """The argument at an offset into ``args`` where it is ``passed``, else the default."""
    b = frame.b
    given, join = frame.new_block("given"), frame.new_block("either")
    before = b.block
    b.cond_br(passed, given, join)
    frame.enter(given)
    value = read_scalar(frame, param, frame.field(args, offset, PTR))
    end = b.block
    b.br(join)
    frame.enter(join)
    return b.phi(value.type, "argument", [(default, before), (value, end)])


def read_scalar(frame: Frame, param: ScalarParam, obj: Value) -> Value:
    """The argument as the kernel's parameter."""
    kind = element_type(param.dtype)
    if kind.kind == "handle":
        frame.require(frame.b.icmp("eq", obj, frame.slot("None")), "none")
        return null()
    if kind.kind == "bool":
        return _read_bool(frame, obj)
    if kind.kind == "float":
        return _read_float(frame, kind, obj)
    return _read_int(frame, kind, obj)


def _when_class(frame: Frame, cls: Value, slot: str) -> Block:
    """Enter a block for objects of exactly a class; the block returned is where the others go on."""
    b = frame.b
    matched, other = frame.new_block("is"), frame.new_block("other")
    b.cond_br(b.icmp("eq", cls, frame.slot(slot)), matched, other)
    frame.enter(matched)
    return other


def _arm(frame: Frame, arms: _Arms, value: Value, join: Block, other: Block) -> None:
    """End an arm of a choice by class: its value goes to ``join``; go on with ``other``."""
    arms.append((value, frame.b.block))
    frame.b.br(join)
    frame.enter(other)


def _join(frame: Frame, arms: _Arms, join: Block, type: Type) -> Value:
    """Leave what matched no arm to Python, and continue with the value of the arm that matched."""
    frame.b.br(frame.slow)
    frame.enter(join)
    return frame.b.phi(type, "number", arms)


def _python_int(frame: Frame, obj: Value) -> Value:
    """An exact int as ``i64``; Python takes over where it is wider."""
    b = frame.b
    overflow = b.alloca(I32)
    value = frame.api("PyLong_AsLongLongAndOverflow", I64, obj, overflow)
    frame.require(b.icmp("eq", b.load(I32, overflow, 4), b.i32(0)), "narrow")
    return value


def _read_int(frame: Frame, kind: ElementType, obj: Value) -> Value:
    b = frame.b
    cls = frame.field(obj, TYPE, PTR)
    join = frame.new_block("int")
    arms: _Arms = []
    other = _when_class(frame, cls, "int")
    _arm(frame, arms, _python_int(frame, obj), join, other)
    if kind.bits in (8, 16, 32) and kind.itemsize:
        other = _when_class(frame, cls, f"scalar:{kind.name}")
        stored = frame.field(obj, HEADER, scalar_type(kind.name))
        _arm(frame, arms, b.sext(stored, I64) if kind.signed else b.zext(stored, I64), join, other)
    other = _when_class(frame, cls, "scalar:int64")
    _arm(frame, arms, frame.field(obj, HEADER, I64), join, other)
    number = _join(frame, arms, join, I64)
    if kind.bits == 64:
        if not kind.signed:
            # From 2**63 on Python makes the call.
            frame.require(b.icmp("sge", number, b.i64(0)), "inrange")
        return number
    low, high = kind.int_range()
    inside = b.icmp("ule", b.sub(number, b.i64(low)), b.i64(high - low))
    frame.require(inside, "inrange")
    return b.trunc(number, scalar_type(kind.name))


def _read_bool(frame: Frame, obj: Value) -> Value:
    b = frame.b
    join, other = frame.new_block("bool"), frame.new_block("other")
    true, false = b.icmp("eq", obj, frame.slot("True")), b.icmp("eq", obj, frame.slot("False"))
    arms: _Arms = [(true, b.block)]
    b.cond_br(b.or_(true, false), join, other)
    frame.enter(other)
    frame.require(b.icmp("eq", frame.field(obj, TYPE, PTR), frame.slot("scalar:bool")), "numpy")
    arms.append((b.icmp("ne", frame.field(obj, HEADER, I8), const(I8, 0)), b.block))
    b.br(join)
    frame.enter(join)
    return b.phi(TRUE.type, "flag", arms)


def _read_float(frame: Frame, kind: ElementType, obj: Value) -> Value:
    b = frame.b
    cls = frame.field(obj, TYPE, PTR)
    if kind.name == "float16":
        frame.require(b.icmp("eq", cls, frame.slot("scalar:float16")), "half")
        return b.bitcast(frame.field(obj, HEADER, I16), HALF)
    if kind.name not in ("float32", "float64"):
        # Rounding to these formats is Python's: it needs library functions that may not be there.
        frame.require(FALSE, "never")
        return const(scalar_type(kind.name), 0)
    join = frame.new_block("float")
    arms: _Arms = []
    for name in ("float", "scalar:float64"):
        other = _when_class(frame, cls, name)
        _arm(frame, arms, frame.field(obj, HEADER, DOUBLE), join, other)
    if kind.name == "float32":
        other = _when_class(frame, cls, "scalar:float32")
        _arm(frame, arms, b.fpext(frame.field(obj, HEADER, FLOAT), DOUBLE), join, other)
    other = _when_class(frame, cls, "int")
    _arm(frame, arms, b.sitofp(_python_int(frame, obj), DOUBLE), join, other)
    number = _join(frame, arms, join, DOUBLE)
    if kind.name == "float64":
        return number
    rounded = b.fptrunc(number, FLOAT)
    overflowed = b.fcmp("oeq", b.intrinsic("llvm.fabs", FLOAT, [rounded], [FLOAT]), const(FLOAT, math.inf))
    infinite = b.fcmp("oeq", b.intrinsic("llvm.fabs", DOUBLE, [number], [DOUBLE]), const(DOUBLE, math.inf))
    frame.require(b.or_(b.not_(overflowed), infinite), "inrange")
    return rounded


def box(frame: Frame, dtype: str, storage: Value, self_box: Value) -> Value:
    """A new Python object of a return value in memory; null with an error set where there is no memory for it."""
    b = frame.b
    kind = element_type(dtype)
    if kind.kind == "bool":
        answer = b.icmp("ne", b.load(I8, storage, 8), const(I8, 0))
        obj = b.select(answer, frame.slot("True"), frame.slot("False"))
        frame.api("Py_IncRef", VOID, obj)
        return obj
    if kind.name in ("float32", "float64"):
        number = b.load(scalar_type(kind.name), storage, 8)
        return frame.api("PyFloat_FromDouble", PTR, number if kind.bits == 64 else b.fpext(number, DOUBLE))
    if kind.kind == "int":
        return frame.api("PyLong_FromLongLong", PTR, frame.as_i64(b.load(scalar_type(kind.name), storage, 8)))
    if kind.kind == "uint":
        number = b.load(scalar_type(kind.name), storage, 8)
        return frame.api("PyLong_FromUnsignedLongLong", PTR, number if kind.bits == 64 else b.zext(number, I64))
    # Narrow floats and addresses: Python reads the bits.
    return frame.call_object(self_box, b.load(I64, storage, 8))
