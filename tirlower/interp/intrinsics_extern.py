"""Calls that leave the program: registered Python functions, libm by name, LLVM's intrinsics, packed functions."""

from __future__ import annotations

import math
from collections.abc import Callable

from tirlower.diagnostics import InterpreterError, TirError
from tirlower.interp.dot_products import dot_product
from tirlower.interp.expressions import ExpressionCompiler, intrinsic, lifted
from tirlower.interp.intrinsics_math import FLOAT_FUNCTIONS, float_function
from tirlower.interp.memory import Memory, Pointer
from tirlower.interp.scope import Frame, Value
from tirlower.interp.structs import Struct
from tirlower.interp.tiles import TILES
from tirlower.interp.values import (
    Datum,
    Fault,
    Function,
    coerce,
    integer_wrapper,
    operation,
    rounder,
)
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call, IntImm, StringImm
from tirlower.ir.struct_field import StructField

__all__ = ["EXTERNS", "register_extern"]

EXTERNS: dict[str, Function] = {}
"""Python implementations of external functions, by symbol name."""


def register_extern(name: str, fn: Function | None) -> Function | None:
    """Say what ``T.call_extern(dtype, name, …)`` does in the interpreter; None takes it back. Returns what was there.

    The function gets ints, floats, tuples (vectors), strings, and :class:`~tirlower.interp.memory.Pointer` objects for
    handles (``pointer.array("float32", n)`` is a NumPy array on the memory); its result is brought into the call's
    data type.

    >>> register_extern("twice", lambda x: 2 * x)
    >>> _ = register_extern("twice", None)
    """
    if not isinstance(name, str) or not (fn is None or callable(fn)):
        raise TirError(
            f"register_extern takes a name and a Python function (or None), got {name!r} and {fn!r}", origin="interpret"
        )
    before = EXTERNS.pop(name, None)
    if fn is not None:
        EXTERNS[name] = fn
    return before


def _memcpy(target: Pointer, source: Pointer, size: int) -> Pointer:
    target.copy_from(source, size)
    return target


def _memset(target: Pointer, value: int, size: int) -> Pointer:
    target.array("uint8", size)[:] = value & 255
    return target


LIBC: dict[str, Function] = {
    "memcpy": _memcpy,
    "memmove": _memcpy,
    "memset": _memset,
    "abs": abs,
    "labs": abs,
    "__tvm_set_device": lambda *_: 0,
}


