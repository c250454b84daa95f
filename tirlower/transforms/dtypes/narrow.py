"""NarrowDataType and ForceNarrowIndexToInt32: index arithmetic in fewer bits."""

from __future__ import annotations

import math

from tirlower.analysis.host_abi import symbolic_variables
from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Call, Cast, CompareOp, Expr, IntImm
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.op import GlobalVar, Purity
from tirlower.ir.stmt import AllocConst, AttrStmt, Bind, Block, BufferStore, DeclBuffer, Evaluate, For, Stmt
from tirlower.rewrite.base import FuncPass, ModulePass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator
from tirlower.rewrite.index_width import Narrower, WidthAnalysis, fits, parents_first
from tirlower.rewrite.options import integer, option

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
    ...         if A[T.int64(63) - i] > T.float32(0):
    ...             B[i] = i * T.int64(4)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int64")):
        for i in range(64):
            if A[63 - i] > T.float32(0):
                B[i] = T.Cast("int64", i * 4)
    """

    name = "tir.NarrowDataType"
    target_bits: int = option(
        default=32,
        takes="the width of an integer type, 2 to 64",
        fits=lambda n: integer(32).fits(n) and 2 <= n <= 64,
        kw_only=False,
    )

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Narrow a function's index arithmetic."""
        analysis = WidthAnalysis(func, self.target_bits)
        analysis.visit(func.body)
        return func.with_body(Narrower(analysis).visit(func.body))


_VALUE, _CONDITION, _INDEX = range(3)
"""Where an expression stands: in a stored value, in a condition or loop bound, in an index."""


class _ForcedAnalysis(WidthAnalysis):
    """Wide is what data needs, and what is known not to fit; an index of unknown size is taken to fit.

    Variables are always narrow: where an operation on them must be wide, they are widened for it.
    """

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func, 32)
        self.context = _CONDITION
        self.func = func

    def visit_expr(self, root: Expr) -> Expr:
        """Note what must stay wide in an expression, by the place of each part."""
        contexts = {id(root): self.context}
        for op in parents_first(root):
            self.note_sign(op)
            context = contexts[id(op)]
            if op.dtype.is_int and op.dtype.bits > 32 and not op.is_leaf and self._stays_wide(op, context):
                self.note(op)
            if op.__class__ is BufferLoad:
                context = _INDEX
            elif isinstance(op, CompareOp) or (op.__class__ is Call and isinstance(op.op, GlobalVar)):
                context = _CONDITION
            for child in op.children():
                contexts[id(child)] = min(context, contexts.get(id(child), context))
        return root

    def _stays_wide(self, op: Expr, context: int) -> bool:
        if context == _VALUE or op.__class__ is Call or (op.__class__ is Cast and not op.value.dtype.is_integral):
            return self.too_wide(op)
        bound = self.analyzer.const_int_bound(op)
        low = 0 if bound.min_value == bound.NEG_INF else bound.min_value
        high = 0 if bound.max_value == bound.POS_INF else bound.max_value
        if fits(low, high, 32):
            return False
        if context == _INDEX and op.__class__ is not Cast:
            raise TransformError(
                f"the index {op} reaches {high if high > _MAX_INT32 else low}, which is no int32",
                span=op.span or self.func.span,
                help="make the buffer smaller, or use NarrowDataType, which leaves such an index wide",
            )
        return True

    def within(self, context: int, expr: Expr) -> None:
        """Visit an expression in a place of its own."""
        outer, self.context = self.context, context
        self.visit(expr)
        self.context = outer

    def visit_For(self, op: For) -> Stmt:
        return FactMutator.visit_For(self, op)

    def visit_Block(self, op: Block) -> Stmt:
        return FactMutator.visit_Block(self, op)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        self.within(_VALUE, op.value)
        for index in op.indices:
            self.within(_INDEX, index)
        if op.predicate is not None:
            self.visit(op.predicate)
        return op

    def visit_Bind(self, op: Bind) -> Stmt:
        self.know_binding(op)
        self.within(_CONDITION if side_effect(op.value) is Purity.PURE else _VALUE, op.value)
        return op

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        self.within(_VALUE, op.value)
        return op

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        self.within(_VALUE, op.value)
        self.visit(op.body)
        return op


