"""Mathematical functions that a GPU has instructions for.

``exp2`` in float32 is ``ex2.approx``, at most 2 ulp off (PTX ISA, floating-point instructions), and subnormal results are as
good; all others are the polynomials that the host uses too, in float64 all of them: there is no C library. Narrower types go through float32. With ``-fast-vector-math`` or ``-fast-math`` the hardware's approximations are taken
where there are some: relative errors of some 2**-22 (``lg2``, ``rsqrt``, ``ex2``) and 2**-11 (``tanh``), absolute ones
of 2**-20 for ``sin`` and ``cos`` on ``[-pi, pi]``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import CALLS
from tirlower.emit.intrinsics.math import in_float
from tirlower.emit.llvm_text import FLOAT, FastMath, Value, const
from tirlower.emit.vectors import map_lanes
from tirlower.gpu.codegen.rules import asm, gpu_rule
from tirlower.ir.expr import Call

__all__: list[str] = []

_LOG2_E: Final = math.log2(math.e)


def _one(em: Emitter, text: str, x: Value) -> Value:
    return asm(em, f"{text} $0, $1;", "=f,f", [FLOAT], [x], memory=False, convergent=False)[0]


def _scaled(em: Emitter, x: Value, factor: float) -> Value:
    return em.b.fmul(x, const(FLOAT, factor), fast_math=FastMath.NONE)


def _exp2(em: Emitter, x: Value) -> Value:
    """Two to a power; with fast functions a result that would be subnormal is 0.

    Where the result is subnormal the instruction without flushing squares that of half the argument, and twice its error: there
    the argument is raised instead, which is exact, and the result lowered.
    """
    b = em.b
    if em.machine.fast_vector_math:
        return _one(em, "ex2.approx.ftz.f32", x)
    low = b.fcmp("olt", x, const(FLOAT, -126.0))
    raised = b.fadd(x, const(FLOAT, 24.0), fast_math=FastMath.NONE)
    found = _one(em, "ex2.approx.ftz.f32", b.select(low, raised, x))
    return b.select(low, _scaled(em, found, 2.0**-24), found)


def _sigmoid(em: Emitter, x: Value) -> Value:
    grown = em.b.fadd(_exp2(em, _scaled(em, x, -_LOG2_E)), const(FLOAT, 1.0), fast_math=FastMath.NONE)
    return _one(em, "rcp.approx.f32", grown)


_FAST: Final[dict[str, Callable[[Emitter, Value], Value]]] = {
    "exp": lambda em, x: _exp2(em, _scaled(em, x, _LOG2_E)),
    "exp10": lambda em, x: _exp2(em, _scaled(em, x, math.log2(10))),
    "log2": lambda em, x: _one(em, "lg2.approx.f32", x),
    "log": lambda em, x: _scaled(em, _one(em, "lg2.approx.f32", x), math.log(2)),
    "log10": lambda em, x: _scaled(em, _one(em, "lg2.approx.f32", x), math.log10(2)),
    "rsqrt": lambda em, x: _one(em, "rsqrt.approx.f32", x),
    "tanh": lambda em, x: _one(em, "tanh.approx.f32", x),
    "sin": lambda em, x: _one(em, "sin.approx.f32", x),
    "cos": lambda em, x: _one(em, "cos.approx.f32", x),
    "sigmoid": _sigmoid,
}


@gpu_rule(*[f"tir.{name}" for name in ("exp2", *_FAST)])
def _function(em: Emitter, op: Call, args: list[Value]) -> Value:
    name = op.op.name.removeprefix("tir.")
    dtype = op.dtype
    fast = _exp2 if name == "exp2" else _FAST[name] if em.machine.fast_vector_math else None
    if fast is None or not dtype.is_float or dtype.bits == 64:
        return CALLS[op.op](em, op, args)
    return in_float(em, dtype, args, lambda wide: map_lanes(em, lambda xs: fast(em, xs[0]), wide))
