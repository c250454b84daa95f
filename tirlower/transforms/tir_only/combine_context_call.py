"""CombineContextCall: each distinct context is asked for once."""

from __future__ import annotations

from tirlower.analysis.thread_axes import is_thread_axis
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Call, Expr, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator
from tirlower.ir.op import GlobalVar, Op
from tirlower.ir.query import nodes
from tirlower.ir.stmt import AttrStmt, Bind, Block, For, ForKind, Seq, Stmt
from tirlower.ir.structural import expr_deep_equal, structural_hash
from tirlower.machine.target import Target
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["CombineContextCall"]

_CONTEXT = Op.get("tir.tvm_thread_context")
_LEVELS = ("thread_extent", "coproc_uop_scope", "device_scope")


class _Level:
    """One place of bindings: what it binds, and the variables that are defined below it."""

    def __init__(self) -> None:
        self.bound: dict[int, list[tuple[Expr, Var]]] = {}
        self.order: list[tuple[Expr, Var]] = []
        self.inner: set[Var] = set()

    def variable(self, context: Expr) -> Var | None:
        """The variable of a context, made at its first use; None where it depends on what is defined below."""
        same = self.bound.setdefault(structural_hash(context, True), [])
        for known, var in same:
            if expr_deep_equal(known, context):
                return var
        # Memory may be another one at each use.
        if any(op in self.inner or isinstance(op, BufferLoad) for op in nodes(context)):
            return None
        var = Var(_name(context), context.dtype)
        same.append((context, var))
        self.order.append((context, var))
        return var

    def binding(self, body: Stmt) -> Stmt:
        """A body after the bindings."""
        if not self.order:
            return body
        rest = body.stmts if isinstance(body, Seq) else (body,)
        return Seq((*[Bind(var, context, span=context.span) for context, var in self.order], *rest))


def _name(context: Expr) -> str:
    if not isinstance(context, Call):
        return "ctx_cache"
    name = context.op.name if isinstance(context.op, GlobalVar) else context.op.short
    return f"{name}_cache"


class _Combiner(Mutator):
    def __init__(self) -> None:
        self.levels = [_Level()]

    def map_var_def(self, var: Var) -> Var:
        self.levels[-1].inner.add(var)
        return var

    def visit_Call(self, op: Call) -> Expr:
        if op.op is not _CONTEXT:
            return op
        var = self.levels[-1].variable(op.args[0])
        return op if var is None else var

    def below(self, body: Stmt) -> Stmt:
        """A body with a level of its own."""
        self.levels.append(_Level())
        made = self.visit(body)
        return self.levels.pop().binding(made)

    def visit_For(self, op: For) -> Stmt:
        low, extent = self.visit(op.min), self.visit(op.extent)
        self.levels[-1].inner.add(op.loop_var)
        threads = is_thread_axis(op)
        own = threads or op.kind is ForKind.PARALLEL
        return op.with_(min=low, extent=extent, body=self.below(op.body) if own else self.visit(op.body))

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        value = self.visit(op.value)
        return op.with_(value=value, body=self.below(op.body) if op.key in _LEVELS else self.visit(op.body))

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        self.levels[-1].inner.add(buffer.data)
        return buffer

    def visit_Block(self, op: Block) -> Stmt:
        for it in op.iters:
            self.levels[-1].inner.add(it.var)
        return self.generic(op)


class CombineContextCall(FuncPass):
    """Each distinct context that the host asks for is asked for once.

    ``T.tvm_thread_context(call)`` stands for the value of ``call``, a handle that stays the same for a thread, such as a queue
    of its device. All uses of one context in a function become a variable, bound at the head of the function; those inside of
    a thread axis, a device region or a parallel loop one of their own, bound at the head of its body, since there other threads
    run. A context that depends on variables defined below that place, or reads memory, stays.

    As TIR's, whose bindings stand around a parallel loop or thread axis; here they stand inside, where each thread asks for
    its own. A context may thus be asked for where no branch that uses it runs. Functions without a
    target, and those bound to a GPU without a host, are left alone. Stands last of the host's passes, behind BindTarget;
    raises nothing.

    >>> from tirlower.script import parse
    >>> print(CombineContextCall()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "float32"), n: T.int32):
    ...     T.func_attr({"target": T.target("llvm")})
    ...     for i in range(n):
    ...         T.call_extern("int32", "push", T.tvm_thread_context(T.call_extern("handle", "queue"), dtype="handle"), A.data, i)
    ...         T.call_extern("int32", "flush", T.tvm_thread_context(T.call_extern("handle", "queue"), dtype="handle"))
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), n: T.int32):
        T.func_attr({"target": T.target({"kind": "llvm"})})
        call_extern_cache: T.handle = T.call_extern("handle", "queue")
        for i in range(n):
            T.call_extern("int32", "push", call_extern_cache, A.data, i)
            T.call_extern("int32", "flush", call_extern_cache)
    """

    name = "tir.CombineContextCall"
    stage = Stage.HOST

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Combine the contexts of a function."""
        bound = func.attrs.get("target")
        if bound is None or (Target(bound).is_gpu and Target(bound).host is None):
            return func
        worker = _Combiner()
        body = worker.visit(func.body)
        return func.with_body(worker.levels[0].binding(body))
