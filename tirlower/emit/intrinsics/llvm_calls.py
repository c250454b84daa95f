"""``T.call_llvm_intrin``: any intrinsic of LLVM that this processor has.

A name may leave out the type suffixes of the overloaded intrinsics that are known here. LLVM ends the process when it
meets an intrinsic that the processor lacks, so those of a processor are checked against its features first, and refused
where no rule says what they need. Where there is no C library (on a GPU) it does so for mathematical functions too: there
they are those of :mod:`tirlower.emit.intrinsics.math`.
"""

from __future__ import annotations

from typing import Final

from tirlower.emit.casts import widen_float
from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import Run, call_control
from tirlower.emit.intrinsics.math import in_float, math_function
from tirlower.emit.intrinsics.processor import PROCESSOR, call_processor, check_processor
from tirlower.emit.llvm_text import FALSE, VOID, FastMath, Type, Value
from tirlower.emit.types import is_bits_float
from tirlower.ir.expr import Call, Expr, IntImm, StringImm
from tirlower.ir.intrinsics.arithmetic import BINARY_MATH, UNARY_MATH

__all__: list[str] = []

#: reductions from the first lane to the last, unless they may be done in another order
_ORDERED: Final = ("vector.reduce.fadd", "vector.reduce.fmul")

#: overloaded intrinsics by where their type suffixes come from: r the result, 0 1 2 the arguments
_OVERLOADS: Final = {
    **dict.fromkeys(
        [
            "fma",
            "fmuladd",
            "sqrt",
            "fabs",
            "floor",
            "ceil",
            "trunc",
            "rint",
            "nearbyint",
            "round",
            "roundeven",
            "copysign",
            "minnum",
            "maxnum",
            "minimum",
            "maximum",
            "exp",
            "exp2",
            "exp10",
            "log",
            "log2",
            "log10",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "atan2",
            "sinh",
            "cosh",
            "tanh",
            "pow",
            "ctpop",
            "ctlz",
            "cttz",
            "bswap",
            "bitreverse",
            "fshl",
            "fshr",
            "abs",
            "smax",
            "smin",
            "umax",
            "umin",
            "sadd.sat",
            "ssub.sat",
            "uadd.sat",
            "usub.sat",
            "sshl.sat",
            "ushl.sat",
            "expect",
            "vector.reverse",
            "experimental.vector.reverse",
            "canonicalize",
            "minimumnum",
            "maximumnum",
        ],
        "r",
    ),
    **dict.fromkeys(["powi", "ldexp"], "r1"),
    **dict.fromkeys(["fptosi.sat", "fptoui.sat", "lrint", "llrint", "lround", "llround"], "r0"),
    **{
        f"vector.reduce.{name}": "0"
        for name in [
            "add",
            "mul",
            "and",
            "or",
            "xor",
            "smax",
            "smin",
            "umax",
            "umin",
            "fmax",
            "fmin",
            "fmaximum",
            "fminimum",
        ]
    },
    **dict.fromkeys(_ORDERED, "1"),
    **dict.fromkeys(["is.fpclass"], "0"),
}
#: to an integer, by the function of floats that rounds
_ROUNDINGS: Final = {"lrint": "nearbyint", "llrint": "nearbyint", "lround": "round", "llround": "round"}
#: without type suffixes
_PLAIN: Final = frozenset({"assume", "donothing", "sideeffect", "readcyclecounter", "debugtrap"})


def _stem(name: str) -> str:
    """The name without ``llvm.`` and without type suffixes."""
    parts = name.removeprefix("llvm.").split(".")
    while len(parts) > 1 and parts[-1][:1] in "fivbp" and any(ch.isdigit() for ch in parts[-1]):
        parts.pop()
    return ".".join(parts)


