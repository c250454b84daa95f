"""LowerThreadAllreduce: reductions over threads as warp shuffles, or as a tree in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, CommReducer, decl_buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, StringImm, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, pre_order_visit, substitute
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, AttrStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, Seq, Stmt, While
from tirlower.ir.target import Target
from tirlower.transforms.base import FuncPass, Stage
from tirlower.transforms.context import PassContext
from tirlower.transforms.threads.allreduce_plan import Team, team_of, warps_reduce

__all__ = ["LowerThreadAllreduce"]

_ALLREDUCE = Op.get("tir.tvm_thread_allreduce")


class _Lowerer(Mutator):
    def __init__(self, target: Target) -> None:
        self.target = target
        self.warp = int(target.get("thread_warp_size", 1))
        self.axes: dict[str, For] = {}
        self.reducers: list[CommReducer] = []
        self.repeats = 0

    def visit_expr(self, root: Any) -> Any:
        return root

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
        # The reducer is used; what has become of its calls stands for itself.
        return op if body is op.body else body

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        call = op.value
        if not (isinstance(call, Call) and call.op is _ALLREDUCE):
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
                build.if_then_else(condition, value, build.cast(value.dtype, identity))
                for value, identity in zip(values, reducer.identity, strict=True)
            )
        made = _Reduction(self.target, self.warp, reducer, team, values, targets, self.repeats > 0)
        return Seq(tuple(made.run()))


class _Reduction:
    """The statements of one reduction, in order."""

    def __init__(
        self,
        target: Target,
        warp: int,
        reducer: CommReducer,
        team: Team,
        values: Sequence[Expr],
        targets: Sequence[BufferLoad],
        repeats: bool,
    ) -> None:
        self.target = target
        self.warp = warp
        self.reducer = reducer
        self.team = team
        self.values = values
        self.targets = targets
        self.repeats = repeats
        self.stmts: list[Stmt] = []
        self.mask: Buffer | None = None

    def run(self) -> list[Stmt]:
        """The reduction by the rules for the target."""
        types = [value.dtype for value in self.values]
        if self.team.extent == 1:
            self.finish(self.values)
        elif warps_reduce(self.target, self.team, types):
            self.by_shuffles(types)
        else:
            self.by_tree(types)
        return self.stmts

    def finish(self, results: Sequence[Expr]) -> None:
        """Store the results where they are wanted; all are computed before the first is stored."""
        if len(results) > 1 and self.team.extent == 1:
            held = [self.allocate("red_buf", n, value.dtype, 1, "local") for n, value in enumerate(results)]
            for buffer, value in zip(held, results, strict=True):
                self.stmts.append(BufferStore(buffer, value, (const(0),)))
            results = [BufferLoad(buffer, (const(0),)) for buffer in held]
        for target, value in zip(self.targets, results, strict=True):
            self.stmts.append(BufferStore(target.buffer, value, target.indices))

    def allocate(self, name: str, number: int, dtype: DataType, size: int, scope: str) -> Buffer:
        buffer = decl_buffer((size,), dtype, f"{name}{number}", scope=scope)
        self.stmts.append(AllocBuffer(buffer))
        return buffer

    def combine(self, left: Sequence[Expr], right: Sequence[Expr]) -> list[Expr]:
        """The results of the reducer."""
        table = dict(zip((*self.reducer.lhs, *self.reducer.rhs), (*left, *right), strict=True))
        return [substitute(result, table) for result in self.reducer.result]

    def sync(self, scope: str) -> None:
        self.stmts.append(Evaluate(build.call("tir.tvm_storage_sync", StringImm(scope))))

    # Warps

    def by_shuffles(self, types: Sequence[DataType]) -> None:
        """Within each warp; then, where a group has several, over their results, by each warp for itself."""
        team, warp = self.team, self.warp
        held = [self.allocate("red_buf", n, dtype, 1, "local") for n, dtype in enumerate(types)]
        self.mask = self.allocate("mask", 0, DataType("uint32"), 1, "local")
        if team.extent <= warp:
            other = [self.allocate("t", n, dtype, 1, "local") for n, dtype in enumerate(types)]
            self.fill(held, self.values)
            self.stmts.append(BufferStore(self.mask, build.call("tir.tvm_warp_activemask"), (const(0),)))
            self.within_warp(held, other, team.extent, team.index)
            self.finish(self.broadcast(held, build.mul(team.group, const(team.extent))))
            return
        warps = team.extent // warp
        lane = build.floormod(team.index, const(warp))
        other = [self.allocate("t", n, dtype, 1, "local") for n, dtype in enumerate(types)]
        staging = [
            self.allocate("red_buf_staging", n, dtype, warps * team.groups, "shared") for n, dtype in enumerate(types)
        ]
        self.fill(held, self.values)
        self.stmts.append(BufferStore(self.mask, build.call("tir.tvm_warp_activemask"), (const(0),)))
        self.within_warp(held, other, warp, lane)
        if self.repeats:
            self.sync("shared")  # the results of the last time have been read
        first = build.mul(team.group, const(warps))
        place = build.add(first, build.floordiv(team.index, const(warp)))
        stores: list[Stmt] = [
            BufferStore(buffer, BufferLoad(mine, (const(0),)), (place,))
            for buffer, mine in zip(staging, held, strict=True)
        ]
        self.stmts.append(IfThenElse(build.eq(lane, const(0)), build_seq(stores), None))
        self.sync("shared")
        inside = build.lt(lane, const(warps))
        self.fill(
            held,
            [
                build.if_then_else(inside, BufferLoad(buffer, (build.add(first, lane),)), identity)
                for buffer, identity in zip(staging, self.identities(types), strict=True)
            ],
        )
        self.within_warp(held, other, _power_of_two(warps), lane)
        self.finish(self.broadcast(held, const(0)))

    def identities(self, types: Sequence[DataType]) -> list[Expr]:
        return [build.cast(dtype, value) for dtype, value in zip(types, self.reducer.identity, strict=True)]

    def fill(self, buffers: Sequence[Buffer], values: Sequence[Expr]) -> None:
        self.stmts += [BufferStore(buffer, value, (const(0),)) for buffer, value in zip(buffers, values, strict=True)]

    def shuffle(self, name: str, buffer: Buffer, where: Expr, width: int) -> Expr:
        assert self.mask is not None  # allocated before any shuffle
        mask = BufferLoad(self.mask, (const(0),))
        return build.call(
            f"tir.{name}", mask, BufferLoad(buffer, (const(0),)), where, const(width), const(self.warp),
        )  # fmt: skip

    @property
    def full(self) -> bool:
        """Whether all warps of the block are full, so that every lane takes part."""
        return self.team.extent * self.team.groups % self.warp == 0

    def within_warp(self, held: Sequence[Buffer], other: Sequence[Buffer], extent: int, index: Expr) -> None:
        """The first lane of each ``extent`` ones gets what they hold together."""
        offset = _power_of_two(extent) // 2
        ragged = _power_of_two(extent) != extent
        while offset:
            for mine, its in zip(held, other, strict=True):
                if ragged:
                    # Lanes without a partner look at themselves: beyond the last one there is no thread.
                    there = build.add(index, const(offset))
                    where = build.if_then_else(build.lt(there, const(extent)), there, index)
                    value = self.shuffle("tvm_warp_shuffle", mine, where, self.warp)
                else:
                    width = self.warp if self.full else min(extent, self.warp)
                    value = self.shuffle("tvm_warp_shuffle_down", mine, const(offset), width)
                self.stmts.append(BufferStore(its, value, (const(0),)))
            results = self.combine(
                [BufferLoad(b, (const(0),)) for b in held], [BufferLoad(b, (const(0),)) for b in other]
            )
            stores = self.stored(held, results)
            if ragged:
                fits = build.lt(build.add(index, const(offset)), const(extent))
                self.stmts.append(IfThenElse(fits, build_seq(stores), None))
            else:
                self.stmts += stores
            offset //= 2

    def stored(self, held: Sequence[Buffer], results: Sequence[Expr]) -> list[Stmt]:
        """Stores of the results; several are computed before the first is stored."""
        if len(results) == 1:
            return [BufferStore(held[0], results[0], (const(0),))]
        new = [decl_buffer((1,), result.dtype, f"new{n}", scope="local") for n, result in enumerate(results)]
        stmts: list[Stmt] = [AllocBuffer(buffer) for buffer in new]
        stmts += [BufferStore(buffer, result, (const(0),)) for buffer, result in zip(new, results, strict=True)]
        stmts += [BufferStore(mine, BufferLoad(b, (const(0),)), (const(0),)) for mine, b in zip(held, new, strict=True)]
        return [Seq(tuple(stmts))]

    def broadcast(self, held: Sequence[Buffer], lane: Expr) -> list[Expr]:
        for buffer in held:
            self.stmts.append(
                BufferStore(buffer, self.shuffle("tvm_warp_shuffle", buffer, lane, self.warp), (const(0),))
            )
        return [BufferLoad(buffer, (const(0),)) for buffer in held]

    # Shared memory

    def by_tree(self, types: Sequence[DataType]) -> None:
        """Halves are added to halves, with a barrier between the steps."""
        team = self.team
        size = team.extent * team.groups
        held = [self.allocate("red_buf", n, dtype, size, "shared") for n, dtype in enumerate(types)]
        first = build.mul(team.group, const(team.extent))
        mine = build.add(first, team.index)
        if self.repeats:
            self.sync("shared")  # the result of the last time has been read
        self.stmts += [BufferStore(buffer, v, (mine,)) for buffer, v in zip(held, self.values, strict=True)]
        self.sync("shared")
        half = _power_of_two(team.extent) // 2
        if half * 2 > team.extent:
            self.step(held, mine, half, build.lt(team.index, const(team.extent - half)))
            self.sync("shared")
            half //= 2
        # The threads of a group that are left are lanes of one warp where its first thread is a warp's first.
        aligned = team.contiguous and (team.groups == 1 or team.extent % self.warp == 0)
        while half:
            self.step(held, mine, half, build.lt(team.index, const(half)))
            last = half == 1
            self.sync("warp" if aligned and not last and half * 2 <= self.warp else "shared")
            half //= 2
        self.finish([BufferLoad(buffer, (first,)) for buffer in held])

    def step(self, held: Sequence[Buffer], mine: Expr, half: int, condition: Expr) -> None:
        """One half is added to the other."""
        there = build.add(mine, const(half))
        results = self.combine([BufferLoad(b, (mine,)) for b in held], [BufferLoad(b, (there,)) for b in held])
        stmts: list[Stmt] = []
        if len(results) > 1:
            new = [decl_buffer((1,), result.dtype, f"new{n}", scope="local") for n, result in enumerate(results)]
            stmts += [AllocBuffer(buffer) for buffer in new]
            stmts += [BufferStore(buffer, result, (const(0),)) for buffer, result in zip(new, results, strict=True)]
            results = [BufferLoad(buffer, (const(0),)) for buffer in new]
        stmts += [BufferStore(buffer, result, (mine,)) for buffer, result in zip(held, results, strict=True)]
        self.stmts.append(IfThenElse(condition, build_seq(stmts), None))


def build_seq(stmts: Sequence[Stmt]) -> Stmt:
    """Statements as one."""
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


def _power_of_two(value: int) -> int:
    """The least power of two that is not less."""
    return 1 << (value - 1).bit_length()


class LowerThreadAllreduce(FuncPass):
    """Reductions over threads become warp shuffles, or a tree in shared memory with barriers.

    ``tvm_thread_allreduce(n, values …, condition, results …, thread variables …)`` in a ``reduce_scope`` leaves in each
    thread's results the reduction of the values of its group: the threads that differ in the given variables only. Threads
    for which the condition does not hold give the identity.

    Shuffles are used on cuda, nvptx, metal and (32 bits, a full warp) rocm, for values of 32 or 64 bits and float16, where the threads of a
    group follow each other, and their number divides the warp, or is a multiple of it and the target has at most a
    warp of warps, or is below it and there is one group. A group of several warps reduces in two stages with one barrier:
    each warp stores its result, and each reduces those of all. Otherwise halves are added to halves in shared memory.
    Within a loop, a barrier keeps the memory of one iteration from the next.

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
            with T.alloc_buffer((1,), scope="local") as red_buf0:
                mask0 = T.alloc_buffer((1,), "uint32", scope="local")
                t0 = T.alloc_buffer((1,), scope="local")
                red_buf0[0] = A[tx]
                mask0[0] = T.tvm_warp_activemask()
                t0[0] = T.tvm_warp_shuffle_down(mask0[0], red_buf0[0], 1, 2, 32)
                red_buf0[0] = red_buf0[0] + t0[0]
                red_buf0[0] = T.tvm_warp_shuffle(mask0[0], red_buf0[0], 0, 32, 32)
                sum[0] = red_buf0[0]
            B[tx] = sum[0]
    """

    name = "tir.LowerThreadAllreduce"
    stage = Stage.FLAT
    needs = ("tir.ThreadSync",)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the reductions of a function."""
        found = False

        def look(op: Any) -> None:
            nonlocal found
            found = found or (op.__class__ is Call and op.op is _ALLREDUCE)

        pre_order_visit(func.body, look)
        if not found:
            return func
        bound = func.attrs.get("target") or Target.current()
        if bound is None:
            raise TransformError(
                f"function {func.name!r} reduces over threads, but has no target that says how large a warp is",
                origin="LowerThreadAllreduce",
                span=func.span,
                help='run BindTarget first, or enter a target: with tl.Target("nvptx")',
            )
        return func.with_body(_Lowerer(Target(bound)).visit(func.body))
