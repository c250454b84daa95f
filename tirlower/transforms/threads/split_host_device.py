"""SplitHostDevice: the device's regions become functions of their own."""

from __future__ import annotations

from tirlower.analysis.thread_axes import is_thread_axis
from tirlower.analysis.undefined import undefined_vars
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.annotations import MIN_BLOCKS
from tirlower.ir.binding import buffer_variables
from tirlower.ir.buffer import Buffer
from tirlower.ir.data import DATA_PARAMS
from tirlower.ir.dtype import INT32, DataType
from tirlower.ir.expr import EQ, Call, Expr, StringImm, Var, const
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import StmtMutator, Substituter, Visitor
from tirlower.ir.op import GlobalVar, Op
from tirlower.ir.refresh import copy_var
from tirlower.ir.splice import jumps_out
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
    Block,
    DeclBuffer,
    Evaluate,
    For,
    Seq,
    Stmt,
)
from tirlower.machine.target import Target
from tirlower.rewrite.base import Fact, ModulePass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.scalar_overflow import scalars_wrap
from tirlower.transforms.threads.device_regions import TARGET

__all__ = ["SplitHostDevice"]

_RETURNS = (Op.get("tir.ret"), Op.get("tir.thread_return"))
_REPORTING = ("cpu", "ext_dev", "hexagon")
"""The devices whose kernels return a status to the host."""


class _Uses(Visitor):
    """The buffers of a region that nothing inside declares, in the order of their first use, and its thread variables."""

    def __init__(self) -> None:
        self.used: dict[Buffer, None] = {}
        self.own: set[Buffer] = set()
        self.depth = 0
        self.ends: Evaluate | None = None
        self.axes: dict[Var, None] = {}

    def visit_buffer(self, buffer: Buffer) -> None:
        self.used.setdefault(buffer)

    def declare(self, op: AllocBuffer | AllocConst | DeclBuffer) -> None:
        self.own.add(op.buffer)
        self.generic(op)

    visit_AllocBuffer = visit_AllocConst = visit_DeclBuffer = declare

    def visit_Evaluate(self, op: Evaluate) -> None:
        """A return outside of the threads would end the host's function."""
        if not self.depth and isinstance(op.value, Call) and op.value.op in _RETURNS:
            self.ends = op
        self.generic(op)

    def visit_For(self, op: For) -> None:
        if is_thread_axis(op):
            self.axes.setdefault(op.loop_var)
        self.depth += is_thread_axis(op)
        self.generic(op)
        self.depth -= is_thread_axis(op)

    def visit_Block(self, op: Block) -> None:
        for match in op.match_buffers:
            self.own.add(match.buffer)
        self.generic(op)

    def outside(self, free: set[Var]) -> list[Buffer]:
        """The buffers that are not declared inside, and all of whose variables come from outside, last used first."""
        return [b for b in reversed(self.used) if b not in self.own and free.issuperset(buffer_variables(b))]


class _Splitter(StmtMutator):
    """Rewrites the host's functions; ``kernels`` are the functions made."""

    def __init__(self, mod: IRModule) -> None:
        self.taken = set(mod) | {str(func.attrs.get("global_symbol", "")) for _, func in mod.items()}
        self.kernels: dict[str, PrimFunc] = {}
        self.prefix = ""
        self.handed_on: dict[str, object] = {}
        self.sizes: set[Var] = set()
        """The symbols of the shapes of the function at hand."""

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key != TARGET or not isinstance(op.node, Target):
            return self.generic(op)
        return self.split(op.body, op.node, op)

    def split(self, region: Stmt, target: Target, site: AttrStmt) -> Stmt:
        """Make the kernel of a region; what the host does instead."""
        free = sorted(undefined_vars(region), key=lambda var: (not var.dtype.is_handle, var.name))
        uses = _Uses()
        uses.visit(region)
        if uses.ends is not None or jumps_out(region):
            raise TransformError(
                f"a region for {target.kind} in {self.prefix} leaves the function or a loop around it",
                span=(uses.ends or site).span,
                help="return, break and continue outside of regions with the attribute 'target'",
            )
        params = [copy_var(var) for var in free]
        # The loops of one thread axis share their variable in a function, so the kernel has its own.
        axes = {var: copy_var(var) for var in uses.axes}
        worker = Substituter({**dict(zip(free, params, strict=True)), **axes})
        body = worker.visit(region)
        head: list[Stmt] = [DeclBuffer(worker.map_buffer(buffer)) for buffer in uses.outside(set(free))]
        reports = target.device in _REPORTING
        if reports:
            zero = Evaluate(build.call("tir.ret", const(0)))
            body = Seq((body, zero))
        if head:
            inner = body.stmts if isinstance(body, Seq) else (body,)
            body = Seq((*head, *inner))
        data = tuple(at for at, var in enumerate(free) if var.dtype.is_integral and var not in self.sizes)
        attrs = {**self.handed_on, "target": target, "tir.noalias": True, "tir.is_global_func": True}
        if data and scalars_wrap():
            attrs[DATA_PARAMS] = data
        name = self.fresh(f"{self.prefix}_kernel")
        self.kernels[name] = PrimFunc(
            tuple(params), {}, DataType("int32" if reports else "void"), attrs, body, span=site.span
        )
        arguments: tuple[Expr, ...] = tuple(free)
        if not reports:
            return Evaluate(Call(GlobalVar(name), arguments, DataType("void")), span=site.span)
        status = Var("kernel_error_code", INT32)
        return Seq(
            (
                Bind(status, Call(GlobalVar(name), arguments, INT32), span=site.span),
                Assert(EQ(status, const(0)), StringImm("Error executing compute kernel"), span=site.span),
            )
        )

    def fresh(self, name: str) -> str:
        """The name, or the first of ``name_1``, ``name_2`` … that nothing in the module has."""
        made, count = name, 0
        while made in self.taken:
            count += 1
            made = f"{name}_{count}"
        self.taken.add(made)
        return made


