"""LowerCrossThreadReduction: reduction blocks over threads become allreduces."""

from __future__ import annotations

from typing import Any

from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, IterKind, Range, decl_buffer
from tirlower.ir.dtype import HANDLE
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, pre_order_visit, substitute
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
from tirlower.transforms.analyzed import conjuncts
from tirlower.transforms.base import FuncPass, Stage
from tirlower.transforms.context import PassContext
from tirlower.transforms.threads.reduction_form import ReductionForm, reduction_form

__all__ = ["LowerCrossThreadReduction"]


def _uses(expr: Any, variables: set[Var]) -> bool:
    found = False

    def look(op: Any) -> None:
        nonlocal found
        found = found or op in variables

    pre_order_visit(expr, look)
    return found


def _is_thread(loop: For) -> bool:
    return loop.kind is ForKind.THREAD_BINDING and str(loop.thread_tag).startswith("threadIdx")


def _nest(op: For) -> tuple[list[For], Block | None]:
    """The loops from one down that hold nothing else, and the block in them, if they hold one."""
    loops = [op]
    body: Stmt = op.body
    while True:
        if isinstance(body, Seq) and len(body.stmts) == 1:
            body = body.stmts[0]
        elif isinstance(body, For):
            loops.append(body)
            body = body.body
        else:
            return loops, body if isinstance(body, Block) else None


def _reducing(block: Block, loops: list[For]) -> set[For]:
    """The loops over which a block reduces: those in the values of its reduction iterators."""
    values = [it.value for it in block.iters if it.kind is IterKind.REDUCE and it.value is not None]
    return {loop for loop in loops if any(_uses(value, {loop.loop_var}) for value in values)}


class _Lowerer(Mutator):
    def __init__(self) -> None:
        self.loops: list[For] = []

    def visit_expr(self, root: Any) -> Any:
        return root

    def visit_Block(self, op: Block) -> Stmt:
        if op.init is not None:
            for loop in _reducing(op, self.loops):
                if _is_thread(loop):
                    self.refuse(op, loop)
        outer, self.loops = self.loops, []
        body = self.visit(op.body)
        self.loops = outer
        return op.with_(body=body)

    def visit_For(self, op: For) -> Stmt:
        loops, block = _nest(op)
        if block is not None and block.init is not None:
            reducing = _reducing(block, loops)
            if op in reducing and any(_is_thread(loop) for loop in reducing):
                for loop in loops:
                    if loop not in reducing and not is_const_int(loop.extent, 1):
                        self.refuse(block, next(each for each in loops if each in reducing and _is_thread(each)))
                for loop in self.loops:
                    if _is_thread(loop) and loop in _reducing(block, self.loops):
                        self.refuse(block, loop)
                return self.lowered(loops, reducing, block)
        self.loops.append(op)
        new = self.generic(op)
        self.loops.pop()
        return new

    @staticmethod
    def refuse(block: Block, loop: For) -> None:
        raise TransformError(
            f"block {block.name!r} reduces over {loop.loop_var.name!r}, which is bound to {loop.thread_tag}, but the loops "
            "that it reduces over are not the innermost ones around it",
            origin="LowerCrossThreadReduction",
            span=loop.span or block.span,
            help="reorder: spatial loops outside, reduction loops inside, and nothing else in them",
        )

    def lowered(self, loops: list[For], reducing: set[For], block: Block) -> Stmt:
        spatial = [it for it in block.iters if it.kind is not IterKind.REDUCE]
        variables = {loop.loop_var for loop in reducing}
        for it in spatial:
            if it.value is not None and _uses(it.value, variables):
                raise TransformError(
                    f"the iterator {it.var.name!r} of block {block.name!r} is not a reduction, but uses a loop that the "
                    "block reduces over",
                    origin="LowerCrossThreadReduction",
                    span=block.span,
                    help="split the loop, so that each part serves one kind of iterator",
                )
        form = reduction_form(block)
        threads = [loop for loop in loops if _is_thread(loop)]
        serial = [loop for loop in loops if not _is_thread(loop)]
        for loop in serial:
            if loop.kind is ForKind.THREAD_BINDING:
                raise TransformError(
                    f"block {block.name!r} reduces over {loop.thread_tag}: blocks of threads cannot reduce together",
                    origin="LowerCrossThreadReduction",
                    span=loop.span or block.span,
                    help="bind the loop to threadIdx, or use rfactor",
                )
        cross = [decl_buffer((1,), b.dtype, f"cross_thread_{b.name}", scope="local") for b in form.buffers]
        inner: list[Buffer] = []
        stmts: list[Stmt] = []
        if serial or not is_const_int(block.predicate, 1):
            inner = [decl_buffer((1,), b.dtype, f"in_thread_{b.name}", scope="local") for b in form.buffers]
            stmts += self.in_thread(block, form, inner, serial)
            stmts.append(_cross(block, form, cross, [BufferLoad(b, (const(0),)) for b in inner], inner, threads))
        else:
            stmts.append(_cross(block, form, cross, list(form.values), None, threads))
        stmts.append(_write_back(block, form, cross, threads, loops, self.loops))
        # Inside of the loops over threads: each has its own.
        body: Stmt = Seq((*(AllocBuffer(buffer) for buffer in (*cross, *inner)), *stmts))
        for loop in reversed(threads):
            body = loop.with_(body=body)
        return body

    @staticmethod
    def in_thread(block: Block, form: ReductionForm, inner: list[Buffer], serial: list[For]) -> list[Stmt]:
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
        body: Stmt = block.with_(
            name=f"{block.name}_in_thread", reads=(*reads, *whole), writes=whole, init=None, body=_sequence(update)
        )
        for loop in reversed(serial):
            body = loop.with_(body=body)
        return [init, body]


