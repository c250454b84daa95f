"""LowerThreadAllreduce: reductions over threads as warp shuffles, or as a tree in shared memory."""

from __future__ import annotations

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, CommReducer
from tirlower.ir.expr import (
    BufferLoad,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Select,
    Var,
    const,
    is_const_int,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.query import each, has
from tirlower.ir.stmt import (
    AttrStmt,
    Evaluate,
    For,
    ForKind,
    Seq,
    Stmt,
    While,
)
from tirlower.machine.target import Target
from tirlower.rewrite.allreduce.plan import team_of
from tirlower.rewrite.allreduce.results import ALLREDUCE, MoveResults, ResultUses
from tirlower.rewrite.allreduce.steps import Reduction
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["LowerThreadAllreduce"]


class _Lowerer(StmtMutator):
    def __init__(self, target: Target, uses: ResultUses) -> None:
        self.uses = uses
        self.moved: dict[Var, tuple[Buffer, Expr]] = {}
        self.target = target
        self.warp = int(target.get("thread_warp_size", 1))
        self.axes: dict[str, For] = {}
        self.reducers: list[CommReducer] = []
        self.repeats = 0

    def visit_For(self, op: For) -> Stmt:
        if op.kind is not ForKind.THREAD_BINDING:
            self.repeats += 1
            new = self.generic(op)
            self.repeats -= 1
            return new
        tag = str(op.thread_tag)
        before = self.axes
        self.axes = {**before, tag: before.get(tag, op)}
        new = self.generic(op)
        self.axes = before
        return new

    def visit_While(self, op: While) -> Stmt:
        self.repeats += 1
        new = self.generic(op)
        self.repeats -= 1
        return new

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key != "reduce_scope" or not isinstance(op.node, CommReducer):
            return self.generic(op)
        self.reducers.append(op.node)
        body = self.visit(op.body)
        self.reducers.pop()
        return op.with_(body=body)

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        call = op.value
        if not (isinstance(call, Call) and call.op is ALLREDUCE):
            return op
        if not self.reducers:
            raise TransformError(
                "an allreduce stands in no reduce_scope attribute, so it has no reducer",
                origin="LowerThreadAllreduce",
                span=op.span,
            )
        if not isinstance(call.args[0], IntImm):
            raise TransformError(
                f"the number of values of an allreduce is {call.args[0]}", origin="LowerThreadAllreduce", span=op.span
            )
        reducer = self.reducers[-1]
        count = call.args[0].value
        if count != len(reducer.lhs):
            raise TransformError(
                f"an allreduce of {count} values stands in the scope of a reducer of {len(reducer.lhs)}",
                origin="LowerThreadAllreduce",
                span=op.span,
            )
        values = call.args[1 : 1 + count]
        condition = call.args[1 + count]
        targets: list[BufferLoad] = []
        for target in call.args[2 + count : 2 + 2 * count]:
            if not isinstance(target, BufferLoad):
                raise TransformError(
                    f"the result of an allreduce is no buffer element: {target}",
                    origin="LowerThreadAllreduce",
                    span=op.span,
                )
            targets.append(target)
        team = team_of(self.axes, call.args[2 + 2 * count :], op.span)
        if not is_const_int(condition, 1):
            values = tuple(
                _chosen(condition, value, build.cast(value.dtype, identity))
                for value, identity in zip(values, reducer.identity, strict=True)
            )
        index = team.group if team.groups > 1 else const(0)
        movable = self.uses.movable(targets, index)
        made = Reduction(self.target, self.warp, reducer, team, values, targets, self.repeats > 0, movable)
        stmts = made.run()
        self.moved.update(made.moved)
        return Seq(tuple(stmts))


def _chosen(condition: Expr, value: Expr, other: Expr) -> Expr:
    """A value under a condition, which guards it where it reads memory that may not be there."""
    guarded = has((Call, FloorDiv, FloorMod, Div, Mod), value) or any(
        load.buffer.scope != "local" or not all(isinstance(i, IntImm) for i in load.indices)
        for load in each(BufferLoad, value)
    )
    return build.if_then_else(condition, value, other) if guarded else Select(condition, value, other)


class LowerThreadAllreduce(FuncPass):
    """Reductions over threads become warp shuffles, or a tree in shared memory with barriers.

    ``tvm_thread_allreduce(n, values …, condition, results …, thread variables …)`` in a ``reduce_scope`` leaves in each
    thread's results the reduction of the values of its group: the threads that differ in the given variables only. Threads
    for which the condition does not hold give the identity.

    Shuffles are used on cuda, nvptx, metal and (32 bits, a full warp) rocm, for values of 32 or 64 bits and float16, where the threads of a
    group follow each other, and their number divides the warp, or is a multiple of it and the target has at most a
    warp of warps, or is below it and there is one group. A group of several warps reduces in two stages: each warp stores its
    result, the first lanes of the group reduce those of all, and the result is in shared memory (``red_result``, volatile),
    from which all read it. Metal has no mask of active lanes: its shuffles
    get 0. Otherwise halves are added to halves in shared memory. Results that threads also store by
    themselves stay in memory of theirs; there, each warp makes the second stage for itself, with one barrier.

    Stands behind ThreadSync, before SplitHostDevice. Raises :class:`TransformError` for a thread extent that is not
    constant, a variable that is no thread index, a missing reducer, and a function without a target.

    >>> from tirlower.script import parse
    >>> print(LowerThreadAllreduce()(parse('''
    ... @T.prim_func
    ... def total(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
    ...     T.func_attr({"target": T.target("cuda")})
    ...     for tx in T.thread_binding(2, thread="threadIdx.x"):
    ...         sum = T.alloc_buffer((1,), "float32", scope="local")
    ...         with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", 0):
    ...             T.tvm_thread_allreduce(T.uint32(1), A[tx], True, sum[0], tx)
    ...         B[tx] = sum[0]
    ... ''')).script())
    @T.prim_func
    def total(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
        T.func_attr({"target": T.target({"kind": "cuda"})})
        for tx in T.thread_binding(2, thread="threadIdx.x"):
            sum = T.alloc_buffer((1,), scope="local")
            with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", 0):
                mask = T.alloc_buffer((1,), "uint32", scope="local")
                t0 = T.alloc_buffer((1,), scope="local")
                sum[0] = A[tx]
                mask[0] = T.tvm_warp_activemask()
                t0[0] = T.tvm_warp_shuffle_down(mask[0], sum[0], 1, 2, 32)
                sum[0] = sum[0] + t0[0]
                sum[0] = T.tvm_warp_shuffle(mask[0], sum[0], 0, 32, 32)
            B[tx] = sum[0]
    """

    name = "tir.LowerThreadAllreduce"
    stage = Stage.FLAT
    needs = ("tir.ThreadSync",)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the reductions of a function."""
        if not any(call.op is ALLREDUCE for call in each(Call, func.body)):
            return func
        bound = func.attrs.get("target") or Target.current()
        if bound is None:
            raise TransformError(
                f"function {func.name!r} reduces over threads, but has no target that says how large a warp is",
                origin="LowerThreadAllreduce",
                span=func.span,
                help='run BindTarget first, or enter a target: with tl.Target("nvptx")',
            )
        worker = _Lowerer(Target(bound), ResultUses(func.body))
        body = worker.visit(func.body)
        return func.with_body(MoveResults(worker.moved).visit(body) if worker.moved else body)
