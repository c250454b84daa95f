"""NarrowDataType and ForceNarrowIndexToInt32: index arithmetic in fewer bits."""

from __future__ import annotations

from typing import Any

from tirlower.diagnostics import TransformError
from tirlower.ir.expr import Call, Expr
from tirlower.ir.func import PrimFunc
from tirlower.transforms.base import FuncPass
from tirlower.transforms.context import PassContext
from tirlower.transforms.dtypes.index_width import Narrower, WidthAnalysis, fits

__all__ = ["ForceNarrowIndexToInt32", "NarrowDataType"]

_MAX_INT32 = 2**31 - 1


class NarrowDataType(FuncPass):
    """Signed index arithmetic is done in ``target_bits`` bits where its bounds prove that nothing is lost.

    Loop variables, block iterators, bindings, constants and casts become narrower if their own values, and those of
    every expression computed from them, fit; bounds come from loops, conditions, asserts and declared shapes. A loop
    variable with one use that needs the wide type stays wide. Parameters, the dtypes of buffers, and what calls take
    and give keep their types. Nothing is ever widened, and types of at most ``target_bits`` bits stay.

    Needs nothing; raises :class:`TransformError` for a width that is no integer type's.

    >>> from tirlower.script import parse
    >>> print(NarrowDataType(32)(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int64")):
    ...     for i in range(T.int64(64)):
    ...         B[i] = T.Cast("int64", A[T.int64(63) - i]) + i
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int64")):
        for i in range(64):
            B[i] = T.Cast("int64", A[63 - i]) + T.Cast("int64", i)
    """

    name = "tir.NarrowDataType"
    options = {"target_bits": 32}
    positional = ("target_bits",)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Narrow a function's index arithmetic."""
        bits = self.option("target_bits", ctx)
        if not isinstance(bits, int) or not 2 <= bits <= 64:
            raise TransformError(f"target_bits is the width of an integer type, got {bits!r}", help="use 32")
        analysis = WidthAnalysis(func, bits)
        analysis.visit(func.body)
        return func.with_body(Narrower(analysis).visit(func.body))


class _ForcedAnalysis(WidthAnalysis):
    """Wide is what data needs, and what is known not to fit; an index of unknown size is taken to fit."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func, 32)
        self.place: Any = None
        self.is_index = False

    def too_wide(self, op: Expr) -> bool:
        """In an index or condition an unknown bound is taken to fit; a known one beyond the type is not."""
        if not self.is_index or op.__class__ is Call:
            return super().too_wide(op)
        kind = op.dtype
        if not kind.is_int or kind.bits <= 32:
            return False
        bound = self.analyzer.const_int_bound(op)
        low = bound.min_value if bound.min_value != bound.NEG_INF else 0
        high = bound.max_value if bound.max_value != bound.POS_INF else 0
        return not fits(low, high, 32)