def _whole(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, (Range(const(0), const(1)),))


def _sequence(stmts: Any) -> Stmt:
    made: Stmt = stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))
    return made


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


def _at_start(block: Block, term: Expr, loops: list[For], others: list[For]) -> Expr:
    """Whether a condition holds in any iteration of the reduction loops: in the first ones, if in any.

    Raises TransformError where that is not provable and the condition depends on other loops too.
    """
    first = substitute(term, {loop.loop_var: loop.min for loop in loops})
    analyzer = Analyzer()
    for loop in (*others, *loops):
        analyzer.bind(loop.loop_var, Range(loop.min, loop.extent), allow_override=True)
    with analyzer.constraint_scope(term):
        if analyzer.can_prove(first):
            simple: Expr = analyzer.simplify(first)
            return simple
    raise TransformError(
        f"whether any iteration of the reduction of block {block.name!r} runs under {term} is not known",
        origin="LowerCrossThreadReduction",
        span=block.span,
        help="move the condition into the value: T.if_then_else(condition, value, identity)",
    )


def _write_back(
    block: Block, form: ReductionForm, cross: list[Buffer], threads: list[For], loops: list[For], others: list[For]
) -> Stmt:
    """The results are stored: by one thread of each group, or by each into memory of its own."""
    variables = {loop.loop_var for loop in loops}
    fresh: dict[Var, Any] = {}
    iters: list[BlockIter] = []
    for it in block.iters:
        if it.kind is not IterKind.REDUCE:
            fresh[it.var] = Var(it.var.name, it.var.type)
            iters.append(it.with_(var=fresh[it.var]))
    predicate: Expr = const(True, "bool")
    for term in conjuncts(block.predicate):
        if not _uses(term, variables):
            predicate = build.logical_and(predicate, term)
        else:
            predicate = build.logical_and(predicate, _at_start(block, term, loops, others))
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
    each group (by each into ``local`` memory). Reducers are sums, products, minima and maxima of one value, and tuples of
    which a comparison selects one (argmax), as init and update write them. The predicate's terms on reduction loops guard the
    accumulation, the others the write-back too.

    Stands first in the pipeline. Raises :class:`TransformError` where the reduction loops are not the innermost ones, or
    hold anything beside the block, for a spatial iterator that uses one, and for an update that is no reduction.

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
        for k in T.thread_binding(64, thread="threadIdx.x"):
            cross_thread_B = T.alloc_buffer((1,), scope="local")
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

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the reductions of a function."""
        return func.with_body(_Lowerer().visit(func.body))