def _alloc_nd(device: int, number: int, code: int, bits: int, ndim: int, shape: Pointer, scope: str) -> Pointer:
    extents = shape.view("int64")
    count = math.prod(extents.get(extents.start + axis) for axis in range(ndim))
    return Pointer(Memory.allocate(count * ((bits + 7) // 8), str(scope)))


def _dma_copy(queue: int, target: Pointer, source: Pointer, size: int, bypass: int) -> int:
    target.copy_from(source, size)
    return 0


# The packed functions of a device, "device_api.<device>.<name>"; its copies are complete at once.
_DEVICE_API: dict[str, Function] = {
    "alloc_nd": _alloc_nd,
    "free_nd": lambda *_: 0,
    "dma_copy": _dma_copy,
    "dma_wait": lambda *_: 0,
    "dma_start_group": lambda *_: 0,
    "dma_end_group": lambda *_: 0,
}

# libm's names where they differ from ours; each also with the suffix f, computed in float32.
_LIBM = {name: name for name in FLOAT_FUNCTIONS if name not in ("rsqrt", "sigmoid")}
_LIBM |= {"rint": "nearbyint", "fma": "fma", "nextafter": "nextafter"}


def libm_function(name: str) -> Function | None:
    """The function of the C library of that name (``expf``, ``pow`` …), or None."""
    if name in LIBC:
        return LIBC[name]
    if name.startswith("device_api."):
        return _DEVICE_API.get(name.rpartition(".")[2])
    if name in _LIBM:
        return float_function(_LIBM[name], DataType("float64"))
    if name.endswith("f") and name[:-1] in _LIBM:
        return float_function(_LIBM[name[:-1]], DataType("float32"))
    return None


@intrinsic("tir.call_extern", "tir.call_pure_extern", "tir.tvm_call_packed", "tir.tvm_call_cpacked")
def _call_extern(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    place = compiler.place(call.span)
    head, rest, dtype, program = args[0], args[1:], call.dtype, compiler.program
    if isinstance(call.args[0], StringImm) and dtype.is_vector and call.args[0].value not in EXTERNS:
        fn = libm_function(call.args[0].value)
        if fn is not None:
            return lifted(lambda *lanes: coerce(fn(*lanes), dtype.element), rest, True)
    return lambda frame: program.call_extern(head(frame), [arg(frame) for arg in rest], dtype, place)


@intrinsic("tir.tvm_call_packed_lowered", "tir.tvm_call_cpacked_lowered", "tir.tvm_call_trace_packed")
def _call_packed_lowered(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(name, values, type codes, begin, end, …): arguments begin … end - 1 of the stack; the result goes to end too."""
    name, values, _, begin, end = args[:5]
    place, program, dtype = compiler.place(call.span), compiler.program, call.dtype

    def run(frame: Frame) -> Datum:
        stack = values(frame)
        if not isinstance(stack, Struct):
            raise InterpreterError(f"the argument stack of a packed call is {stack!r}", span=place.span)
        first, last = begin(frame), end(frame)
        packed = [stack.get(index, StructField.VALUE) for index in range(first, last)]
        result = program.call_extern(name(frame), packed, dtype, place)
        stack.set(last, StructField.VALUE, result)
        return result

    return run


# ---------------------------------------------------------------- LLVM's intrinsics

_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "nearbyint", "nearbyint": "nearbyint"}
_FLOAT_NAMES = {
    **_ROUNDING,
    "roundeven": "nearbyint",
    **{n: n for n in ("sqrt", "fabs", "round", "exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan")},
    **{n: n for n in ("asin", "acos", "atan", "sinh", "cosh", "tanh", "pow", "copysign", "atan2", "fma", "ldexp")},
    "powi": "pow",
    "fmuladd": "fma",
}
"""LLVM's float intrinsics by our names. ``fmuladd`` may round once or twice; here it rounds once, as fma does."""


def _minimum(a: float, b: float) -> float:
    if a != a or b != b:
        return math.nan
    return b if b < a or (a == b and math.copysign(1.0, b) < 0) else a


def _maximum(a: float, b: float) -> float:
    return -_minimum(-a, -b)


def _signed(value: int, bits: int) -> int:
    return int(integer_wrapper(DataType.of("int", bits))(value)) if bits > 1 else value


def _integer_functions(kind: DataType) -> dict[str, Function]:
    bits = kind.bits
    wrap, mask = integer_wrapper(kind), (1 << bits) - 1

    def unsigned(value: int) -> int:
        return value & mask

    def clamp(value: int, low: int, high: int) -> int:
        return int(wrap(min(max(value, low), high)))

    def trailing(x: int, *_: Datum) -> int:
        x &= mask
        return bits if x == 0 else (x & -x).bit_length() - 1

    def funnel(high: int, low: int, amount: int, left: bool) -> int:
        amount %= bits
        both = (high & mask) << bits | (low & mask)
        return int(wrap(both >> (bits - amount) if left else both >> amount))

    top = 1 << (bits - 1)
    return {
        "ctpop": lambda x: wrap((x & mask).bit_count()),
        "ctlz": lambda x, *_: bits - (x & mask).bit_length(),
        "cttz": trailing,
        "bswap": lambda x: wrap(int.from_bytes((x & mask).to_bytes(bits // 8, "little"), "big")),
        "bitreverse": lambda x: wrap(int(format(x & mask, f"0{bits}b")[::-1], 2)),
        "fshl": lambda a, b, c: funnel(a, b, c, True),
        "fshr": lambda a, b, c: funnel(a, b, c, False),
        "abs": lambda x, *_: wrap(abs(_signed(x, bits))),
        "smax": lambda a, b: wrap(max(_signed(a, bits), _signed(b, bits))),
        "smin": lambda a, b: wrap(min(_signed(a, bits), _signed(b, bits))),
        "umax": lambda a, b: wrap(max(unsigned(a), unsigned(b))),
        "umin": lambda a, b: wrap(min(unsigned(a), unsigned(b))),
        "sadd.sat": lambda a, b: clamp(_signed(a, bits) + _signed(b, bits), -top, top - 1),
        "ssub.sat": lambda a, b: clamp(_signed(a, bits) - _signed(b, bits), -top, top - 1),
        "uadd.sat": lambda a, b: clamp(unsigned(a) + unsigned(b), 0, mask),
        "usub.sat": lambda a, b: clamp(unsigned(a) - unsigned(b), 0, mask),
        "expect": lambda x, _: x,
    }


def _reduction(name: str, kind: DataType) -> Function | None:
    """``llvm.vector.reduce.*``: lanes combined from the first on; fadd and fmul start with their first argument."""
    element = kind.element
    steps: dict[str, Callable[[Datum, Datum], Datum] | None] = {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "fmin": operation("Min", element),
        "fmax": operation("Max", element),
        "add": operation("Add", element),
        "mul": operation("Mul", element),
        "fadd": operation("Add", element),
        "fmul": operation("Mul", element),
    }
    if element.is_integral:
        steps |= {n: _integer_functions(element)[n] for n in ("smin", "smax", "umin", "umax")}
    step = steps.get(name)
    if step is None:
        return None
    combine = step

    def reduce(*args: Datum) -> Datum:
        lanes = [*args[:-1], *args[-1]]
        total = lanes[0]
        for lane in lanes[1:]:
            total = combine(total, lane)
        return total

    return reduce


def _arity(base: str) -> int | None:
    if base in ("fma", "fmuladd", "fshl", "fshr"):
        return 3
    if base in ("pow", "powi", "copysign", "atan2", "ldexp", "minnum", "maxnum", "minimum", "maximum"):
        return 2
    if base in ("smax", "smin", "umax", "umin", "expect") or base.endswith(".sat"):
        return 2
    return None if base in ("ctlz", "cttz", "abs") or base.startswith("vector.reduce") else 1


def _base_name(name: str) -> str:
    """An intrinsic's name without ``llvm.`` and the types at its end: ``llvm.fma.v4f32`` gives ``fma``."""
    parts = name.removeprefix("llvm.").split(".")
    while len(parts) > 1 and (parts[-1][:1] in "fivbpn") and any(c.isdigit() for c in parts[-1]):
        parts.pop()
    return ".".join(parts)


@intrinsic("tir.call_llvm_intrin", "tir.call_llvm_pure_intrin")
def _call_llvm(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    named = call.args[0]
    if not isinstance(named, StringImm):
        raise InterpreterError(f"an LLVM intrinsic is named by a string, got {named}", span=call.span)
    base, kind = _base_name(named.value), call.dtype
    nodes, rest = list(call.args[1:]), args[1:]
    if named.value in EXTERNS:
        place, program = compiler.place(call.span), compiler.program
        return lambda frame: program.call_extern(named.value, [arg(frame) for arg in rest], kind, place)
    arity = _arity(base)
    # TVM's older form states the number of arguments first.
    if arity is not None and len(nodes) == arity + 1 and isinstance(nodes[0], IntImm) and nodes[0].dtype == "uint32":
        nodes, rest = nodes[1:], rest[1:]
    if base in ("prefetch", "assume", "donothing", "sideeffect"):
        return lambda frame: 0
    product = dot_product(named.value.removeprefix("llvm."), kind, [node.dtype for node in nodes])
    if product is not None:
        return lambda frame: product(*[arg(frame) for arg in rest])
    tile = TILES.operation(named.value.removeprefix("llvm."))
    if tile is not None:
        return lambda frame: tile([arg(frame) for arg in rest])
    fn: Function | None = None
    if base.startswith("vector.reduce."):
        fn = _reduction(base.removeprefix("vector.reduce."), nodes[-1].dtype)
        if fn is not None:
            reduce = fn
            return lambda frame: reduce(*[arg(frame) for arg in rest])
    elif kind.is_float:
        if base in _FLOAT_NAMES:
            fn = float_function(_FLOAT_NAMES[base], kind)
        elif base in ("minnum", "maxnum"):
            fn = operation("Min" if base == "minnum" else "Max", kind)
        elif base in ("minimum", "maximum"):
            fn = _minimum if base == "minimum" else _maximum
        elif base == "canonicalize":
            fn = rounder(kind.element)
    elif kind.is_integral:
        fn = _integer_functions(kind.element).get(base)
    if fn is None:
        raise InterpreterError(
            f"the interpreter has no meaning for the LLVM intrinsic {named.value!r} on {kind!s}",
            origin="interpret",
            span=call.span,
            help=f"give it one with register_extern({named.value!r}, function)",
        )
    return lifted(fn, rest, kind.is_vector)


def checked_result(value: Datum, dtype: DataType, name: str) -> Datum:
    """The result of a foreign function in the type of the call. Raises Fault when it has none of that type."""
    if dtype in ("void", "handle"):
        return value
    try:
        return coerce(value, dtype)
    except (TypeError, ValueError) as error:
        raise Fault(f"the external function {name!r} returned {value!r}, which is no {dtype!s}") from error
