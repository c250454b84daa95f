"""LowerCrossThreadReduction: reduction blocks over threads become allreduces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tirlower.analysis.purity import side_effect
from tirlower.analysis.reduction_form import ReductionForm, reduction_form
from tirlower.analysis.vthread_dependence import uses_of
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, IterKind, Range, decl_buffer
from tirlower.ir.dtype import HANDLE
from tirlower.ir.expr import Add, BufferLoad, Expr, FloatImm, IntImm, Max, Mul, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, Visitor, substitute
from tirlower.ir.op import Purity
from tirlower.ir.query import mentions
from tirlower.ir.stmt import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Block,
    BlockIter,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    Seq,
    Stmt,
)
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import conjuncts
from tirlower.rewrite.loop_nests import nest
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["LowerCrossThreadReduction"]

_ORIGIN = "LowerCrossThreadReduction"


def _is_thread(loop: For) -> bool:
    return loop.kind is ForKind.THREAD_BINDING and str(loop.thread_tag).startswith("threadIdx")


def _reducing(block: Block, loops: Sequence[For]) -> list[For]:
    """The loops over which a block reduces: those in the values of its reduction iterators."""
    values = [it.value for it in block.iters if it.kind is IterKind.REDUCE and it.value is not None]
    return [loop for loop in loops if any(mentions(value, {loop.loop_var}) for value in values)]


@dataclass(eq=False)
class _Plan:
    """A reduction that is being lowered: its loops (outermost first), and what goes around them when they are left."""

    block: Block
    loops: list[For]
    threads: list[For]
    before: list[Stmt]
    after: list[Stmt]


class _Lowerer(StmtMutator):
    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.loops: list[For] = []
        self.kernel = 0
        self.plans: list[_Plan] = []
        self.gone: set[For] = set()
        self.allocs: list[Buffer] = []
        self.shared_out: dict[Var, list[For]] = {}
        """The results that each thread has for itself, with the loops of the threads that reduced them."""

    def run(self, body: Stmt) -> Stmt:
        """The body of a function. Where no block is around a reduction, its memory heads the function."""
        return self.with_allocs(lambda: self.visit(body))

    def with_allocs(self, work: Callable[[], Stmt]) -> Stmt:
        """What ``work`` gives, with the memory that its reductions need behind the allocations that head it."""
        outer, self.allocs = self.allocs, []
        body = work()
        mine, self.allocs = self.allocs, outer
        if not mine:
            return body
        stmts = list(body.stmts if isinstance(body, Seq) else (body,))
        at = next((n for n, stmt in enumerate(stmts) if not isinstance(stmt, AllocBuffer)), len(stmts))
        stmts[at:at] = [AllocBuffer(buffer) for buffer in mine]
        return Seq(tuple(stmts))

    def visit_Seq(self, op: Seq) -> Stmt:
        made: list[Stmt] = []
        for stmt in op.stmts:
            if self.plans:
                plan = self.plans[-1]
                raise TransformError(
                    f"block {plan.block.name!r} reduces over threads, and is not the last one in the loops that it reduces "
                    "over",
                    origin=_ORIGIN,
                    span=plan.block.span,
                    help="move what follows it into loops of its own",
                )
            made.append(self.visit(stmt))
        return op if all(x is y for x, y in zip(made, op.stmts, strict=True)) else op.with_(stmts=tuple(made))

    def visit_Block(self, op: Block) -> Stmt:
        loops, self.loops = self.loops, []
        plans, self.plans = self.plans, []
        body = self.with_allocs(lambda: self.visit(op.body))
        self.loops, self.plans = loops, plans
        new: Block = op.with_(body=body)
        reducing = _reducing(op, loops) if op.init is not None else []
        if any(loop.kind is ForKind.THREAD_BINDING for loop in reducing):
            return self.lowered(new, loops, reducing)
        return self.by_one_thread(new)

    def visit_For(self, op: For) -> Stmt:
        thread = op.kind is ForKind.THREAD_BINDING
        self.loops.append(op)
        self.kernel += thread
        new: Stmt = self.generic(op)
        self.kernel -= thread
        self.loops.pop()
        if thread and not self.kernel:
            self.shared_out = {}
        if op in self.gone:
            new = new.body  # type: ignore[attr-defined]
        if self.plans and self.plans[-1].loops[0] is op:
            plan = self.plans.pop()
            inner = () if is_const_int(getattr(getattr(new, "value", None), "value", new), 0) else (new,)
            new = nest(plan.threads, Seq((*plan.before, *_flat(inner), *plan.after)))
        return new

    def by_one_thread(self, block: Block) -> Stmt:
        """A block that writes for all threads what each has reduced for itself: the first one does it."""
        if not self.shared_out or not any(not write.buffer.scope.startswith("local") for write in block.writes):
            return block
        inside = {loop.thread_tag for loop in self.loops}
        axes: dict[str, For] = {}
        for read in block.reads:
            for loop in self.shared_out.get(read.buffer.data, ()):
                if loop.thread_tag not in inside:
                    axes.setdefault(str(loop.thread_tag), loop)
        if not axes:
            return block
        predicate: Expr = const(True, "bool")
        for loop in axes.values():
            predicate = build.logical_and(predicate, build.eq(loop.loop_var, loop.min))
        body = block.with_(predicate=build.logical_and(predicate, block.predicate))
        return nest([loop.with_(annotations={}) for loop in axes.values()], body)

    @staticmethod
    def refuse(block: Block, loop: For) -> None:
        raise TransformError(
            f"block {block.name!r} reduces over {loop.loop_var.name!r}, which is bound to {loop.thread_tag}, but the loops "
            "that it reduces over are not the innermost ones around it",
            origin=_ORIGIN,
            span=loop.span or block.span,
            help="reorder: spatial loops outside, reduction loops inside",
        )

    def lowered(self, block: Block, around: list[For], reducing: list[For]) -> Stmt:
        for loop in reducing:
            if loop.kind is ForKind.THREAD_BINDING and not _is_thread(loop):
                raise TransformError(
                    f"block {block.name!r} reduces over {loop.thread_tag}: blocks of threads cannot reduce together",
                    origin=_ORIGIN,
                    span=loop.span or block.span,
                    help="bind the loop to threadIdx, or use rfactor",
                )
        loops = around[around.index(reducing[0]) :]
        for loop in loops:
            if loop not in reducing and not is_const_int(loop.extent, 1):
                self.refuse(block, next(each for each in reducing if _is_thread(each)))
        others = around[: -len(loops)]
        spatial = [it for it in block.iters if it.kind is not IterKind.REDUCE]
        variables = {loop.loop_var for loop in reducing}
        for it in spatial:
            if it.value is not None and mentions(it.value, variables):
                raise TransformError(
                    f"the iterator {it.var.name!r} of block {block.name!r} is not a reduction, but uses a loop that the "
                    "block reduces over",
                    origin=_ORIGIN,
                    span=block.span,
                    help="split the loop, so that each part serves one kind of iterator",
                )
        form = reduction_form(block)
        threads = [loop for loop in loops if _is_thread(loop)]
        _need_repeatable(block, loops)
        cross = [_scratch(b, "cross_thread") for b in form.buffers]
        plan = _Plan(block, loops, threads, [], [])
        made: Stmt = Evaluate(const(0))
        self.allocs += cross
        if len(threads) < len(loops) or not is_const_int(block.predicate, 1):
            inner = [_scratch(b, "in_thread") for b in form.buffers]
            self.allocs += inner
            init, made = self.in_thread(block, form, inner)
            plan.before.append(init)
            plan.after.append(_cross(block, form, cross, [BufferLoad(b, (const(0),)) for b in inner], inner, threads))
        else:
            plan.after.append(_cross(block, form, cross, _from_start(form), None, threads))
        plan.after.append(_write_back(self.func, block, form, cross, threads, loops, others))
        self.gone.update(threads)
        self.plans.append(plan)
        for buffer in form.buffers:
            if buffer.scope.startswith("local") and len(around) > len(loops):
                self.shared_out[buffer.data] = threads
        return made

    @staticmethod
    def in_thread(block: Block, form: ReductionForm, inner: list[Buffer]) -> tuple[Stmt, Stmt]:
        """Each thread reduces its own iterations."""
        whole = tuple(_whole(buffer) for buffer in inner)
        starts = [BufferStore(b, unit, (const(0),)) for b, unit in zip(inner, form.reducer.identity, strict=True)]
        init = Block(
            f"{block.name}_in_thread_init", (), const(True, "bool"), (), whole, None, (), {}, _sequence(starts)
        )
        table = dict(
            zip(
                (*form.reducer.lhs, *form.reducer.rhs),
                (*[BufferLoad(b, (const(0),)) for b in inner], *form.values),
                strict=True,
            )
        )
        results = [substitute(result, table) for result in form.reducer.result]
        update: list[Stmt] = []
        if len(results) > 1:
            new = [Var(f"v_{b.name}", result.dtype) for b, result in zip(inner, results, strict=True)]
            update += [Bind(var, result) for var, result in zip(new, results, strict=True)]
            results = list(new)
        update += [BufferStore(b, result, (const(0),)) for b, result in zip(inner, results, strict=True)]
        targets = {buffer.data for buffer in form.buffers}
        reads = tuple(region for region in block.reads if region.buffer.data not in targets)
        body = block.with_(name=f"{block.name}_in_thread", reads=reads, writes=whole, init=None, body=_sequence(update))
        return init, body


def _scratch(buffer: Buffer, name: str) -> Buffer:
    """One element for each thread."""
    return decl_buffer((1,), buffer.dtype, f"{name}_{buffer.name}", strides=(1,), scope="local")


def _from_start(form: ReductionForm) -> list[Expr]:
    """What a thread with one iteration brings: combined with what the block starts from, where that may count.

    Sums and products start from what changes nothing. Of the others each thread may count the start: they select.
    """
    reducer = form.reducer
    kind = reducer.result[0].__class__
    if len(reducer.result) == 1 and (kind in (Add, Mul) or _is_extreme(reducer.identity[0], least=kind is Max)):
        return list(form.values)
    table = dict(zip((*reducer.lhs, *reducer.rhs), (*reducer.identity, *form.values), strict=True))
    return [substitute(result, table) for result in reducer.result]


def _is_extreme(expr: Expr, least: bool) -> bool:
    """Whether an expression is the least, or greatest, value of its type: of floats infinity."""
    if isinstance(expr, FloatImm):
        return expr.value == (-math.inf if least else math.inf)
    return isinstance(expr, IntImm) and expr.value == (expr.dtype.min_value if least else expr.dtype.max_value)


def _flat(stmts: Sequence[Stmt]) -> Iterator[Stmt]:
    for stmt in stmts:
        if isinstance(stmt, Seq):
            yield from _flat(stmt.stmts)
        elif not (isinstance(stmt, Evaluate) and is_const_int(stmt.value, 0)):
            yield stmt


def _need_repeatable(block: Block, loops: Sequence[For]) -> None:
    """Refuse a reduction beside which stands what only one thread may do.

    Where a loop over threads stands inside of a loop that is not, what stands beside it is then done by every thread.
    """
    last = max(n for n, loop in enumerate(loops) if _is_thread(loop))
    first = next((n for n, loop in enumerate(loops[:last]) if not _is_thread(loop)), last)
    for outer, inner in zip(loops[first:last], loops[first + 1 : last + 1], strict=True):
        stmts = outer.body.stmts if isinstance(outer.body, Seq) else (outer.body,)
        for stmt in stmts:
            if stmt is not inner and not _repeatable(stmt):
                raise TransformError(
                    f"what stands beside the reduction of block {block.name!r} would be done by each of its threads, and "
                    "counts or calls something",
                    origin=_ORIGIN,
                    span=stmt.span or block.span,
                    help="move it out of the loops that the block reduces over, or the loop over threads outside of it",
                )


class _Repeats(Visitor):
    """Whether several threads may do a statement where one did it, as all of them leave the same."""

    def __init__(self) -> None:
        self.fine = True
        self.read: set[Var] = set()

    def visit_Block(self, op: Block) -> None:
        if op.init is None:
            self.generic(op)
            return
        # A reduction begins anew: that it reads what it writes counts for nothing.
        before = self.read
        self.read = set()
        self.generic(op)
        targets = {write.buffer.data for write in op.writes}
        self.fine = self.fine and not before & targets
        self.read = before | (self.read - targets)

    def visit_expr(self, root: Expr) -> None:
        self.read |= uses_of(root).loaded

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.generic(op)
        if op.buffer.data in self.read and not op.buffer.scope.startswith("local"):
            self.fine = False

    def visit_Evaluate(self, op: Evaluate) -> None:
        self.fine = self.fine and side_effect(op.value) in (Purity.PURE, Purity.READS)


def _repeatable(stmt: Stmt) -> bool:
    worker = _Repeats()
    worker.visit(stmt)
    return worker.fine


def _whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, (Range(const(0), const(1)),))


def _sequence(stmts: Sequence[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


def _cross(
    block: Block,
    form: ReductionForm,
    cross: list[Buffer],
    values: list[Expr],
    inner: list[Buffer] | None,
    threads: list[For],
) -> Stmt:
    """The threads reduce together."""
    call = build.call(
        "tir.tvm_thread_allreduce",
        const(len(values), "uint32"),
        *values,
        const(True, "bool"),
        *[BufferLoad(buffer, (const(0),)) for buffer in cross],
        *[loop.loop_var for loop in threads],
    )
    null = build.reinterpret(HANDLE, const(0, "uint64"))
    body = AttrStmt(form.reducer, "reduce_scope", null, Evaluate(call))
    writes = tuple(_whole(buffer) for buffer in cross)
    name = f"{block.name}_cross_thread"
    if inner is not None:
        reads = tuple(_whole(buffer) for buffer in inner)
        return Block(name, (), const(True, "bool"), reads, writes, None, (), {}, body)
    targets = {buffer.data for buffer in form.buffers}
    own = tuple(region for region in block.reads if region.buffer.data not in targets)
    return block.with_(name=name, reads=own, writes=writes, init=None, body=body)


def _at_start(func: PrimFunc, block: Block, term: Expr, loops: list[For], others: list[For]) -> Expr:
    """Whether a condition holds in any iteration of the reduction loops: in the first ones, if in any.

    Raises TransformError where that is not provable and the condition depends on other loops too.
    """
    first = substitute(term, {loop.loop_var: loop.min for loop in loops})
    analyzer, _ = analyzer_of(func)
    for loop in (*others, *loops):
        analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
    with analyzer.constraint_scope(term):
        follows = analyzer.can_prove(first)
    if follows:
        return analyzer.simplify(first)
    raise TransformError(
        f"whether any iteration of the reduction of block {block.name!r} runs under {term} is not known",
        origin=_ORIGIN,
        span=block.span,
        help="move the condition into the value: T.if_then_else(condition, value, identity)",
    )


def _write_back(
    func: PrimFunc,
    block: Block,
    form: ReductionForm,
    cross: list[Buffer],
    threads: list[For],
    loops: list[For],
    others: list[For],
) -> Stmt:
    """The results are stored: by one thread of each group, or by each into memory of its own."""
    variables = {loop.loop_var for loop in loops}
    fresh: dict[Var, Expr] = {}
    iters: list[BlockIter] = []
    for it in block.iters:
        if it.kind is not IterKind.REDUCE:
            fresh[it.var] = Var(it.var.name, it.var.type)
            iters.append(it.with_(var=fresh[it.var]))
    predicate: Expr = const(True, "bool")
    for term in conjuncts(block.predicate):
        if not mentions(term, variables):
            predicate = build.logical_and(predicate, term)
        else:
            predicate = build.logical_and(predicate, _at_start(func, block, term, loops, others))
    for loop in loops:
        if not isinstance(loop.extent, IntImm) or loop.extent.value < 1:
            # Where there is nothing to reduce, the block does not run.
            predicate = build.logical_and(predicate, build.gt(loop.extent, const(0, loop.extent.dtype)))
    if any(not buffer.scope.startswith("local") for buffer in form.buffers):
        for loop in threads:
            predicate = build.logical_and(predicate, build.eq(loop.loop_var, loop.min))
    stores = [
        BufferStore(buffer, BufferLoad(result, (const(0),)), tuple(substitute(index, fresh) for index in indices))
        for buffer, indices, result in zip(form.buffers, form.indices, cross, strict=True)
    ]
    writes = tuple(substitute(region, fresh) for region in block.writes)
    reads = tuple(_whole(buffer) for buffer in cross)
    return Block(f"{block.name}_write_back", tuple(iters), predicate, reads, writes, None, (), {}, _sequence(stores))


class LowerCrossThreadReduction(FuncPass):
    """Reduction blocks over loops that are bound to threads become reductions in each thread, then of all.

    A block with an init, whose reduction iterators use a loop bound to ``threadIdx``, becomes: a local accumulator
    (``in_thread_*``) that the thread's own iterations are reduced into, where there are any or the block has a
    predicate; ``tvm_thread_allreduce`` over the threads into ``cross_thread_*``; and the write-back, by the first thread of
    each group (by each into ``local`` memory). The loops over the threads come to stand around all of it, and the new buffers
    in the block around. Reducers are sums, products, minima and maxima of one value, and tuples of
    which a comparison selects one (argmax), as init and update write them. The predicate's terms on reduction loops guard the
    accumulation, the others the write-back too.

    Where each thread has the result for itself, a block behind that stores something computed from it for all is done
    by the first thread. Other statements may stand before the block in its reduction loops; where a loop over threads
    moves around them, all of its threads do them.

    Stands first in the pipeline. Raises :class:`TransformError` where the reduction loops are not the innermost ones, or
    something follows the block in them, for a spatial iterator that uses one, for an update that is no reduction, and
    for a statement that cannot be done by several threads.

    >>> from tirlower.script import parse
    >>> print(LowerCrossThreadReduction()(parse('''
    ... @T.prim_func
    ... def total(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
    ...     for k in T.thread_binding(64, thread="threadIdx.x"):
    ...         with T.block("B"):
    ...             vk = T.axis.reduce(64, k)
    ...             T.reads(A[vk])
    ...             T.writes(B[0])
    ...             with T.init():
    ...                 B[0] = T.float32(0)
    ...             B[0] = B[0] + A[vk]
    ... ''')).script())
    @T.prim_func
    def total(A: T.Buffer((64,), "float32"), B: T.Buffer((1,), "float32")):
        cross_thread_B = T.alloc_buffer((1,), strides=(1,), scope="local")
        for k in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("B_cross_thread"):
                vk = T.axis.reduce(64, k)
                T.reads(A[vk])
                T.writes(cross_thread_B[0])
                with T.attr(T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
                    T.tvm_thread_allreduce(T.uint32(1), A[vk], T.bool(True), cross_thread_B[0], k)
            with T.block("B_write_back"):
                T.where(k == 0)
                T.reads(cross_thread_B[0])
                T.writes(B[0])
                B[0] = cross_thread_B[0]
    """

    name = "tir.LowerCrossThreadReduction"
    stage = Stage.BLOCK
    needs = (Fact.INITS, Fact.ITERATORS)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the reductions of a function."""
        return func.with_body(_Lowerer(func).run(func.body))
