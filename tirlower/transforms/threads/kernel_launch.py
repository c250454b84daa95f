"""LowerDeviceKernelLaunch: calls of device functions from the host become launches."""

from __future__ import annotations

from dataclasses import dataclass, field

from tirlower.analysis.host_abi import host_of
from tirlower.analysis.purity import side_effect
from tirlower.analysis.thread_axes import is_thread_axis, need_equal_extents
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.dtype import INT32
from tirlower.ir.expr import Call, Expr, StringImm, Var, const
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Mutator, Visitor, substitute
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Bind, For, Stmt
from tirlower.ir.struct_field import CallingConvention
from tirlower.machine.target import Target
from tirlower.rewrite.base import Fact, ModulePass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.scalar_overflow import analyzer_of
from tirlower.transforms.threads.device_regions import DEVICE_SCOPE, TARGET

__all__ = ["DYNAMIC_SHARED", "LAUNCH_PARAMS", "LowerDeviceKernelLaunch"]

LAUNCH_PARAMS = "tir.kernel_launch_params"
"""The attribute of a kernel: the names of the launch arguments that follow its own, thread axes and DYNAMIC_SHARED."""
DYNAMIC_SHARED = "tir.use_dyn_shared_memory"
"""The launch parameter for the bytes of dynamic shared memory."""


@dataclass
class _Kernel:
    """What a launch of a function needs: the name and value of each launch argument, in terms of its parameters."""

    axes: dict[str, tuple[For, Expr]] = field(default_factory=dict)
    dynamic: list[tuple[AllocBuffer, Expr]] = field(default_factory=list)

    def arguments(self) -> list[tuple[str, Expr, Stmt]]:
        """Each launch parameter with its value and the statement that asks for it."""
        found: list[tuple[str, Expr, Stmt]] = [(tag, extent, loop) for tag, (loop, extent) in self.axes.items()]
        return found + [(DYNAMIC_SHARED, size, stmt) for stmt, size in self.dynamic]