class SplitHostDevice(ModulePass):
    """Regions with the attribute ``target`` become private functions for that target, which the host calls.

    The function of a region of ``f`` is ``f_kernel``, the next ``f_kernel_1`` and so on. Its parameters are the free
    variables of the region: handles first, each kind by name. Buffers whose memory comes from outside are declared at
    its head, the one used first last. It has the attributes ``target`` and ``tir.is_global_func``, and ``tir.noalias`` as TIR's has: memory that
    a kernel writes is reached through one of its pointers; and ``tir.min_blocks_per_sm`` where ``f`` has it. It returns nothing, but for a target that is a processor, which
    returns a status, 0, that the host asserts.

    Needs AnnotateDeviceRegions, which makes the regions; a module without any comes back as it is. Raises
    :class:`TransformError` for a region that returns from the function around it, or breaks a loop around it.

    >>> from tirlower.script import parse
    >>> print(SplitHostDevice()(parse('''
    ... @I.ir_module
    ... class Module:
    ...     @T.prim_func
    ...     def main(A: T.Buffer(("n",), "float32")):
    ...         T.func_attr({"target": T.target("cuda", host="llvm")})
    ...         with T.attr(T.target("cuda"), "target", 0):
    ...             for bx in T.thread_binding(n, thread="blockIdx.x"):
    ...                 A[bx] = A[bx] + T.float32(1)
    ... ''')).script())
    @I.ir_module
    class Module:
        @T.prim_func
        def main(A_handle: T.handle):
            n = T.int32()
            A = T.match_buffer(A_handle, (n,))
            T.func_attr({"target": T.target({"kind": "cuda", "host": {"kind": "llvm"}})})
            Module.main_kernel(A.data, n)
    <BLANKLINE>
        @T.prim_func(private=True)
        def main_kernel(A: T.handle("float32"), n: T.int32):
            T.func_attr({"target": T.target({"kind": "cuda"}), "tir.noalias": True, "tir.is_global_func": True})
            A_1 = T.decl_buffer((n,), data=A)
            for bx in T.thread_binding(n, thread="blockIdx.x"):
                A_1[bx] = A_1[bx] + T.float32(1)
    """

    name = "tir.SplitHostDevice"
    stage = Stage.FLAT
    needs = ("tir.AnnotateDeviceRegions", Fact.WARP_MEMORY)
    breaks = (Fact.WHOLE_PROGRAM,)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Split every function of a module."""
        splitter = _Splitter(mod)
        made: dict[str, PrimFunc] = {}
        for name, func in mod.items():
            splitter.prefix = str(func.attrs.get("global_symbol", name))
            splitter.handed_on = {key: func.attrs[key] for key in (MIN_BLOCKS,) if key in func.attrs}
            splitter.sizes = {var for buffer in func.buffers for var in buffer_variables(buffer)}
            made[name] = func.with_body(splitter.visit(func.body))
        return mod.with_functions({**made, **splitter.kernels})
