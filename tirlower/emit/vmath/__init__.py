"""Elementary functions on vectors: our own polynomials in LLVM IR, for any number of lanes.

LLVM turns ``llvm.exp.v16f32`` into sixteen calls of the C library; the functions here stay vectors (and, as scalars, do not
keep LLVM's loop vectorizer from working), are faster than vector libraries and at most 2 ulp off (:data:`ERRORS`,
:data:`ERRORS_F64`). They are right for zeros of both signs, subnormal numbers, infinities and NaN, and for angles of any
size. :func:`emit` adds one to a module::

    exp = emit(module, "exp", "f32", 16, features=host_cpu().enabled)
    y = builder.call(exp, [x])          # <16 x float>

One formula serves all targets: those with AVX-512 get its instructions for exponents and tables, those without FMA take
float64 (or the C library's ``fma``) for the few products that must be exact. float16 and bfloat16 go through float32.
Of the C library there is ``fma`` and ``pow`` of float64 where the target has no FMA, and nothing where it has.

The files: :mod:`~tirlower.emit.vmath.algebra` is the notation; then a file a family; the coefficients come from
``tools/fit_vmath.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tirlower.diagnostics import CodegenError, nearest_name
from tirlower.emit.llvm_text import (
    BFLOAT,
    DOUBLE,
    FLOAT,
    HALF,
    Attribute,
    Builder,
    FunctionRef,
    Module,
    Type,
    Value,
    poison,
    vector,
)
from tirlower.emit.vmath import (
    error_function,
    exponential,
    inverse_hyperbolic,
    inverse_trigonometric,
    logarithm,
    narrow,
    power,
    remainder,
    trigonometric,
)
from tirlower.emit.vmath.algebra import Body, Formula, V

__all__ = ["ARITY", "ERRORS", "ERRORS_F64", "SUPPORTED", "emit"]


@dataclass(frozen=True, slots=True)
class _Function:
    """A formula, and the largest errors in ulp over all variants, measured."""

    formula: Body
    error32: float
    error64: float
    arity: int = 1


_FUNCTIONS: Final = {
    "exp": _Function(exponential.exp, 1.02, 1.05),
    "exp2": _Function(exponential.exp2, 1.1, 1.1),
    "exp10": _Function(exponential.exp10, 1.2, 1.2),
    "expm1": _Function(exponential.expm1, 1.25, 1.25),
    "sigmoid": _Function(exponential.sigmoid, 1.55, 1.5),
    "tanh": _Function(exponential.tanh, 1.75, 1.75),
    "sinh": _Function(exponential.sinh, 2.0, 1.9),
    "cosh": _Function(exponential.cosh, 1.65, 1.7),
    "log": _Function(logarithm.log, 0.95, 0.95),
    "log2": _Function(logarithm.log2, 1.7, 1.6),
    "log10": _Function(logarithm.log10, 1.6, 1.45),
    "log1p": _Function(logarithm.log1p, 0.95, 0.95),
    "sin": _Function(trigonometric.sin, 1.65, 1.65),
    "cos": _Function(trigonometric.cos, 1.65, 1.65),
    "tan": _Function(trigonometric.tan, 1.7, 1.3),
    "asin": _Function(inverse_trigonometric.asin, 1.25, 1.15),
    "acos": _Function(inverse_trigonometric.acos, 1.25, 1.2),
    "atan": _Function(inverse_trigonometric.atan, 1.3, 0.9),
    "atan2": _Function(inverse_trigonometric.atan2, 1.7, 1.55, 2),
    "asinh": _Function(inverse_hyperbolic.asinh, 1.05, 1.05),
    "acosh": _Function(inverse_hyperbolic.acosh, 1.05, 1.05),
    "atanh": _Function(inverse_hyperbolic.atanh, 1.05, 1.05),
    "erf": _Function(error_function.erf, 1.25, 1.5),
    "pow": _Function(power.pow, 1.6, 1.0, 2),
    "sqrt": _Function(power.sqrt, 0.5, 0.5),
    "rsqrt": _Function(power.rsqrt, 1.5, 1.5),
    "hypot": _Function(power.hypot, 0.51, 1.2, 2),
    "fmod": _Function(remainder.fmod, 0.0, 0.0, 2),
}

#: the names that :func:`emit` takes
SUPPORTED: Final = frozenset(_FUNCTIONS)
#: how many arguments each takes
ARITY: Final = {name: f.arity for name, f in _FUNCTIONS.items()}
#: the largest error of each in float32, in ulp, over all targets; float16 and bfloat16 round once more
ERRORS: Final = {name: f.error32 for name, f in _FUNCTIONS.items()}
#: the largest error seen of each in float64
ERRORS_F64: Final = {name: f.error64 for name, f in _FUNCTIONS.items()}

_SCALARS: Final = {"f16": HALF, "bf16": BFLOAT, "f32": FLOAT, "f64": DOUBLE}


def emit(
    module: Module,
    name: str,
    elem: str,
    lanes: int,
    *,
    fast: bool = False,
    features: frozenset[str] = frozenset(),
    attrs: Iterable[Attribute] = (),
) -> FunctionRef:
    """The function ``name`` for ``lanes`` numbers of type ``elem``, defined in ``module`` at the first call.

    ``elem`` is ``"f16"``, ``"bf16"`` (LLVM's bfloat), ``"f32"`` or ``"f64"``; one lane makes a function of scalars, more a
    function of vectors. ``features`` are LLVM's names of what the target has (``host_cpu().enabled``); they must hold for
    the code that calls it. ``attrs`` are added to the attributes of every function (give those of the caller).

    ``fast`` leaves out the branch for large angles: sin, cos and tan are then unspecified beyond 2**17 (float64: 2**30),
    and loops of scalar code with them can be vectorized by LLVM.

    The function is internal, free of side effects, and inlined always; rare cases are calls of cold functions.

    >>> from tirlower.emit.llvm_text import FLOAT, Module
    >>> m = Module("demo")
    >>> f = emit(m, "exp", "f32", 8, features=frozenset({"fma", "avx2"}))
    >>> f.signature, emit(m, "exp", "f32", 8, features=frozenset({"fma", "avx2"})) is f
    ('<8 x float> (<8 x float>)', True)

    Raises:
        CodegenError: the name, the element type or the number of lanes is not supported.
    """
    if name not in _FUNCTIONS:
        near = nearest_name(name, _FUNCTIONS)
        raise CodegenError(
            f"no vector function {name!r}",
            origin="llvm",
            help=f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(_FUNCTIONS))}",
        )
    if elem not in _SCALARS:
        raise CodegenError(
            f"vector functions take no {elem!r}", origin="llvm", help=f"use one of {', '.join(sorted(_SCALARS))}"
        )
    if lanes < 1:
        raise CodegenError(f"a vector function of {lanes} lanes", origin="llvm", help="use at least one lane")
    extra = tuple(attrs)
    scalar = _SCALARS[elem]
    compute = DOUBLE if scalar == DOUBLE else FLOAT
    target = Formula.variant(features)
    symbol = f"tirlower.vmath.{name}.{elem}.{lanes}{target}{'.fast' if fast else ''}"
    found = module.symbol(symbol)
    if isinstance(found, FunctionRef):
        return found
    function = _FUNCTIONS[name]
    t = _shape(scalar, lanes)
    f = module.function(
        symbol,
        t,
        [(t, "x"), (t, "y")][: function.arity],
        linkage="internal",
        attrs=["alwaysinline", "nounwind", "willreturn", "memory(none)", *extra],
    )
    b = Builder(f, f.block("entry"))
    row = 512 // compute.bits
    if "avx512f" in features and lanes > row and lanes % row == 0:
        part = emit(module, name, elem, row, fast=fast, features=features, attrs=extra)
        b.ret(_by_registers(b, part, f.args, row))
        return f.ref
    k = Formula(module, b, compute, lanes, features, extra, fast)
    args = [V(k, a if compute == scalar else narrow.to_float(b, a)) for a in f.args]
    result = function.formula(k, *args)
    b.ret(result.value if compute == scalar else narrow.from_float(b, result.value, scalar))
    return f.ref


def _by_registers(b: Builder, part: FunctionRef, args: Sequence[Value], row: int) -> Value:
    """The function of ``row`` lanes applied to one register of lanes after the other."""
    lanes = args[0].type.lanes
    whole = poison(args[0].type)
    for first in range(0, lanes, row):
        y = b.call(part, [b.shuffle(a, None, range(first, first + row)) for a in args])
        spread = b.shuffle(y, None, [i - first if first <= i < first + row else -1 for i in range(lanes)])
        whole = b.shuffle(whole, spread, [i + lanes if first <= i < first + row else i for i in range(lanes)])
    return whole


def _shape(scalar: Type, lanes: int) -> Type:
    return scalar if lanes == 1 else vector(scalar, lanes)