class _Collector(Visitor):
    """Collects the thread axes and dynamic shared memory of a function; plain variables are replaced by their values."""

    def __init__(self, name: str, func: PrimFunc) -> None:
        self.name = name
        self.found = _Kernel()
        self.values: dict[Var, Expr] = {}
        self.analyzer, _ = analyzer_of(func)

    def visit_expr(self, root: Expr) -> None:
        """Expressions hold no axes."""

    def visit_Bind(self, op: Bind) -> None:
        if side_effect(op.value) is Purity.PURE:
            self.values[op.var] = substitute(op.value, self.values)

    def visit_For(self, op: For) -> None:
        if is_thread_axis(op):
            tag, extent = str(op.thread_tag), substitute(op.extent, self.values)
            known = self.found.axes.setdefault(tag, (op.with_(extent=extent), extent))
            need_equal_extents(self.analyzer, known[0], op, extent)
        self.visit(op.body)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        if op.buffer.scope != "shared.dyn":
            return
        if self.found.dynamic:
            other = self.found.dynamic[0][0].buffer.name
            raise TransformError(
                f"kernel {self.name!r} allocates dynamic shared memory twice, for {other!r} and {op.buffer.name!r}",
                span=op.span,
                help="run MergeSharedMemoryAllocations first: a launch has one size",
            )
        dtype = op.buffer.dtype
        lanes = dtype.lanes if isinstance(dtype.lanes, int) else 1
        size: Expr | None = None
        for extent in op.buffer.shape:
            size = extent if size is None else build.mul(size, extent)
        count = const(1) if size is None else size
        total = build.mul(count, const((dtype.bits * lanes + 7) // 8, count.dtype))
        self.found.dynamic.append((op, substitute(total, self.values)))


class _Callers(Mutator):
    """Rewrites the calls of one function, as they are made from the host or from a device."""

    def __init__(self, lowering: _Lowering, target: Target) -> None:
        self.lowering = lowering
        self.target = target
        # Outside of the regions of its device a function with a host runs there.
        self.here = target if target.host is None else host_of(target)

    def visit_For(self, op: For) -> Stmt:
        return self.region(op, self.target.without_host()) if is_thread_axis(op) else self.region(op, self.here)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key == TARGET and isinstance(op.node, Target):
            return self.region(op, op.node)
        return self.region(op, self.target.without_host() if op.key == DEVICE_SCOPE else self.here)

    def region(self, op: Stmt, target: Target) -> Stmt:
        """A statement that runs on a target."""
        outer, self.here = self.here, target
        made: Stmt = self.generic(op)
        self.here = outer
        return made

    def visit_Call(self, op: Call) -> Expr:
        if isinstance(op.op, GlobalVar) and op.op.name in self.lowering.mod:
            return self.lowering.call(op, op.op.name, self.here.without_host())
        return op


class _Lowering:
    """The functions of a module, and how they are called."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.kernels: dict[str, list[tuple[str, Expr, Stmt]]] = {}
        self.external: dict[str, None] = {}

    def target(self, name: str) -> Target:
        """The target of a function. Raises where it has none."""
        func = self.mod[name]
        bound = func.attrs.get("target")
        if bound is None:
            raise TransformError(
                f"function {name!r} has no attribute 'target', which says where it runs",
                span=func.span,
                help='run BindTarget(Target("nvptx", host="llvm")) first',
            )
        return Target(bound)

    def symbol(self, name: str) -> str:
        """The name under which a function is called."""
        return str(self.mod[name].attrs.get("global_symbol", name))

    def call(self, op: Call, name: str, caller: Target) -> Expr:
        """A call of a function from code for a target."""
        callee = self.target(name)
        callee = callee if callee.host is None else host_of(callee)
        callee = callee.without_host()
        if callee == caller:
            return op
        if callee.device == caller.device:
            self.external.setdefault(name)
            dtype = op.dtype
            return Call(Op.get("tir.call_extern"), (StringImm(self.symbol(name)), *op.args), dtype, span=op.span)
        func = self.mod[name]
        launch = self.launch(name)
        values = dict(zip(func.params, op.args, strict=True))
        extents = [substitute(value, values) for _, value, _ in launch]
        return Call(
            Op.get("tir.tvm_call_packed"), (StringImm(self.symbol(name)), *op.args, *extents), INT32, span=op.span
        )

    def launch(self, name: str) -> list[tuple[str, Expr, Stmt]]:
        """The launch arguments of a kernel. Raises where the host cannot compute them."""
        known = self.kernels.get(name)
        if known is not None:
            return known
        func = self.mod[name]
        if str(func.ret_type) != "void":
            raise TransformError(
                f"kernel {name!r} returns {func.ret_type}, and a launch returns nothing to the host",
                span=func.span,
                help="write the result to a buffer",
            )
        worker = _Collector(name, func)
        worker.visit(func.body)
        found = self.kernels[name] = worker.found.arguments()
        params = set(func.params)
        for tag, value, stmt in found:
            _need_known(name, tag, value, stmt, params)
        return found

    def finished(self, name: str, func: PrimFunc) -> PrimFunc:
        """A function with the attributes of the way in which it is called."""
        if name in self.kernels and name in self.external:
            raise TransformError(
                f"function {name!r} is called from its own device and launched from another",
                span=func.span,
                help="give the launch a function of its own",
            )
        if name in self.kernels:
            names = tuple(tag for tag, _, _ in self.kernels[name])
            func = func.with_attr({"calling_conv": int(CallingConvention.DEVICE_KERNEL_LAUNCH), LAUNCH_PARAMS: names})
        elif name not in self.external:
            return func
        return func.with_attr({"global_symbol": self.symbol(name), "tir.is_global_func": True})


def _need_known(name: str, tag: str, value: Expr, stmt: Stmt, params: set[Var]) -> None:
    inner = [var.name for var in each(Var, value) if var not in params]
    if inner or side_effect(value) is not Purity.PURE:
        why = f"it depends on {inner[0]!r}, which is no parameter" if inner else "it reads memory of the device"
        raise TransformError(
            f"the launch parameter {tag} of kernel {name!r} is {value}, which the host cannot compute: {why}",
            span=stmt.span,
            help="make the thread loops of a kernel run over extents that are computed from its parameters",
        )


class LowerDeviceKernelLaunch(ModulePass):
    """Calls of functions on another device become launches, and the functions kernels.

    A call between functions of one target stays. Between targets of one kind of device it becomes ``call_extern`` by
    the function's symbol. Any other becomes ``T.call_packed(symbol, arguments …, launch arguments …)``: the extents of
    the kernel's thread axes in the order in which they stand, then the bytes of its dynamic shared memory, if it has
    any. The kernel gets ``calling_conv`` 2, its symbol, and ``tir.kernel_launch_params``, the names of the launch
    arguments.

    A function whose target has a host is host code outside of its thread loops and regions. Needs SplitHostDevice, and
    MergeSharedMemoryAllocations where a kernel allocates dynamic shared memory more than once. Raises
    :class:`TransformError` for a function without a target, for two dynamic allocations, for a kernel that returns a
    value, and for an extent that is not computed from the kernel's parameters.

    >>> from tirlower.script import parse
    >>> print(LowerDeviceKernelLaunch()(parse('''
    ... @I.ir_module
    ... class Module:
    ...     @T.prim_func
    ...     def main(A: T.Buffer((64,), "float32"), n: T.int32):
    ...         T.func_attr({"target": T.target("llvm")})
    ...         Module.kernel(A.data, n)
    ...
    ...     @T.prim_func(private=True)
    ...     def kernel(a: T.handle("float32"), n: T.int32):
    ...         T.func_attr({"target": T.target("cuda")})
    ...         A = T.decl_buffer((64,), data=a)
    ...         for bx in T.thread_binding(n // 16, thread="blockIdx.x"):
    ...             for tx in T.thread_binding(16, thread="threadIdx.x"):
    ...                 A[bx * 16 + tx] = T.float32(0)
    ... ''')).script())
    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.Buffer((64,), "float32"), n: T.int32):
            T.func_attr({"target": T.target({"kind": "llvm"})})
            T.tvm_call_packed("kernel", A.data, n, n // 16, 16)
    <BLANKLINE>
        @T.prim_func
        def kernel(a: T.handle("float32"), n: T.int32):
            T.func_attr({"target": T.target({"kind": "cuda"}), "calling_conv": 2, "tir.kernel_launch_params": ["blockIdx.x", "threadIdx.x"], "tir.is_global_func": True})
            A = T.decl_buffer((64,), data=a)
            for bx in T.thread_binding(n // 16, thread="blockIdx.x"):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    A[bx * 16 + tx] = T.float32(0)
    """

    name = "tir.LowerDeviceKernelLaunch"
    stage = Stage.FLAT
    needs = ("tir.SplitHostDevice",)
    breaks = (Fact.LAUNCHES_OPEN,)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Lower every call of a module."""
        lowering = _Lowering(mod)
        made = {}
        for name, func in mod.items():
            made[name] = func.with_body(_Callers(lowering, lowering.target(name)).visit(func.body))
        return mod.with_functions({name: lowering.finished(name, func) for name, func in made.items()})
