"""LowerVtcmAlloc and VerifyVTCMLimit: the tightly coupled memory of Hexagon's vector units."""

from __future__ import annotations

from tirlower.analysis.memory_use import calculate_allocated_bytes
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import HANDLE, INT64
from tirlower.ir.expr import Expr, IntImm, StringImm, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, Visitor
from tirlower.ir.stmt import AllocBuffer, Bind, DeclBuffer, Seq, Stmt
from tirlower.machine.target import Target
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option

__all__ = ["LowerVtcmAlloc", "VerifyVTCMLimit", "is_vtcm"]


def is_vtcm(scope: str) -> bool:
    """Whether a storage scope is in VTCM, as ``global.vtcm`` is."""
    return "vtcm" in scope


def _extents(buffer: Buffer) -> list[Expr]:
    """The extents of the memory that a buffer takes, in scalars: strides and vector elements make it longer."""
    dims = list(buffer.shape)
    if buffer.strides or not is_const_int(buffer.elem_offset, 0):
        dims = [build.cast(INT64, extent) for extent in dims]
    if buffer.strides:
        last: Expr = const(1, INT64)
        for extent, stride in zip(dims, buffer.strides, strict=True):
            last = build.add(last, build.mul(build.sub(extent, const(1, INT64)), build.cast(INT64, stride)))
        dims = [build.add(last, build.cast(INT64, buffer.elem_offset))]
    elif not is_const_int(buffer.elem_offset, 0):
        count: Expr = build.cast(INT64, buffer.elem_offset)
        whole: Expr = const(1, INT64)
        for extent in dims:
            whole = build.mul(whole, extent)
        dims = [build.add(count, whole)]
    lanes = buffer.dtype.lanes
    return [*dims, const(lanes, INT64)] if lanes > 1 else dims


class _Lowerer(StmtMutator):
    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        for stmt in op.stmts:
            made = self._allocation(stmt)
            done += made or [self.visit(stmt)]
        changed = len(done) != len(op.stmts) or any(a is not b for a, b in zip(done, op.stmts, strict=True))
        return op.with_(stmts=tuple(done)) if changed else op

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        """An allocation that stands alone, of which nothing is used."""
        made = self._allocation(op)
        return Seq(tuple(made)) if made else op

    def _allocation(self, op: Stmt) -> list[Stmt]:
        if not isinstance(op, AllocBuffer) or not is_vtcm(op.buffer.scope):
            return []
        buffer = op.buffer
        if not is_const_int(op.condition, 1):
            raise TransformError(
                f"the allocation of {buffer.name!r} in {buffer.scope!r} has a condition: {op.condition}",
                span=op.span,
                help="allocate it inside an if",
            )
        extents = _extents(buffer)
        shape = build.call("tir.tvm_stack_make_shape", *extents)
        call = build.call(
            "tir.nd_mem_alloc_with_scope", StringImm(buffer.scope), const(len(extents), INT64), shape, dtype=HANDLE
        )
        return [Bind(buffer.data, call, span=op.span), DeclBuffer(buffer, span=op.span)]


class LowerVtcmAlloc(FuncPass):
    """Allocations in VTCM become calls of the device's allocator.

    An ``AllocBuffer`` whose scope names ``vtcm`` (as ``global.vtcm``) becomes a binding of its pointer to
    ``nd_mem_alloc_with_scope(scope, number of dimensions, shape)`` and a declaration of the buffer on it. Memory of a
    strided buffer counts as one dimension, a vector's lanes as another. LowerTVMBuiltin releases the memory where the
    allocation's scope ends.

    After VerifyVTCMLimit, which reads allocations, and StorageRewrite. Raises :class:`TransformError` for an allocation
    under a condition. As TIR's, on plain statements.

    >>> from tirlower.script import parse
    >>> print(LowerVtcmAlloc()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "float32")):
    ...     B = T.alloc_buffer((8,), "float32", scope="global.vtcm")
    ...     for i in range(8):
    ...         B[i] = A[i]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        B: T.handle("float32", "global.vtcm") = T.nd_mem_alloc_with_scope("global.vtcm", T.int64(1), T.tvm_stack_make_shape(8))
        B_1 = T.decl_buffer((8,), data=B)
        for i in range(8):
            B_1[i] = A[i]
    """

    name = "tir.LowerVtcmAlloc"
    stage = Stage.FLAT

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the allocations of a function."""
        return func.with_body(_Lowerer().visit(func.body))


class _Unsized(Visitor):
    """VTCM allocations whose size is not constant."""

    def __init__(self) -> None:
        self.found: list[AllocBuffer] = []

    def visit_expr(self, root: Expr) -> None:
        """Expressions allocate nothing."""

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        """One allocation."""
        parts = (*op.buffer.shape, *op.buffer.strides[:1])
        if is_vtcm(op.buffer.scope) and not all(isinstance(part, IntImm) for part in parts):
            self.found.append(op)


class VerifyVTCMLimit(FuncPass):
    """Refuse a function that has more VTCM allocated at once than there is; functions come back as they are.

    ``limit`` is in bytes; by default it is ``vtcm-capacity`` of the function's target (or of the current one), and
    without either, or with 0, nothing is checked. Counted are the allocations in scope at once in each storage scope that
    names ``vtcm``, together.

    Stands before LowerVtcmAlloc. Raises :class:`TransformError` for a function above the limit, and (unlike TIR, which
    counts it as nothing) for an allocation whose size is not constant, while there is a limit.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "float32")):
    ...     B = T.alloc_buffer((8,), "float32", scope="global.vtcm")
    ...     B[0] = A[0]
    ... ''')
    >>> VerifyVTCMLimit(32)(func) is func
    True
    >>> try:
    ...     VerifyVTCMLimit(31)(func)
    ... except TransformError as error:
    ...     print(error.message)
    function 'f' has 32 bytes of VTCM allocated at once, of 31
    """

    name = "tir.VerifyVTCMLimit"
    stage = Stage.FLAT
    limit: int | None = option(
        default=None, least=0, about="bytes; the target's vtcm-capacity where left out", kw_only=False
    )

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Check a function."""
        limit = self._limit(func)
        if limit <= 0:
            return func
        unsized = _Unsized()
        unsized.visit(func.body)
        for op in unsized.found:
            raise TransformError(
                f"the size of {op.buffer.name!r} in {op.buffer.scope!r} is not constant, so the limit of {limit} bytes "
                f"cannot be verified for function {func.name!r}",
                span=op.span,
                help="specialize the function, or allocate the greatest size",
            )
        used = calculate_allocated_bytes(func)["main"]
        size = sum(count for scope, count in used.items() if is_vtcm(scope))
        if size > limit:
            raise TransformError(
                f"function {func.name!r} has {size} bytes of VTCM allocated at once, of {limit}",
                span=func.span,
                help="use smaller tiles, or raise the limit: the target's vtcm-capacity",
            )
        return func

    def _limit(self, func: PrimFunc) -> int:
        if self.limit is not None:
            return self.limit
        bound = func.attrs.get("target") or Target.current()
        return 0 if bound is None else int(Target(bound).get("vtcm-capacity", 0))