class _ForcedNarrower(Narrower):
    """Also renews parameters, symbolic sizes and the layouts of buffers, and refuses what cannot be an int32."""

    def __init__(self, analysis: _ForcedAnalysis, mod: IRModule) -> None:
        super().__init__(analysis)
        self.mod = mod

    def leaf(self, op: Expr) -> Expr:
        """Constants and variables, all of them."""
        if op.__class__ is IntImm and op.dtype.is_int and not fits(op.value, op.value, 32):
            raise TransformError(
                f"the constant {op} is no int32: those reach from {-(2**31)} to {_MAX_INT32}",
                span=op.span,
                help="use NarrowDataType, which leaves what does not fit",
            )
        return super().leaf(op)

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with int32 extents, strides and offset."""
        known = self.buffers.get(buffer)
        if known is None:
            dtype = buffer.dtype
            if dtype.is_int and dtype.bits > 32:
                raise TransformError(
                    f"buffer {buffer.name!r} holds {dtype!s}",
                    help="only programs whose buffers hold at most 32 bits fit",
                )
            extents = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
            if len(extents) == len(buffer.shape) and math.prod(extents) > _MAX_INT32:
                raise TransformError(
                    f"buffer {buffer.name!r} has {math.prod(extents)} elements, more than int32 indices reach",
                    help="make it smaller, or use NarrowDataType, which leaves such indices wide",
                )
            known = self.buffers[buffer] = buffer.map_children(self.visit_expr)
        return known

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        return op.with_(buffer=self.map_buffer(op.buffer))

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        return op.with_(buffer=self.map_buffer(op.buffer))

    def arguments(self, op: Call, operands: list[Expr]) -> list[Expr]:
        """A function of the module takes narrow parameters too."""
        callee = op.op
        if isinstance(callee, GlobalVar) and callee in self.mod:
            params = self.mod[callee].params
            if len(params) == len(operands):
                return [build.cast(self.narrow(p.dtype), new) for p, new in zip(params, operands, strict=True)]
        return super().arguments(op, operands)


def _narrowed(func: PrimFunc, mod: IRModule) -> PrimFunc:
    analysis = _ForcedAnalysis(func)
    analysis.visit(func.body)
    worker = _ForcedNarrower(analysis, mod)
    params = tuple([worker.define(p, worker.narrow(p.dtype)) for p in func.params])
    for var in symbolic_variables(func):
        worker.define(var, worker.narrow(var.dtype))
    buffer_map = {
        new: worker.map_buffer(func.buffer_map[old])
        for old, new in zip(func.params, params, strict=True)
        if old in func.buffer_map
    }
    same = all(a is b for a, b in zip(params, func.params, strict=True))
    if same and all(buffer_map[p] is func.buffer_map[p] for p in func.buffer_map):
        params, buffer_map = func.params, func.buffer_map
    body = worker.visit(func.body)
    return func.with_(params=params, buffer_map=buffer_map, body=body, attrs=worker.map_attr(func.attrs))


class ForceNarrowIndexToInt32(ModulePass):
    """All index arithmetic becomes int32: loop variables, iterators, scalar parameters, sizes, constants, indices.

    What is not known is taken to fit: a symbolic size is an int32 from then on, and an index computed from it too. In
    stored values, and where data of 64 bits is computed (a product of converted 32-bit values, say), nothing is taken:
    they stay wide unless their bounds fit. Calls of functions of the module pass the narrow parameters.

    Needs nothing. Raises :class:`TransformError` for a buffer of integers wider than 32 bits, a constant outside int32, a
    buffer with more elements than int32 indices reach, and an index whose bounds are known to leave int32.

    >>> from tirlower.script import parse
    >>> print(ForceNarrowIndexToInt32()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((T.int64(8),), "float32"), n: T.int64):
    ...     for i in range(n):
    ...         A[i] = T.Cast("float32", n + i)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), n: T.int32):
        for i in range(n):
            A[i] = T.Cast("float32", T.Cast("int64", n) + T.Cast("int64", i))
    """

    name = "tir.ForceNarrowIndexToInt32"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Narrow every function of a module."""
        return mod.map_functions(lambda func: _narrowed(func, mod))
