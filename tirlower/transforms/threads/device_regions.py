"""AnnotateDeviceRegions and DecorateDeviceScope: what runs on the device is marked."""

from __future__ import annotations

from tirlower.analysis.thread_axes import is_thread_axis
from tirlower.diagnostics import TransformError
from tirlower.ir.expr import const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.stmt import AttrStmt, For, Stmt
from tirlower.machine.target import Target
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["DEVICE_SCOPE", "TARGET", "AnnotateDeviceRegions", "DecorateDeviceScope"]

TARGET = "target"
"""The attribute of a region that runs on another target, which is its node."""
DEVICE_SCOPE = "device_scope"
"""The attribute of a region that runs on the device, also where it has no thread axis."""
_REGIONS = (DEVICE_SCOPE, "pipeline_exec_scope", "thread_extent")


class _Annotator(StmtMutator):
    def __init__(self, target: Target) -> None:
        self.target = target

    def region(self, op: Stmt) -> Stmt:
        """A statement as a region of the device."""
        return AttrStmt(self.target, TARGET, const(0), op, span=op.span)

    def visit_For(self, op: For) -> Stmt:
        """An outermost thread axis is a region; what is inside belongs to it."""
        if is_thread_axis(op):
            return self.region(op)
        return self.generic(op)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        """A region that is marked stays; one of another mark is one of the device."""
        if op.key == TARGET and isinstance(op.node, Target):
            return op
        if op.key in _REGIONS:
            return self.region(op)
        return self.generic(op)


class AnnotateDeviceRegions(FuncPass):
    """What runs on the device is put into regions with the attribute ``target``.

    In a function whose target has a host, each outermost loop over a thread axis, and each region ``device_scope`` or
    ``pipeline_exec_scope``, goes into ``T.attr(target without its host, "target", 0)``. Regions that have the attribute
    stay, and so do functions whose target has no host: they run on one side. Loops of virtual threads are ordinary
    loops.

    Needs BindTarget: :class:`TransformError` for a function without the attribute ``target``.

    >>> from tirlower.script import parse
    >>> print(AnnotateDeviceRegions()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "float32")):
    ...     T.func_attr({"target": T.target("cuda", host="llvm")})
    ...     for tx in T.thread_binding(16, thread="threadIdx.x"):
    ...         A[tx] = T.float32(0)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "float32")):
        T.func_attr({"target": T.target({"kind": "cuda", "host": {"kind": "llvm"}})})
        with T.attr(T.target({"kind": "cuda"}), "target", 0):
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                A[tx] = T.float32(0)
    """

    name = "tir.AnnotateDeviceRegions"
    stage = Stage.FLAT
    needs = ("tir.BindTarget", Fact.WHOLE_PROGRAM)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Mark the regions of a function."""
        bound = func.attrs.get("target")
        if bound is None:
            raise TransformError(
                f"function {func.name!r} has no attribute 'target', which says on what device its threads run",
                span=func.span,
                help='run BindTarget(Target("nvptx", host="llvm")) first',
            )
        target = Target(bound)
        if target.host is None:
            return func
        return func.with_body(_Annotator(target.without_host()).visit(func.body))


class DecorateDeviceScope(FuncPass):
    """The whole body of each function becomes a region of the device, with the attribute ``device_scope``.

    For functions that run on the device without a thread axis; AnnotateDeviceRegions takes the region for one of the
    device. A body that is such a region already stays (TIR's wraps it again). Needs nothing, raises nothing.

    >>> from tirlower.script import parse
    >>> print(DecorateDeviceScope()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "float32")):
    ...     A[0] = T.float32(0)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "float32")):
        with T.attr(0, "device_scope", 0):
            A[0] = T.float32(0)
    """

    name = "tir.DecorateDeviceScope"

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Wrap the body of a function."""
        body = func.body
        if isinstance(body, AttrStmt) and body.key == DEVICE_SCOPE:
            return func
        return func.with_body(AttrStmt(0, DEVICE_SCOPE, const(0), body, span=body.span))