@call_control("tir.call_llvm_intrin", "tir.call_llvm_pure_intrin")
def _llvm(run: Run, op: Call) -> None:
    em = run.em
    named, *args = op.args
    if not isinstance(named, StringImm):
        raise em.error(f"an LLVM intrinsic is named by a string, got {named}", op)
    name = named.value if named.value.startswith("llvm.") else f"llvm.{named.value}"
    # The older form of the call states the number of arguments first.
    if len(args) > 1 and isinstance(args[0], IntImm) and args[0].dtype == "uint32" and args[0].value <= len(args) - 1:
        if _stem(name) not in ("ctlz", "cttz") or len(args) == 3:
            args = args[1:]
    _check(run, op, name)

    def finish(_: object) -> None:
        values = [_immediate(run.get(arg), name, i) for i, arg in enumerate(args)]
        own = None if em.machine.has_library else _without_library(em, op, _stem(name), args, values)
        if own is not None:
            run.set(op, own)
            return
        if name.startswith(PROCESSOR):
            run.set(op, call_processor(em, op, name, args, values))
            return
        result = em.type_of(op.dtype)
        kinds = [value.type for value in values]
        flags = None
        if _stem(name) in _ORDERED and any(loop.reassociates for loop in em.loops):
            flags = em.b.fast_math | FastMath.REASSOC
        made = em.b.intrinsic(name, result, values, _suffixes(name, result, kinds), fast_math=flags)
        run.set(op, FALSE if result is VOID else made)

    run.then(finish)
    for arg in reversed(args):
        run.evaluate(arg)


def _without_library(em: Emitter, op: Call, stem: str, args: list[Expr], values: list[Value]) -> Value | None:
    """What LLVM would leave to the C library; None for what it has instructions for."""
    dtype = op.dtype
    if stem in _OVERLOADS and dtype.is_float and stem in (*UNARY_MATH, *BINARY_MATH):
        return in_float(em, dtype, values, lambda xs: math_function(em, stem, xs))
    if stem in _ROUNDINGS:
        rounded = math_function(em, _ROUNDINGS[stem], [widen_float(em, values[0], args[0].dtype)])
        return em.b.fptosi(rounded, em.type_of(dtype))
    if stem == "powi":
        raise em.error("the intrinsic 'llvm.powi' has no code on this target", op, "use T.pow, or products")
    return None


def _immediate(value: Value, name: str, position: int) -> Value:
    """Flags of these intrinsics are single bits in LLVM, whatever type the program wrote."""
    if position == 1 and _stem(name) in ("ctlz", "cttz", "abs") and value.is_constant and value.type.is_int:
        return Value(FALSE.type, "false" if value.text in ("0", "false") else "true")
    return value


def _suffixes(name: str, result: Type, args: list[Type]) -> list[Type]:
    stem = _stem(name)
    if name.removeprefix("llvm.") != stem:
        return []  # written with its suffixes
    sources = _OVERLOADS.get(stem, "")
    return [result if source == "r" else args[int(source)] for source in sources]


def _refuse_bits(em: Emitter, op: Call, name: str) -> None:
    """Floats that are kept as their bits are integers to LLVM, of which it makes another function or none."""
    for kind in (op.dtype, *(arg.dtype for arg in op.args[1:])):
        if is_bits_float(kind):
            raise em.error(
                f"the intrinsic {name!r} is not computed on {kind!s}",
                op,
                f"convert to float32 and back: T.Cast({str(op.dtype)!r}, …), or use T.{_stem(name)} where there is one",
            )


def _check(run: Run, op: Call, name: str) -> None:
    em = run.em
    short = name.removeprefix("llvm.")
    stem = _stem(name)
    if stem in _OVERLOADS or stem in _PLAIN:
        _refuse_bits(em, op, name)
        return
    if em.machine.is_x86 and check_processor(em, op, name):
        return
    if short.startswith(
        ("masked.", "vector.", "vp.", "experimental.vector.", "prefetch", "memcpy", "memset", "memmove")
    ):
        return
    raise em.error(
        f"the intrinsic {name!r} is not one that the host's code generator knows",
        op,
        "use an intrinsic of LLVM's language reference or of this processor's features, by its full name",
    )
